"""Derivatives of trial points are asked for where points of the kind have been taken lately."""

from __future__ import annotations

import numpy as np
import pytest

from odefit.solve import (
    LeastSquares,
    OmegaTolerance,
    Scaling,
    SolverStatus,
    Termination,
    TrustRegion,
    TrustStep,
    gauss_newton,
    solve,
)
from odefit.solve.dense import DenseLinear
from odefit.solve.foresight import Foresight


def asked(fates: list[tuple[int, bool]]) -> list[int]:
    """Orders asked for before each of these (number of the attempt, taken or not)."""
    foresight, orders = Foresight(), []
    for attempt, taken in fates:
        orders.append(foresight.order(attempt))
        foresight.learn(attempt, True, taken)
    return orders


def test_a_point_behind_one_that_called_for_new_grids_is_evaluated_without_derivatives():
    foresight = Foresight()
    foresight.learn(0, False, False)
    assert foresight.order(0) == 0
    foresight.learn(0, True, True)
    assert foresight.order(0) == 1


def test_points_that_are_taken_get_derivatives_at_once():
    assert asked([(0, True)] * 6) == [1] * 6


def test_one_failure_is_forgiven_and_two_are_not():
    assert asked([(0, True), (0, False), (0, True), (0, True)]) == [1, 1, 1, 1]
    assert asked([(0, False), (0, False), (0, True), (0, True), (0, True)]) == [1, 1, 0, 1, 1]


def test_where_first_points_fail_and_second_ones_are_taken_only_these_get_derivatives():
    orders = asked([(0, False), (1, True)] * 6)
    assert orders[:4] == [1, 0, 1, 1]
    assert orders[4:] == [0, 1] * 4


class Counted:
    """``residual = a sinh(x/a) - 1`` (steep: full steps overshoot), with a record of what was asked for."""

    names = ("x",)

    def __init__(self, a: float) -> None:
        self.a = a
        self.orders: list[int] = []
        self.points: list[float] = []

    def refresh(self, x: np.ndarray) -> int:
        return 0

    def evaluate(self, x: np.ndarray, order: int) -> LeastSquares:
        self.orders.append(order)
        self.points.append(float(x[0]))
        residual = np.array([self.a * np.sinh(x[0] / self.a) - 1.0])
        linear = DenseLinear(np.array([[np.cosh(x[0] / self.a)]]), residual) if order else None
        value = 0.5 * float(residual @ residual)
        return LeastSquares(x, 0, value, residual, linear, float(np.abs(residual[0])), 0.0)


def fitted(objective: Counted):
    bound = np.full(1, np.inf)
    return solve(
        objective, np.array([-4.0]), -bound, bound, scaling=Scaling(np.ones(1), np.zeros(1, bool)), step=TrustStep(),
        globalisation=TrustRegion(initial=1e3), termination=Termination(tol_abs=1e-9), freeze=OmegaTolerance(),
    )  # fmt: skip


@pytest.mark.parametrize("order", [0, 1])
def test_iterates_do_not_depend_on_what_was_foreseen(monkeypatch, order):
    usual = Counted(0.3)
    expected = fitted(usual)
    assert expected.status is SolverStatus.CONVERGED

    class Stubborn(Foresight):
        def order(self, attempt: int) -> int:
            return order

    monkeypatch.setattr(gauss_newton, "Foresight", Stubborn)
    other = Counted(0.3)
    result = fitted(other)
    assert result.x.tobytes() == expected.x.tobytes()
    assert [row._replace(generation=0) for row in result.trace] == [
        row._replace(generation=0) for row in expected.trace
    ]
    assert other.orders != usual.orders
    assert list(dict.fromkeys(other.points)) == list(dict.fromkeys(usual.points))
