"""Models of equations in several derivatives, from text to fit.

Each has a twin in explicit form, in which the algebraic unknown is a definition and derivatives are solved for by hand:
both must have the same residuals and derivatives, whatever happens in them.
"""

from __future__ import annotations

import dataclasses
import pickle
import re

import numpy as np
import pytest

import odefit as of
from odefit.errors import OdefitError, UnsupportedError

EQUATIONS = """
(a + w^2)*x' + 0.3*z' = -k*x*(a + w^2)
z' = x - c*w*z
algebraic w ~ 0.3
0 = exp(w) - 1 - x - S
S = 0.1*t
x(0) = 1
z(0) = 0.5
"""
TWIN = """
x' = -k*x - 0.3*(x - c*w*z)/(a + w^2)
z' = x - c*w*z
w = log(1 + x + S)
S = 0.1*t
x(0) = 1
z(0) = 0.5
"""
VALUES = {"a": 1.2, "k": 0.6, "c": 0.4}
TIMES = np.array([0.0, 0.4, 0.9, 1.6, 2.3, 3.1, 4.0])
TABLE = of.Table([0.0, 0.8, 2.0, 5.0], [0.1, 0.6, 0.3, 0.5])
HELD = of.Table([0.0, 1.1, 2.3], [0.1, 0.7, 0.2], kind="hold", outside="hold")


def problem(text=EQUATIONS, values=VALUES, experiments=(of.Experiment("main"),), observed=("x", "z", "w"), times=TIMES, **rest) -> of.Problem:
    names = [experiment.name for experiment in experiments]
    rows = [(name, time, one) for name in names for one in observed for time in times]
    data = of.Measurements(
        experiment=[row[0] for row in rows], time=[row[1] for row in rows], observable=[row[2] for row in rows],
        value=np.zeros(len(rows)),
    )  # fmt: skip
    parameters = [of.Parameter(name, value) for name, value in values.items()]
    return of.Problem(of.Model.from_text(text), parameters, data, experiments, **rest)


def changed(old: str, new: str) -> tuple[str, str]:
    assert old in EQUATIONS
    return EQUATIONS.replace(old, new), TWIN.replace(old, new)


def added(lines: str) -> tuple[str, str]:
    return EQUATIONS + lines, TWIN + lines


TWINS = {
    "plain": ((EQUATIONS, TWIN), {}),
    "a start alone": ((EQUATIONS, TWIN), {"times": [0.0]}),
    "a start alone, with a condition": (changed("S = 0.1*t", "S = if(t < 1, 0.2, 0.5)"), {"times": [0.0]}),
    "a start alone, with a table": (changed("S = 0.1*t", "S = 0.1 + H(t)"), {"times": [0.0], "tables": {"H": HELD}}),
    "experiments that change a coefficient": (
        (EQUATIONS, TWIN),
        {
            "experiments": (
                of.Experiment("one", [of.Period(0.0, {"a": 2.0})]),
                of.Experiment("two", [of.Period(0.0, {"S": 0.4, "x(0)": 1.5})]),
                of.Experiment("three", [of.Period(0.0), of.Period(1.2, {"a": 3.0, "S": 0.3})]),
            ),
        },
    ),
    "an event": (added("at t=1.3: x += 0.5*w, k = 2*k\n"), {}),
    "an event whose time is unknown": (added("at t=T: x += D\n"), {"values": {**VALUES, "T": 1.3, "D": 0.7}}),
    "an event at the start": (added("at t=0: x += D\n"), {"values": {**VALUES, "D": 0.7}}),
    "an event at the end": (added("at t=4: x += D\n"), {"values": {**VALUES, "D": 0.7}}),
    "an event on a condition": (added("when w < 0.45: x += D\n"), {"values": {**VALUES, "D": 0.7}}),
    "a condition that is true at first": (added("when w > 0.1: z += 1\n"), {}),
    "a condition that the guess would set off": (added("when w > 0.5: z += 1\n"), {}),
    "doses": (
        (EQUATIONS, TWIN),
        {
            "values": {**VALUES, "D": 0.7, "lag": 0.2},
            "experiments": (
                of.Experiment("main", events=(of.Dose(0.0, "z", "D", every=1.0, count=3), of.Dose(0.5, "x", 0.3))),
            ),
            "lag": {"z": "lag"},
        },
    ),
    "infusions": (
        (EQUATIONS, TWIN),
        {
            "values": {**VALUES, "D": 0.7, "T": 0.8},
            "experiments": (
                of.Experiment("main", events=(of.Dose(0.3, "z", "D", duration="T"), of.Dose(1.5, "x", 1.0, duration=1.0))),
            ),
        },
    ),
    "a table in a coefficient": (changed("a + w^2", "a + L(t)*w^2"), {"tables": {"L": TABLE}}),
    "a table in a constraint": (changed("S = 0.1*t", "S = L(t) + H(t)"), {"tables": {"L": TABLE, "H": HELD}}),
    "a condition in time": (changed("S = 0.1*t", "S = if(t < 1.1, 0.1, 0.5)"), {}),
    "a condition in time that moves": (
        changed("S = 0.1*t", "S = if(t < lag, 0.1*t, 0.5)"), {"values": {**VALUES, "lag": 1.2}},
    ),
    "a condition on the unknown": (changed("-k*x", "-k*if(w > 0.6, 1, 0.9)*x"), {}),
    "aggregates": (
        added("area = integral(w, over=t)\ntop = max(w*t, over=t)\naverage = mean(x, over=t)\n"),
        {"observed": ("area", "top", "average", "x"), "times": TIMES[1:]},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("texts", "rest"), TWINS.values(), ids=TWINS)
def test_equations_and_their_explicit_twin_agree(texts, rest):
    settings = of.Settings(rtol=1e-9, atol=1e-11)
    found, right = (
        problem(text, settings=dataclasses.replace(settings, integrator=integrator), **rest).evaluate()
        for text, integrator in zip(texts, ("auto", "dopri5"), strict=True)
    )
    np.testing.assert_allclose(found.residuals, right.residuals, atol=3e-7)
    np.testing.assert_allclose(found.jacobian, right.jacobian, atol=3e-6 * max(1.0, np.abs(right.jacobian).max()))


def measured(made: of.Problem, sigma: float = 0.003, seed: int = 0) -> of.Problem:
    """Return the problem with data that it simulates, and noise."""
    clean = -made.evaluate(order=0).residuals
    noise = sigma * np.random.default_rng(seed).normal(size=clean.size)
    data = dataclasses.replace(made.measurements, value=noise - clean)
    return dataclasses.replace(made, measurements=data)


def started_at(made: of.Problem, **values) -> of.Problem:
    parameters = [dataclasses.replace(p, start=values.get(p.name, p.start)) for p in made.parameters]
    return dataclasses.replace(made, parameters=parameters)
