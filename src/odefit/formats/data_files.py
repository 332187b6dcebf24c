"""Which files hold the data: names, lists of names, and patterns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from odefit.errors import ProblemError
from odefit.formats.file_content import LARGEST_DATA, MEGABYTE
from odefit.formats.file_patterns import MOST_ENTRIES, TooManyEntriesError, matching_files
from odefit.formats.sections import text

_MOST_FILES = 10_000


@dataclass(frozen=True)
class DataFile:
    """One file of data.

    Attributes
    ----------
    path
        Where it is.
    titles
        What an experiment of its own may be called: its name without the ending, and what the star of
        the pattern stands for (``b330`` for ``spectra_b330.csv`` in ``spectra_*.csv``).
    """

    path: Path
    titles: tuple[str, ...]


def find_data_files(names: Any, folder: Path) -> tuple[DataFile, ...]:
    """Find the files that ``[data] file`` names.

    Parameters
    ----------
    names
        A name, a pattern with ``*``, ``?`` or ``[...]`` (its files are taken in the order of their
        names), or a list of both.
    folder
        What names are relative to.
    """
    entries = names if isinstance(names, list) else [names]
    if not entries:
        raise ProblemError("[data] file is an empty list; name at least one file.")
    files: dict[Path, DataFile] = {}
    for entry in entries:
        for file in _files_of(text("[data] file", entry), folder):
            if file.path in files:
                raise ProblemError(f"the data file '{file.path.name}' is named twice in [data] file; keep one.")
            files[file.path] = file
    _check_sizes(tuple(files))
    return tuple(files.values())


def _check_sizes(paths: tuple[Path, ...]) -> None:
    """Refuse data that would fill the memory, before any are read."""
    if len(paths) > _MOST_FILES:
        raise ProblemError(f"[data] file names {len(paths)} files; at most {_MOST_FILES} can be read.")
    total = sum(path.stat().st_size for path in paths if _exists(path))
    if total > LARGEST_DATA:
        raise ProblemError(
            f"the data files have {total // MEGABYTE} MB; at most {LARGEST_DATA // MEGABYTE} MB can be read."
        )


def is_pattern(name: str) -> bool:
    """Tell whether a name is a pattern."""
    return any(letter in name for letter in "*?[")


def _files_of(entry: str, folder: Path) -> list[DataFile]:
    path = folder / entry
    if not entry.strip():
        raise ProblemError("[data] file is empty; name a file.")
    if not is_pattern(entry) or _exists(path):
        return [DataFile(path, (path.stem,))]
    try:
        paths = matching_files(entry, folder)
    except TooManyEntriesError:
        raise ProblemError(
            f"the pattern '{entry}' in [data] file leads to more than {MOST_ENTRIES} files and folders; "
            "say in which folder the data are."
        ) from None
    if not paths:
        raise ProblemError(
            f"no file in '{folder}' matches '{entry}' in [data] file; patterns are relative to the problem file."
        )
    return [DataFile(path, (path.stem, *_starred(entry, path.name))) for path in paths]


def _exists(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _starred(pattern: str, name: str) -> tuple[str, ...]:
    """Return what the only star in the last part of a pattern stands for."""
    last = Path(pattern).name
    if last.count("*") != 1 or any(letter in last for letter in "?["):
        return ()
    before, after = last.split("*")
    return (name[len(before) : len(name) - len(after)],)
