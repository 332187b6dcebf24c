"""``base = "model_a.toml"``: a problem file inherits from another and overrides it.

Tables are merged key by key, everything else is replaced by the later file.  A parameter that gets an
`expression` loses what made it a number, and the other way round.  File names stay relative to the file
that gives them: they are wrapped with its folder as soon as they are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from odefit.errors import OdefitError, ProblemError
from odefit.formats.file_content import LARGEST_PROBLEM, read_content
from odefit.formats.sections import text
from odefit.formats.toml_text import parse_toml

_WITH_FILES = ("data", "parameters", "experiments", "events")


@dataclass(frozen=True)
class Located:
    """What was given for a file name, and the folder it is relative to."""

    given: Any
    folder: Path


def read_document(path: Path) -> dict[str, Any]:
    """Read a problem file with all it inherits from, as one table without ``base``.

    The key `file` of ``[data]``, ``[parameters]``, ``[experiments]``, ``[events]`` and of each table is a `Located` if
    it is a name.
    """
    try:
        return _read(path, ())
    except RecursionError:
        raise ProblemError("the file cannot be read: its tables are nested too deeply.") from None


def _read(path: Path, below: tuple[Path, ...]) -> dict[str, Any]:
    # another file may hold anything, and its lines are nobody's business
    content = _located(parse_toml(_content(path, below), quoting=path.suffix == ".toml"), path.parent)
    if "base" not in content:
        return content
    name = text("base", content.pop("base"))
    base = path.parent / name
    seen = (*below, path)
    if any(_same(base, other) for other in seen):
        chain = " -> ".join(f"'{one.name}'" for one in (*seen, base))
        raise ProblemError(f"the bases go round in a circle: {chain}; remove one.")
    try:
        inherited = _read(base, seen)
    except OdefitError as error:
        error.args = (error.args[0] if f"'{base.name}'" in error.args[0] else f"base '{name}': {error.args[0]}",)
        raise
    return merged(inherited, content)


def _content(path: Path, below: tuple[Path, ...]) -> bytes:
    try:
        return read_content(path, LARGEST_PROBLEM)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        if below:
            raise ProblemError(
                f"the base '{path.name}' of '{below[-1].name}' cannot be read: {reason}; "
                "its path is relative to the file that names it."
            ) from error
        raise ProblemError(f"the problem file '{path}' cannot be read: {reason}.") from error


def _same(one: Path, other: Path) -> bool:
    try:
        return one.resolve() == other.resolve()
    except (OSError, ValueError, RuntimeError):
        return False


def _located(content: dict[str, Any], folder: Path) -> dict[str, Any]:
    for name in _WITH_FILES:
        section = content.get(name)
        if isinstance(section, dict) and isinstance(section.get("file"), str | list):
            section["file"] = Located(section["file"], folder)
    tables = content.get("tables")
    experiments = content.get("experiments")
    inner = [tables, *(experiments.values() if isinstance(experiments, dict) else ())]
    for entry in (one for group in inner if isinstance(group, dict) for one in group.values()):
        if isinstance(entry, dict) and isinstance(entry.get("file"), str | list):
            entry["file"] = Located(entry["file"], folder)
    return content


def merged(earlier: Mapping[str, Any], later: Mapping[str, Any], place: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return both tables in one; the later one wins.

    Parameters
    ----------
    place
        The keys that lead to these tables.
    """
    result = dict(earlier)
    if len(place) == 2 and place[0] == "tables" and {*later} & {"file", "column", "x"}:
        for key in ("file", "column", "x", "y"):  # rows from elsewhere
            result.pop(key, None)
    if place == ("events",) and {*later} & {"file", "rows"}:
        for key in ("file", "rows"):
            result.pop(key, None)
    if len(place) == 2 and place[0] == "parameters":
        if "expression" in later:
            return dict(later)
        if "start" in later:
            result.pop("expression", None)
    for key, value in later.items():
        old = result.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            result[key] = merged(old, value, (*place, key))
        else:
            result[key] = value
    return result
