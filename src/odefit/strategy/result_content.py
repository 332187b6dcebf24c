"""The content of result.json."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from odefit.statistics import Estimate, ParameterReport

if TYPE_CHECKING:
    from odefit.strategy.result import FitResult

SCHEMA = "odefit-result-1"
LEAST_CORRELATION = 0.5
"""Smaller correlations are left out of result.json."""
MOST_CORRELATIONS = 10_000
"""Pairs of parameters in result.json, those of the largest correlations."""


def finite_or_none(value: float | None) -> float | None:
    """Return a number that exists, else None: JSON has no NaN."""
    return value if value is not None and math.isfinite(value) else None


def with_none_for_missing(content: Any) -> Any:
    """Return plain types (dict, list, numbers, text) with None for every number in them that does not exist."""
    if isinstance(content, float):
        return finite_or_none(content)
    if isinstance(content, Mapping):
        return {key: with_none_for_missing(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [with_none_for_missing(value) for value in content]
    return content


def content_of(result: FitResult) -> dict[str, Any]:
    """Return a result as plain types, None where a number does not exist."""
    return {name: with_none_for_missing(entry(result)) for name, entry in _ENTRIES.items()}


def content_without(result: FitResult, *, computed: bool) -> dict[str, Any]:
    """Return what there is of a result whose statistics cannot be computed, or (not `computed`) have not been yet.

    `failed` names the entries that are missing, each with the reason; the estimates are there in any case.
    """
    content: dict[str, Any] = {}
    failed: dict[str, str] = {}
    for name, entry in _ENTRIES.items():
        content[name] = None
        if name not in _AT_ONCE and not computed:
            failed[name] = "not computed yet"
            continue
        try:
            content[name] = with_none_for_missing(entry(result))
        except Exception as error:  # whatever it is, the fit must not be lost with it
            failed[name] = f"{type(error).__name__}: {error}"
    if content["parameters"] is None:
        content["parameters"] = {
            name: {"estimate": finite_or_none(value), "standard_error": None, "interval": None, "verdict": None}
            for name, value in result.estimates.items()
        }
    return content | {"failed": failed}


def _rows(rows: Mapping[str, ParameterReport | Estimate]) -> dict[str, dict[str, Any]]:
    return {
        name: {
            "estimate": row.estimate,
            "standard_error": row.standard_error,
            "interval": row.interval,
            **({"verdict": row.verdict} if isinstance(row, ParameterReport) else {}),
        }
        for name, row in rows.items()
    }


def _tests(result: FitResult) -> dict[str, float | None] | None:
    return None if result.tests is None else result.tests._asdict()


def _validation(result: FitResult) -> dict[str, dict[str, Any]]:
    return {
        name: {"n_data": row.n_data, "sum_of_squares": row.sum_of_squares} for name, row in result.validation.items()
    }


def _correlation(result: FitResult) -> dict[str, dict[str, float]]:
    """Return the correlations that are worth knowing: all between n parameters would be n^2 numbers."""
    if result.statistics is None:
        return {}
    names, known = result.plan.names, np.isfinite(result.statistics.standard_error).tolist()
    rows = {name: {name: 1.0} if is_known else {} for name, is_known in zip(names, known, strict=True)}
    pairs = result.statistics.correlated_pairs(LEAST_CORRELATION, MOST_CORRELATIONS)
    for i, j, value in zip(*(part.tolist() for part in pairs), strict=True):
        rows[names[i]][names[j]] = rows[names[j]][names[i]] = value
    return rows


_PACKAGES = ("odefit", "casadi", "numba", "numpy", "scipy")
_ENTRIES: dict[str, Callable[[FitResult], Any]] = {
    "schema": lambda r: SCHEMA,
    "status": lambda r: str(r.status),
    "message": lambda r: r.message,
    "objective": lambda r: r.objective,
    "iterations": lambda r: r.iterations,
    "evaluations": lambda r: r.evaluations,
    "parameters": lambda r: _rows(r.parameters),
    "derived": lambda r: _rows(r.derived),
    "rules": lambda r: [rule.to_dict() for rule in r.rules],
    "loglik": lambda r: r.loglik,
    "chi2": lambda r: r.chi2,
    "n_data": lambda r: r.n_data,
    "dof": lambda r: r.dof,
    "aic": lambda r: r.criteria.aic,
    "aicc": lambda r: r.criteria.aicc,
    "bic": lambda r: r.criteria.bic,
    "r2": lambda r: r.r2,
    "errors": lambda r: None if r.uncertainty is None else r.uncertainty.kind,
    "derivatives": lambda r: {"rtol": r.derivatives.rtol, "settled": r.derivatives.settled},
    "correlation": _correlation,
    "tests": _tests,
    "method": lambda r: r.method,
    "solver": lambda r: r.solver,
    "integrators": lambda r: dict(r.integrators),
    "start_values": lambda r: None if r.start_values is None else r.start_values.text,
    "multistart": lambda r: None if r.multistart is None else r.multistart.to_dict(),
    "attempts": lambda r: [attempt.to_dict() for attempt in r.attempts],
    "equivalent_iterations": lambda r: r.equivalent_iterations,
    "validation": _validation,
    "warnings": lambda r: [{"code": notice.code, "text": notice.text} for notice in r.warnings],
    "versions": lambda r: {name: version(name) for name in _PACKAGES},
}
"""What stands in result.json, in its order."""
_AT_ONCE = ("schema", "status", "message", "objective", "iterations", "evaluations", "n_data", "method", "solver")
"""What is known as soon as the fit has ended."""
