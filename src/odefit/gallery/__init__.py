"""Ready problems with their data.

A problem is a folder with a TOML file of the same name; further files in it are variants, named
``folder/file`` (``barnes/b``).
"""

from __future__ import annotations

from pathlib import Path

from odefit.errors import OdefitError, suggestion

_HERE = Path(__file__).parent


def names() -> list[str]:
    """Return the names of all problems and variants."""
    found = []
    for path in sorted(_HERE.glob("*/*.toml")):
        folder = path.parent.name
        found.append(folder if path.stem == folder else f"{folder}/{path.stem}")
    return sorted(found)


def path_of(name: str) -> Path:
    """Return the problem file `name`."""
    if name not in names():
        raise OdefitError(f"there is no demo '{name}'{suggestion(name, names())} There are: {', '.join(names())}.")
    folder, _, variant = name.partition("/")
    return _HERE / folder / f"{variant or folder}.toml"
