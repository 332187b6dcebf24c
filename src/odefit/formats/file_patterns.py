"""Files that match a pattern with ``*``, ``?``, ``[...]`` and ``**``, found in bounded time.

The meaning is that of Python's `glob`: names that begin with a dot are matched only by parts that do, ``**`` stands
for any number of folders.  A pattern like ``/**/*.csv`` would look through every disk: so the entries looked at are
counted, and ``**`` follows no links, which may go round in circles.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator
from pathlib import Path

MOST_ENTRIES = 100_000


class TooManyEntriesError(Exception):
    """A pattern leads to more entries of folders than anybody has files of data."""


def matching_files(pattern: str, folder: Path) -> list[Path]:
    """Return the files that match, in the order of their names.

    Parameters
    ----------
    pattern
        With "/" between its parts; relative to `folder`, or absolute.

    Raises
    ------
    TooManyEntriesError
        If more than `MOST_ENTRIES` files and folders have to be looked at.
    """
    whole = Path(pattern)
    budget = [MOST_ENTRIES]
    start, parts = (Path(whole.anchor), whole.parts[1:]) if whole.is_absolute() else (folder, whole.parts)
    try:
        found = {path for path in _matching(start, list(parts), budget) if path.is_file()}
    except RecursionError:
        raise TooManyEntriesError from None
    return sorted(found, key=str)


def _matching(folder: Path, parts: list[str], budget: list[int]) -> Iterator[Path]:
    """Yield what matches the parts below a folder; some more than once if there are several ``**``."""
    if not parts:
        return
    part, rest = parts[0], parts[1:]
    if part == "**":
        yield from _matching(folder, rest or ["*"], budget)
        for entry in _entries(folder, budget):
            if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                yield from _matching(folder / entry.name, parts, budget)
    elif not any(mark in part for mark in "*?["):
        yield from _continued(folder / part, rest, budget)
    else:
        fits = re.compile(fnmatch.translate(part)).match
        for entry in _entries(folder, budget):
            if fits(entry.name) and (part.startswith(".") or not entry.name.startswith(".")):
                yield from _continued(folder / entry.name, rest, budget)


def _continued(path: Path, rest: list[str], budget: list[int]) -> Iterator[Path]:
    if rest:
        yield from _matching(path, rest, budget)
    else:
        yield path


def _entries(folder: Path, budget: list[int]) -> list[os.DirEntry[str]]:
    """Return what is in a folder; nothing if it cannot be read."""
    entries = []
    try:
        with os.scandir(folder) as listing:
            for entry in listing:
                entries.append(entry)
                budget[0] -= 1
                if budget[0] < 0:
                    raise TooManyEntriesError
    except (OSError, ValueError):
        return []
    return entries
