"""Chaotic models over a long time: a fit that minimised nothing says so."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import odefit as of
from odefit.cli.app import app

LORENZ = "x' = s*(y - x)\ny' = x*(r - z) - y\nz' = x*y - b*z\nx(0) = -8\ny(0) = 7\nz(0) = 27"
TRUTH = {"s": 10.0, "r": 28.0, "b": 8 / 3}
T = np.linspace(0.0, 50.0, 501)[1:]


def lorenz(**start: float) -> of.Problem:
    model = of.Model.from_text(LORENZ)
    parameters = [of.Parameter(name, value) for name, value in TRUTH.items()]
    nothing = of.Measurements.from_columns([1.0], {name: [0.0] for name in "xyz"})
    path = of.simulate(of.Problem(model, parameters, nothing), times=T)
    rng = np.random.default_rng(0)
    data = {name: path[name].to_numpy() + 0.5 * rng.standard_normal(T.size) for name in "xyz"}
    return of.Problem(model, parameters, of.Measurements.from_columns(T, data)).with_start(**start)


@pytest.mark.parametrize("start", [{"s": 12.0}, {"r": 35.0}, {"b": 3.0}, {}])
def test_lorenz_to_fifty(start):
    result = of.fit(lorenz(**start))
    assert not result.converged
    if result.iterations == 0:
        assert result.status == "too-sensitive"
        assert "nothing tells whether this is a minimum" in result.message
        assert result.to_dict()["status"] == "too-sensitive"
        assert 'method = "incremental"' in " ".join(w.text for w in result.warnings)
        assert "too-sensitive" in result.summary() or "did not converge" in result.summary()


def test_exit_code(tmp_path):
    lorenz(r=35.0).save(tmp_path / "lorenz.toml")
    found = CliRunner().invoke(app, ["fit", str(tmp_path / "lorenz.toml"), "--json"])
    assert found.exit_code == 3
    assert json.loads(found.stdout)["status"] == "too-sensitive"


@pytest.mark.parametrize("factor", [1e-300, 1e-200, 1e-100, 1e-18])
def test_a_model_with_almost_no_influence_is_fitted_all_the_same(factor):
    """``y = 1 + f k t`` is linear in k: the minimum is where it is, however large that is."""
    t = np.linspace(1.0, 5.0, 9)
    y = 1.0 + 0.3 * np.cos(t)
    problem = of.Problem(
        of.Model.from_text(f"y = 1 + {factor!r}*k*t"),
        [of.Parameter("k", 1.0)],
        of.Measurements.from_columns(t, {"y": y}),
    )
    result = of.fit(problem)
    assert result.converged
    assert result.estimates["k"] * factor == pytest.approx(t @ (y - 1.0) / (t @ t), rel=1e-6)
