"""``odefit check``: what it says, and that it notices wrong derivatives."""

from __future__ import annotations

import logging

import pytest
from typer.testing import CliRunner

import odefit as of
from odefit.cli.app import app
from odefit.gallery import path_of
from odefit.report import check as module
from odefit.report.check import check


@pytest.fixture(autouse=True)
def quiet():
    """Commands let the log of compilations speak; other tests want it as it was."""
    yield
    logger = logging.getLogger("odefit.compile")
    logger.handlers.clear()
    logger.setLevel(logging.NOTSET)


def test_says_what_it_read():
    result = CliRunner().invoke(app, ["check", str(path_of("arrhenius"))])
    assert result.exit_code == 0
    for words in (
        "States: A, B, C",
        "Definitions: k1, k2, T",
        "k1ref [1/min]: estimated from 0.03, log scale",
        "E1 [J/mol]: estimated from 50000, between 10000 and 200000",
        "A0: estimated from 1, prior normal(1, 0.2), one value per experiment (3 with data)",
        "b345: 8 of A, 8 of B, 8 of C; with T = 345",
        "b370: 7 of A, 6 of B, 7 of C; scored, not fitted; with T = 370, A(0) = 1.05",
        "plant: no data: a prediction; with T = 340 + 0.5*min(t, 40), A(0) = 1",
        "15 values are missing or have weight 0",
        "Noise: standard deviations are given",
        "At the start values the objective is",
        "Derivatives agree with finite differences for all free parameters",
    ):
        assert words in result.output


def problem_of(text, parameters, values, **options):
    times = [float(i + 1) for i in range(len(values))]
    return of.Problem(
        of.Model.from_text(text), parameters, of.Measurements.from_columns(times, {"y": values}), **options
    )


def test_names_parameters_without_influence_and_few_data():
    report = check(problem_of("y = a*t + 0*b", [of.Parameter("a", 1.0), of.Parameter("b", 1.0)], [1.0]))
    assert "Warning: at the start the data do not depend on: b" in report.text
    assert "Warning: only 1 data for 2 free parameters" in report.text
    assert report.ok


def test_start_that_cannot_be_computed():
    report = check(problem_of("y = log(a - t)", [of.Parameter("a", 0.5)], [1.0, 2.0]))
    assert "At the start values the model cannot be computed: the observable 'y' has no finite value" in report.text
    assert not report.ok


def test_wrong_derivatives_are_noticed(monkeypatch):
    monkeypatch.setattr(module, "central_difference", lambda objective, x, i: 1.01 * objective.evaluate(x, 1).residual)
    report = check(problem_of("y = a*t", [of.Parameter("a", 1.0)], [1.0, 3.0]))
    assert "Derivatives DISAGREE with finite differences for: a" in report.text
    assert not report.ok


@pytest.mark.parametrize("name", ["none.toml", "."])
def test_no_such_file(name, tmp_path):
    result = CliRunner().invoke(app, ["check", str(tmp_path / name)])
    assert isinstance(result.exception, of.OdefitError)
    assert "cannot be read" in str(result.exception)
