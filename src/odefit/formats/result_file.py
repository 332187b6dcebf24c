"""result.json: what a fit found, written so that a reader never sees half of it."""

from __future__ import annotations

import json
from pathlib import Path

from odefit.errors import OdefitError
from odefit.native.places import write_atomically
from odefit.strategy import FitResult


def result_json(result: FitResult) -> str:
    """Return the content of result.json (strict JSON: a number that does not exist is null)."""
    return json.dumps(result.to_dict(), indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def write_result(result: FitResult, folder: str | Path) -> Path:
    """Write ``result.json`` into `folder`, which is made if needed; return its path."""
    path = Path(folder) / "result.json"
    try:
        write_atomically(path, result_json(result).encode())
    except OSError as error:
        raise OdefitError(f"the result cannot be written to '{path}': {error.strerror}.") from error
    return path
