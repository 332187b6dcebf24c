"""Fits of problems with doses and events: derivatives, recovery, and very many of them."""

from __future__ import annotations

import numpy as np
import pytest

import odefit as of

ONE = "d' = -ka*d\nc' = ka*d/V - CL/V*c\nd(0) = 0\nc(0) = 0\n"


VALUES = {"k": 0.7, "k2": 0.2, "tau": 2.6, "T": 0.8, "A": 3.0, "w": 0.9, "lag": 0.25, "F": 0.6}


def concentration(t, ka, cl, v, lag, doses):
    """One compartment, first-order absorption: the sum over doses (time, amount)."""
    total, k = np.zeros_like(t), cl / v
    for time, amount in doses:
        since = np.maximum(t - time - lag, 0.0)
        total += amount * ka / v / (ka - k) * (np.exp(-k * since) - np.exp(-ka * since))
    return total


def infused(**changes) -> of.Problem:
    """Return a problem in which everything about doses and events is unknown."""
    text = "x' = -k*x\nz' = x - 0.3*z\nx(0) = 1\nz(0) = 0\nat t=tau: x += 0.5*z, k = k2"
    doses = [
        of.Dose("T", "x", "A", every=2.0, count=2),
        of.Dose(1.3, "z", 2.0, duration="w"),
        of.Dose("tau", "z", 1.0),
        of.Dose(4.0, "z", "k2", how="set"),
    ]
    values = {**VALUES, **changes}
    t = np.array([0.5, 1.0, 1.2, 2.0, 2.4, 3.0, 3.5, 4.0, 4.5, 6.0])
    data = of.Measurements.from_columns(t, {"x": np.cos(t), "z": np.sin(t)})
    return of.Problem(
        of.Model.from_text(text), [of.Parameter(name, value) for name, value in values.items()], data,
        (of.Experiment("main", events=doses),), lag={"x": "lag"}, fraction={"x": "F"},
    )  # fmt: skip


@pytest.mark.parametrize("integrator", ["dopri5", "dop853", "ddm"])
def test_derivatives_by_everything_about_doses(integrator):
    made = infused().with_settings(integrator=integrator, rtol=1e-10, atol=1e-12)
    at = made.evaluate()
    for j, name in enumerate(VALUES):
        value = VALUES[name]
        step = 1e-4 * value
        high, low = (
            infused(**{name: value + sign * step}).with_settings(integrator=integrator, rtol=1e-10, atol=1e-12)
            for sign in (1, -1)
        )
        difference = (high.evaluate().residuals - low.evaluate().residuals) / (2 * step)
        np.testing.assert_allclose(at.jacobian[:, j], difference, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("seed", range(4))
def test_twelve_subjects_with_a_lag(seed):
    random = np.random.default_rng(seed)
    ka, v, lag = random.uniform(0.8, 2.0), random.uniform(15, 40), random.uniform(0.2, 0.6)
    clearance = np.exp(random.normal(np.log(4.0), 0.3, 12))
    t = np.array([0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0, 6.0, 8.0, 12.0, 12.5, 13.0, 14.0, 18.0, 24.0])
    doses = [(0.0, 100.0), (12.0, 60.0)]
    rows = []
    for i, cl in enumerate(clearance):
        c = concentration(t, ka, cl, v, lag, doses)
        rows += [
            (f"s{i}", time, "c", value)
            for time, value in zip(t, c + 0.03 * random.standard_normal(t.size), strict=False)
        ]
    experiment, time, observable, value = zip(*rows, strict=False)
    data = of.Measurements(
        experiment=experiment, time=time, observable=observable, value=value, sigma=[0.03] * len(rows)
    )
    parameters = [
        of.Parameter("ka", 0.7, scale="log"), of.Parameter("V", 25.0, scale="log"),
        of.Parameter("CL", 2.0, scale="log", per="experiment"), of.Parameter("tlag", 0.05, lower=0.0, upper=2.0),
    ]  # fmt: skip
    given = tuple(of.Dose(time, "d", amount) for time, amount in doses)
    experiments = [of.Experiment(f"s{i}", events=given) for i in range(12)]
    result = of.fit(of.Problem(of.Model.from_text(ONE), parameters, data, experiments, lag={"d": "tlag"}))
    assert result.converged
    for name, true in [("ka", ka), ("V", v), ("tlag", lag), *((f"CL[s{i}]", cl) for i, cl in enumerate(clearance))]:
        found = result.parameters[name]
        assert abs(found.estimate - true) <= 4.5 * found.standard_error, name


@pytest.mark.parametrize("seed", range(4))
def test_weekly_counts_and_the_unknown_day_of_a_lockdown(seed):
    random = np.random.default_rng(seed)
    beta, later, day = random.uniform(0.5, 0.7), random.uniform(0.1, 0.2), random.uniform(22.0, 33.0)
    text = (
        "S' = -beta*S*I\nI' = beta*S*I - 0.2*I\nS(0) = 1 - 1e-4\nI(0) = 1e-4\n"
        "cases = 1000*integral(beta*S*I, over=t)\nat t=day: beta = beta2"
    )
    t = np.arange(7.0, 85.0, 7.0)
    values = {"beta": beta, "beta2": later, "day": day}

    def problem(start, cases, sigma):
        columns = {"experiment": ["main"] * t.size, "observable": ["cases"] * t.size}
        data = of.Measurements(time=t, value=cases, sigma=sigma, **columns)
        return of.Problem(of.Model.from_text(text), [of.Parameter(name, x) for name, x in start.items()], data)

    cases = np.abs(problem(values, np.zeros(t.size), np.ones(t.size)).evaluate().residuals)
    sigma = 0.3 + 0.02 * cases
    noisy = cases + sigma * random.standard_normal(t.size)
    result = of.fit(problem({"beta": 0.55, "beta2": 0.3, "day": 27.0}, noisy, sigma))
    assert result.converged
    for name, true in values.items():
        assert abs(result.estimates[name] - true) <= 4.5 * result.parameters[name].standard_error, name


def test_ten_thousand_events():
    data = of.Measurements.from_columns([9999.5], {"x": [1.0]})
    dose = of.Dose(0.0, "x", 1.0, every=1.0, count=10_000)
    made = of.Problem(
        of.Model.from_text("x' = -k*x\nx(0) = 0"),
        [of.Parameter("k", 0.7)],
        data,
        (of.Experiment("main", events=[dose]),),
    ).with_settings(max_steps=1_000_000)
    at = made.evaluate()
    since = np.arange(10_000) + 0.5
    right = np.exp(-0.7 * since).sum()
    assert abs(float(at.residuals[0])) == pytest.approx(abs(right - 1.0), rel=1e-5)
    slope = -(since * np.exp(-0.7 * since)).sum()
    assert abs(at.jacobian[0, 0]) == pytest.approx(abs(slope), rel=1e-4)


def test_a_duration_that_is_not_positive_is_a_status():
    made = infused(w=-0.5)
    assert "duration that is not positive" in made.evaluate().message
