"""The picture of multiple shooting: trajectories from node to node, and how their gaps close on the way.

A row of panels for each observable, a column for the start, a first step, and the end.  Every interval is a piece of
its own, with a dot at the node where it begins.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from odefit.report.labels import time_label, with_unit
from odefit.report.plots import style
from odefit.report.plots.series import chosen_experiments, chosen_observables
from odefit.strategy import FitResult
from odefit.strategy.node_curves import curves_at_nodes

Array = npt.NDArray[np.float64]

_MOST_ROWS = 4
_POINTS = 24  # of a piece
_BEFORE = 1e-9  # of a piece, by which it ends before the next node
_PANEL = (3.1, 1.9)
_ROOM = 0.6  # of the range of the data, that pieces may go beyond


def plot_nodes(
    result: FitResult,
    *,
    observable: str | list[str] | None = None,
    experiment: str | None = None,
    figure: Figure | None = None,
) -> npt.NDArray[Any]:
    """Draw the trajectories between nodes on the way of a fit by multiple shooting.

    Parameters
    ----------
    observable
        What to show, a name or several; by default what is measured, at most four.
    experiment
        One experiment; by default the first that has nodes.

    Returns
    -------
    array of Axes
        A row for each observable, a column for each point of the way.
    """
    problem, placed = result.problem, result.placed
    if placed is None or not placed.nodes or not placed.way:
        raise style.NothingToPlot('the fit has no nodes; use method = "multiple"')
    numbers = [e for e in chosen_experiments(problem, experiment) if e in placed.nodes]
    if not numbers:
        raise style.NothingToPlot("the experiment has no nodes")
    e = numbers[0]
    name = problem.experiments[e].name
    data = problem.measurements
    names = chosen_observables(problem, observable)
    measured = set(data.observable[(data.experiment == name) & data.used].tolist())
    if observable is None:
        names = [one for one in names if one in measured] or names
    names = names[:_MOST_ROWS]
    way = _picked(len(placed.way))
    times, pieces = _times(result, e)
    figure = style.new_figure(_PANEL[0] * len(way), _PANEL[1] * len(names) + 0.6, figure)
    axes = figure.subplots(len(names), len(way), sharex=True, sharey="row", squeeze=False)
    for column, k in enumerate(way):
        values = curves_at_nodes(problem, placed, placed.way[k], e, times, names)
        for row, observed in enumerate(names):
            ax = axes[row, column]
            mine = (data.experiment == name) & (data.observable == observed) & data.used & np.isfinite(data.time)
            _draw(ax, data.time[mine], data.value[mine], times, None if values is None else values[:, row], pieces)
            style.tidy(ax)
            if column == 0:
                ax.set_ylabel(style.plain(with_unit(observed, problem.units.get(observed, ""))))
            if row == 0:
                ax.set_title(_title(k, len(placed.way)), fontsize=style.SMALL + 1, color=style.INK)
            if row == len(names) - 1:
                ax.set_xlabel(style.plain(time_label(problem)))
    several = len(problem.experiments) > 1
    style.set_title(figure, [problem.title, f"experiment {name}" if several else ""])
    return axes


def _picked(n: int) -> list[int]:
    """Return which points of the way are shown: start, one of the first steps, end."""
    return sorted({0, min(1, n - 1), n - 1})


def _title(k: int, n: int) -> str:
    return "start" if k == 0 else "end" if k == n - 1 else "on the way"


def _times(result: FitResult, e: int) -> tuple[Array, list[slice]]:
    """Return the times of all pieces, one behind the other, and where each of them is."""
    problem, placed = result.problem, result.placed
    assert placed is not None
    data, one = problem.measurements, problem.experiments[e]
    mine = (data.experiment == one.name) & data.used & np.isfinite(data.time)
    edges = [one.start, *placed.nodes[e], float(data.time[mine].max())]
    parts = []
    for begin, end in zip(edges, edges[1:], strict=False):
        last = end if end == edges[-1] else end - _BEFORE * (end - begin)
        parts.append(np.linspace(begin, last, _POINTS))
    first = np.cumsum([0, *(part.size for part in parts)])
    return np.concatenate(parts), [slice(a, b) for a, b in zip(first, first[1:], strict=False)]


def _draw(ax: Axes, at: Array, data: Array, times: Array, values: Array | None, pieces: list[slice]) -> None:
    """Draw data and pieces; what goes far beyond the data is cut off."""
    ax.plot(at, data, ".", color=style.GREY, markersize=4.0, zorder=1.5)
    low, high = float(np.min(data, initial=np.inf)), float(np.max(data, initial=-np.inf))
    if np.isfinite(low) and high > low:
        ax.set_ylim(low - _ROOM * (high - low), high + _ROOM * (high - low))
    if values is None:
        ax.text(0.5, 0.5, "could not be computed", transform=ax.transAxes, ha="center", fontsize=style.SMALL)
        return
    for k, piece in enumerate(pieces):
        colour = style.COLOURS[k % 2]
        ax.plot(times[piece], values[piece], color=colour, linewidth=1.2, zorder=2.0)
        if k:
            ax.plot(times[piece][:1], values[piece][:1], "o", color=colour, markersize=2.6, zorder=2.5)
