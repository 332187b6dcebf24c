"""The picture of a fit: data as points, the model as curves with their 95 % band.

A panel per observable, experiments in colours, as long as the colours can be told apart; with more of them a panel per
experiment and observable.  Figures stay bounded and say what they left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from odefit.errors import OdefitError
from odefit.problem import Problem
from odefit.problem.intervals import interval_beginnings
from odefit.report.labels import time_label, with_unit
from odefit.report.plots import style
from odefit.report.plots.series import (
    Curve,
    Series,
    chosen_experiments,
    chosen_observables,
    curves_of,
    first_decade,
    series_of,
)
from odefit.strategy import FitResult

_MOST_COLOURS = len(style.COLOURS)
_MOST_PANELS = 24
_ROOM = 0.5  # of the range of data and curves, that bands and error bars may add above and below
_LINE = 0.01  # of the range of a panel: about the width of a line
_RUNAWAY = 3.0  # times the range of the data, from which the curve of a fit that did not converge is cut off
_MOST_LINES = 40  # at times of events; of more there are ticks of this height
_TICK = 0.03
_EVENT_LINE: dict[str, Any] = {"color": style.GREY, "linewidth": 0.8, "linestyle": ":", "zorder": 1.0}
_REST, _REST_LINE, _REST_MARK = 0.975, (0.95, 1.0), ">"  # steady states: place in the panel, its line, the mark
_NOTES = {"validate": " (validation)", "predict": " (prediction)"}


@dataclass(frozen=True, eq=False)
class _Panel:
    """What one Axes shows: series in colours, and a title if the experiments have panels of their own."""

    observable: str
    title: str
    series: tuple[Series, ...]


def plot_fit(
    result: FitResult,
    ax: Axes | None = None,
    *,
    observable: str | list[str] | None = None,
    experiment: str | list[str] | None = None,
    band: bool = True,
    figure: Figure | None = None,
) -> Axes | npt.NDArray[Any]:
    """Draw a fit; see `FitResult.plot`.  A `figure` is filled instead of making one."""
    problem = result.problem
    experiments = chosen_experiments(problem, experiment)
    observables = chosen_observables(problem, observable)
    panels, left_out = _panels(problem, series_of(result, experiments, observables), observables)
    if not panels:
        raise style.NothingToPlot("what was chosen has neither data nor a curve")
    if ax is not None and len(panels) > 1:
        raise OdefitError(
            f"one Axes holds one panel, but this plot has {len(panels)}; choose with observable= "
            f"({', '.join(observables)}) and experiment=, or leave out ax."
        )
    series = [one for panel in panels for one in panel.series]
    times = np.concatenate([problem.measurements.time[one.rows] for one in series])
    at_rest = bool(np.isinf(times).any())
    times = times[np.isfinite(times)]
    first = first_decade(times)
    curves = dict(zip(map(id, series), curves_of(result, series, first), strict=True))
    if not times.size and not at_rest and not any(np.isfinite(curve.value).any() for curve in curves.values()):
        raise style.NothingToPlot(f"no data, and the model has no values there ({result.message})")
    picture = _Picture(result, panels, curves, band)
    handles = picture.legend()
    axes = [ax] if ax is not None else _grid(result, panels, handles, figure, left_out)
    for each, panel in zip(axes, panels, strict=True):
        if first:
            _spread_decades(each, first, float(times.max()), zero=bool((times == 0).any()))
        picture.draw(each, panel)
        if ax is None:
            style.tidy(each)
    if ax is not None:
        ax.set_xlabel(style.plain(time_label(problem)))
        ax.legend(handles=handles, fontsize="small")
        return ax
    return axes[0] if len(axes) == 1 else np.array(axes, dtype=object)


def _panels(problem: Problem, series: list[Series], observables: list[str]) -> tuple[list[_Panel], str]:
    """Share out the series among panels; also say what did not find room."""
    of_observable = {name: [one for one in series if one.observable == name] for name in observables}
    of_observable = {name: group for name, group in of_observable.items() if group}
    experiments = list(dict.fromkeys(one.experiment for one in series))
    if all(len(group) <= _MOST_COLOURS for group in of_observable.values()) or len(experiments) == 1:
        panels = [_Panel(name, "", _some(group)) for name, group in of_observable.items()]
        left_out = _left_out(len(panels), _MOST_PANELS, "observables", "observable")
        return panels[:_MOST_PANELS], left_out or _groups_left_out(of_observable.values())
    kept = max(1, _MOST_PANELS // len(of_observable))
    panels, crowded = [], []
    for e in experiments[:kept]:
        for name, group in of_observable.items():
            members = [one for one in group if one.experiment == e]
            crowded.append(members)
            if members:
                panels.append(_Panel(name, _title(problem, e), _some(members)))
    left_out = _left_out(len(experiments), kept, "experiments", "experiment")
    if len(panels) > _MOST_PANELS:
        panels, left_out = panels[:_MOST_PANELS], f"{_MOST_PANELS} panels of many: choose with observable="
    return panels, left_out or _groups_left_out(crowded)


def _title(problem: Problem, e: int) -> str:
    """Return an experiment's name (a mere number says that it is one), and its part in the fit."""
    experiment = problem.experiments[e]
    name = f"experiment {experiment.name}" if experiment.name.isdigit() else experiment.name
    has_data = bool((problem.measurements.experiment == experiment.name).any())
    use = "predict" if experiment.use == "fit" and not has_data else experiment.use
    return name + _NOTES.get(use, "")


def _some(series: list[Series]) -> tuple[Series, ...]:
    """Return as many as there are colours, spread evenly over all."""
    if len(series) <= _MOST_COLOURS:
        return tuple(series)
    places = np.linspace(0, len(series) - 1, _MOST_COLOURS).round().astype(int)
    return tuple(series[i] for i in places)


def _left_out(number: int, shown: int, kind: str, keyword: str) -> str:
    return "" if number <= shown else f"{shown} of {number} {kind} shown: choose others with {keyword}="


def _groups_left_out(panels: Any) -> str:
    most = max((len(group) for group in panels), default=0)
    return "" if most <= _MOST_COLOURS else f"{_MOST_COLOURS} of {most} curves shown in a panel"


class _Picture:
    """Draws panels; the same series has the same colour in all of them."""

    def __init__(self, result: FitResult, panels: Sequence[_Panel], curves: dict[int, Curve], band: bool) -> None:
        self._result = result
        self._problem = result.problem
        self._panels = panels
        self._curves = curves
        self._band = band and result.statistics is not None
        shown = dict.fromkeys(one.experiment for panel in panels for one in panel.series)
        estimates = result.estimates
        self._events = {e: self._problem.event_times(estimates, e) for e in shown}
        begin, time = interval_beginnings(self._problem), self._problem.measurements.time
        self._places = np.where(np.isnan(begin), time, 0.5 * (begin + time))  # of an interval its middle
        labels = [self._label(panel, one) for panel in panels for one in panel.series]
        distinct = list(dict.fromkeys(labels))
        self._colour = {label: style.COLOURS[i % _MOST_COLOURS] for i, label in enumerate(distinct)}
        self._several = len(distinct) > 1

    def _label(self, panel: _Panel, one: Series) -> str:
        """Return what tells a series from the others of its panel."""
        if panel.title:
            return one.group
        name = _title(self._problem, one.experiment)
        several = len(self._problem.experiments) > 1
        return f"{name}, {one.group}" if several and one.group else one.group or name

    def draw(self, ax: Axes, panel: _Panel) -> None:
        """Fill one panel."""
        for one in panel.series:
            colour = self._colour[self._label(panel, one)]
            points = colour if self._several else style.INK
            curve = self._curves[id(one)]
            if self._band:
                ax.fill_between(
                    curve.times, curve.lower, curve.upper, color=colour, alpha=style.BAND_ALPHA, linewidth=0
                )
            line = self._line_style(one)
            look = {"marker": "_", "markersize": 16} if curve.times.size == 1 else {}
            ax.plot(curve.times, curve.value, line, color=colour, linewidth=style.LINE_WIDTH, zorder=2.0, **look)
            for kind, rows in self._kinds(one).items():
                self._points(ax, one, kind, rows, points)
            if curve.rest.size:  # a short line at the right end of the panel
                margin = ax.get_yaxis_transform()
                ax.plot(_REST_LINE, np.repeat(curve.rest, 2), line, color=colour, transform=margin, zorder=2.0)
        ax.set_ylabel(style.plain(with_unit(panel.observable, self._problem.units.get(panel.observable, ""))))
        if panel.title:
            ax.set_title(style.plain(panel.title), fontsize=style.SMALL + 1, color=style.INK)
        self._limit(ax, panel)
        self._mark_events(ax, panel)

    def _mark_events(self, ax: Axes, panel: _Panel) -> None:
        """Draw a thin line at the time of each event and dose; of very many a tick at the bottom."""
        shown = np.concatenate([self._curves[id(one)].times for one in panel.series])
        first, last = np.nanmin(shown, initial=np.inf), np.nanmax(shown, initial=-np.inf)
        every = {time for one in panel.series for time in self._events[one.experiment]}
        times = sorted(time for time in every if first <= time <= last)
        if times:
            top = 1.0 if len(times) <= _MOST_LINES else _TICK
            ax.vlines(times, 0.0, top, transform=ax.get_xaxis_transform(), label="_events", **_EVENT_LINE)

    def _line_style(self, one: Series) -> str:
        return "-" if self._problem.experiments[one.experiment].use == "fit" else "--"

    def _kinds(self, one: Series) -> dict[str, npt.NDArray[np.int64]]:
        """Return the measurements by what they are to the fit, kinds without any left out."""
        weight = self._problem.measurements.weight[one.rows]
        fitted = self._problem.experiments[one.experiment].use == "fit"
        ignored, exact = weight == 0, np.isinf(weight)
        kinds = {
            "data": one.rows[~ignored & ~exact & fitted],
            "not fitted": one.rows[~ignored & (not fitted)],
            "left out (weight 0)": one.rows[ignored],
            "met exactly": one.rows[exact & fitted],
        }
        return {kind: rows for kind, rows in kinds.items() if rows.size}

    def _points(self, ax: Axes, one: Series, kind: str, rows: npt.NDArray[np.int64], colour: str) -> None:
        data, at_rest = self._problem.measurements, np.isinf(self._problem.measurements.time[rows])
        for chosen, place in ((rows[~at_rest], self._places), (rows[at_rest], None)):
            if not chosen.size:
                continue
            sigma = self._problem.sigma[chosen]
            bars = None if kind in ("left out (weight 0)", "met exactly") or np.isnan(sigma).all() else sigma
            look = self._mark(kind, colour, one.rows.size)
            x = np.full(chosen.size, _REST) if place is None else place[chosen]
            if place is None:  # steady states stand at the right end of the panel
                look |= {"marker": _REST_MARK, "transform": ax.get_yaxis_transform()}
            ax.errorbar(
                x, data.value[chosen], yerr=bars, linestyle="none", ecolor=colour, elinewidth=0.8, zorder=3,
                label=f"_{kind}", **look,
            )  # fmt: skip

    def _mark(self, kind: str, colour: str, number: int) -> dict[str, Any]:
        size = 4.5 if number <= 40 else 3.5 if number <= 150 else 2.0
        looks = {
            "data": {"marker": "o", "markerfacecolor": colour, "markersize": size, "alpha": 0.85},
            "not fitted": {"marker": "o", "markerfacecolor": "white", "markersize": size},
            "left out (weight 0)": {"marker": "x", "markersize": size + 1.0},
            "met exactly": {"marker": "D", "markerfacecolor": style.INK, "markersize": size + 1.5},
        }
        edge = style.GREY if kind == "left out (weight 0)" else style.INK if kind == "met exactly" else colour
        return {"color": colour, "markeredgecolor": edge, "markeredgewidth": 1.0} | looks[kind]

    def _limit(self, ax: Axes, panel: _Panel) -> None:
        """Keep wide bands, long error bars and curves that run away from squeezing the data."""
        data = self._problem.measurements
        rows = np.concatenate([one.rows for one in panel.series])
        curves = [self._curves[id(one)] for one in panel.series]
        measured = data.value[rows]
        modelled = np.concatenate([part for c in curves for part in (c.value, c.rest)])
        modelled = modelled[np.isfinite(modelled)]
        if measured.size and modelled.size and not self._result.converged:
            reach = _RUNAWAY * max(np.ptp(measured), np.abs(measured).max())
            modelled = modelled[np.abs(modelled - measured.mean()) <= reach]
        core = np.concatenate((measured, modelled))
        if not core.size or not np.ptp(core) > 0:
            return
        low, high = float(core.min()), float(core.max())
        sigma = self._problem.sigma[rows]
        extra = [measured - sigma, measured + sigma]
        extra += [part for c in curves for part in (c.lower, c.upper)] if self._band else []
        outer = np.concatenate(extra)
        outer = outer[np.isfinite(outer)]
        room = _ROOM * (high - low)
        low = max(min(low, outer.min(initial=low)), low - room)
        high = min(max(high, outer.max(initial=high)), high + room)
        margin = 0.05 * (high - low)
        ax.set_ylim(low - margin, high + margin)

    def legend(self) -> list[Any]:
        """Return an entry for each colour, and one for each kind of mark that occurs."""
        handles: list[Any] = []
        series = {self._label(panel, one): one for panel in self._panels for one in panel.series}
        if self._several:
            for label, one in series.items():
                fitted, has_data = self._line_style(one) == "-", bool(one.rows.size)
                colour = self._colour[label]
                handles.append(
                    Line2D([], [], color=colour, linestyle="-" if fitted else "--", linewidth=style.LINE_WIDTH,
                           marker="o" if has_data else "", markersize=4.5, markeredgecolor=colour,
                           markerfacecolor=colour if fitted else "white", label=style.plain(label))
                )  # fmt: skip
        colour = style.GREY if self._several else style.COLOURS[0]
        kinds = dict.fromkeys(kind for panel in self._panels for one in panel.series for kind in self._kinds(one))
        for kind in kinds:
            if kind in ("data", "not fitted") and self._several:
                continue  # the colours' own entries show it
            look = self._mark(kind, style.GREY if self._several else style.INK, 1)
            handles.append(Line2D([], [], linestyle="none", label=self._with_sigma(kind), **look))
        if any(curve.rest.size for curve in self._curves.values()):
            look = {**self._mark("data", style.GREY if self._several else style.INK, 1), "marker": _REST_MARK}
            handles.append(
                Line2D([], [], linestyle="none", label=f"steady state ({self._problem.model.time} = inf)", **look)
            )
        if not self._several:
            handles.append(Line2D([], [], color=colour, linewidth=style.LINE_WIDTH, label="model"))
        if any(self._events.values()):
            doses = any(self._problem.experiments[e].events for e in self._events)
            periods = any(self._problem.experiments[e].later for e in self._events)
            events = bool(self._problem.model.events)
            words = [*["dose"] * doses, *["event"] * events, *["period"] * periods]
            handles.append(Line2D([], [], label=" or ".join(words), **_EVENT_LINE))
        if self._band and any(self._has_visible_band(panel) for panel in self._panels):
            handles.append(Patch(color=colour, alpha=style.BAND_ALPHA, linewidth=0, label="95 % band of the curve"))
        return handles

    def _has_visible_band(self, panel: _Panel) -> bool:
        """Tell whether a band of the panel is wider than its line."""
        curves = [self._curves[id(one)] for one in panel.series]
        measured = self._problem.measurements.value
        values = np.concatenate([curve.value for curve in curves] + [measured[one.rows] for one in panel.series])
        widths = np.concatenate([curve.upper - curve.lower for curve in curves])
        values, widths = values[np.isfinite(values)], widths[np.isfinite(widths)]
        return bool(values.size) and widths.max(initial=0.0) > _LINE * np.ptp(values)

    def _with_sigma(self, kind: str) -> str:
        return f"{kind} \N{PLUS-MINUS SIGN} sigma" if kind == "data" and self._result.chi2 is not None else kind


def _spread_decades(ax: Axes, first: float, last: float, *, zero: bool) -> None:
    """Make the axis of times logarithmic, from the first one on if there are data at zero."""
    if zero:
        ax.set_xscale("symlog", linthresh=first, linscale=0.5)
    else:
        ax.set_xscale("log")
    ax.set_xlim(-0.2 * first if zero else first / 1.4, last * 1.4)
    style.decade_ticks(ax, first, last, zero=zero)


def _grid(
    result: FitResult, panels: list[_Panel], handles: list[Any], figure: Figure | None, left_out: str
) -> list[Axes]:
    """Make a figure with the panels' Axes, title and legend."""
    n = len(panels)
    columns = _columns(panels)
    rows = -(-n // columns)
    width, height = (5.2, 3.1) if n == 1 else (columns * (3.5 if columns <= 2 else 2.8), rows * 2.2)
    height += 0.4 + 0.2 * style.legend_rows(width, handles)
    figure = style.new_figure(width, height, figure)
    status = "" if result.converged else f"not converged: {result.status}"
    style.set_title(figure, [style.plain(result.problem.title), status, left_out])
    style.figure_legend(figure, handles)
    axes = [figure.add_subplot(rows, columns, i + 1) for i in range(n)]
    for i, ax in enumerate(axes):
        if i + columns >= n:  # nothing below
            ax.set_xlabel(style.plain(time_label(result.problem)))
    return axes


def _columns(panels: list[_Panel]) -> int:
    n = len(panels)
    if panels[0].title:  # experiments in rows, if their observables fit into one
        observables = len({panel.observable for panel in panels})
        return min(n, {1: 4, 2: 4, 3: 3}.get(observables, 4))
    return n if n <= 3 else 2 if n == 4 else 3 if n in (5, 6, 9) else 4
