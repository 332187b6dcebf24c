"""Tables in a problem file: short ones as lists, long ones as files beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from odefit.problem import Table

LONGEST_LIST = 50
"""Rows from which on a table of numbers gets a file of its own."""


class TableFiles:
    """Entries for tables, and the files they need beside the problem file `path`.

    Attributes
    ----------
    contents
        Path and text of each file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.contents: list[tuple[Path, str]] = []

    def entry(self, name: str, table: Table) -> dict[str, Any]:
        """Return the keys of a table; those of ``[tables.name]``."""
        return {**self._rows(name, table), "kind": table.kind, "outside": table.outside}

    def replaced(self, name: str, table: Table) -> Any:
        """Return what an experiment has in the place of a table: a number, or keys."""
        if table.arguments == 1 and not table.names and table == Table.constant(float(table.y[0])):
            return float(table.y[0])
        return self.entry(name, table)

    def _rows(self, name: str, table: Table) -> dict[str, Any]:
        if table.arguments == 2:
            return {"x": [axis.tolist() for axis in table.x], "y": table.y.tolist()}
        values = table.y.tolist() if isinstance(table.y, np.ndarray) else list(table.y)
        if table.names or len(values) <= LONGEST_LIST:
            return {"x": table.x.tolist(), "y": values}
        taken = {place.name for place, _ in self.contents}
        file, number = f"{self._path.stem}.{name}.csv", 1
        while file in taken:
            number += 1
            file = f"{self._path.stem}.{name}.{number}.csv"
        rows = [f"{x!r},{y!r}" for x, y in zip(table.x.tolist(), values, strict=True)]
        self.contents.append((self._path.with_name(file), "\n".join(["x,y", *rows]) + "\n"))
        return {"file": file}
