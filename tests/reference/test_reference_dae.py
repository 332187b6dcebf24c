"""Differential-algebraic problems of the Bari test set: every integrator, in both forms of algebraic unknowns.

As states, unknowns are integrated by the methods for equations in several derivatives; inside f every method has them.
The transistor amplifier has several derivatives in an equation, and so no other form than its own.  Robertson's
reactions run to t = 1e11 and have rates of 1e4: explicit methods would need 1e15 steps, and are left out.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import odefit as of
from odefit.integrate import CHOICES, METHODS
from odefit.integrate.single_method import SingleMethod
from odefit.model.unknowns_as_states import with_unknowns_as_states

REFERENCE = json.loads((Path(__file__).parent / "dae.json").read_text(encoding="utf-8"))
PROBLEMS = REFERENCE["problems"]
SINGLE = {name: method for name, method in METHODS.items() if isinstance(method, SingleMethod)}
OF_EQUATIONS = [name for name, method in SINGLE.items() if method.equations_kernel is not None]
EXPLICIT = {name for name, method in SINGLE.items() if not method.implicit}
CASES = [
    *((name, "states", method) for name in PROBLEMS for method in OF_EQUATIONS),
    *(("akzo", "inside", method) for method in CHOICES),
    *(("robertson", "inside", method) for method in CHOICES if method not in EXPLICIT),
]


@cache
def problem_of(name: str, form: str) -> of.Problem:
    content = PROBLEMS[name]
    model = of.Model.from_text("\n".join(content["equations"]))
    if form == "states":
        model = with_unknowns_as_states(model)
    parameters = tuple(of.Parameter(key, value) for key, value in content["parameters"].items())
    return of.Problem(model, parameters, of.Measurements.from_columns([content["end"]], {model.states[0]: [0.0]}))


def error_at_the_end(name: str, form: str, rtol: float, integrator: str) -> float:
    """Return the largest error of a state or unknown at the end, over atol + rtol |y|."""
    content = PROBLEMS[name]
    atol = content["atol_over_rtol"] * rtol
    problem = problem_of(name, form).with_settings(integrator=integrator, rtol=rtol, atol=atol, max_steps=10**6)
    frame = of.simulate(problem, times=[content["end"]])
    right = np.array(list(content["states"].values()))
    found = frame[list(content["states"])].to_numpy()[0]
    return float(np.max(np.abs(found - right) / (atol + rtol * np.abs(right))))


@pytest.mark.parametrize("rtol", REFERENCE["tolerances"])
@pytest.mark.parametrize(("name", "form", "integrator"), CASES)
def test_end_values_are_those_of_the_test_set(name, form, integrator, rtol):
    bounds = PROBLEMS[name]["bounds"]
    assert error_at_the_end(name, form, rtol, integrator) < bounds.get(integrator, bounds["other"])


@pytest.mark.parametrize(("name", "form"), [("transistor", "states"), ("akzo", "states"), ("robertson", "states")])
def test_equations_are_those_of_the_test_set(name, form):
    """A wrong digit in a constant would show: tighter tolerances come closer, down to the published digits."""
    loose, tight = (error_at_the_end(name, form, rtol, "ddm") * rtol for rtol in (1e-6, 1e-10))
    assert tight < 1e-2 * loose


def test_forms_are_different_models():
    """What is compared above is not one form twice: as states the unknown is integrated, inside f it is not."""
    assert problem_of("akzo", "states").model.states == ("y1", "y2", "y3", "y4", "y5", "y6")
    assert problem_of("akzo", "inside").model.states == ("y1", "y2", "y3", "y4", "y5")
