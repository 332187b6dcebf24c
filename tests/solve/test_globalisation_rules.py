"""Rules of step lengths, switching and undamped steps, on functions where they can be counted."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dense_objectives import minimise_function

from odefit.solve import FullSteps, LinearStep, StepLength, SubspaceStep, Switching, Termination, TrustRegion, TrustStep
from odefit.solve.steps import SUBSPACE, StepInfo


def info(length=1.0, damping=0.0, condition=1.0, v=(1.0,)):
    v = np.array(v)
    return StepInfo(v, v, v.size, damping, length, 1.0, 1.0, condition)


class Recorded:
    """A step problem that remembers what it was asked for."""

    held = np.zeros(1, bool)

    def __init__(self, condition=1.0):
        self.condition = condition
        self.asked = []

    def step(self, radius, filter=0):
        self.asked.append((radius, filter))
        return info(length=min(radius, 10.0), damping=float(radius < 10.0), condition=self.condition)

    def shortened(self, step, alpha):
        return step._replace(v=alpha * step.v, length=alpha * step.length)


def arctangent(x):
    """Undamped steps diverge from |x| > 1.3917, and go to and fro there."""
    return np.arctan(x)


def halvings(x, tau):
    """Count the halvings that (25), (26) ask for at one point of the arctangent."""
    r, slope = math.atan(x), 1 / (1 + x * x)
    full, alpha, count = -r / slope, 1.0, 0
    while True:
        predicted = 0.5 * (r**2 - (r + alpha * slope * full) ** 2)
        if 0.5 * (r**2 - math.atan(x + alpha * full) ** 2) >= tau * predicted:
            return count, x + alpha * full
        alpha, count = alpha / 2, count + 1


@pytest.mark.parametrize("start", [0.5, 1.3, 2.0, 5.0, 40.0])
def test_halving_by_the_rules(start):
    result, objective = minimise_function(
        arctangent, (start,), step=LinearStep(), globalisation=StepLength(),
        termination=Termination(tol=0.0, tol_abs=1e-9),
    )  # fmt: skip
    assert result.status == "converged"
    trials, x = [start], start
    for _ in range(result.iterations):
        count, x_new = halvings(x, 0.1)
        full = x - math.atan(x) * (1 + x * x)
        trials += [x + 0.5**i * (full - x) for i in range(count + 1)]
        x = x_new
    seen = []
    for point, *_ in objective.log:  # a value, and its derivatives later, are one trial
        if not any(math.isclose(point[0], old, rel_tol=1e-12, abs_tol=1e-300) for old in seen):
            seen.append(point[0])
    np.testing.assert_allclose(seen, trials, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("ratio", "good"), [(0.0999, False), (0.1, True), (-1.0, False), (math.nan, False)])
@pytest.mark.parametrize("rule", [StepLength(), TrustRegion(), Switching()], ids=lambda r: type(r).__name__)
def test_tau(rule, ratio, good):
    assert rule.start(LinearStep()).is_good(ratio) is good


def test_length_begins_anew_after_a_step():
    control, problem = StepLength().start(LinearStep()), Recorded()
    lengths = []
    for _ in range(3):
        step = control.propose(problem)
        lengths.append(step.length)
        control.rejected(step)
    control.failed(step)
    lengths.append(control.propose(problem).length)
    control.taken(step, 0.5)
    lengths.append(control.propose(problem).length)
    assert lengths == [10.0, 5.0, 2.5, 10.0 / 32, 10.0]
    assert all(math.isinf(radius) for radius, _ in problem.asked)


def test_switching_to_regularisation_and_back():
    control = Switching(condition=1e-3, shortest=0.2).start(SubspaceStep())
    good, singular = Recorded(), Recorded(condition=1e-4)
    assert math.isinf(control.radius)
    control.propose(good)
    assert math.isinf(good.asked[-1][0])
    step = control.propose(singular)  # nearly singular: regularised at once, with the subspace filter
    assert singular.asked[-1] == (1.0, SUBSPACE)
    control.taken(step, 0.9)
    assert control.radius == 2.0
    control.taken(info(length=0.5, damping=0.0, condition=1e-4), 0.5)
    assert math.isfinite(control.radius)  # the region is not felt, but the problem is still singular
    control.taken(info(length=0.5, damping=0.0, condition=0.1), 0.5)
    assert math.isinf(control.radius)


def test_switching_after_too_many_halvings():
    control, problem = Switching(shortest=0.2).start(SubspaceStep()), Recorded()
    for _ in range(2):
        control.rejected(control.propose(problem))
        assert math.isinf(control.radius)
    control.rejected(control.propose(problem))  # 1/8 < 0.2
    assert control.radius == 1.0
    assert control.propose(problem).length == 1.0


@pytest.mark.parametrize(
    ("steps", "turns"),
    [
        ([1.0, -1.0, 1.0, -1.0], True),
        ([1.0, -0.9, 0.8, -0.7], True),
        ([1.0, -0.4, 0.16, -0.064], False),  # it turns, but converges
        ([1.0, 1.0, -1.0, -1.0, 1.0, 1.0], False),
        ([1.0, -1.0, 1.0, 1.0, -1.0, 1.0], False),
        ([1.0, -2.0, 4.0, -8.0], True),
    ],
)
def test_steps_that_turn_back(steps, turns):
    control = FullSteps(times=3).start(LinearStep())
    for v in steps:
        control.taken(info(v=(v,)), -1.0)
    assert bool(control.note) is turns
    assert control.is_good(-1.0) is not turns


def cycle_start():
    """Return x with x - atan(x)(1 + x^2) = -x: full steps lead from x to -x and back for ever."""
    low, high = 1.0, 2.0
    for _ in range(100):
        mid = 0.5 * (low + high)
        low, high = (mid, high) if 2 * mid > math.atan(mid) * (1 + mid**2) else (low, mid)
    return low


@pytest.mark.parametrize("n", [1, 2])
def test_cycle_of_full_steps_is_noticed_and_left(n):
    start = np.full(n, cycle_start())
    result, _ = minimise_function(arctangent, start, step=LinearStep(), globalisation=FullSteps())
    assert result.status == "converged"
    assert result.note == "full Gauss-Newton steps went to and fro; from there on they were shortened"
    np.testing.assert_allclose(result.x, 0.0, atol=1e-6)
    assert result.iterations <= 12


@pytest.mark.parametrize("kind", [TrustStep(), SubspaceStep()])
def test_trust_region_asks_for_its_radius_and_filter(kind):
    control, problem = TrustRegion(initial=3.0).start(kind), Recorded()
    control.rejected(control.propose(problem))
    control.failed(control.propose(problem))
    control.propose(problem)
    assert problem.asked == [(3.0, kind.filter), (1.5, kind.filter), (0.375, kind.filter)]
