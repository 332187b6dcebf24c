"""A(0) in an expression: the initial value, constant afterwards."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest

import odefit as of

MODEL = """
A' = -k*A
B' = c*A - B
A(0) = D*F
B(0) = 2*A(0)
c = A(0)/V
relative = A/A(0)
at t=A(0)/4: B += A(0)
"""
WRITTEN_OUT = """
A' = -k*A
B' = a/V*A - B
A(0) = a
B(0) = b
relative = A/a
at t=a/4: B += a
"""
VALUES = {"k": 0.5, "D": 3.0, "F": 0.5, "V": 2.0}
OBSERVED = ("A", "B", "relative")
TIMES = (0.0, 0.6, 1.0, 2.5)


def problem(text, values, overrides, **further):
    rows = [(time, name) for time in TIMES for name in OBSERVED]
    data = of.Measurements(
        experiment=["e"] * len(rows),
        time=[time for time, _ in rows],
        observable=[name for _, name in rows],
        value=np.zeros(len(rows)),
    )
    return of.Problem(
        model=of.Model.from_text(text),
        parameters=[of.Parameter(name, value) for name, value in values.items()],
        experiments=[of.Experiment("e", [of.Period(0.0, overrides)])],
        measurements=data,
        **further,
    )


def synthetic(made):
    return dataclasses.replace(made.measurements, value=made.evaluate().residuals.copy())


@pytest.mark.parametrize(
    ("overrides", "a", "b"),
    [({}, 1.5, 3.0), ({"A(0)": 4.0}, 4.0, 8.0), ({"A(0)": "2*D", "B(0)": "A(0)/3"}, 6.0, 2.0)],
)
def test_it_is_the_initial_value_of_the_experiment(overrides, a, b):
    own = problem(MODEL, VALUES, overrides).evaluate()
    other = problem(WRITTEN_OUT, {"k": 0.5, "V": 2.0, "a": a, "b": b}, {}).evaluate()
    np.testing.assert_allclose(own.residuals, other.residuals, rtol=1e-13)


@pytest.mark.parametrize("overrides", [{}, {"A(0)": 4.0}, {"A(0)": "2*D"}])
@pytest.mark.parametrize("name", VALUES)
def test_derivatives(name, overrides):
    made = problem(MODEL, VALUES, overrides, settings=of.Settings(rtol=1e-11, atol=1e-13))
    step = 1e-4
    ahead, behind = (made.evaluate({name: VALUES[name] + h}).residuals for h in (step, -step))
    column = made.evaluate().jacobian[:, list(VALUES).index(name)]
    np.testing.assert_allclose(column, (ahead - behind) / (2 * step), atol=2e-7)


def test_in_derived_quantities_and_replacements():
    made = problem(MODEL, VALUES, {"A(0)": 5.0, "V": "A(0)/10"}, derived={"r": "A(0)*c"})
    result = of.fit(made.with_measurements(synthetic(made)))
    assert result.derived["r[e]"].estimate == pytest.approx(5.0 * 10.0)


def test_it_survives_a_pickle():
    made = problem(MODEL, VALUES, {"A(0)": 4.0})
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(made)).evaluate().residuals, made.evaluate().residuals)


def test_traced_models_use_initial_values_in_texts():
    model = of.Model.from_function(
        lambda t, y, p: {"A": -p.k * y.A, "B": p.k * y.A}, ["A", "B"], ["k"], {"A": 3.0, "B": "A(0)/2"}
    )
    data = of.Measurements.from_columns([1.0], {"B": [0.0]})
    made = of.Problem(model, [of.Parameter("k", 1.0)], data, experiments=[of.Experiment("main")])
    assert of.simulate(made, times=[0.0])["B"].tolist() == [1.5]


@pytest.mark.parametrize(
    "text", ["A' = 1\nA(0) = B(0)\nB' = 1\nB(0) = k\nk = A(0)", "A' = 1\nA(0) = 2*A(0)"], ids=["three", "one"]
)
def test_circles_are_refused(text):
    with pytest.raises(of.OdefitError, match="need each other; remove one of these uses"):
        of.Model.from_text(text)
