"""Conditions in time through every door: fits, simulations, evaluators, start values, words."""

from __future__ import annotations

import numpy as np
import pytest

import odefit as of
from odefit.report.check import check

TIMES = np.arange(0.25, 12.1, 0.5)
INFUSION = "x' = if(t >= lag and t < lag + w, D, 0) - k*x\nx(0) = 0"


def infusion(t, k=0.4, dose=3.0, lag=2.0, w=2.2):
    last = np.clip(t, lag, lag + w)
    return np.where(t > lag, dose / k * (np.exp(-k * (t - last)) - np.exp(-k * (t - lag))), 0.0)


def problem(starts: dict[str, float], *, noise=0.0, seed=0, text=INFUSION, times=TIMES, value=None, **settings):
    value = infusion(times) if value is None else value
    value = value + noise * np.random.default_rng(seed).normal(size=times.size)
    data = of.Measurements.from_columns(times, {"x": value}, sigma={"x": np.full(times.size, noise)} if noise else None)
    parameters = [of.Parameter(name, start) for name, start in starts.items()]
    return of.Problem(of.Model.from_text(text), parameters, data, settings=of.Settings(**settings))


START = {"k": 0.6, "D": 2.0, "lag": 1.4, "w": 3.0}
TRUE = {"k": 0.4, "D": 3.0, "lag": 2.0, "w": 2.2}


@pytest.mark.parametrize("integrator", ["auto", "dopri5", "dop853", "rk32", "ddm", "bdf3"])
def test_lag_and_length_of_a_dose_are_estimated(integrator):
    result = of.fit(problem(START, noise=0.02, integrator=integrator))
    assert result.status == "converged"
    for name, row in result.parameters.items():
        assert row.standard_error is not None
        assert abs(row.estimate - TRUE[name]) < 4 * row.standard_error, name
        assert row.verdict == "determined"
    assert result.chi2 < 50


def test_standard_errors_are_the_spread_of_estimates():
    found, errors = [], []
    for seed in range(50):
        result = of.fit(problem(TRUE, noise=0.03, seed=seed))
        assert result.status == "converged"
        found.append(list(result.estimates.values()))
        errors.append([row.standard_error for row in result.parameters.values()])
    ratio = np.std(found, axis=0, ddof=1) / np.mean(errors, axis=0)
    assert (np.abs(ratio - 1.0) < 0.35).all(), ratio
    bias = np.abs(np.mean(found, axis=0) - list(TRUE.values())) / np.mean(errors, axis=0)
    assert (bias < 0.6).all(), bias


def test_times_that_change_places_in_a_fit():
    """The start has them in the wrong order: steps are chosen anew on the way."""
    text = "x' = if(t >= a, 1, 0) + if(t >= b, 3, 0) - 0.3*x\nx(0) = 0"

    def value(t, begin):
        return np.where(t > begin, (1 - np.exp(-0.3 * np.clip(t - begin, 0, None))) / 0.3, 0.0)

    data = value(TIMES, 3.0) + 3 * value(TIMES, 7.0)
    result = of.fit(problem({"a": 3.1, "b": 3.0}, text=text, value=data))
    assert result.status == "converged"
    assert result.estimates == pytest.approx({"a": 3.0, "b": 7.0}, rel=1e-5)


def test_times_of_each_experiment():
    """Numbers in one, an expression of a parameter in the other."""
    data = of.Measurements(
        ["one"] * TIMES.size + ["two"] * TIMES.size,
        np.tile(TIMES, 2),
        ["x"] * 2 * TIMES.size,
        np.concatenate([infusion(TIMES, lag=1.0, w=4.0), infusion(TIMES, lag=3.0, w=0.7)]),
    )
    experiments = [
        of.Experiment("one", (of.Period(overrides={"lag": 1.0, "w": 4.0}),)),
        of.Experiment("two", (of.Period(overrides={"lag": "2*base", "w": 0.7}),)),
    ]
    model = of.Model.from_text(INFUSION + "\nhalf = base/2")
    start = {"k": 0.5, "D": 2.0, "lag": 1.0, "w": 1.0, "base": 1.2}
    parameters = [of.Parameter(name, value, fixed=name in ("lag", "w")) for name, value in start.items()]
    result = of.fit(of.Problem(model, parameters, data, experiments=experiments))
    assert result.status == "converged"
    assert result.estimates["k"] == pytest.approx(0.4, rel=1e-5)
    assert result.estimates["D"] == pytest.approx(3.0, rel=1e-5)
    assert result.estimates["base"] == pytest.approx(1.5, rel=1e-5)


def test_observables_take_the_new_value_at_the_time_itself():
    text = "x' = if(t < 2, 1, 3)\nx(0) = 0\ny = if(t >= 2, 10, 1) + 0*x\nz = floor(t)"
    frame = of.simulate(
        of.Problem(of.Model.from_text(text), [], of.Measurements.from_columns([4.0], {"x": [0.0]})),
        times=[1.0, 1.9, 2.0, 2.5],
    )
    assert frame["y"].tolist() == [1.0, 1.0, 10.0, 10.0]
    assert frame["z"].tolist() == [1.0, 1.0, 2.0, 2.0]
    np.testing.assert_allclose(frame["x"], [1.0, 1.9, 2.0, 3.5], rtol=1e-9)


def test_functions_of_python():
    def rhs(t, y, p):
        on = of.where(t >= p.lag, of.where(t < p.lag + p.w, 1.0, 0.0), 0.0)
        return {"x": p.D * on - p.k * y.x}

    model = of.Model.from_function(rhs, ["x"], ["k", "D", "lag", "w"], {"x": 0.0})
    data = of.Measurements.from_columns(TIMES, {"x": infusion(TIMES)})
    result = of.fit(of.Problem(model, [of.Parameter(name, value) for name, value in START.items()], data))
    assert result.status == "converged"
    assert result.estimates == pytest.approx(TRUE, rel=1e-5)


@pytest.mark.parametrize("freeze", [False, True])
def test_evaluator(freeze):
    evaluator = of.Evaluator(problem(TRUE), freeze=freeze)
    point = {"k": 0.5, "D": 2.5, "lag": 1.6, "w": 2.5}
    found = evaluator.evaluate(point, order=1)
    for j, name in enumerate(TRUE):
        h = 1e-4 if freeze else 1e-3
        above, below = (evaluator.evaluate(point | {name: point[name] + s * h}, order=0) for s in (1, -1))
        by_difference = (above.residuals - below.residuals) / (2 * h)
        np.testing.assert_allclose(found.jacobian[:, j], by_difference, atol=1e-3 if not freeze else 1e-6)
    # behind the last datum there is nothing left of the dose, whatever the steps were chosen for
    far = evaluator.evaluate(point | {"lag": 100.0}, order=1)
    np.testing.assert_allclose(far.residuals, -infusion(TIMES), atol=1e-12)
    np.testing.assert_array_equal(far.jacobian, 0.0)


def test_incremental():
    result = of.fit(problem(START, noise=0.02), method="incremental")
    assert result.status == "converged"
    assert result.estimates["lag"] == pytest.approx(2.0, abs=0.1)


def test_start_values_from_the_data():
    text = "x' = if(t >= 2, D, 0) - k*x\nx(0) = 0"
    times = np.arange(0.0, 12.1, 0.25)
    data = np.where(times > 2, 3.0 / 0.4 * (1 - np.exp(-0.4 * np.clip(times - 2, 0, None))), 0.0)
    result = of.fit(problem({"k": 20.0, "D": 0.01}, text=text, times=times, value=data), start="auto")
    assert result.status == "converged"
    assert result.estimates == pytest.approx({"k": 0.4, "D": 3.0}, rel=1e-5)


def test_simulated_data():
    made = of.with_synthetic_data(problem(TRUE), 0.02, seed=3)
    assert np.abs(made.measurements.value - infusion(TIMES)).max() < 0.1
    assert of.fit(made).status == "converged"


def test_bands_follow():
    """They are narrow where the dose has not begun, and where it has they know the lag."""
    result = of.fit(problem(START, noise=0.02))
    frame = result.predict(times=[1.0, 3.0, 5.0])
    assert np.isfinite(frame.select_dtypes("number").to_numpy()).all()


def test_lag_behind_the_data_is_not_called_without_influence():
    result = of.fit(problem({"lag": 30.0, "D": 3.0, "k": 0.4, "w": 2.0}))
    texts = [notice.text for notice in result.warnings if notice.code == "parameter.undetermined"]
    mine = next(text for text in texts if text.startswith("'lag'"))
    assert "small changes of it have no influence on the data, but lag =" in mine
    assert "try other start values" in mine
    assert "'k' is not determined here: it has no influence on the data." in texts


def test_parameter_that_nothing_depends_on():
    text = "x' = if(t >= 1, D, 0) - k*x + 0*s\nx(0) = 0"
    data = np.where(TIMES > 1, 3.0 / 0.4 * (1 - np.exp(-0.4 * np.clip(TIMES - 1, 0, None))), 0.0)
    result = of.fit(problem({"k": 0.5, "D": 2.0, "s": 1.0}, text=text, value=data))
    texts = [notice.text for notice in result.warnings if notice.code == "parameter.undetermined"]
    assert texts == ["'s' is not determined by these data: it has no influence on them."]


def test_check_compares_at_changed_values():
    report = check(problem({"lag": 30.0, "D": 3.0, "k": 0.4, "w": 2.0}))
    assert report.ok
    assert "small changes of lag do not change the data at the start, but lag = " in report.text
    assert check(problem(START)).ok


@pytest.mark.parametrize("lag", [0.0, 0.25, 2.25])
def test_check_knows_data_at_the_time_of_a_condition(lag):
    """Such a datum has two derivatives, one to each side."""
    report = check(problem(START | {"lag": lag}))
    assert report.ok, report.text


RELAY = "x' = if(x == 1, 1, 0.5) - k*x\nx(0) = 0"


def test_equalities_of_states_are_named():
    made = problem({"k": 0.1}, text=RELAY)
    assert "(x==1)" in check(made).text
    assert "not smooth where states cross a border" in check(made).text.replace("\n  ", " ")
    notices = {notice.code: notice.text for notice in of.fit(made).warnings}
    assert "x==1" in notices["model.state-condition"]
    assert "max_step" in notices["model.state-condition"]


def test_conditions_in_time_need_no_word():
    assert "not smooth" not in check(problem(START)).text
    assert "model.state-condition" not in {notice.code for notice in of.fit(problem(START)).warnings}
