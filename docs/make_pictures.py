"""Make the pictures that the documents show: ``python docs/make_pictures.py``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import odefit as of
from odefit.gallery import load
from odefit.report.plots.files import png
from odefit.report.plots.fit import plot_fit
from odefit.report.plots.multistart import plot_parameters, plot_waterfall
from odefit.report.plots.nodes import plot_nodes

FOLDER = Path(__file__).parent / "pictures"
DPI = 100.0


def pictures() -> dict[str, Callable[[], bytes]]:
    """Return what makes each picture, by file name."""

    def fitted(name: str, **options: Any) -> bytes:
        return png(plot_fit, of.fit(load(name)), dpi=DPI, **options)

    def from_many(name: str, draw: Callable[..., Any]) -> bytes:
        return png(draw, of.fit(load(name), starts=40, seed=1).multistart, dpi=DPI)

    return {
        "barnes.png": lambda: fitted("barnes"),
        "arrhenius.png": lambda: fitted("arrhenius"),
        "nodes.png": lambda: png(plot_nodes, of.fit(load("lorenz")), dpi=0.85 * DPI),
        "waterfall.png": lambda: from_many("barnes", plot_waterfall),
        "parameters.png": lambda: from_many("barnes", plot_parameters),
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file, make in pictures().items():
        (FOLDER / file).write_bytes(make())
        print(f"wrote {FOLDER / file}")
