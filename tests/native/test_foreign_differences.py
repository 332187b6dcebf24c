"""Derivatives of functions of which only values are known: closed forms, sizes from 1e-9 to 1e9, and zero."""

from __future__ import annotations

import math

import numba
import numpy as np
import pytest

from odefit.native.foreign_differences import (
    AUTONOMOUS,
    BY_ALL,
    BY_TIME,
    NO_DERIVATIVE,
    NO_VALUE,
    evaluate_foreign,
    memory_size,
    outputs_of,
    refused_at,
)
from odefit.native.foreign_function import foreign_function
from odefit.native.table_slots import REFUSED, REMEMBERED, SLOT


class Evaluation:
    """A function with slot and memory of its own; `calls` counts how often it was called."""

    def __init__(self, function, n: int, k: int) -> None:
        self.n, self.k, self.calls = n, k, 0

        def counted(t, y, p):
            self.calls += 1
            return function(t, y, p)

        self._foreign = foreign_function(counted, n, k)
        self.slot, self.memory = np.zeros(SLOT), np.zeros(memory_size(n, k))
        self.slot[REFUSED : REFUSED + 2] = np.nan

    def evaluate(self, x, flags=BY_ALL | BY_TIME, directions=None):
        """Return status, values, derivatives by (t, y, p), and those in `directions` (m, lanes)."""
        x, n, m = np.array(x, dtype=float), self.n, 1 + self.n + self.k
        lanes = 0 if directions is None else directions.shape[1]
        given = np.zeros((m, 1)) if directions is None else np.ascontiguousarray(directions, dtype=float)
        out, self.calls = np.empty((n, lanes)), 0
        status = evaluate_foreign(
            self._foreign.address, n, self.k, flags, self.slot.ctypes.data, self.memory.ctypes.data, x.ctypes.data,
            lanes, given.ctypes.data, out.ctypes.data,
        )  # fmt: skip
        at = outputs_of(n, self.k)
        return status, self.memory[at : at + n], self.memory[at + n : at + n + n * m].reshape(n, m), out


def rates(t, y, p):
    """Saturation with a constant of any size, a square, and the time."""
    return [p[0] * y[0] / (p[1] + y[0]), y[0] * y[1] + math.sin(t), p[2] * y[1] ** 2]


def slopes(x):
    t, a, b, _, v, k, q = x
    return np.array(
        [
            [0.0, v * k / (k + a) ** 2, 0.0, 0.0, a / (k + a), -v * a / (k + a) ** 2, 0.0],
            [math.cos(t), b, a, 0.0, 0.0, 0.0, 0.0],
            [0.0, 0.0, 2.0 * q * b, 0.0, 0.0, 0.0, b**2],
        ]
    )


SIZES = [
    (0.7, 1.3, 2.1, 1.0, 0.8, 0.4, 1.7),
    (0.7, 1e-9, 1e9, 1.0, 2.0, 1e-9, 3e-18),
    (1e3, 1e9, 1e-9, 1.0, 1e-9, 1e9, 5.0),
    (0.7, 1e-9, 2e-9, 1.0, 3e9, 4e-9, 1e9),
    (1e-3, 0.0, 1.0, 1.0, 2.0, 1e-9, 3.0),
    (1e-3, 0.0, 0.0, 1.0, 2.0, 0.5, 3.0),
    (0.7, 1e-20, 3.0, 1.0, 2.0, 1e-12, 0.0),
]


@pytest.mark.parametrize("x", SIZES)
def test_columns_against_the_closed_form(x):
    status, values, found, _ = Evaluation(rates, 3, 3).evaluate(x)
    assert status == 0
    np.testing.assert_array_equal(values, rates(x[0], np.array(x[1:4]), np.array(x[4:])))
    exact = slopes(x)
    # what rounding errors of f hide cannot be seen by anybody: 1e-11 |f| per relative change of x
    hidden = 1e-10 * np.abs(values)[:, None] / np.maximum(np.abs(np.array(x)), 1e-300)
    digits = np.array([1e-8, *[1e-9] * 6])  # of the time the size of increments is found by trial
    assert np.all(np.abs(found - exact) <= digits * np.abs(exact) + np.where(np.array(x) == 0.0, 1e-10, hidden))


@pytest.mark.parametrize("x", SIZES[:4])
def test_derivatives_are_good_to_eight_digits_whatever_the_sizes(x):
    """Where a row has one term, nothing is hidden by another one."""
    _, _, found, _ = Evaluation(rates, 3, 3).evaluate(x)
    np.testing.assert_allclose(found[[0, 2]], slopes(x)[[0, 2]], rtol=1e-8, atol=0)


@pytest.mark.parametrize("x", SIZES)
def test_directions_are_products_with_the_columns(x):
    random = np.random.default_rng(4)
    moves = random.normal(size=(7, 4)) * np.maximum(np.abs(x), 1e-12)[:, None]
    moves[:, 2] = 0.0
    evaluation = Evaluation(rates, 3, 3)
    status, values, _, found = evaluation.evaluate(x, 0, moves)
    assert status == 0
    size = np.abs(slopes(x)) @ np.abs(moves) + 1e-2 * np.abs(values)[:, None]
    assert np.all(np.abs(found - slopes(x) @ moves) <= 3e-9 * size)
    assert np.all(found[:, 2] == 0.0)


def test_a_small_state_is_not_lost_beside_a_large_one():
    """With an increment relative to 1e-20 the difference would be zero."""
    evaluation = Evaluation(lambda t, y, p: [1.0 - 3.0 * y[1], 7e7 * y[1] - y[0]], 2, 0)
    _, _, found, _ = evaluation.evaluate([0.0, 1.0, 1e-20], BY_ALL)
    np.testing.assert_allclose(found[:, 1:], [[0.0, -3.0], [-1.0, 7e7]], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("y", [1e-290, 1e-310, 5e-324])
def test_states_that_underflow_count_as_zero(y):
    evaluation = Evaluation(lambda t, y, p: [1.0 - 3.0 * y[1], 7.0 * y[1] - y[0]], 2, 0)
    status, _, found, _ = evaluation.evaluate([0.0, 1.0, y], BY_ALL)
    assert status == 0
    np.testing.assert_allclose(found[:, 1:], [[0.0, -3.0], [-1.0, 7.0]], rtol=1e-9, atol=1e-11)
    _, _, _, along = evaluation.evaluate([0.0, 1.0, y], 0, np.array([[0.0], [2.0], [0.5]]))
    np.testing.assert_allclose(along[:, 0], [-1.5, 1.5], rtol=1e-9)


def test_one_sided_differences_at_the_edge_of_the_domain():
    evaluation = Evaluation(lambda t, y, p: [(y[0] + 2.0) * (math.nan if y[0] < 1.0 else y[0])], 1, 0)
    status, _, found, _ = evaluation.evaluate([0.0, 1.0], BY_ALL)
    assert status == 0
    np.testing.assert_allclose(found[0, 1], 4.0, rtol=1e-9)
    evaluation = Evaluation(lambda t, y, p: [math.log(2.0 - y[0]) if y[0] <= 1.0 else math.nan], 1, 0)
    np.testing.assert_allclose(evaluation.evaluate([0.0, 1.0], BY_ALL)[2][0, 1], -1.0, rtol=1e-9)


def test_equal_arguments_are_not_evaluated_again():
    evaluation, x = Evaluation(rates, 3, 3), [0.7, 1.3, 2.1, 1.0, 0.8, 0.4, 1.7]
    counts = []
    for flags in (0, 0, BY_ALL, BY_ALL, BY_TIME):
        evaluation.evaluate(x, flags)
        counts.append(evaluation.calls)
    assert counts == [1, 0, 12, 0, 4]
    evaluation.evaluate(x, 0, np.eye(7)[:, 1:3])
    assert evaluation.calls == 4
    again = evaluation.evaluate(np.nextafter(x, 1.0), BY_ALL)[2].copy()
    assert evaluation.calls == 13
    assert np.all(again == Evaluation(rates, 3, 3).evaluate(np.nextafter(x, 1.0), BY_ALL)[2])  # no trace of the past


def test_no_value_is_nan_and_noted_with_its_place():
    evaluation = Evaluation(lambda t, y, p: [1.0, math.nan], 2, 1)
    status, values, found, out = evaluation.evaluate([1.0, 2.0, 3.0, 4.0], BY_ALL, np.ones((4, 1)))
    assert status == NO_VALUE == evaluation.slot[REFUSED]
    assert np.isnan(values).all()
    assert np.all(found == 0.0)
    assert np.all(out == 0.0)
    at = refused_at(2, 1)
    np.testing.assert_array_equal(evaluation.memory[at : at + 4], [1.0, 2.0, 3.0, 4.0])


def test_no_derivative_is_nan_and_noted():
    evaluation = Evaluation(lambda t, y, p: [1.0 if y[0] == 2.0 else math.nan], 1, 0)
    status, values, found, _ = evaluation.evaluate([0.0, 2.0], BY_ALL)
    assert status == NO_DERIVATIVE == evaluation.slot[REFUSED]
    assert values[0] == 1.0
    assert np.isnan(found[0, 1])


def test_arguments_that_are_not_finite_are_not_handed_on():
    evaluation = Evaluation(rates, 3, 3)
    _, values, _, _ = evaluation.evaluate([0.0, np.inf, 1.0, 1.0, 1.0, 1.0, 1.0], BY_ALL)
    assert np.isnan(values).all()
    assert np.isnan(evaluation.slot[REFUSED])  # nobody is to blame
    assert evaluation.calls == 0


def test_an_autonomous_function_is_given_no_time():
    seen = []
    evaluation = Evaluation(lambda t, y, p: [seen.append(t) or y[0]], 1, 0)
    evaluation.evaluate([5.0, 2.0], AUTONOMOUS | BY_ALL)
    assert len(seen) == 3
    assert np.isnan(seen).all()
    assert evaluation.slot[REMEMBERED] > 0


def test_work_is_bounded_where_nothing_agrees():
    """A root at zero has no derivative; the search for one ends."""
    evaluation = Evaluation(lambda t, y, p: [math.copysign(abs(y[0]) ** 0.5, y[0])], 1, 0)
    evaluation.evaluate([0.0, 0.0], BY_ALL)
    assert evaluation.calls <= 41


def test_rounding_errors_decide_where_nothing_else_does():
    """Noise of 1e-12, far above that of one rounding, at zero: the best difference is the widest one."""
    noise = iter(np.random.default_rng(1).normal(size=1000))
    evaluation = Evaluation(lambda t, y, p: [1.0 + 2.0 * y[0] + 1e-12 * next(noise)], 1, 0)
    _, _, found, _ = evaluation.evaluate([0.0, 0.0], BY_ALL)
    assert found[0, 1] == pytest.approx(2.0, abs=1e-6)


def test_numba_and_python_give_the_same_bits():
    @numba.njit
    def native(t, y, p, out):
        out[0] = p[0] * y[0] / (p[1] + y[0])

    x, results = [0.3, 1.7, 0.9, 0.2], []
    for function in (native, lambda t, y, p: [p[0] * y[0] / (p[1] + y[0])]):
        foreign = foreign_function(function, 1, 2)
        slot, memory, given = np.zeros(SLOT), np.zeros(memory_size(1, 2)), np.array(x)
        address = (slot.ctypes.data, memory.ctypes.data, given.ctypes.data)
        evaluate_foreign(foreign.address, 1, 2, BY_ALL, *address, 0, given.ctypes.data, given.ctypes.data)
        results.append(memory[:9].tobytes())
    assert results[0] == results[1]
