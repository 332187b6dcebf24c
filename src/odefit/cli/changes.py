"""Changes to a problem from the command line: start values, what is fixed or free, how it is integrated."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from odefit.errors import OdefitError, plain, suggestion
from odefit.formats.file_content import LARGEST_RESULT, read_content
from odefit.integrate import CHOICES
from odefit.problem import Problem

_MOST_LISTED = 10

Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Start value of a parameter; repeatable.")
]
Fix = Annotated[
    list[str] | None,
    typer.Option("--fix", metavar="NAME", help="Hold a parameter at its start value; repeatable."),
]
Free = Annotated[
    list[str] | None,
    typer.Option("--free", metavar="NAME", help="Estimate a parameter that is fixed; repeatable."),
]
From = Annotated[
    Path | None, typer.Option("--from", metavar="RESULT.JSON", help="Start from the estimates of an earlier fit.")
]

Integrator = Annotated[
    str | None, typer.Option(help=f"One of {', '.join(CHOICES)}; the file's own by default, as the next three.")
]
Rtol = Annotated[float | None, typer.Option(help="Relative tolerance of the integration.")]
Atol = Annotated[str | None, typer.Option(help='Absolute tolerance: a number, or "auto" (by the size of each state).')]
MaxStep = Annotated[float | None, typer.Option(help="Longest step of the integration.")]


def changed(
    problem: Problem, values: list[str] | None, fix: list[str] | None, free: list[str] | None, source: Path | None
) -> Problem:
    """Return `problem` with the changes; `--set` prevails over `--from`."""
    starts = (_estimates(problem, source) if source else {}) | dict(map(_assignment, values or []))
    if starts:
        problem = problem.with_start(**starts)
    if both := set(fix or []) & set(free or []):
        raise OdefitError(f"'{min(both)}' cannot be both fixed and free; leave out --fix or --free.")
    if fix:
        problem = problem.with_fixed(*fix)
    return problem.with_free(*free) if free else problem


def integrated_by(
    problem: Problem, integrator: str | None, rtol: float | None, atol: str | None, max_step: float | None
) -> Problem:
    """Return `problem` with other settings of the integration; None leaves the file's own."""
    size = None if atol is None else _tolerance(atol)
    asked = {"integrator": integrator, "rtol": rtol, "atol": size, "max_step": max_step}
    changes = {name: value for name, value in asked.items() if value is not None}
    return problem.with_settings(**changes) if changes else problem


def _tolerance(text: str) -> float | str:
    try:
        return "auto" if text == "auto" else float(text)
    except ValueError:
        raise OdefitError(f"--atol '{text}' is neither a number (1e-9) nor \"auto\".") from None


def _assignment(text: str) -> tuple[str, float]:
    name, equals, value = text.partition("=")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not equals or not name.strip() or not math.isfinite(number):
        raise OdefitError(f"--set '{text}' is not of the form name=number, k1=0.5 say.")
    return name.strip(), number


def _estimates(problem: Problem, path: Path) -> dict[str, float]:
    """Return the estimates in a result file that belong to parameters of `problem`."""
    content = read_result(path)
    names = {slot.name for slot in problem.slots.slots}
    estimates = {name: float(row["estimate"]) for name, row in content["parameters"].items() if name in names}
    if not estimates:
        some = next(iter(content["parameters"]), "")
        raise OdefitError(f"'{path}' holds no parameter of this problem{suggestion(some, names)}")
    if foreign := [name for name in content["parameters"] if name not in names]:
        listed = ", ".join(foreign[:_MOST_LISTED]) + (", ..." if len(foreign) > _MOST_LISTED else "")
        print(plain(f"odefit: '{path}' also holds {listed}, which this problem does not have"), file=sys.stderr)
    return estimates


def read_result(path: Path) -> dict[str, Any]:
    """Read a file that ``odefit fit --out`` wrote; only parameters with an estimate are kept."""
    try:
        file = path / "result.json" if path.is_dir() else path
        content = json.loads(read_content(file, LARGEST_RESULT).decode("utf-8"))
    except OSError as error:
        raise OdefitError(f"'{path}' cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise OdefitError(f"'{path}' is not a result file: it holds no JSON.") from error
    if not isinstance(content, dict) or not isinstance(content.get("parameters"), dict):
        raise OdefitError(f"'{file}' is not a result file of odefit; give the result.json of odefit fit --out.")
    content["parameters"] = {name: row for name, row in content["parameters"].items() if _has_estimate(row)}
    return content


def _has_estimate(row: Any) -> bool:
    estimate = row.get("estimate") if isinstance(row, dict) else None
    if isinstance(estimate, bool) or not isinstance(estimate, int | float):
        return False
    return abs(estimate) <= sys.float_info.max
