"""The look of the pictures: colours that the colour-blind can tell apart, sizes, quiet axes.

Everything is said to the artists themselves: the user's rcParams and backend are never changed.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from odefit.errors import OdefitError

# M. Okabe and K. Ito's colours but for their yellow, which vanishes on white, and with P. Tol's wine
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255", "#4D4D4D")
INK = "#262626"
GREY = "#8C8C8C"
FAINT = "#D9D9D9"

BAND_ALPHA = 0.18
LINE_WIDTH = 1.6
SMALL = 8.0
"""Points: labels, ticks and legends of panels that share a figure."""

_TITLE = 10.0
_LETTER = 0.0073  # inches of an average letter of one point
_LEGEND_ENTRY = 0.5  # inches of an entry without its text


class NothingToPlot(OdefitError):
    """There is no value that a picture could show."""

    def __init__(self, why: str) -> None:
        super().__init__(f"there is nothing to plot: {why}.")


def new_figure(width: float, height: float, figure: Figure | None) -> Figure:
    """Return `figure` in this size (inches), or a new one that notebooks show by themselves."""
    if figure is None:
        from matplotlib import pyplot as plt  # chooses a backend: only where a user wants to see something

        figure = plt.figure()
    figure.set_size_inches(width, height)
    figure.set_layout_engine("constrained", w_pad=0.06, h_pad=0.05, wspace=0.02, hspace=0.02)
    return figure


def tidy(ax: Axes) -> None:
    """Give axes of our own the look."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(GREY)
    ax.grid(True, color=FAINT, linewidth=0.5)
    ax.set_axisbelow(True)
    ax.tick_params(labelsize=SMALL, color=GREY, labelcolor=INK)
    ax.xaxis.label.set(fontsize=SMALL + 1, color=INK)
    ax.yaxis.label.set(fontsize=SMALL + 1, color=INK)


def set_title(figure: Figure, lines: Sequence[str]) -> None:
    """Write `lines` above the panels, wrapped to the figure's width."""
    letters = int(figure.get_figwidth() / (_LETTER * _TITLE))
    wrapped = [part for line in lines if line for part in textwrap.wrap(line, letters)]
    if wrapped:
        figure.suptitle("\n".join(wrapped), fontsize=_TITLE, color=INK)


def figure_legend(figure: Figure, handles: Sequence[Any]) -> None:
    """Put one legend for all panels below them, in as many columns as fit."""
    columns = _fitting(figure.get_figwidth(), handles)
    figure.legend(
        handles=list(handles), loc="outside lower center", ncols=columns, fontsize=SMALL, frameon=False,
        columnspacing=1.2, handlelength=1.8,
    )  # fmt: skip


def legend_rows(width: float, handles: Sequence[Any]) -> int:
    """Return how many rows `figure_legend` needs in a figure of this width."""
    return -(-len(handles) // _fitting(width, handles))


def _fitting(width: float, handles: Sequence[Any]) -> int:
    """Return the largest number of columns, each as wide as its longest entry, that fit into the width."""
    sizes = [_LEGEND_ENTRY + _LETTER * SMALL * len(str(handle.get_label())) for handle in handles]
    for columns in range(len(sizes), 1, -1):
        if sum(float(part.max()) for part in np.array_split(sizes, columns)) <= width:  # as matplotlib shares them out
            return columns
    return 1


def decade_ticks(ax: Axes, first: float, last: float, *, zero: bool) -> None:
    """Label at most five decades of a logarithmic time axis, and zero if it is there."""
    low, high = math.ceil(math.log10(first) - 1e-9), math.floor(math.log10(last) + 1e-9)
    stride = -(-(high - low + 1) // 5)
    decades = [10.0**k for k in range(high, low - 1, -stride)]
    ax.xaxis.set_major_locator(FixedLocator([0.0, *decades] if zero else decades))
    ax.xaxis.set_minor_locator(NullLocator())


def plain(text: str) -> str:
    """Return text in which matplotlib sees no formula: a name may hold a dollar sign."""
    return text.replace("$", r"\$")
