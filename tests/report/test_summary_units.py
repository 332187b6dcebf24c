"""The unit of time in the tables of the summary."""

from __future__ import annotations

import dataclasses

import odefit as of
from odefit.gallery import load


def line_with(text: str, words: str) -> str:
    """The first line that holds the words."""
    return next(line for line in text.splitlines() if words in line)


def test_times_of_residuals_have_the_unit():
    problem = dataclasses.replace(load("barnes"), units={})
    plain = line_with(of.fit(problem).summary(), " at t = ")
    with_unit = line_with(of.fit(dataclasses.replace(problem, units={"time": "s"})).summary(), " at t = ")
    assert with_unit == plain + " s"


def test_times_are_called_as_in_the_model():
    problem = of.Problem(
        model=of.Model.from_text("effect = c/(c + K)\ndouble = 2*c/(c + K)", time="c"),
        parameters=[of.Parameter("K", 1.0)],
        measurements=of.Measurements.from_columns(
            [1.0, 2.0, 4.0], {"effect": [0.3, 0.55, 0.6], "double": [0.8, 1.1, 1.3]}
        ),
        units={"c": "uM"},
    )
    assert line_with(of.fit(problem).summary(), " at c = ").endswith(" uM")


def test_horizons_have_the_unit():
    problem = dataclasses.replace(load("lotka_volterra_iss"), units={"time": "d"})
    text = of.fit(problem, method="incremental").summary()
    assert line_with(text, "iterations  ").startswith("horizon [d]  data  iterations")
