"""Plain tables for the terminal and the documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def print_rows(title: str, header: Sequence[str], rows: Sequence[Sequence[Any]], *, text: int = 1) -> None:
    """Print aligned columns; the first `text` ones hold words and are aligned to the left."""
    cells = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    print(f"\n{title}")
    for number, row in enumerate(cells):
        left = [cell.ljust(width) for cell, width in zip(row[:text], widths[:text], strict=True)]
        right = [cell.rjust(width) for cell, width in zip(row[text:], widths[text:], strict=True)]
        print("  " + "  ".join(left + right).rstrip())
        if not number:
            print("  " + "  ".join("-" * width for width in widths))
