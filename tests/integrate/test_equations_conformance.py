"""What every integrator of equations in several derivatives must do: method x problem x order of sensitivities."""

from __future__ import annotations

import numpy as np
import pytest
from equation_cases import by_equations, by_solver, misses, with_constraints
from initial_value_problems import central_difference, exact, exact_states, make_run, pairs, run_of, solve

from odefit.integrate import Status

LARGEST_ERRORS = {"ddm": 300, "limex": 300}
"""Over the tolerance."""
ITERATES = {"ddm"}
"""Methods that solve the equations of a step to rounding; others meet constraints to tolerance."""
TOLERANCES = 10.0 ** np.arange(-3, -9.5, -1)
STOPS = np.array([0.3, 0.8, 1.0])
"""Fractions of the time at which pieces end: there output is where steps end."""


def ends_of(case) -> np.ndarray:
    return case.t0 + STOPS * (case.end - case.t0)


def highest(method) -> int:
    return min(2, method.highest_order)


@by_solver
@by_equations
class TestSolution:
    @pytest.mark.parametrize("rtol", TOLERANCES)
    def test_accuracy_at_tolerance(self, method, case, rtol):
        found = solve(method, case, make_run(case), rtol=rtol, atol=1e-2 * rtol)
        assert found.status is Status.OK
        assert found.t_end == case.end
        assert found.error_ratio <= 1.0
        error = np.abs(found.y - exact_states(case, case.times)).max()
        assert error <= LARGEST_ERRORS[method.name] * rtol * np.abs(found.y).max()

    def test_error_is_proportional_to_tolerance(self, method, case):
        errors = [
            np.abs(solve(method, case, make_run(case), rtol=r, atol=1e-2 * r).y - exact_states(case, case.times)).max()
            for r in TOLERANCES
        ]
        assert np.polyfit(np.log(TOLERANCES), np.log(errors), 1)[0] == pytest.approx(1.0, abs=0.22)

    def test_output_at_the_start_is_the_consistent_state(self, method, case):
        order = highest(method)
        found = solve(method, case, make_run(case, times=[case.t0, case.end]), order=order)
        alone = solve(method, case, make_run(case, times=[case.t0]), order=order)
        expected = exact(case, [case.t0])
        for name, closed in zip(("y", "S", "S2")[: order + 1], expected, strict=False):
            value = getattr(found, name)[:1]
            np.testing.assert_allclose(value, closed.reshape(value.shape), rtol=1e-12, atol=1e-13)
            np.testing.assert_array_equal(getattr(alone, name), value)

    def test_replay_repeats_the_run(self, method, case):
        run = make_run(case, stops=ends_of(case))
        chosen = solve(method, case, run, order=highest(method))
        replayed = solve(method, case, run, order=highest(method), grid=chosen.grid)
        assert (replayed.status, replayed.t_end) == (Status.OK, case.end)
        assert replayed.error_ratio == chosen.error_ratio
        for name in ("y", "S", "S2"):
            np.testing.assert_array_equal(getattr(replayed, name), getattr(chosen, name))

    @pytest.mark.parametrize("order", [0, 1])
    def test_derivatives_do_not_change_the_solution(self, method, case, order):
        full = solve(method, case, make_run(case), order=highest(method))
        less = solve(method, case, make_run(case), order=order)
        np.testing.assert_array_equal(less.y, full.y)
        np.testing.assert_array_equal(less.grid.steps, full.grid.steps)
        np.testing.assert_array_equal(less.S, full.S[:, :, : less.S.shape[2]])


@by_solver
@by_equations
class TestDerivatives:
    def test_of_the_true_solution(self, method, case):
        found = solve(method, case, make_run(case), rtol=1e-9, atol=1e-11, order=highest(method))
        _, s, s2 = exact(case, case.times)
        np.testing.assert_allclose(found.S, s, atol=1e-6 * np.abs(s).max())
        if highest(method) == 2:
            np.testing.assert_allclose(found.S2, s2, atol=3e-6 * np.abs(s2).max())

    def test_of_the_replayed_solution(self, method, case):
        """Derivatives by initial values that are not consistent are those of the consistent state."""
        run = make_run(case, stops=ends_of(case))
        found = solve(method, case, run, rtol=1e-6, order=highest(method))

        def again(theta, order):
            moved = make_run(case, theta, stops=ends_of(case))
            return solve(method, case, moved, rtol=1e-6, order=order, grid=found.grid)

        first = central_difference(lambda theta: again(theta, 0).y, case.theta)
        np.testing.assert_allclose(found.S, first, atol=1e-9 * np.abs(first).max())
        if highest(method) == 2:
            second = central_difference(lambda theta: again(theta, 1).S, case.theta)
            a, b = np.array(pairs(case.theta.size)).T
            np.testing.assert_allclose(found.S2, second[:, :, a, b], atol=1e-8 * np.abs(second).max())

    def test_seeds_of_any_kind(self, method, case):
        """Second derivatives of unknowns by directions count once."""
        rng = np.random.default_rng(1)
        q = case.theta.size
        seeds, second = rng.normal(size=(q, 3)), rng.normal(size=(q, 6))
        grid = solve(method, case, make_run(case), order=0).grid
        plain, found = (
            solve(method, case, run, order=highest(method), grid=grid)
            for run in (make_run(case), make_run(case, seeds=seeds, second=second))
        )
        np.testing.assert_allclose(found.S, plain.S @ seeds, atol=1e-11 * np.abs(plain.S).max())
        if highest(method) == 2:
            whole = np.zeros((*plain.y.shape, q, q))
            for k, (a, b) in enumerate(pairs(q)):
                whole[:, :, a, b] = whole[:, :, b, a] = plain.S2[:, :, k]
            of_pairs = [np.einsum("mnab,a,b->mn", whole, seeds[:, a], seeds[:, b]) for a, b in pairs(3)]
            expected = np.stack(of_pairs, axis=-1) + plain.S @ second
            np.testing.assert_allclose(found.S2, expected, atol=1e-10 * np.abs(expected).max())


@by_solver
@with_constraints
@pytest.mark.parametrize("rtol", [1e-4, 1e-8])
class TestConstraints:
    def test_hold_where_steps_end(self, method, case, rtol):
        run = make_run(case, times=[case.t0, *ends_of(case)], stops=ends_of(case))
        found = solve(method, case, run, rtol=rtol, order=1)
        value, derivative = misses(case, run.times, found.y, found.S)
        largest = 1e-14 if method.name in ITERATES else LARGEST_ERRORS[method.name] * rtol
        np.testing.assert_allclose(value, 0.0, atol=largest * max(1.0, np.abs(found.y).max()))
        np.testing.assert_allclose(derivative, 0.0, atol=10.0 * largest * max(1.0, np.abs(found.S).max()))

    def test_hold_between_to_tolerance(self, method, case, rtol):
        found = solve(method, case, make_run(case), rtol=rtol, atol=1e-2 * rtol, order=1)
        value, derivative = misses(case, case.times, found.y, found.S)
        bound = LARGEST_ERRORS[method.name] * rtol
        np.testing.assert_allclose(value, 0.0, atol=bound * np.abs(found.y).max())
        np.testing.assert_allclose(derivative, 0.0, atol=bound * np.abs(found.S).max())


@by_solver
@pytest.mark.parametrize("n", [3, 20, 40])
def test_number_of_states(method, n):
    """All states fade alike; each row has the derivatives of two neighbours, so that elimination is sparse from 16."""
    rows = ["x0' = -k*x0", *(f"x{j}' + 0.5*x{j - 1}' = -k*(x{j} + 0.5*x{j - 1})" for j in range(1, n))]
    text = "\n".join([*rows, "algebraic w ~ 1", f"0 = w - x0*x{n - 1}", *(f"x{j}(0) = 1" for j in range(n))])
    y0 = np.linspace(1.0, 2.0, n)
    model, run = run_of(text, (0.7,), (*y0, 0.3), [0.5, 2.0])
    found = method.solve(model, run, rtol=1e-8, atol=1e-10, order=1)
    for row, t in enumerate((0.5, 2.0)):
        fade = np.exp(-0.7 * t)
        expected = np.append(fade * y0, fade**2 * y0[0] * y0[-1])
        np.testing.assert_allclose(found.y[row], expected, rtol=1e-6)
        np.testing.assert_allclose(found.S[row, :, 0], -t * np.append(expected[:-1], 2 * expected[-1]), rtol=1e-5)
        np.testing.assert_allclose(np.diag(found.S[row][:-1, 1:-1]), fade, rtol=1e-6)
        np.testing.assert_array_equal(found.S[row][:, -1], 0.0)  # a guess
