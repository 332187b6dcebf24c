"""Many starts of one fit: what does not depend on the start is done once, and no start is kept."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from importlib import import_module

import numpy as np
import pytest

import odefit as of
from odefit.gallery import load
from odefit.problem import Problem

WORK = {
    "validate": "odefit.problem.problem",
    "slot_layout": "odefit.problem.structure",
    "expression_from_text": "odefit.model.model",
    "native_problem": "odefit.compile.structure",
    "CompiledStructure": "odefit.compile.structure",
    "_gathered": "odefit.transcribe.observation",
    "Arrangement": "odefit.transcribe.plan",
    "task_records": "odefit.transcribe.plan",
    "_matching_model": "odefit.strategy.matching_model",
}


@pytest.fixture
def counted(monkeypatch) -> Counter[str]:
    """How often each piece of work is done."""
    counts: Counter[str] = Counter()

    def counting(name: str, function):
        def call(*arguments, **options):
            counts[name] += 1
            return function(*arguments, **options)

        return call

    for name, module in WORK.items():
        monkeypatch.setattr(f"{module}.{name}", counting(name, getattr(import_module(module), name)))
    return counts


def test_planning_validation_and_reading_happen_once(counted):
    starts, problem = 1000, load("barnes")
    assert counted["validate"] == 1
    counted.clear()
    result = of.fit(problem, starts=starts, workers=1)
    assert len(result.multistart.runs) == starts
    once = dict.fromkeys(("native_problem", "CompiledStructure", "_gathered", "Arrangement", "task_records"), 1)
    assert counted == once


def subjects(n: int) -> Problem:
    """A parameter for each experiment, a rule, an expression, a prior and a derived quantity: all that is read."""
    times = np.arange(1.0, 5.0)
    names = [f"e{i}" for i in range(n)]
    values = np.exp(-0.7 * times)
    return of.Problem(
        of.Model.from_text("A' = -k*c*A\nA(0) = a0\nB = s*A\nC = B + w"),
        [
            of.Parameter("k", 1.0, 0.01, 10.0, prior="lognormal(1, 2)"),
            of.Parameter("s", 1.0, 0.1, 10.0, scale="logit"),
            of.Parameter("a0", 1.0, 0.1, 10.0, per="experiment"),
            of.Parameter("c", expression="1 + 0*s"),
            of.Parameter("w", 0.0, fixed=True),
        ],
        of.Measurements.from_columns(np.tile(times, n), {"B": np.tile(values, n)}, experiment=np.repeat(names, 4)),
        experiments=[of.Experiment(name, (of.Period(0.0, {"w": "0.5*k"}),)) for name in names],
        constraints=["log(s) ~ normal(0, 0.1)"],
        derived={"half": "log(2)/k"},
    )


CHANGES = {
    "start": lambda p: p.with_start(k=2.0),
    "single start": lambda p: p.with_start(**{"a0[e3]": 2.0}),
    "bounds": lambda p: p.with_bounds(a0=(0.2, 9.0)),
    "settings": lambda p: p.with_settings(rtol=1e-6),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changed_numbers_repeat_no_work(counted, change):
    problem = subjects(6)
    problem.evaluate()
    counted.clear()
    assert CHANGES[change](problem).evaluate().status == "ok"
    assert not counted


def test_fixing_reads_nothing_again(counted):
    problem = subjects(6)
    counted.clear()
    fixed = problem.with_fixed("s").with_free("s").with_fixed("k")
    assert not counted
    expected = [name for name in problem.structure.slots.names if name.startswith("a0")]
    assert fixed.evaluate().jacobian.shape[1] == len(expected) + 1
    assert counted["validate"] == counted["slot_layout"] == 0


@pytest.mark.parametrize("integrator", ["auto", "ddm", "bdf3"])
def test_problems_that_share_their_arrangement_have_their_own_numbers(integrator):
    """In any order, and at the same time."""
    from odefit.transcribe import SingleShooting

    problem = subjects(6).with_settings(integrator=integrator)
    changed = [
        problem,
        problem.with_start(k=2.0, w=0.1),
        problem.with_start(**{"a0[e3]": 3.0}),
        problem.with_bounds(s=(0.5, 2.0)),
    ]
    objectives = [SingleShooting(one) for one in changed]
    starts = [one.compiled.theta_start for one in objectives]
    for one, x in zip(objectives, starts, strict=True):
        one.refresh(x)
    together = [one.evaluate(x.copy(), 1) for one, x in zip(objectives, starts, strict=True)]
    for given, found in zip(changed, together, strict=True):
        apart = of.Problem(
            given.model, given.parameters, given.measurements, given.experiments, constraints=given.constraints,
            settings=given.settings, starts=given.starts,
        )  # fmt: skip
        expected = apart.evaluate()
        np.testing.assert_array_equal(found.residual, expected.residuals)
    assert not np.array_equal(together[0].residual, together[1].residual)
    assert not np.array_equal(together[0].residual, together[2].residual)


def test_no_start_is_kept():
    alive: weakref.WeakSet[Problem] = weakref.WeakSet()
    problem = load("barnes")
    made = Problem._changed

    def watched(self, **changes):
        alive.add(result := made(self, **changes))
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Problem, "_changed", watched)
        result = of.fit(problem, starts=40, workers=1)
    gc.collect()
    assert result.converged
    assert len(alive) <= 1  # that of the result
    assert len(problem.structure.kept) <= 5  # code, observations, their arrangement, standard deviations, runs
