"""Algebraic unknowns inside the equations and as states of a differential-algebraic model: the same fits."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import odefit as of
from odefit.errors import LanguageError, ModelError
from odefit.gallery import path_of

TIMES = np.linspace(0.0, 3.0, 12)
CUBIC = "x' = -k*x*w\nalgebraic w ~ 0.3\n0 = w^3 + c*w - x - 0.1*sin(t)\nx(0) = 1"
RING = "\n".join(
    [
        *(f"algebraic w{i} ~ 0.5" for i in range(60)),
        *(f"0 = w{i} + 0.1*w{(i + 1) % 60}^2 - x" for i in range(60)),
        "x' = -k*w0",
        "x(0) = 1",
    ]
)


def as_states(name: str, folder) -> of.Problem:
    """Load a problem of the gallery with its unknowns as states."""
    path = path_of(name)
    copy = folder / "copy"
    shutil.copytree(path.parent, copy)
    text = (copy / path.name).read_text()
    assert "[model]\n" in text
    (copy / path.name).write_text(text.replace("[model]\n", '[model]\nunknowns = "states"\n'))
    return of.load(copy / path.name)


@pytest.mark.parametrize("name", ["dow/dae", "urease", "shock_front/implicit"])
def test_fits_of_the_gallery(name, tmp_path):
    inside, states = of.load(path_of(name)), as_states(name, tmp_path)
    assert inside.model.algebraic
    assert not states.model.algebraic
    assert states.model.algebraic_states == inside.model.algebraic
    first, second = (of.fit(problem.with_settings(rtol=1e-9)) for problem in (inside, states))
    assert first.converged
    assert second.converged
    for parameter, value in first.estimates.items():
        assert second.estimates[parameter] == pytest.approx(value, rel=1e-6)
    errors = second.standard_errors()
    for parameter, value in first.standard_errors().items():
        assert errors[parameter] == pytest.approx(value, rel=1e-4)


@pytest.mark.parametrize("unknowns", ["auto", "inside", "states"])
def test_python_models(unknowns):
    def rhs(t, y, p):
        return {"x": -p.k * y.x * y.w}

    def equations(t, y, p):
        return {"balance": y.w**3 + p.c * y.w - y.x}

    model = of.Model.from_function(
        rhs, ["x"], ["k", "c"], {"x": 1.0}, algebraic={"w": 0.3}, equations=equations, unknowns=unknowns
    )
    assert bool(model.mass) is (unknowns == "states")
    data = of.Measurements.from_columns(TIMES, {"x": np.exp(-0.4 * TIMES)})
    problem = of.Problem(model, (of.Parameter("k", 1.0), of.Parameter("c", 1.0, fixed=True)), data)
    assert of.fit(problem).estimates["k"] == pytest.approx(0.76004425, rel=1e-6)


def test_more_than_fifty_are_states():
    model = of.Model.from_text(RING)
    assert len(model.algebraic_states) == 60
    problem = of.Problem(
        model, (of.Parameter("k", 1.0),), of.Measurements.from_columns(TIMES, {"x": np.exp(-0.7 * TIMES)})
    )
    # all w are equal: w + 0.1 w^2 = x
    result = of.fit(problem)
    assert result.converged
    alike = "x' = -k*(sqrt(1 + 0.4*x) - 1)/0.2\nx(0) = 1"
    other = of.fit(of.Problem(of.Model.from_text(alike), problem.parameters, problem.measurements))
    assert result.estimates["k"] == pytest.approx(other.estimates["k"], rel=1e-6)


def test_too_many_inside():
    with pytest.raises(LanguageError, match='60 algebraic unknowns need each other .*unknowns = "states"'):
        of.Model.from_text(RING, unknowns="inside")


def test_other_places_are_refused():
    with pytest.raises(ModelError, match="'inside', 'states' and 'auto', not 'outside'"):
        of.Model.from_text(CUBIC, unknowns="outside")


def test_saved_and_read_again(tmp_path):
    data = of.Measurements.from_columns(TIMES, {"x": np.exp(-0.4 * TIMES)})
    model = of.Model.from_text(CUBIC, unknowns="states")
    problem = of.Problem(model, (of.Parameter("k", 1.0), of.Parameter("c", 1.0)), data)
    problem.save(tmp_path / "cubic.toml")
    again = of.load(tmp_path / "cubic.toml")
    assert again.model.algebraic_states == ("w",)
    assert of.simulate(again, times=[1.0])["w"][0] == of.simulate(problem, times=[1.0])["w"][0]
