"""Barnes' problem against independently computed minima."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

import odefit as of
from odefit.gallery import load, path_of
from odefit.solve import SOLVERS

REFERENCE = json.loads((Path(__file__).parent / "barnes.json").read_text())
MINIMA = REFERENCE["minima"]
EXACT = REFERENCE["exact_last_point"]
OTHER = REFERENCE["other_minima"]


@pytest.mark.parametrize("name", MINIMA)
def test_default_fit_finds_the_minimum(name):
    result = of.fit(of.load(path_of(name)))
    expected = MINIMA[name]
    assert result.status == "converged"
    assert result.objective == pytest.approx(expected["objective"], rel=REFERENCE["tolerance"])
    assert list(result.estimates) == list(expected["parameters"])
    for parameter, value in expected["parameters"].items():
        assert result.estimates[parameter] == pytest.approx(value, rel=REFERENCE["tolerance"])
        assert result.parameters[parameter].verdict in ("determined", "not distinguishable from zero")
    assert not [notice for notice in result.warnings if notice.code.startswith(("convergence", "solver"))]


@pytest.mark.parametrize(("name", "most"), REFERENCE["iterations"]["most"].items())
def test_number_of_iterations(name, most):
    result = of.fit(of.load(path_of(name)).with_settings(tol=REFERENCE["iterations"]["tol"]))
    assert result.status == "converged"
    assert result.iterations <= most


@pytest.mark.parametrize("name", MINIMA)
def test_objective_at_the_minimum(name):
    """The reference points themselves have the reference values."""
    found = of.evaluate(of.load(path_of(name)), MINIMA[name]["parameters"])
    assert found.objective == pytest.approx(MINIMA[name]["objective"], rel=REFERENCE["tolerance"])


def test_objective_at_the_start():
    start = REFERENCE["start"]
    found = of.evaluate(of.load(path_of("barnes")), start["parameters"])
    assert found.objective == pytest.approx(start["objective"], rel=start["tolerance"])


@pytest.mark.parametrize("rtol", [1e-5, 1e-7, 1e-10])
@pytest.mark.parametrize("name", MINIMA)
def test_minimum_does_not_depend_on_the_tolerance_of_integration(name, rtol):
    problem = of.load(path_of(name)).with_settings(rtol=rtol, atol=1e-2 * rtol)
    result = of.fit(problem)
    assert result.status == "converged"
    assert result.objective == pytest.approx(MINIMA[name]["objective"], rel=max(REFERENCE["tolerance"], 10 * rtol))


@pytest.mark.parametrize("scale", ["log", "log10"])
@pytest.mark.parametrize("name", MINIMA)
def test_minimum_does_not_depend_on_the_scale(name, scale):
    problem = of.load(path_of(name))
    parameters = tuple(of.Parameter(p.name, p.start, scale=scale) for p in problem.parameters)
    result = of.fit(of.Problem(problem.model, parameters, problem.measurements))
    assert result.status == "converged"
    for parameter, value in MINIMA[name]["parameters"].items():
        assert result.estimates[parameter] == pytest.approx(value, rel=2e-6)


@pytest.mark.parametrize("start", [(0.3, 0.3, 0.3), (3.0, 3.0, 3.0)])
def test_far_starts_are_reported_honestly(start):
    """A local method may end in another minimum; what it calls converged is one, and the numbers belong to it."""
    problem = of.load(path_of("barnes")).with_start(**dict(zip(("k1", "k2", "k3"), start, strict=True)))
    result = of.fit(problem)
    found = of.evaluate(problem, result.estimates)
    assert found.objective == pytest.approx(result.objective, rel=1e-6)
    assert result.objective < of.evaluate(problem).objective
    gradient = found.jacobian.T @ found.residuals
    scale = np.linalg.norm(found.jacobian, axis=0) * np.linalg.norm(found.residuals)
    if result.status == "converged":
        assert (np.abs(gradient) <= 1e-5 * scale).all()
        known = [MINIMA["barnes"], *OTHER]
        assert any(result.objective == pytest.approx(m["objective"], rel=1e-5) for m in known)
    else:
        assert result.warnings[0].code == f"convergence.{result.status}"
        assert not result.converged


@pytest.mark.parametrize("other", OTHER, ids=lambda m: str(m["from"]))
def test_other_minima_are_stationary(other):
    found = of.evaluate(of.load(path_of("barnes")), other["parameters"])
    assert found.objective == pytest.approx(other["objective"], rel=1e-6)
    gradient = found.jacobian.T @ found.residuals
    assert np.linalg.norm(gradient) <= 1e-4 * np.linalg.norm(found.jacobian) * np.linalg.norm(found.residuals)


def agrees(result, expected):
    assert result.status == "converged"
    assert result.objective == pytest.approx(expected["objective"], rel=expected["tolerance"])
    for parameter, value in expected["parameters"].items():
        assert result.estimates[parameter] == pytest.approx(value, rel=expected["tolerance"])


@pytest.mark.parametrize("solver", SOLVERS)
def test_infinite_weight_is_met_exactly(solver):
    """Case (c): of two minima the better one, by raising the weight in stages."""
    result = of.fit(load("barnes/c"), solver=solver)
    agrees(result, EXACT)
    last = of.simulate(load("barnes/c"), result.estimates).iloc[-1]
    data = load("barnes/c").measurements
    assert [last.y1, last.y2] == pytest.approx(data.value[np.isinf(data.weight)].tolist(), rel=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("weight", EXACT["weights"])
def test_large_weights(weight, solver):
    problem = load("barnes/c")
    data = problem.measurements
    weights = np.where(np.isinf(data.weight), float(weight), data.weight)
    problem = problem.with_measurements(dataclasses.replace(data, weight=weights))
    agrees(of.fit(problem, solver=solver), EXACT["weights"][weight])
