"""What is conserved, found in exact arithmetic."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest

from odefit.compile.conserved import conserved_totals
from odefit.compile.finite_field import PRIMES, evaluate, inverses, oracle, residue_of

PRIME = PRIMES[0]
T, U = ca.SX.sym("t"), ca.SX(0, 1)


def totals(y, p, out, begin, known=None, constants=(), *, whole=False, **options):
    """Laws of y' = out with p = q and y(0) = begin."""
    c = ca.SX.sym("c", len(constants))
    rhs = ca.Function("f", [T, y, p, U], [ca.densify(ca.vertcat(*out))])
    start = ca.Function("m", [T, p, c, U], [ca.densify(ca.vertcat(p, *begin))])
    known = np.full(p.numel(), np.nan) if known is None else np.array(known, dtype=float)
    found = conserved_totals(rhs, start, known, np.array(constants, dtype=float), **options)
    return found if whole else found.weights


def spans(found: np.ndarray, expected: list[list[float]]) -> bool:
    """Whether two sets of rows span the same space."""
    both = np.vstack((found, np.array(expected, dtype=float).reshape(-1, found.shape[1])))
    rank = np.linalg.matrix_rank
    return len(found) == len(expected) == (rank(found) if len(found) else 0) == (rank(both) if len(both) else 0)


Y, P = ca.SX.sym("y", 3), ca.SX.sym("p", 2)
A, B, C = Y[0], Y[1], Y[2]
BINDING = P[0] * A * B - P[1] * C
CASES = {
    "two totals": ([-BINDING, -BINDING, BINDING], [1, 2, 0], [[1, -1, 0], [0, 1, 1]]),
    "decimals": ([-0.1 * BINDING, -0.3 * BINDING, 0.7 * BINDING], [1, 2, 0], [[3, -1, 0], [7, 0, 1]]),
    "thirds": ([-BINDING / 3, BINDING * (1 / 3), 1 - C], [1, 2, 0], [[1, 1, 0]]),
    "very slow": ([-BINDING + 1e-18 * A, -BINDING, BINDING], [1, 2, 0], [[0, 1, 1]]),
    "none": ([1 - A, A - B, B - C], [2, 3, 0], []),
    "same function": ([-ca.exp(A), ca.exp(A), 1 - C], [1, 2, 0], [[1, 1, 0]]),
    "other function": ([-ca.exp(A), ca.exp(A + 1), 1 - C], [1, 2, 0], []),
    "constant": ([-C * A, C * A - B, 0], [1, 2, P[0]], [[0, 0, 1]]),
    "absent": ([-C * A, 1 - B, -P[0] * C * A], [1, 2, 0], [[1, 0, 0], [0, 0, 1]]),
    "at rest at once": ([P[0] - A, P[1] * (A - B), 0], [P[0], P[0], 5], [[1, 0, 0], [0, 1, 0], [0, 0, 1]]),
    "powers": ([-(A**2.5) * B, A**2.5 * B, 1 - C], [1, 2, 0], [[1, 1, 0]]),
}


@pytest.mark.parametrize("case", CASES)
def test_laws(case):
    out, begin, expected = CASES[case]
    assert spans(totals(Y, P, [ca.SX(one) for one in out], [ca.SX(one) for one in begin]), expected)


def test_weights_of_many_digits():
    a, b = 1.2345678901, 9.87654321e-7
    found = totals(Y, P, [-a * BINDING, b * BINDING, 1 - C], [ca.SX(1), ca.SX(2), ca.SX(3)])
    np.testing.assert_allclose(found / found[0, 0], [[1.0, a / b, 0.0]], rtol=1e-15)


def test_weights_that_depend_on_what_is_estimated():
    out = [-A * B / P[0], A * B / P[1], 1 - C]
    begin = [ca.SX(1), ca.SX(2), ca.SX(3)]
    laws = totals(Y, P, out, begin, whole=True)
    np.testing.assert_array_equal(laws.weights != 0, [[True, True, False]])
    assert (laws.varying.tolist(), laws.lead.tolist(), laws.stays.tolist()) == ([0], [1], [0, 0, 0])
    laws = totals(Y, P, out, begin, known=[0.5, 3.0], whole=True)
    np.testing.assert_allclose(laws.weights / laws.weights[0, 0], [[1.0, 6.0, 0.0]], rtol=1e-15)
    assert laws.varying.size == 0


def test_numbers_of_the_experiment_count():
    out = [-P[0] * A, P[0] * A, 1 - C]
    begin = [ca.SX(1), ca.SX(2), ca.SX(3)]
    assert spans(totals(Y, P, out, begin, known=[0.0, np.nan]), [[1, 0, 0], [0, 1, 0]])
    assert spans(totals(Y, P, out, begin), [[1, 1, 0]])


def test_states_that_are_put_aside_and_beginnings_that_are_not_known():
    out = [-C * A, 1 - B, ca.SX(0)]
    begin = [ca.SX(1), ca.SX(2), ca.SX(0)]
    assert spans(totals(Y, P, out, begin), [[1, 0, 0], [0, 0, 1]])
    assert spans(totals(Y, P, out, begin, behind=[np.nan] * 3), [[0, 0, 1]])
    assert spans(totals(Y, P, out, begin, behind=[np.nan, np.nan, 0.0]), [[1, 0, 0], [0, 0, 1]])
    assert spans(totals(Y, P, out, begin, aside=[1], behind=[np.nan] * 3), [[0, 1, 0], [0, 0, 1]])


@pytest.mark.parametrize("seed", range(20))
def test_random_stoichiometry(seed):
    """The left null space of a matrix of whole numbers; rates are different products of two states."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(3, 12)), int(rng.integers(2, 7))
    matrix = rng.integers(-2, 3, (n, m)) * (rng.random((n, m)) < 0.4)
    matrix[np.arange(n), rng.integers(0, m, n)] = 1  # every state moves
    y, p = ca.SX.sym("y", n), ca.SX.sym("p", m)
    pairs = rng.permutation([(i, j) for i in range(n) for j in range(i, n)]).tolist()
    rates = [10.0 ** int(rng.integers(-12, 12)) * p[k] * y[i] * y[j] for k, (i, j) in enumerate(pairs[:m])]
    out = [ca.SX(sum((int(matrix[i, k]) * rates[k] for k in range(m)), ca.SX(0))) for i in range(n)]
    found = totals(y, p, out, [ca.SX(i + 1) for i in range(n)], known=np.full(m, np.nan))
    assert found.shape == (n - np.linalg.matrix_rank(matrix), n)
    np.testing.assert_allclose(found @ matrix, 0.0, atol=1e-12 * max(1.0, np.abs(found).max(initial=0.0)))


def test_residues():
    assert [residue_of(x, PRIME) for x in (0.0, 3.0, -1.0)] == [0, 3, PRIME - 1]
    assert (residue_of(0.1, PRIME) * 3 - residue_of(0.3, PRIME)) % PRIME == 0
    assert residue_of(1 / 3, PRIME) * 3 % PRIME == 1
    values = np.array([1, 2, 12345, PRIME - 1], dtype=np.int64)
    assert (inverses(values, PRIME) * values % PRIME == 1).all()
    assert (oracle(1, [values], PRIME) == oracle(1, [values.copy()], PRIME)).all()
    assert (oracle(1, [values], PRIME) != oracle(2, [values], PRIME)).all()


def test_expressions_agree_with_fractions():
    x = ca.SX.sym("x", 2)
    out = ca.vertcat((x[0] + 0.5) ** 3 / (x[1] - 2), x[0] ** -2 - ca.sqrt(x[1]) * 0, -x[0] * x[1])
    found = evaluate(ca.Function("f", [x], [out]), [np.array([[3], [7]], dtype=np.int64)], PRIME)
    expected = [(3.5) ** 3 / 5, 1 / 9, -21.0]
    assert found[:, 0].tolist() == [residue_of(one, PRIME) for one in expected]
