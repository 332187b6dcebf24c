"""Pictures of a multistart: the objectives that its runs reached, and the estimates they ended with."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from odefit.errors import OdefitError, suggestion
from odefit.problem.parameters import LOGARITHMIC
from odefit.report.plots import style
from odefit.study.record import Multistart, StartRun

Array = npt.NDArray[np.float64]

_COLOURED = 5  # minima with a colour of their own
_LABELLED = 3  # plateaus that have their count written above them
_AS_GOOD_AS_ZERO = 1e-12  # objectives below it are one minimum, however they differ
_DECADE = 10.0  # between the largest and the smallest objective, from which their axis is logarithmic
_HIGHEST = 1e6  # times the largest objective that converged; what lies far above is drawn there
_FLAT = 0.1  # of the best objective, that an even axis shows at least
_TWO_DECADES = 100.0  # between estimates, from which their axis is logarithmic
_REACH = 1e4  # times the estimates of the best run, within which those of others decide how far the axis goes
_MANY = 30
_MOST_PARAMETERS = 60
_LONGEST_NAME = 28
_MARKS = {
    "flat-valley": "v", "slow-progress": "^", "stalled": "x", "iteration-limit": "s", "infeasible": "d",
    "too-sensitive": "X", "no-influence": "P", "interrupted": "+", "failed": "*",
}  # fmt: skip


@dataclass(frozen=True)
class _Group:
    """Runs that look the same: those of one minimum, or those that did not converge in one way."""

    label: str
    runs: frozenset[int]
    converged: bool
    colour: str
    marker: str

    def handle(self, *, line: bool) -> Line2D:
        """Return its entry in a legend."""
        width, kind = (1.4, "-" if self.converged else ":") if line else (0.0, "none")
        return Line2D([], [], linestyle=kind, linewidth=width, label=self.label, **self.look())

    def look(self) -> dict[str, Any]:
        """Return how its runs are marked."""
        face = self.colour if self.converged else "none"
        return {"color": self.colour, "marker": self.marker, "markersize": 5.0, "markerfacecolor": face}


def plot_waterfall(multistart: Multistart, ax: Axes | None = None, *, figure: Figure | None = None) -> Axes:
    """Draw the sorted objectives; see `Multistart.plot_waterfall`.  A `figure` is filled instead of making one."""
    runs = _with_objective(multistart)
    values = np.array([run.objective for run in runs])
    logarithmic, shown = _heights(runs, values)
    groups = _groups(multistart, runs)
    handles = [group.handle(line=False) for group in groups] + _without_objective(multistart)
    in_own_figure = ax is None
    if ax is None:
        ax = _own_axes(multistart, handles, 5.2, 3.2, figure)
    if logarithmic:
        ax.set_yscale("log")
    rank = np.arange(1, len(runs) + 1)
    ax.plot(rank, shown, color=style.FAINT, linewidth=1.2, zorder=1)
    for number, group in enumerate(groups):
        places = [i for i, run in enumerate(runs) if run.number in group.runs]
        ax.plot(rank[places], shown[places], linestyle="none", zorder=3, label=group.label, **group.look())
        if number < _LABELLED and group.converged and len(places) > 1:
            count = f"{len(places)}\N{MULTIPLICATION SIGN}"
            _write_above(ax, float(rank[places].mean()), float(shown[places].max()), count, group.colour)
    if values[-1] > shown[-1]:
        _write_above(ax, float(rank[-1]), float(shown[-1]), f"up to {values[-1]:.0e}", style.GREY, align="right")
    ax.margins(x=0.04, y=0.12)
    if not logarithmic and np.ptp(values) < _FLAT * abs(values[0]):  # rounding is nothing to look at
        ax.set_ylim(values[0] - 0.5 * _FLAT * abs(values[0]), values[0] + _FLAT * abs(values[0]))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set(xlabel="run, best first", ylabel="objective")
    if values[0] < shown[0]:
        ax.set_ylabel(f"objective (smaller ones at {shown[0]:.0e})")
    _finish(ax, handles, in_own_figure)
    return ax


def plot_parameters(
    multistart: Multistart,
    ax: Axes | None = None,
    *,
    parameters: str | Sequence[str] | None = None,
    starts: bool = False,
    figure: Figure | None = None,
) -> Axes:
    """Draw the estimates of all runs; see `Multistart.plot_parameters`.  A `figure` is filled instead of making one."""
    runs = _with_objective(multistart)
    names, left_out = _names(runs, parameters)
    values = np.array([[run.estimates.get(name, math.nan) for name in names] for run in runs])
    groups = _groups(multistart, runs)
    handles = [group.handle(line=True) for group in groups] + _without_objective(multistart)
    bounds = {name: multistart.bounds[name] for name in names if name in multistart.bounds}
    best = next((i for i, run in enumerate(runs) if run.number == multistart.best), 0)
    trusted = _within_reach(runs, values, best)
    scale = _scale(trusted, {multistart.scales.get(name, "linear") for name in names})
    limits, inside = _limits(trusted, bounds, scale)
    if inside:
        handles.append(Line2D([], [], linestyle="none", marker="|", markersize=9, color=style.INK, label="bound"))
    if starts:
        handles.append(Line2D([], [], linestyle="none", marker=".", markersize=4, color=style.GREY, label="start"))
    in_own_figure = ax is None
    if ax is None:
        height = 0.8 + len(names) * (0.27 if len(names) <= _MANY else 0.15)
        ax = _own_axes(multistart, handles, 5.6, max(height, 2.0), figure, left_out)
    _set_scale(ax, scale, trusted)
    place = {name: i for i, name in enumerate(names)}
    if starts:
        for run in runs:
            begun = [run.start.get(name, math.nan) for name in names]
            ax.plot(begun, range(len(names)), ".", color=style.GREY, markersize=3, alpha=0.5, zorder=1)
    _draw_runs(ax, runs, values, groups, best)
    for name, bound in inside:
        ax.plot(bound, place[name], "|", color=style.INK, markersize=9, zorder=2)
    ax.set_yticks(range(len(names)), [style.plain(_short(name)) for name in names])
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlim(*limits)
    ax.set_xlabel("estimate")
    _finish(ax, handles, in_own_figure)
    if in_own_figure and len(names) > _MANY:
        ax.tick_params(axis="y", labelsize=6)
    return ax


def _with_objective(multistart: Multistart) -> list[StartRun]:
    runs = sorted((run for run in multistart.runs if math.isfinite(run.objective)), key=lambda run: run.objective)
    if not runs:
        statuses = ", ".join(f"{word} {n}" for word, n in multistart.failures.items())
        raise style.NothingToPlot(f"no run has an objective ({statuses})")
    return runs


def _groups(multistart: Multistart, runs: Sequence[StartRun]) -> list[_Group]:
    """Return the minima, best first, then what did not converge, by status."""
    minima = multistart.minima
    groups = []
    for i, minimum in enumerate(minima[:_COLOURED]):
        label = f"objective {minimum.objective:.6g}: {_count(minimum.count)}"
        groups.append(_Group(label, frozenset(minimum.runs), True, style.COLOURS[i], "o"))
    higher = frozenset(number for minimum in minima[_COLOURED:] for number in minimum.runs)
    if higher:
        rest = len(minima) - _COLOURED
        label = f"{rest} higher {'minimum' if rest == 1 else 'minima'}: {_count(len(higher))}"
        groups.append(_Group(label, higher, True, style.GREY, "o"))
    lost = [run for run in runs if not run.converged]
    for status in dict.fromkeys(run.status for run in lost):
        numbers = frozenset(run.number for run in lost if run.status == status)
        groups.append(_Group(f"{status}: {_count(len(numbers))}", numbers, False, style.GREY, _MARKS.get(status, "1")))
    return groups


def _without_objective(multistart: Multistart) -> list[Line2D]:
    """Return legend entries that count what cannot be drawn."""
    lost = Counter(run.status for run in multistart.runs if not math.isfinite(run.objective))
    labels = [f"{status}, no objective: {_count(n)}" for status, n in lost.most_common()]
    return [Line2D([], [], linestyle="none", label=label) for label in labels]


def _count(n: int) -> str:
    return f"{n} run{'s' * (n != 1)}"


def _heights(runs: Sequence[StartRun], values: Array) -> tuple[bool, Array]:
    """Return whether the axis of the objectives is logarithmic, and where on it each one is drawn."""
    if values[0] < 0 or values[-1] <= _AS_GOOD_AS_ZERO:
        return False, values
    low = max(float(values[0]), _AS_GOOD_AS_ZERO)
    reference = max((run.objective for run in runs if run.converged), default=low)
    shown = np.clip(values, low, max(_HIGHEST * reference, _HIGHEST**2.5 * low))
    return bool(shown[-1] > _DECADE * low), shown


def _write_above(ax: Axes, x: float, y: float, text: str, colour: str, align: str = "center") -> None:
    ax.annotate(
        text, (x, y), xytext=(0, 6), textcoords="offset points", ha=align, fontsize=style.SMALL, color=colour
    )  # fmt: skip


def _names(runs: Sequence[StartRun], parameters: str | Sequence[str] | None) -> tuple[list[str], str]:
    known = list(runs[0].estimates)
    if parameters is None:
        note = f"{_MOST_PARAMETERS} of {len(known)} parameters shown: choose others with parameters="
        return known[:_MOST_PARAMETERS], note if len(known) > _MOST_PARAMETERS else ""
    names = [parameters] if isinstance(parameters, str) else list(parameters)
    for name in names:
        if name not in known:
            raise OdefitError(f"there is no estimated parameter '{name}' to plot{suggestion(name, known)}")
    return names, ""


def _within_reach(runs: Sequence[StartRun], values: Array, best: int) -> Array:
    """Return the estimates that the axis is made for: of runs that converged, and not too far from the best ones."""
    sizes = np.abs(values[best][values[best] != 0])
    if not sizes.size:
        return values[[best]]
    kept = values[[run.converged or i == best for i, run in enumerate(runs)]]
    far = (np.abs(kept) > _REACH * sizes.max()) | ((np.abs(kept) < sizes.min() / _REACH) & (kept != 0))
    return np.where(far, np.nan, kept)


def _scale(values: Array, scales: set[str]) -> str:
    """Return the scale of the axis of the estimates: "log", "symlog" or "linear"."""
    sizes = np.abs(values[np.isfinite(values) & (values != 0)])
    if not sizes.size:
        return "linear"
    with np.errstate(over="ignore"):
        spread = sizes.max() / sizes.min()
    if np.nanmin(values) > 0:
        return "log" if spread > _TWO_DECADES or (spread > _DECADE and not scales.isdisjoint(LOGARITHMIC)) else "linear"
    return "symlog" if spread > _DECADE * _TWO_DECADES else "linear"


def _set_scale(ax: Axes, scale: str, values: Array) -> None:
    if scale == "log":
        ax.set_xscale("log", nonpositive="mask")
    elif scale == "symlog":
        ax.set_xscale("symlog", linthresh=_threshold(values))


def _threshold(values: Array) -> float:
    """Return the size from which a symmetric logarithmic axis is logarithmic."""
    sizes = np.abs(values[np.isfinite(values) & (values != 0)])
    return max(float(sizes.min()), 1e-6 * float(sizes.max()))


def _limits(
    values: Array, bounds: Mapping[str, tuple[float, float]], scale: str
) -> tuple[tuple[float, float], list[tuple[str, float]]]:
    """Return the ends of the axis, and the bounds that are near enough to be drawn."""
    threshold = _threshold(values) if scale == "symlog" else 1.0

    def forward(x: Any) -> Any:
        return np.log10(x) if scale == "log" else np.arcsinh(x / threshold) if scale == "symlog" else x

    def back(x: float) -> float:
        return 10.0**x if scale == "log" else threshold * math.sinh(x) if scale == "symlog" else x

    drawn = forward(values[np.isfinite(values)])
    low, high = (float(drawn.min()), float(drawn.max())) if drawn.size else (0.0, 1.0)
    span = high - low if high > low else max(abs(high), 1.0)
    inside = []
    for name, pair in bounds.items():
        for bound in pair:
            if not math.isfinite(bound) or (scale == "log" and bound <= 0):
                continue
            if low - 0.5 * span <= forward(bound) <= high + 0.5 * span:
                inside.append((name, bound))
    ends = [float(forward(bound)) for _, bound in inside]
    low, high = min([low, *ends]), max([high, *ends])
    margin = 0.05 * (high - low if high > low else span)
    return (back(low - margin), back(high + margin)), inside


def _draw_runs(ax: Axes, runs: Sequence[StartRun], values: Array, groups: Sequence[_Group], best: int) -> None:
    """Draw a line per run, worse ones first, the best in front."""
    rows = np.arange(values.shape[1])
    group_of = {number: group for group in groups for number in group.runs}
    alpha = 0.7 if len(runs) <= 50 else 0.4
    for i in [*(i for i in range(len(runs) - 1, -1, -1) if i != best), best]:
        group = group_of[runs[i].number]
        look = group.look() | {"linestyle": "-" if group.converged else ":", "linewidth": 1.0, "markersize": 3.5}
        look |= {"alpha": alpha, "zorder": 3.0 if group.converged else 1.5}
        if i == best:
            look |= {"linewidth": 2.0, "alpha": 1.0, "zorder": 4.0, "markersize": 4.5, "linestyle": "-"}
            look |= {} if group.converged else {"color": style.INK}
        ax.plot(values[i], rows, **look)


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}\N{HORIZONTAL ELLIPSIS}"


def _own_axes(
    multistart: Multistart, handles: Sequence[Any], width: float, height: float, figure: Figure | None, note: str = ""
) -> Axes:
    rows = style.legend_rows(width, handles)
    figure = style.new_figure(width, height + 0.3 + 0.2 * rows, figure)
    style.set_title(figure, [f"{len(multistart.runs)} starts, seed {multistart.seed}", note])
    style.figure_legend(figure, handles)
    return figure.add_subplot()


def _finish(ax: Axes, handles: Sequence[Any], in_own_figure: bool) -> None:
    if in_own_figure:
        style.tidy(ax)
    else:
        ax.legend(handles=list(handles), fontsize="small")
