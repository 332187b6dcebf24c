"""Pictures as files, made without a display."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from odefit.errors import OdefitError
from odefit.native.places import write_atomically
from odefit.report.plots.fit import plot_fit
from odefit.report.plots.multistart import plot_parameters, plot_waterfall
from odefit.report.plots.nodes import plot_nodes
from odefit.report.plots.style import NothingToPlot
from odefit.strategy import FitResult

_DPI = 150.0


def png(draw: Callable[..., Any], subject: Any, *, dpi: float = _DPI, **options: Any) -> bytes:
    """Return the picture that ``draw(subject, figure=...)`` makes."""
    figure = Figure()
    canvas = FigureCanvasAgg(figure)
    draw(subject, figure=figure, **options)
    stream = io.BytesIO()
    figure.set_dpi(dpi)
    canvas.print_png(stream, metadata={"Software": None})  # the same result gives the same bytes
    return stream.getvalue()


def write_plots(result: FitResult, folder: str | Path) -> list[str]:
    """Write ``fit.png``, with nodes ``nodes.png``, and with several starts ``waterfall.png`` and ``parameters.png``.

    Returns
    -------
    list
        What became of each, in words: a picture of a fit that failed may have nothing to show.
    """
    subjects: dict[str, tuple[Callable[..., Any], Any]] = {"fit.png": (plot_fit, result)}
    if result.placed is not None and result.placed.way and result.placed.nodes:
        subjects["nodes.png"] = (plot_nodes, result)
    if result.multistart is not None:
        subjects["waterfall.png"] = (plot_waterfall, result.multistart)
        subjects["parameters.png"] = (plot_parameters, result.multistart)
    lines = []
    for name, (draw, subject) in subjects.items():
        path = Path(folder) / name
        try:
            write_atomically(path, png(draw, subject))
            lines.append(f"wrote {path}")
        except NothingToPlot as error:
            lines.append(f"no {name}: {error}")
        except OSError as error:
            raise OdefitError(f"the plot cannot be written to '{path}': {error.strerror}.") from error
    return lines
