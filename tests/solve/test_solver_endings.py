"""How a minimisation ends: every status, its words, and the point that comes with it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from benchmarks.more_garbow_hillstrom_functions import beale, kowalik_osborne, rosenbrock
from dense_objectives import DenseObjective, minimise, minimise_function

from odefit.solve import Scaling, SolverResult, Termination, TrustRegion, TrustStep
from odefit.solve.dense import DenseLinear
from odefit.solve.steps import StepInfo


def valley(x):
    """x1 has its best value at infinity; x0 is fixed by the data."""
    return np.array([x[0] - 1.0, 1.0 + np.exp(-x[1]), 0.5])


def test_flat_valley_names_the_unknown():
    result, _ = minimise_function(valley, (3.0, 1.0))
    assert result.status == "flat-valley"
    assert not result.converged
    assert (
        result.message
        == "the objective hardly changes any more, but 'x1' keeps moving: from here the data do not fix it"
    )
    assert result.x[0] == pytest.approx(1.0, rel=1e-3)
    assert result.x[1] > 5.0


def test_no_influence():
    result, objective = minimise_function(lambda x: np.array([1.0, 2.0]) + 0 * x[0], (1.0, 2.0, 3.0))
    assert result.status == "no-influence"
    assert result.message == "the data do not depend on any free parameter near this point"
    assert (result.iterations, len(objective.log), result.rank) == (0, 1, 0)
    assert result.value == 2.5


def test_no_influence_with_zero_residual():
    result, _ = minimise_function(lambda x: np.zeros(2) + 0 * x[0], (1.0, 2.0))
    assert result.status == "no-influence"


@pytest.mark.parametrize("limit", [1, 3, 5])
def test_iteration_limit(limit):
    result, _ = minimise_function(
        kowalik_osborne, (0.25, 0.39, 0.415, 0.39), termination=Termination(max_iterations=limit)
    )
    assert result.status == "iteration-limit"
    assert result.message == f"the limit of {limit} iterations was reached"
    assert result.iterations == len(result.trace) == limit
    assert result.linear is not None
    assert result.value == result.trace[-1].objective


def test_limit_that_is_just_enough():
    needed = minimise_function(beale, (1.0, 1.0))[0].iterations
    result, _ = minimise_function(beale, (1.0, 1.0), termination=Termination(tol_abs=1e-9, max_iterations=needed))
    assert result.status == "converged"


def test_zero_residual_at_the_start():
    result, objective = minimise_function(rosenbrock, (1.0, 1.0))
    assert result.status == "converged"
    assert result.message == "the residual is zero"
    assert (result.iterations, len(objective.log), result.value) == (0, 1, 0.0)


def test_zero_residual_is_found_without_an_absolute_test():
    """With exact data the relative test alone may never fire: rounding must end the search."""
    result, _ = minimise_function(beale, (1.0, 1.0), termination=Termination(tol=1e-6))
    assert result.status == "converged"
    assert result.value < 1e-25


def test_absolute_test():
    result, _ = minimise_function(beale, (1.0, 1.0), termination=Termination(tol=1e-12, tol_abs=1e-3))
    assert result.status == "converged"
    assert "is below rounding" in result.message
    assert 0.0 < result.value < 1e-6


def test_relative_test():
    result, _ = minimise_function(kowalik_osborne, (0.25, 0.39, 0.415, 0.39))
    assert result.message.startswith("the linearised model could remove only the fraction ")


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-6])
def test_tolerance_bounds_what_is_left(tol):
    result, _ = minimise_function(kowalik_osborne, (0.25, 0.39, 0.415, 0.39), termination=Termination(tol=tol))
    assert result.status == "converged"
    assert np.linalg.norm(result.evaluation.linear.triangle().b) <= tol * math.sqrt(2 * result.value)


def test_tolerance_beyond_rounding():
    """A reduction by 1e-20 of the objective cannot be seen; the search ends all the same, and says why."""
    result, _ = minimise_function(kowalik_osborne, (0.25, 0.39, 0.415, 0.39), termination=Termination(tol=1e-10))
    assert result.status == "converged"
    assert result.message == "no reduction that could be told from rounding is left"
    assert np.linalg.norm(result.evaluation.linear.triangle().b) <= 1.1e-7 * math.sqrt(2 * result.value)


def test_failure_at_the_start():
    result, objective = minimise_function(rosenbrock, (-1.2, 1.0), fails=lambda x: "there is a pole at t = 3")
    assert result.status == "failed"
    assert result.message == "the model cannot be computed at the start: there is a pole at t = 3"
    assert math.isnan(result.value)
    assert (result.iterations, len(objective.log), result.rank) == (0, 1, 0)
    np.testing.assert_array_equal(result.x, [-1.2, 1.0])
    assert not result.active.any()
    assert result.linear is None


def test_failures_on_the_way_are_overcome():
    """No value where x0 > 1.5 or x1 < 0: long steps fall in there, shorter ones do not."""

    def fails(x):
        return "outside" if x[0] > 1.5 or x[1] < 0.0 else ""

    result, objective = minimise_function(
        rosenbrock, (-1.2, 0.2), fails=fails, globalisation=TrustRegion(initial=100.0)
    )
    assert result.status == "converged"
    np.testing.assert_allclose(result.x, 1.0, rtol=1e-6)
    assert any(math.isnan(value) for *_, value in objective.log)


@pytest.mark.parametrize("edge", [3.2, 3.01, 3.0001])
def test_solution_near_the_edge_of_what_can_be_computed(edge):
    result, _ = minimise_function(
        beale, (1.0, 1.0), fails=lambda x: "outside" if x[0] > edge else "", globalisation=TrustRegion(initial=10.0)
    )
    assert result.status == "converged"
    np.testing.assert_allclose(result.x, [3.0, 0.5], rtol=1e-5)


def test_everything_but_the_start_fails():
    start = np.array([-1.2, 1.0])
    result, objective = minimise_function(
        rosenbrock, start, fails=lambda x: "" if np.array_equal(x, start) else "a pole at t = 3"
    )
    assert result.status == "stalled"
    assert result.message == (
        "no step, however short, reduces the objective further (the last failure: a pole at t = 3)"
    )
    np.testing.assert_array_equal(result.x, start)
    assert result.value == pytest.approx(0.5 * np.sum(rosenbrock(start) ** 2))
    assert len(objective.log) < 500


def test_wrong_derivatives_end_in_stalled():
    """The linearisation promises descent where there is none."""

    class Uphill(DenseObjective):
        def evaluate(self, x, order):
            found = super().evaluate(x, order)
            if found.linear is not None:
                return found._replace(linear=DenseLinear(found.linear.jacobian, -found.residual))
            return found

    result = minimise(Uphill(lambda x: np.array([x[0] - 5.0, 1.0]), ("k",)), [1.0])
    assert result.status == "stalled"
    assert result.message == "no step, however short, reduces the objective further"
    assert result.x[0] == 1.0


class InterruptedObjective(DenseObjective):
    """From evaluation number `after` on every evaluation reports that a stop was asked for."""

    def __init__(self, function, after: int) -> None:
        super().__init__(function, ("x0", "x1"))
        self.after = after

    def evaluate(self, x, order):
        if len(self.log) + 1 >= self.after:
            return self.failed(x, order, "the integration was stopped", interrupted=True)
        return super().evaluate(x, order)


class InterruptedOnMovingGrids(InterruptedObjective):
    """The same where grids must follow the point: stops fall into renewals too."""

    def refresh(self, x):
        self.centre = x.copy()
        return super().refresh(x)

    def error_ratio(self, x):
        return 0.5 + 30.0 * float(np.linalg.norm(x - self.centre))


@pytest.mark.parametrize("kind", [InterruptedObjective, InterruptedOnMovingGrids])
@pytest.mark.parametrize("after", range(1, 40))
def test_interrupted_at_any_evaluation(kind, after):
    undisturbed = minimise(kind(rosenbrock, 10**9), (-1.2, 1.0))
    objective = kind(rosenbrock, after)
    result = minimise(objective, (-1.2, 1.0))
    if after > undisturbed.evaluations:
        assert result.status == "converged"
        return
    assert result.status == "interrupted"
    assert not result.converged
    assert len(objective.log) <= after + 2
    if after == 1:
        assert math.isnan(result.value)
        np.testing.assert_array_equal(result.x, [-1.2, 1.0])
    else:
        assert result.value == pytest.approx(0.5 * np.sum(rosenbrock(result.x) ** 2), rel=1e-12)
        accepted = [row.objective for row in result.trace]
        assert result.value <= min([0.5 * np.sum(rosenbrock(np.array([-1.2, 1.0])) ** 2), *accepted])


def test_derivatives_lost_at_an_accepted_point():
    """A value without derivatives cannot be continued from; the result says so and keeps what is known."""

    class NoDerivatives(DenseObjective):
        def evaluate(self, x, order):
            if order and len(self.log) > 0:
                return self.failed(x, order, "a derivative is not a finite number")
            return super().evaluate(x, order)

    objective = NoDerivatives(rosenbrock, ("a", "b"))
    result = minimise(objective, (-1.2, 1.0))
    assert result.status in ("failed", "stalled")
    assert "a derivative is not a finite number" in result.message
    assert result.value <= 0.5 * np.sum(rosenbrock(np.array([-1.2, 1.0])) ** 2)


TERMINATION = Termination(tol=1e-3, tol_abs=1e-6, flat=1e-4, rounding=1e-14)


@pytest.mark.parametrize(
    ("decrement", "norm", "resolution", "words"),
    [
        (1e-3, 1.0, 0.0, "only the fraction 1.0e-03 of the residual"),
        (1.001e-3, 1.0, 0.0, ""),
        (0.0, 0.0, 0.0, "the residual is zero"),
        (0.0, 5.0, 0.0, "only the fraction 0.0e+00 of the residual"),
        (1e-6, 1e-5, 0.0, "(1.0e-06) is below rounding"),
        (1.1e-6, 1e-5, 0.0, ""),
        (1.1e-6, 1e-5, 2e-5, "(1.1e-06) is below the integration error"),
        (1.1e-6, 1e-5, 1e-5, ""),
        (math.nan, 1.0, 0.0, ""),
    ],
)
def test_convergence_tests(decrement, norm, resolution, words):
    found = TERMINATION.convergence(decrement, norm, resolution)
    assert found.endswith(words)
    assert bool(found) == bool(words)


@pytest.mark.parametrize(
    ("promised", "gained", "flat"), [(1e-4, 1e-4, True), (1e-4, 2e-4, False), (2e-4, 1e-4, False), (0.0, -1.0, True)]
)
def test_flatness(promised, gained, flat):
    assert TERMINATION.is_flat(promised, gained, 1.0) is flat


@pytest.mark.parametrize(("promised", "rounding"), [(1e-14, True), (1.1e-14, False), (-1.0, True)])
def test_rounding(promised, rounding):
    assert TERMINATION.is_rounding(promised, 1.0) is rounding


REGION = TrustRegion(accept=0.1, poor=0.25, good=0.75)


@pytest.mark.parametrize(
    ("radius", "length", "ratio", "expected"),
    [(1.0, 0.8, 0.2, 0.4), (1.0, 0.8, 0.25, 1.0), (1.0, 0.8, 0.75, 1.0), (1.0, 0.8, 0.9, 1.6), (9.0, 0.8, 0.9, 9.0)],
)
def test_radius_after_success(radius, length, ratio, expected):
    control = TrustRegion(initial=radius).start(TrustStep())
    control.taken(step_of_length(length), ratio)
    assert control.radius == pytest.approx(expected)


def step_of_length(length):
    return StepInfo(np.zeros(1), np.zeros(1), 1, 0.0, length, 1.0, 1.0, 1.0)


def test_radius_after_trouble():
    control = TrustRegion().start(TrustStep())
    control.rejected(step_of_length(0.8))
    assert control.radius == 0.4
    control.failed(step_of_length(0.8))
    assert control.radius == 0.2


@pytest.mark.parametrize(
    ("x", "start", "logarithmic", "expected"),
    [
        (3.0, 1.0, False, 3.0),
        (-3.0, 1.0, False, 3.0),
        (0.0, 5.0, False, 0.5),
        (0.01, -5.0, False, 0.5),
        (1e9, 1.0, True, 1.0),
        (0.0, 0.0, True, 1.0),
    ],
)
def test_scales(x, start, logarithmic, expected):
    scaling = Scaling(np.array([start]), np.array([logarithmic]))
    assert scaling.of(np.array([x]))[0] == expected


def test_result_is_converged_only_by_its_status():
    result, _ = minimise_function(rosenbrock, (-1.2, 1.0))
    assert isinstance(result, SolverResult)
    assert result.converged is (result.status == "converged")
