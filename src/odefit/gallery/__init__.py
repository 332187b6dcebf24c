"""Ready problems with their data.

A problem is a folder with a file of the same name: TOML, or Python with a function ``problem()`` where a file
cannot say it.  Further files of either kind in the folder are variants, named ``folder/file`` (``barnes/b``),
except those whose name begins with an underscore: they made the data.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from odefit.errors import OdefitError, suggestion
from odefit.formats import load_problem
from odefit.problem import Problem

WITHOUT_MINIMUM = {
    "herbert/ridge": "mu_max and K_S rise together: only their quotient matters",
    "ecoli_batches": "K_IS rises: the data do not show that S hinders growth on A",
}
"""Problems whose objective falls for ever along a flat valley, and why: an honest fit does not converge."""

_HERE = Path(__file__).parent
_KINDS = (".toml", ".py")


def names() -> list[str]:
    """Return the names of all problems and variants."""
    return sorted(_files())


def path_of(name: str) -> Path:
    """Return the file of problem `name`: TOML, which `odefit.load` reads, or Python, which `load` here runs."""
    files = _files()
    if name not in files:
        raise OdefitError(f"there is no demo '{name}'{suggestion(name, names())} There are: {', '.join(names())}.")
    return files[name]


def load(name: str) -> Problem:
    """Return the problem `name`, whichever kind of file it is in."""
    path = path_of(name)
    if path.suffix == ".py":
        return import_module(f"{__name__}.{path.parent.name}.{path.stem}").problem()
    return load_problem(path)


def _files() -> dict[str, Path]:
    """Return the files of the gallery by name."""
    files = {}
    for path in _HERE.glob("*/*"):
        folder = path.parent.name
        if path.suffix in _KINDS and not path.stem.startswith("_"):
            files[folder if path.stem == folder else f"{folder}/{path.stem}"] = path
    return files
