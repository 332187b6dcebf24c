"""Comparison of fits of the same data."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import odefit as of
from odefit.errors import ProblemError

T = np.linspace(0.1, 4.0, 30)
RNG = np.random.default_rng(1)
VALUES = 1 + 2 * T + 0.2 * RNG.normal(size=T.size)


def fitted(text, *parameters, values=VALUES, title="", **data):
    made = [p if isinstance(p, of.Parameter) else of.Parameter(p, 0.5) for p in parameters]
    measurements = of.Measurements.from_columns(T, {"y": values}, **data)
    return of.fit(of.Problem(of.Model.from_text(text), made, measurements, title=title))


@pytest.fixture(scope="module")
def line():
    return fitted("y = a + b*t", "a", "b", title="line")


@pytest.fixture(scope="module")
def parabola():
    return fitted("y = a + b*t + c*t^2", "a", "b", "c", title="parabola")


def test_nested_models(line, parabola):
    found = of.compare(parabola, line)
    assert found.best == "line"
    assert [row.name for row in found.rows] == ["line", "parabola"]
    assert found.rows[0].delta == 0.0
    assert found.rows[1].delta == pytest.approx(parabola.criteria.aicc - line.criteria.aicc)
    [test] = found.tests
    statistic = 30 * np.log(line.sum_of_squares / parabola.sum_of_squares)
    assert (test.smaller, test.larger, test.dof, test.note) == ("line", "parabola", 1, "")
    assert test.statistic == pytest.approx(statistic, rel=1e-6)
    assert test.p == pytest.approx(stats.chi2.sf(statistic, 1), rel=1e-6)
    text = str(found)
    assert "line against parabola: 2 dloglik = " in text
    assert max(map(len, text.splitlines())) <= 100
    assert found.to_dict()["tests"][0]["p"] == test.p


def test_rejected_model(line):
    constant = fitted("y = a", "a", title="constant")
    found = of.compare(constant, line)
    assert found.best == "line"
    assert found.tests[0].p < 1e-10


def test_models_that_are_not_nested(line):
    other = fitted("y = c*exp(d*t)", "c", "d")
    assert of.compare(line, other).tests == ()
    assert [row.name for row in of.compare(line, other).rows] in (["model 1", "model 2"], ["model 2", "model 1"])


def test_boundary():
    """c >= 0 is fixed at 0 in the smaller model: half of a chi2."""
    values = VALUES + 0.05 * T**2
    c = of.Parameter("c", 0.5, lower=0.0)
    large = fitted("y = a + b*t + c*t^2", "a", "b", c, values=values)
    small = fitted("y = a + b*t + c*t^2", "a", "b", of.Parameter("c", 0.0, fixed=True), values=values)
    [test] = of.compare(small, large).tests
    assert test.p == pytest.approx(0.5 * stats.chi2.sf(test.statistic, 1))
    assert test.note == "halved: the smaller model has 'c' at its bound"
    inside = fitted("y = a + b*t + c*t^2", "a", "b", of.Parameter("c", 0.05, fixed=True), values=values)
    assert of.compare(inside, large).tests[0].note == ""


def test_boundary_reached():
    """The larger model ends at the bound itself: nothing is gained."""
    values = VALUES - 0.2 * T**2
    large = fitted("y = a + b*t + c*t^2", "a", "b", of.Parameter("c", 0.5, lower=0.0), values=values)
    small = fitted("y = a + b*t", "a", "b", values=values)
    [test] = of.compare(small, large).tests
    assert test.statistic == pytest.approx(0.0, abs=1e-6)
    assert test.p >= 0.49
    assert "'c' at its bound" in test.note


@pytest.mark.parametrize("known", [True, False])
def test_size_of_the_test_at_a_boundary(known):
    """Of data from the smaller model 5 % have p < 0.05 (halved); without halving it would be 2.5 %."""
    rng = np.random.default_rng(2)
    large = of.Problem(
        of.Model.from_text("y = a + b*t + c*t^2"),
        [of.Parameter("a", 1.0), of.Parameter("b", 2.0), of.Parameter("c", 0.1, lower=0.0)],
        of.Measurements.from_columns(T, {"y": VALUES}),
    )
    small = of.Problem(large.model, [*large.parameters[:2], of.Parameter("c", 0.0, fixed=True)], large.measurements)
    p = []
    for _ in range(400):
        data = of.Measurements.from_columns(
            T, {"y": 1 + 2 * T + 0.2 * rng.normal(size=T.size)}, sigma={"y": 0.2} if known else None
        )
        results = [of.fit(problem.with_measurements(data)) for problem in (small, large)]
        p.append(of.compare(*results).tests[0].p)
    assert np.mean(np.array(p) < 0.05) == pytest.approx(0.05, abs=0.03)


def test_different_data_are_refused(line):
    other = fitted("y = a", "a", values=VALUES + 1e-9)
    with pytest.raises(ProblemError, match=r"'model 1' and 'model 2' were fitted to different data \(times, values"):
        of.compare(line, other)
    fewer = fitted("y = a", "a", values=np.where(T > 1, VALUES, np.nan))
    with pytest.raises(ProblemError, match=r"'one' and 'two' were fitted to different data \(30 and 23 values\)"):
        of.compare(line, fewer, names=["one", "two"])
    known = fitted("y = a", "a", sigma={"y": 0.1})
    with pytest.raises(ProblemError, match="different data"):
        of.compare(line, known)


def test_order_of_the_data_does_not_matter(line):
    order = RNG.permutation(T.size)
    data = of.Measurements.from_columns(T[order], {"y": VALUES[order]})
    shuffled = of.fit(of.Problem(of.Model.from_text("y = a"), [of.Parameter("a", 1.0)], data))
    assert len(of.compare(line, shuffled).rows) == 2


def test_misuse(line):
    with pytest.raises(ProblemError, match="compare needs two results or more; it was given 1"):
        of.compare(line)
    with pytest.raises(ProblemError, match="compare was given 2 results and 1 names"):
        of.compare(line, line, names=["one"])


def test_notes():
    exact = fitted("y = a + b*t", "a", "b", values=1 + 2 * T + 1e-16 * np.sin(T))
    prior = fitted(
        "y = a + b*t", "a", of.Parameter("b", 1.0, prior="normal(1, 1)"), values=1 + 2 * T + 1e-16 * np.sin(T)
    )
    notes = " ".join(of.compare(exact, prior).notes)
    assert "model 1 leaves residuals no larger than rounding: do not compare" in notes
    assert "model 2 has priors, which the likelihood does not contain" in notes
