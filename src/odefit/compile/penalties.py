"""Priors and rules as residuals of the slots: ``r(q, c)`` with the numbers of the priors in c."""

from __future__ import annotations

from typing import Any

import casadi as ca

from odefit.compile.conditions import stack
from odefit.compile.functions import SymbolicFunction
from odefit.problem import Problem
from odefit.problem.priors import LAPLACE_ROUNDING, Prior
from odefit.problem.resolution import resolve_in_experiment, symbol_of


def _residual(kind: str, value: Any, first: Any, second: Any) -> Any:
    """Return the residual whose half square is the penalty (see `odefit.problem.priors`)."""
    if kind == "normal":
        return (value - first) / second
    if kind == "lognormal":
        return (ca.log(value) - ca.log(first)) / second
    d = value - first
    e = LAPLACE_ROUNDING * second
    # 2 (sqrt(d^2 + e^2) - e)/b = 2 d^2/(b (sqrt(d^2 + e^2) + e)): no cancellation, smooth at 0
    return d * ca.sqrt(2.0 / (second * (ca.sqrt(d * d + e * e) + e)))


def penalty_terms(problem: Problem) -> tuple[tuple[str, Prior, int | None], ...]:
    """Return name, prior and slot (None for a rule) of every penalty."""
    terms: list[tuple[str, Prior, int | None]] = []
    for index, slot in enumerate(problem.slots.slots):
        prior = slot.parameter.penalty
        if prior is not None and index in problem.slots.fitted:
            terms.append((slot.name, prior, index))
    terms.extend((rule.expression, rule.prior, None) for rule in problem.rules)
    return tuple(terms)


def penalty_function(problem: Problem) -> SymbolicFunction | None:
    """Return ``(q, c) -> residuals``, or None if there are no penalties."""
    terms = penalty_terms(problem)
    if not terms:
        return None
    q = [
        symbol_of(problem, slot.name) if slot.parameter.per is None else ca.SX.sym(slot.name)
        for slot in problem.slots.slots
    ]
    numbers: list[Any] = []
    residuals: list[Any] = []
    for text, prior, slot in terms:
        value = q[slot] if slot is not None else resolve_in_experiment(problem, problem.expression(text), None)
        first, second = ca.SX.sym("first"), ca.SX.sym("second")
        numbers += [first, second]
        residuals.append(_residual(prior.kind, value, first, second))
    return SymbolicFunction(
        name="penalty",
        time=ca.SX.sym("t"),
        arrays=(("q", stack(q)), ("c", stack(numbers)), ("u", ca.SX(0, 1))),
        by=("q",),
        out=stack(residuals),
    )


def penalty_constants(problem: Problem) -> list[float]:
    """Return the numbers of the priors, in the order of `penalty_terms`."""
    return [number for _, prior, _ in penalty_terms(problem) for number in (prior.first, prior.second)]
