"""result.json: what a fit found, written so that a reader never sees half of it.

A fit may have taken hours, and statistics can fail or be stopped.  Therefore the estimates are written first, and
replaced by the whole once that exists.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from odefit.errors import OdefitError
from odefit.native.places import write_atomically
from odefit.strategy import FitResult
from odefit.strategy.result_content import content_without


def result_json(result: FitResult) -> str:
    """Return the content of result.json (strict JSON: a number that does not exist is null)."""
    return _text(result.to_dict())


def write_result(result: FitResult, folder: str | Path) -> Path:
    """Write ``result.json`` into `folder`, which is made if needed; return its path.

    Raises
    ------
    OdefitError
        If it cannot be written; or if statistics cannot be computed: then it holds the estimates and what there is
        beside them, and under "failed" what there is not.
    """
    path = Path(folder) / "result.json"
    _write(path, _text(content_without(result, computed=False)))
    try:
        text = result_json(result)
    except Exception as error:
        _write(path, _text(content_without(result, computed=True)))
        raise OdefitError(
            f"statistics of the fit could not be computed ({type(error).__name__}: {error}); its estimates are in "
            f"'{path}', which says what is missing."
        ) from error
    _write(path, text)
    return path


def _text(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def _write(path: Path, text: str) -> None:
    try:
        write_atomically(path, text.encode())
    except OSError as error:
        raise OdefitError(f"the result cannot be written to '{path}': {error.strerror}.") from error
