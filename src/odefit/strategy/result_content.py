"""The content of result.json."""

from __future__ import annotations

import math
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odefit.strategy.result import FitResult

SCHEMA = "odefit-result-1"


def finite_or_none(value: float | None) -> float | None:
    """Return a number that exists, else None: JSON has no NaN."""
    return value if value is not None and math.isfinite(value) else None


def content_of(result: FitResult) -> dict[str, Any]:
    """Return a result as plain types, None where a number does not exist."""
    return {
        "schema": SCHEMA,
        "status": str(result.status),
        "message": result.message,
        "objective": finite_or_none(result.objective),
        "iterations": result.iterations,
        "evaluations": result.evaluations,
        "parameters": {
            name: {
                "estimate": finite_or_none(row.estimate),
                "standard_error": finite_or_none(row.standard_error),
                "interval": None if row.interval is None else list(row.interval),
                "verdict": row.verdict,
            }
            for name, row in result.parameters.items()
        },
        "derived": {
            name: {
                "estimate": finite_or_none(row.estimate),
                "standard_error": finite_or_none(row.standard_error),
                "interval": None if row.interval is None else list(row.interval),
            }
            for name, row in result.derived.items()
        },
        "loglik": finite_or_none(result.loglik),
        "chi2": finite_or_none(result.chi2),
        "n_data": result.n_data,
        "dof": result.dof,
        "aic": finite_or_none(result.criteria.aic),
        "aicc": finite_or_none(result.criteria.aicc),
        "bic": finite_or_none(result.criteria.bic),
        "r2": finite_or_none(result.r2),
        "errors": None if result.uncertainty is None else result.uncertainty.kind,
        "derivatives": {"rtol": result.derivatives.rtol, "settled": result.derivatives.settled},
        "correlation": _correlation(result),
        "tests": None if result.tests is None else {k: finite_or_none(v) for k, v in result.tests._asdict().items()},
        "method": result.method,
        "solver": result.solver,
        "integrators": dict(result.integrators),
        "start_values": None if result.start_values is None else result.start_values.text,
        "multistart": None if result.multistart is None else result.multistart.to_dict(),
        "attempts": [attempt.to_dict() for attempt in result.attempts],
        "equivalent_iterations": finite_or_none(result.equivalent_iterations),
        "validation": {
            name: {"n_data": row.n_data, "sum_of_squares": finite_or_none(row.sum_of_squares)}
            for name, row in result.validation.items()
        },
        "warnings": [{"code": notice.code, "text": notice.text} for notice in result.warnings],
        "versions": {name: version(name) for name in ("odefit", "casadi", "numba", "numpy", "scipy")},
    }


def _correlation(result: FitResult) -> dict[str, dict[str, float | None]]:
    if result.statistics is None:
        return {}
    names = result.plan.names
    rows = result.statistics.correlation.tolist()
    return {
        name: {other: finite_or_none(value) for other, value in zip(names, row, strict=True)}
        for name, row in zip(names, rows, strict=True)
    }
