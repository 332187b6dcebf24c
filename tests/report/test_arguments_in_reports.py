"""Arguments of rows in ``odefit check``, in pictures and bands."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib import pyplot as plt

import odefit as of
from odefit.report.check import check
from odefit.report.plots.series import curves_of, series_of
from odefit.statistics.delta import prediction_band
from odefit.transcribe.arguments import arguments_of_rows

TIMES = np.linspace(0, 3, 6)


def blots() -> of.Problem:
    """Two observables with scales that the rows name; `z` has none."""
    rng = np.random.default_rng(1)
    rows = [(t, name, cell) for t in TIMES for name, cell in (("y", "s1"), ("y", "twice"), ("y", 3.0), ("z", ""))]
    size = {"s1": 1.0, "twice": 2.0, 3.0: 3.0, "": 1.0}
    value = [size[cell] * np.exp(-0.5 * t) + 0.01 * rng.normal() for t, _, cell in rows]
    time, names, cells = zip(*rows, strict=True)
    data = of.Measurements(
        ["main"] * len(rows), time, names, value, sigma=["e1" if cell == "s1" else 0.01 for cell in cells],
        arguments={"s": cells},
    )  # fmt: skip
    parameters = [
        of.Parameter("k", 0.4, scale="log"),
        of.Parameter("s1", 1.1, scale="log"),
        of.Parameter("twice", expression="2*s1*c/10"),
        of.Parameter("c", 9.0),
        of.Parameter("e1", 0.01, fixed=True),
    ]
    return of.Problem(of.Model.from_text("A' = -k*A\nA(0) = 1\ny = s*A\nz = A"), parameters, data)


def test_check_says_what_the_rows_name():
    report = check(blots())
    assert report.ok
    assert "Arguments of the rows\n  s: s1, twice, 3\n" in report.text
    assert "taken as absolute; some are parameters (e1)" in report.text
    assert "Derivatives agree with finite differences" in report.text


def test_there_is_a_curve_for_all_that_the_argument_is():
    result = of.fit(blots())
    series = series_of(result, [0], ["y", "z"])
    assert [(one.observable, one.group, one.rows.size) for one in series] == [
        ("y", "s s1", 6),
        ("y", "s twice", 6),
        ("y", "s 3", 6),
        ("z", "", 6),
    ]
    data = result.problem.measurements
    residuals = result.problem.evaluate(result.estimates).residuals
    residual = {int(row): r for row, r in zip(result.plan.data.of_experiment[0].source, residuals, strict=True)}
    for one, curve in zip(series, curves_of(result, series, 0.0), strict=True):
        # the curve passes where the residuals say that the model is
        model = [data.value[row] + result.problem.sigma[row] * residual[int(row)] for row in one.rows]
        np.testing.assert_allclose(np.interp(data.time[one.rows], curve.times, curve.value), model, rtol=1e-5)
        assert (curve.lower < curve.upper).sum() > 10
    ax = np.ravel(result.plot())[0]
    assert len(ax.figure.axes) >= 1
    plt.close("all")


def test_bands_contain_the_error_of_the_argument():
    """Standard errors by the delta method with derivatives by differences."""
    result = of.fit(blots())
    problem, compiled, x = result.problem, result.plan.compiled, result.solution.x
    for row in (0, 1, 2):
        arguments = arguments_of_rows(problem, 0, np.array([row]))
        one = type(arguments)(arguments.source[0], arguments.number[0])

        def values(theta, one=one):
            band = prediction_band(problem, compiled, theta, None, 0, TIMES, one)
            return band.values[:, band.names.index("y")]

        steps = [1e-4 * np.eye(x.size)[i] for i in range(x.size)]
        slopes = np.stack([(values(x + h) - values(x - h)) / 2e-4 for h in steps], axis=1)
        expected = np.sqrt(np.einsum("ti,ij,tj->t", slopes, result.statistics.covariance, slopes))
        band = prediction_band(problem, compiled, x, result.statistics, 0, TIMES, one)
        np.testing.assert_allclose(band.errors[:, band.names.index("y")], expected, rtol=1e-4, atol=1e-9)


def test_predictions_leave_out_what_depends_on_the_row():
    frame = of.fit(blots()).predict(times=[0.0, 1.0])
    assert "z" in frame.columns
    assert "y" not in frame.columns


def test_reports_show_fixed_values_that_cells_name():
    data = of.Measurements(
        ["a", "b"], [1.0, 1.0], ["y", "y"], [1.0, 2.0], sigma=["e", 1.0], arguments={"s": ["own", 2.0]}
    )
    parameters = [
        of.Parameter("k", 0.5),
        of.Parameter("own", 3.0, per="experiment", fixed=True),
        of.Parameter("e", 0.2, per="experiment", fixed=True),
    ]
    made = of.Problem(of.Model.from_text("y = s*k*t"), parameters, data, (of.Experiment("a"), of.Experiment("b")))
    estimates = of.fit(made).estimates
    assert {name: estimates[name] for name in ("own[a]", "e[a]")} == {"own[a]": 3.0, "e[a]": 0.2}
    assert "own[b]" not in estimates
    assert estimates["k"] == pytest.approx(1.0, abs=1.0)
