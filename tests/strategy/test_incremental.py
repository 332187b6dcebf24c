"""Incremental single shooting: horizons, bounds, and the paper's second system."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

import odefit as of
from odefit.gallery import load
from odefit.solve import solver_named
from odefit.strategy.incremental import (
    confidence_bounds,
    dense_horizons,
    doubling_horizons,
    relaxed,
    user_horizons,
)
from odefit.strategy.single import Search
from odefit.transcribe import SingleShooting
from odefit.transcribe.observation import observations, until

NAMES = ("k1", "k2", "k3", "k4")
METHODS = ("incremental", "incremental-dense")
DECAY = "A' = -k*A\nA(0) = 1"


@pytest.fixture(scope="module")
def orbits():
    return load("lotka_volterra_iss")


def decay(times, experiments=("main",), **options):
    rows = [(e, t) for e in experiments for t in times[e]] if isinstance(times, dict) else [("main", t) for t in times]
    data = of.Measurements.from_columns(
        [t for _, t in rows], {"A": [math.exp(-0.5 * t) for _, t in rows]}, experiment=[e for e, _ in rows]
    )
    return of.Problem(
        model=of.Model.from_text(DECAY),
        parameters=[of.Parameter("k", 1.0, **options)],
        experiments=[of.Experiment(e) for e in experiments],
        measurements=data,
    )


def test_horizons_hold_powers_of_two_of_the_data(orbits):
    assert [h[0] for h in doubling_horizons(observations(orbits))] == [0.5, 1, 2, 4, 8, 10]
    assert [h[0] for h in dense_horizons(observations(orbits))] == pytest.approx(np.arange(1, 21) / 2)


def test_data_at_the_start_are_not_counted():
    assert doubling_horizons(observations(decay([0, 1, 2, 3]))) == [(1.0,), (2.0,), (3.0,)]
    assert doubling_horizons(observations(decay([0.0]))) == [(0.0,)]


def test_experiments_grow_together_and_the_shorter_one_is_complete_earlier():
    problem = decay({"a": [1, 2, 3, 4, 5], "b": [10, 20]}, ("a", "b"))
    assert doubling_horizons(observations(problem)) == [(1.0, 10.0), (2.0, 20.0), (4.0, 20.0), (5.0, 20.0)]
    result = of.fit(problem, method="incremental")
    assert result.estimates["k"] == pytest.approx(0.5, rel=1e-5)
    assert [a.n_data for a in result.attempts] == [2, 4, 6, 7]
    assert [a.share for a in result.attempts] == pytest.approx([11 / 25, 22 / 25, 24 / 25, 1])


def test_the_users_horizons_are_used_and_end_with_all_data(orbits):
    assert user_horizons(observations(orbits), (0.1, 3, 7, 99)) == [(3,), (7,), (10,)]
    result = of.fit(orbits.with_settings(horizons=(3, 7)), method="incremental")
    assert [a.horizon for a in result.attempts] == [3, 7, 10]
    with pytest.raises(of.ProblemError, match="increasing times"):
        orbits.with_settings(horizons=(3, 2))


def test_a_horizon_is_the_first_part_of_the_data(orbits):
    whole = SingleShooting(orbits)
    part = SingleShooting(orbits, data=until(observations(orbits), [4.0]))
    x = whole.compiled.theta_start
    for objective in (whole, part):
        objective.refresh(x)
    n = part.n_data
    assert n == 16
    np.testing.assert_allclose(part.evaluate(x, 1).residual, whole.evaluate(x, 1).residual[:n], rtol=1e-5)
    np.testing.assert_allclose(
        part.evaluate(x, 1).linear.jacobian, whole.evaluate(x, 1).linear.jacobian[:n], rtol=1e-4, atol=1e-6
    )


def test_heavy_rows_are_cut_with_the_others():
    problem = load("barnes/c")  # its last point has infinite weight
    data = observations(problem)
    last = data.of_experiment[0].times[-1]
    assert until(data, [0.9 * last]).heavy.size == 0
    same = until(data, [last])
    np.testing.assert_array_equal(same.heavy, data.heavy)
    assert same.norm == pytest.approx(data.norm, rel=1e-14)


def test_active_bounds_are_relaxed_as_published():
    user = (np.array([-np.inf, 0.0, -np.inf]), np.array([np.inf, 10.0, np.inf]))
    bounds = (np.array([1.0, 2.0, 5.0]), np.array([2.0, 4.0, 6.0]))
    lower, upper = relaxed(np.array([1.0001, 4.0, 5.5]), bounds, user, 2.0)
    np.testing.assert_allclose(lower, [1 - 2 * 1, 2, 5])
    np.testing.assert_allclose(upper, [2, 4 + 2 * 2, 6])
    assert relaxed(np.array([1.5, 3.0, 5.5]), bounds, user, 2.0) is None


def test_relaxation_ends_at_the_users_bounds():
    user = (np.array([0.0]), np.array([3.0]))
    _, upper = relaxed(np.array([2.0]), (np.array([1.0]), np.array([2.0])), user, 2.0)
    assert upper[0] == 3.0
    assert relaxed(np.array([3.0]), (np.array([0.0]), np.array([3.0])), user, 2.0) is None


@pytest.mark.parametrize("method", METHODS)
def test_the_start_of_table_3_succeeds(orbits, method):
    start = dict(zip(NAMES, (4.2176, 9.1574, 7.9221, 9.5949), strict=True))
    assert of.fit(orbits.with_start(**start)).objective > 1000  # single shooting ends in a wrong minimum
    result = of.fit(orbits.with_start(**start), method=method)
    assert result.converged
    assert 2 * result.objective == pytest.approx(31.56594, rel=1e-5)
    assert result.attempts[-1].horizon == 10
    assert result.iterations == sum(a.iterations for a in result.attempts) == len(result.solution.trace)
    assert [row.iteration for row in result.solution.trace] == list(range(1, result.iterations + 1))
    assert result.equivalent_iterations < 0.7 * result.iterations
    assert result.to_dict()["attempts"][0]["horizon"] == 0.5


@pytest.mark.parametrize("method", METHODS)
def test_most_random_starts_succeed(orbits, method):
    starts = np.random.default_rng(3).uniform(0, 10, (20, 4))
    fits = [of.fit(orbits.with_start(**dict(zip(NAMES, row, strict=True))), method=method) for row in starts]
    assert sum(fit.converged and fit.objective < 15.79 for fit in fits) >= 17


@pytest.mark.parametrize("method", METHODS)
def test_the_users_bounds_are_never_left(orbits, method):
    seen = []
    bounded = orbits.with_bounds(k1=(0.5, 9.9), k3=(1.2, 12.0)).with_start(k1=4.2, k2=9.1, k3=7.9, k4=9.6)
    result = of.fit(bounded, method=method, callback=seen.append)
    assert len(seen) == result.iterations
    for attempt in result.attempts:
        assert 0.5 <= attempt.estimates["k1"] <= 9.9
        assert 1.2 <= attempt.estimates["k3"] <= 12.0
    assert result.parameters["k3"].verdict == "at its bound"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["barnes", "barnes/b", "barnes/c", "arrhenius", "bioprocess"])
def test_every_problem_runs_with_every_method(name, method):
    problem = load(name)
    assert of.fit(problem, method=method).objective == pytest.approx(of.fit(problem).objective, rel=1e-5, abs=1e-8)


def test_a_failure_on_the_way_names_the_horizon():
    model = of.Model.from_text("x' = k*x^2\nx(0) = 1")
    data = of.Measurements.from_columns([1.0, 2.0], {"x": [1.1, 1.2]})
    problem = of.Problem(model=model, parameters=[of.Parameter("k", 5.0)], measurements=data)
    result = of.fit(problem, method="incremental")
    assert result.status == "failed"
    assert "horizon 1" in result.message


def test_a_horizon_out_of_reach_is_approached_in_smaller_steps():
    # with k = 5 the solution 1/(1 - k t) ends at t = 0.2, before the second datum
    t = np.array([0.1, 0.19, 0.6, 2.0])
    model = of.Model.from_text("x' = k*x^2\nx(0) = 1")
    data = of.Measurements.from_columns(t, {"x": 1 / (1 - 0.1 * t)})
    problem = of.Problem(model=model, parameters=[of.Parameter("k", 5.0)], measurements=data)
    problem = problem.with_settings(horizons=(0.6,))
    result = of.fit(problem, method="incremental")
    assert result.converged
    assert result.estimates["k"] == pytest.approx(0.1, rel=1e-5)
    assert [a.horizon for a in result.attempts] == [0.6, 0.1, 0.6, 2.0]


def test_an_unstable_model_is_fitted_to_rounding_and_says_so():
    text = "y1' = y2\ny2' = 40^2*y1 - (40^2 + p^2)*sin(p*t)\ny1(0) = 0\ny2(0) = 3.141592653589793"
    t = np.arange(1, 11) / 10
    data = of.Measurements.from_columns(t, {"y1": np.sin(np.pi * t)}, sigma={"y1": 0.05})
    problem = of.Problem(model=of.Model.from_text(text), parameters=[of.Parameter("p", 300.0)], measurements=data)
    result = of.fit(problem, method="incremental")
    assert result.converged
    assert result.estimates["p"] == pytest.approx(np.pi, rel=1e-7)
    assert any("rounding" in notice.text for notice in result.warnings)


BAD = {
    "between 0 and 1": {"confidence": 1.5},
    "above 0": {"relaxation": -1.0},
    "increasing": {"horizons": (1.0, math.nan)},
}


@pytest.mark.parametrize("words", BAD)
def test_bad_settings_are_refused(orbits, words):
    with pytest.raises(of.ProblemError, match=words):
        orbits.with_settings(**BAD[words])


def test_the_summary_shows_the_horizons_as_table_3_does(orbits):
    start = dict(zip(NAMES, (4.2176, 9.1574, 7.9221, 9.5949), strict=True))
    result = of.fit(orbits.with_start(**start), method="incremental")
    lines = result.summary().splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("horizon"))
    assert [word for word in lines[head].split() if word not in ("bounds", "moved")] == [
        "horizon", "data", "iterations", "objective", *NAMES,
    ]  # fmt: skip
    rows = [lines[head + 2 + i].split() for i in range(6)]
    assert [float(row[0]) for row in rows] == [0.5, 1, 2, 4, 8, 10]
    assert [int(row[2]) for row in rows] == [a.iterations for a in result.attempts]
    for row, attempt in zip(rows, result.attempts, strict=True):
        assert [float(cell) for cell in row[-4:]] == pytest.approx([attempt.estimates[n] for n in NAMES], rel=1e-4)
    expected = sum(a.iterations * a.horizon for a in result.attempts) / 10
    assert lines[head + 8] == f"{result.iterations} iterations, equivalent to {expected:.3g} on all data"
    plain = result.to_dict()
    assert plain["equivalent_iterations"] == pytest.approx(expected)
    assert [a["n_data"] for a in plain["attempts"]] == [2, 4, 8, 16, 32, 40]


def test_many_horizons_are_shortened_in_the_summary(orbits):
    result = of.fit(orbits, method="incremental-dense")
    lines = result.summary().splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("horizon"))
    shown = [line.split()[0] for line in lines[head + 2 : head + 14]]
    assert shown == ["0.5", "1", "1.5", "2", "...", "7", "7.5", "8", "8.5", "9", "9.5", "10"]
    assert "horizon" not in of.fit(orbits).summary()


def test_a_fit_no_better_than_the_mean_is_called_so(orbits):
    poor = orbits.with_start(k1=4.2176, k2=9.1574, k3=7.9221, k4=9.5949)
    codes = {notice.code for notice in of.fit(poor).warnings}
    assert "fit.poor" in codes
    assert "fit.poor" not in {notice.code for notice in of.fit(poor, method="incremental").warnings}


def epidemic():
    """Only the infected are counted, and the first counts are noise: few data lead far away."""
    t = np.arange(0, 40, 2.0)
    text = "S' = -b*S*I/1000\nI' = b*S*I/1000 - g*I\nS(0) = 1000 - I0\nI(0) = I0"
    blank = of.Measurements.from_columns(t, {"I": t})
    parameters = [of.Parameter(name, start, lower=0) for name, start in (("b", 1.0), ("g", 1.0), ("I0", 5.0))]
    problem = of.Problem(model=of.Model.from_text(text), parameters=parameters, measurements=blank)
    exact = of.simulate(problem, {"b": 0.4, "g": 0.1, "I0": 1.0}, times=t)["I"].to_numpy()
    counts = exact + 5 * np.random.default_rng(4).standard_normal(t.size)
    counts[:3] = 5.0, -3.0, -1.0
    return problem.with_measurements(of.Measurements.from_columns(t, {"I": counts}))


@pytest.mark.parametrize("method", METHODS)
def test_a_fit_is_never_worse_than_its_start(method):
    problem = epidemic().with_start(b=0.42, g=0.11, I0=0.8)
    result = of.fit(problem, method=method)
    assert result.objective <= problem.evaluate(order=0).objective
    assert result.objective == pytest.approx(of.fit(problem).objective, rel=1e-6)
    assert result.converged


def test_horizons_that_led_away_are_listed_and_said_so():
    result = of.fit(epidemic(), method="incremental")
    last, direct = result.attempts[-2:]
    assert (last.method, direct.method) == ("incremental", "single")
    assert last.objective > 100 * direct.objective
    assert result.iterations == sum(a.iterations for a in result.attempts) == len(result.solution.trace)
    assert any("led to a worse point than the start" in notice.text for notice in result.warnings)


def test_a_horizon_before_all_data_of_one_experiment_is_possible():
    problem = decay({"a": [1, 2, 3, 4, 5], "b": [10, 20]}, ("a", "b")).with_settings(horizons=(2.0, 12.0))
    result = of.fit(problem, method="incremental")
    assert [a.n_data for a in result.attempts] == [2, 6, 7]
    assert result.estimates["k"] == pytest.approx(0.5, rel=1e-5)


def test_bounds_are_those_of_the_confidence_level():
    """The bounds behind a horizon are theta -+ q s with the normal quantile of the level and given sigma."""
    t = np.array([1.0, 2.0, 3.0, 4.0])
    data = of.Measurements.from_columns(t, {"A": np.exp(-0.5 * t) + [0.01, -0.02, 0.01, 0.0]}, sigma={"A": 0.02})
    problem = of.Problem(model=of.Model.from_text(DECAY), parameters=[of.Parameter("k", 1.0)], measurements=data)
    for level in (0.9, 0.99):
        search = Search(problem.with_settings(confidence=level), solver_named("trust"))
        objective = search.objective((2.0,))
        solution = search.minimise(objective)
        user = (np.array([-np.inf]), np.array([np.inf]))
        lower, upper = confidence_bounds(search, objective, solution, user)
        k = float(solution.x[0])
        slopes = -t[:2] * np.exp(-k * t[:2]) / 0.02  # dA/dk over sigma, in closed form
        reach = NormalDist().inv_cdf(0.5 * (1 + level)) / math.sqrt(float(slopes @ slopes))
        assert [lower[0], upper[0]] == pytest.approx([k - reach, k + reach], rel=1e-5)
        inside = confidence_bounds(search, objective, solution, (np.array([k - 0.1 * reach]), np.array([np.inf])))
        assert inside[0][0] == k - 0.1 * reach  # the user's bound is never left


def test_rank_deficient_first_horizons_keep_the_users_bounds():
    t = np.array([1.0, 2.0, 3.0, 4.0])
    data = of.Measurements.from_columns(t, {"A": np.exp(-0.5 * t)}, sigma={"A": 0.02})
    model = of.Model.from_text("A' = -k*A + s\nA(0) = 1")
    parameters = [of.Parameter("k", 1.0, lower=-9, upper=9), of.Parameter("s", 0.1, lower=-8, upper=8)]
    problem = of.Problem(model=model, parameters=parameters, measurements=data)
    search = Search(problem, solver_named("trust"))
    objective = search.objective((1.0,))  # one datum for two unknowns
    user = (np.array([-9.0, -8.0]), np.array([9.0, 8.0]))
    lower, upper = confidence_bounds(search, objective, search.minimise(objective), user)
    np.testing.assert_array_equal([lower, upper], user)


def test_horizons_without_data_in_between_are_refused(orbits):
    with pytest.raises(of.ProblemError, match="none of them lies between the first datum at 0.5 and the last at 10"):
        of.fit(orbits.with_settings(horizons=(100, 200)), method="incremental")


def test_an_unknown_method_is_refused_with_those_that_exist(orbits):
    with pytest.raises(of.ProblemError, match="there are single, incremental, incremental-dense"):
        of.fit(orbits, method="bogus")


@pytest.mark.parametrize(("unit", "warned"), [(1e-12, True), (1.0, False)])
def test_states_below_the_absolute_tolerance_are_named(unit, warned):
    t = np.arange(1.0, 6.0)
    noise = 0.01 * np.random.default_rng(0).standard_normal(5)
    data = of.Measurements.from_columns(t, {"A": unit * (np.exp(-0.5 * t) + noise)})
    model = of.Model.from_text(f"A' = -k*A\nA(0) = {unit}")
    problem = of.Problem(model=model, parameters=[of.Parameter("k", 1.0)], measurements=data)
    fits = {atol: of.fit(problem.with_settings(atol=atol)) for atol in (1e-9, 1e-20, None)}
    found = {a: [notice.text for notice in f.warnings if notice.code == "integrator.atol"] for a, f in fits.items()}
    assert bool(found[1e-9]) == warned
    assert not found[1e-20]
    assert not found[None]  # it follows the size of the state
    assert fits[None].estimates["k"] == pytest.approx(fits[1e-20].estimates["k"], rel=1e-5)
    if warned:
        assert "'A' is at most 6.1e-13" in found[1e-9][0]
