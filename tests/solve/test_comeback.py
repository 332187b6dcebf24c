"""Plateaus on logarithmic scales: fits come back from them, or do not call them a minimum."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dense_objectives import DenseObjective, minimise

from odefit.solve import OmegaTolerance, Scaling, Termination, solve_with_comeback

T = np.linspace(0.0, 5.0, 12)
NOISE = 0.01 * np.cos(17 * T)
TERMINATION = Termination(tol=1e-6, tol_abs=1e-9)
LN10 = math.log(10.0)


def run(function, start, rates, lower=None, upper=None, objective=None):
    names = tuple(f"x{i}" for i in range(len(start)))
    start, rates = np.asarray(start, dtype=float), np.asarray(rates, dtype=float)
    objective = objective or DenseObjective(function, names)
    box = (
        np.full(start.size, -np.inf) if lower is None else lower,
        np.full(start.size, np.inf) if upper is None else upper,
    )

    def one(x):
        return minimise(
            objective, x, lower=box[0], upper=box[1], scaling=Scaling(x, rates > 0), termination=TERMINATION,
            freeze=OmegaTolerance(),
        )  # fmt: skip

    with np.errstate(over="ignore", under="ignore"):
        return solve_with_comeback(one, objective, start, box, rates, TERMINATION)


def decay(x):
    return x[0] * np.exp(-np.exp(x[1]) * T) - 2.0 * np.exp(-0.7 * T) - NOISE


@pytest.mark.parametrize("decades", range(-14, 15, 2))
def test_decay_from_fourteen_decades_away(decades):
    result = run(decay, (1.0, math.log(0.7) + LN10 * decades), (0.0, 1.0))
    assert result.converged
    assert math.exp(result.x[1]) == pytest.approx(0.7, rel=0.05)


@pytest.mark.parametrize("decades", [-13, -7, 7, 13])
def test_decimal_logarithms(decades):
    result = run(lambda x: decay((x[0], LN10 * x[1])), (1.0, math.log10(0.7) + decades), (0.0, LN10))
    assert result.converged
    assert 10.0 ** result.x[1] == pytest.approx(0.7, rel=0.05)


@pytest.mark.parametrize("unit", [1e-20, 1e-6, 1.0, 1e20])
def test_units_of_the_data_do_not_matter(unit):
    def function(x):
        return unit * decay(x)

    objective = DenseObjective(function, ("x0", "x1"))
    start, rates = np.array([1.0, math.log(1e-12)]), np.array([0.0, 1.0])
    termination = Termination(tol=1e-6, tol_abs=1e-9 * unit)
    box = np.full(2, -np.inf), np.full(2, np.inf)

    def one(x):
        return minimise(objective, x, scaling=Scaling(x, rates > 0), termination=termination)

    result = solve_with_comeback(one, objective, start, box, rates, termination)
    assert result.converged
    assert result.x[1] == pytest.approx(run(decay, start, rates).x[1], rel=1e-6)


def saturation(x):
    v, k = np.exp(x)
    return v * T / (k + T) - 2.0 * T / (1.5 + T) - NOISE


@pytest.mark.parametrize("far", [(28.0, 0.0), (-28.0, 0.0), (0.0, 28.0), (0.0, -28.0), (30.0, 30.0), (-30.0, -30.0)])
def test_saturation_whose_constants_are_fixed_together_only(far):
    result = run(saturation, far, (1.0, 1.0))
    assert result.converged
    assert np.exp(result.x) == pytest.approx([2.0, 1.5], rel=0.05)


@pytest.mark.parametrize("start", [0.0, -5.0, -27.0])
def test_a_rate_that_vanishes_is_named(start):
    result = run(lambda x: np.exp(-np.exp(x[0]) * T) - 1.001 - 0.001 * T, (start,), (1.0,))
    assert result.status == "flat-valley"
    assert "'x0' keeps moving: from here the data do not fix it" in result.message


def test_an_unknown_without_any_influence_is_no_plateau():
    result = run(lambda x: decay(x[:2]) + 0 * x[2], (1.0, 0.0, 1.0), (0.0, 1.0, 1.0))
    assert result.converged
    assert result.x[2] == 1.0


def test_only_a_product_is_determined():
    result = run(
        lambda x: np.exp(x[0] + x[1]) * np.exp(-0.7 * T) - 2.0 * np.exp(-0.7 * T) - NOISE, (1.0, 2.0), (1.0, 1.0)
    )
    assert result.converged
    assert result.rank == 1


def test_bounds_are_kept():
    lower, upper = np.array([0.0, -40.0]), np.array([5.0, math.log(0.1)])
    objective = DenseObjective(decay, ("x0", "x1"))
    result = run(decay, (1.0, -30.0), (0.0, 1.0), lower, upper, objective)
    assert result.x[1] == upper[1]
    for x, *_ in objective.log:
        assert (x >= lower).all()
        assert (x <= upper).all()


def test_costs_of_all_minimisations_count():
    objective = DenseObjective(decay, ("x0", "x1"))
    result = run(decay, (1.0, math.log(1e-12)), (0.0, 1.0), objective=objective)
    assert [row.iteration for row in result.trace] == list(range(1, result.iterations + 1))
    assert result.evaluations <= len(objective.log)


class Stopped(DenseObjective):
    """Is interrupted after some evaluations."""

    def __init__(self, function, names, after):
        super().__init__(function, names)
        self.after = after

    def evaluate(self, x, order):
        if len(self.log) >= self.after:
            return self.failed(x, order, "stopped", interrupted=True)
        return super().evaluate(x, order)


def test_a_stop_on_the_way_back():
    names = ("x0", "x1")
    whole = DenseObjective(decay, names)
    run(decay, (1.0, math.log(1e-12)), (0.0, 1.0), objective=whole)
    for after in range(3, len(whole.log)):
        result = run(decay, (1.0, math.log(1e-12)), (0.0, 1.0), objective=Stopped(decay, names, after))
        assert result.status == "interrupted"


def test_an_unknown_that_has_vanished_is_no_success():
    """At k = exp(-800) = 0 no probe feels anything; that says nothing of other values."""
    result = run(decay, (1.0, -800.0), (0.0, 1.0))
    assert result.status == "flat-valley"
    assert "'x1'" in result.message
