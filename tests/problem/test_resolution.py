"""What expressions come to in an experiment."""

from __future__ import annotations

import math

import pytest

import odefit as of

MODEL = of.Model.from_text("A' = -k*A\nk = 0.3\nT = 320\nA(0) = 1")
DATA = of.Measurements.from_columns([0.0, 1.0], {"A": [1.0, 0.5]})


@pytest.mark.parametrize("T", [300.0, "250 + 50", "300 + 0*t"])
def test_a_computed_parameter_sees_what_the_experiment_replaces(T):
    """It does not stand in the equations, and is made of a definition that the experiment sets."""
    parameters = (of.Parameter("half", expression="0.001*T"), of.Parameter("rate", expression="2*half"))
    experiment = of.Experiment("main", (of.Period(0.0, {"T": T, "k": "rate"}),))
    problem = of.Problem(MODEL, parameters, DATA, (experiment,))
    assert of.simulate(problem, times=[0.0, 1.0])["A"].iloc[-1] == pytest.approx(math.exp(-0.6), rel=1e-6)
