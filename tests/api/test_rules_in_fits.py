"""Fits with rules that must hold: solutions, multipliers and errors against closed forms, by every method."""

from __future__ import annotations

import math

import casadi as ca
import numpy as np
import pytest
from rules_closed_forms import (
    ALL_METHODS,
    FEED,
    METHODS,
    SHARP,
    SIGMA,
    Closed,
    T,
    Y,
    estimates,
    kkt,
    problem_of,
    projected_errors,
    squares,
)
from scipy.integrate import solve_ivp

import odefit as of

of_method = pytest.mark.parametrize("method", METHODS)
of_all = pytest.mark.parametrize("method", ALL_METHODS)


def fitted(problem, method):
    result = of.fit(problem, method=method)
    assert result.converged, result.message
    return result


@of_all
def test_an_active_inequality_and_its_multiplier(method):
    closed = Closed()
    x, [multiplier] = closed.solve(closed.at(5.0) - 0.5)
    result = fitted(problem_of("A(t=5) >= 0.5"), method)
    assert estimates(result) == pytest.approx(x, rel=1e-7, abs=1e-7)
    [rule] = result.rules
    assert (rule.state, rule.time, rule.experiment) == ("active", 5.0, "")
    assert rule.multiplier == pytest.approx(multiplier, rel=3e-8 if method == "incremental" else 1e-8)
    assert multiplier > 0.0
    assert abs(rule.value) < 1e-9
    assert rule.counts


@of_method
def test_multipliers_are_derivatives_of_the_objective(method):
    """Of equalities and inequalities, on either side, by the right-hand side."""
    for rule in ("A(t=5) >= {}", "A(t=5) = {}", "2*A(t=5) >= 2*{}", "-A(t=5) <= -{}"):
        factor = 2.0 if rule.startswith("2") else 1.0
        low, middle, high = (fitted(problem_of(rule.format(c)), method) for c in (0.499, 0.5, 0.501))
        slope = (high.objective - low.objective) / (0.002 * factor)
        assert middle.rules[0].multiplier == pytest.approx(slope, rel=1e-4)


@of_method
def test_an_upper_limit_has_a_multiplier_of_its_own_sign(method):
    closed = Closed()
    x, [multiplier] = closed.solve(0.3 - closed.at(5.0))
    result = fitted(problem_of("A(t=5) <= 0.3"), method)
    assert estimates(result) == pytest.approx(x, rel=1e-7, abs=1e-7)
    assert result.rules[0].multiplier == pytest.approx(multiplier, rel=1e-8)


@of_method
def test_two_equalities_between_times(method):
    closed = Closed()
    x, multipliers = closed.solve(closed.at(1.0) - 2.2 * closed.at(3.0), closed.at(5.0) - 0.35)
    result = fitted(problem_of("A(t=1) = 2.2*A(t=3)", "A(t=5) = 0.35"), method)
    assert estimates(result) == pytest.approx(x, rel=1e-7, abs=1e-7)
    assert [rule.multiplier for rule in result.rules] == pytest.approx(multipliers, rel=1e-7)
    assert [rule.state for rule in result.rules] == ["holds", "holds"]
    assert result.dof == 9


@of_all
def test_a_weakly_active_inequality_does_not_count(method):
    free = Closed().solve()[0]
    end = float(free[2] / free[0] + (free[1] - free[2] / free[0]) * math.exp(-5.0 * free[0]))
    without, result = fitted(problem_of(), method), fitted(problem_of(f"A(t=5) >= {end!r}", "A(t=5) <= 3"), method)
    assert estimates(result) == pytest.approx(free, rel=1e-6)
    first, second = result.rules
    assert first.state in ("weakly active", "inactive")
    assert first.multiplier == pytest.approx(0.0, abs=1e-4)
    assert (second.state, second.multiplier) == ("inactive", 0.0)
    assert result.dof == without.dof
    assert result.standard_errors() == pytest.approx(without.standard_errors(), rel=1e-5)


@of_method
def test_standard_errors_are_those_of_the_projected_covariance(method):
    closed = Closed()
    x, _ = closed.solve(closed.at(5.0) - 0.5)
    rows = ca.vertcat(*(closed.at(t) / SIGMA for t in T))
    jacobian = np.array(ca.Function("j", [closed.theta], [ca.jacobian(rows, closed.theta)])(x))
    equation = np.array(ca.Function("e", [closed.theta], [ca.jacobian(closed.at(5.0), closed.theta)])(x))
    result = fitted(problem_of("A(t=5) >= 0.5"), method)
    found = result.standard_errors("independent")
    assert [found[name] for name in ("k", "A0", "s")] == pytest.approx(projected_errors(jacobian, equation), rel=1e-5)
    assert result.dof == T.size - 2


@pytest.mark.slow
def test_standard_errors_agree_with_a_simulation():
    rng = np.random.default_rng(11)
    rule = "A(t=5) = 0.5"
    first = of.fit(problem_of(rule))
    values = of.simulate(problem_of(rule), first.estimates, times=T)["A"].to_numpy()
    settings = of.Settings()
    found = []
    for _ in range(400):
        noisy = values + SIGMA * rng.standard_normal(T.size)
        found.append(estimates(fitted(problem_of(rule, y=noisy, settings=settings, start=estimates(first)), "single")))
    errors = list(first.standard_errors("independent").values())
    assert np.std(found, axis=0, ddof=1) == pytest.approx(errors, rel=0.12)


@of_all
def test_a_two_point_boundary_problem(method):
    """y'' = k y with y(0) = 1 and y(1) given; y'(0) is not known: y = cosh(w x) + y'(0) sinh(w x)/w, w^2 = k."""
    x = np.linspace(0.1, 0.9, 9)
    theta = ca.SX.sym("theta", 2)
    w = ca.sqrt(theta[0])
    y = lambda at: ca.cosh(w * at) + theta[1] / w * ca.sinh(w * at)  # noqa: E731
    data = np.array(ca.Function("y", [theta], [ca.vertcat(*(y(at) for at in x))])([4.0, -1.5])).ravel()
    data = data + 0.02 * np.random.default_rng(2).standard_normal(x.size)
    expected, [multiplier] = kkt(theta, squares([y(at) for at in x], data, 0.02), [y(1.0) - 1.1], (4.0, -1.5))
    problem = of.Problem(
        model=of.Model.from_text("y' = v\nv' = k*y\ny(0) = 1\nv(0) = slope"),
        parameters=[of.Parameter("k", 1.0, lower=0.0), of.Parameter("slope", 0.0)],
        measurements=of.Measurements.from_columns(x, {"y": data}, sigma={"y": 0.02}),
        constraints=("y(t=1) = 1.1",),
        settings=SHARP,
    )
    result = fitted(problem, method)
    assert list(result.estimates.values()) == pytest.approx(expected, rel=1e-6)
    assert result.rules[0].multiplier == pytest.approx(multiplier, rel=1e-6)


@of_all
def test_a_periodic_orbit_of_unknown_period(method):
    """Van der Pol's oscillator: the only periodic orbit is the limit cycle, whose period SciPy finds."""
    rhs = lambda mu: lambda t, z: [z[1], mu * (1.0 - z[0] ** 2) * z[1] - z[0]]  # noqa: E731
    on_cycle = solve_ivp(rhs(1.0), (0.0, 60.0), [2.0, 0.0], rtol=1e-10, atol=1e-12).y[:, -1]
    t = np.linspace(0.4, 10.0, 25)
    values = solve_ivp(rhs(1.0), (0.0, 10.0), on_cycle, t_eval=t, rtol=1e-10, atol=1e-12).y[0]
    data = values + 0.05 * np.random.default_rng(3).standard_normal(t.size)
    guess = np.round(on_cycle, 1)
    problem = of.Problem(
        model=of.Model.from_text("x' = v\nv' = mu*(1 - x^2)*v - x\nx(0) = x0\nv(0) = v0"),
        parameters=[
            of.Parameter("mu", 0.8), of.Parameter("x0", guess[0]), of.Parameter("v0", guess[1]),
            of.Parameter("T", 6.4, lower=5.0, upper=8.0),
        ],
        measurements=of.Measurements.from_columns(t, {"x": data}, sigma={"x": 0.05}),
        constraints=("x(0) = x(t=T)", "v(0) = v(t=T)"),
        settings=of.Settings(rtol=1e-10, tol=1e-9),
    )  # fmt: skip
    result = fitted(problem, method)
    mu, x0, v0, period = (result.estimates[name] for name in ("mu", "x0", "v0", "T"))
    assert mu == pytest.approx(1.0, abs=5.0 * result.parameters["mu"].standard_error)
    # the line through the start across the orbit, crossed from the same side
    direction = np.array(rhs(mu)(0.0, [x0, v0]))
    across = lambda s, z: float(direction @ (np.asarray(z) - [x0, v0]))  # noqa: E731
    across.direction = 1.0
    after = solve_ivp(rhs(mu), (0.0, 9.0), [x0, v0], events=across, rtol=1e-11, atol=1e-13)
    returns = after.t_events[0]
    assert returns[returns > 3.0][0] == pytest.approx(period, rel=1e-7)
    assert [rule.time for rule in result.rules] == pytest.approx([period, period])
    assert result.dof == t.size - 2
    # dT of a period that follows from mu alone
    lower, upper = (fitted_period(rhs, mu + d) for d in (-1e-3, 1e-3))
    errors = result.standard_errors("independent")
    assert errors["T"] == pytest.approx((upper - lower) / 2e-3 * errors["mu"], rel=1e-3)


def fitted_period(rhs, mu):
    """Return the period of the limit cycle."""
    crossing = lambda s, z: z[0]  # noqa: E731
    crossing.direction = 1.0
    times = solve_ivp(rhs(mu), (0.0, 100.0), [2.0, 0.0], events=crossing, rtol=1e-11, atol=1e-13).t_events[0]
    return times[-1] - times[-2]


@of_all
def test_an_equality_is_as_good_as_an_expression(method):
    text = FEED + "\nB' = k*A - k2*B\nB(0) = 0"
    b = 0.4 * (1.0 - np.exp(-T)) + 0.02 * np.random.default_rng(8).standard_normal(T.size)
    data = of.Measurements.from_columns(T, {"A": Y, "B": b}, sigma={"A": SIGMA, "B": 0.02})
    by_rule = problem_of("k = 0.4*k2", text=text, data=data, more=[of.Parameter("k2", 1.0)])
    replaced = of.Problem(
        model=of.Model.from_text(text),
        parameters=[
            of.Parameter("k", expression="0.4*k2"), of.Parameter("A0", 1.0), of.Parameter("s", 0.1),
            of.Parameter("k2", 1.0),
        ],
        measurements=data,
        settings=SHARP,
    )  # fmt: skip
    one, other = fitted(by_rule, method), fitted(replaced, method)
    assert one.estimates == pytest.approx({**other.estimates, "k": 0.4 * other.estimates["k2"]}, rel=1e-6, abs=1e-7)
    errors = one.standard_errors("independent")
    for name, error in other.standard_errors("independent").items():
        assert errors[name] == pytest.approx(error, rel=1e-4)
    assert errors["k"] == pytest.approx(0.4 * errors["k2"], rel=1e-6)
    assert (one.dof, one.n_data) == (other.dof, other.n_data)
    assert one.objective == pytest.approx(other.objective, rel=1e-9)
    assert one.criteria.aic == pytest.approx(other.criteria.aic)


def _prior(closed):
    return closed.objective + 0.5 * ((closed.k - 0.4) / 0.02) ** 2


def _dosed(k, A0, s, t):
    """Solution with a dose of 1 at t = 2."""
    value = s / k + (A0 - s / k) * ca.exp(-k * t)
    return value if t <= 2.0 else value + ca.exp(-k * (t - 2.0))


VARIANTS = {
    "log scales": (("A(t=5) >= 0.5",), lambda c: [c.at(5.0) - 0.5], {"of_parameters": {
        "k": {"scale": "log"}, "A0": {"scale": "log10"}, "s": {"scale": "logit", "lower": 0.0, "upper": 5.0}}}),
    "a bound that is active too": (("A(t=5) >= 0.5",), lambda c: [c.at(5.0) - 0.5, c.A0 - 1.8], {
        "of_parameters": {"A0": {"upper": 1.8}}}),
    "a prior": (("A(t=5) >= 0.5",), lambda c: [c.at(5.0) - 0.5], {
        "of_parameters": {"k": {"prior": "normal(0.4, 0.02)"}}}),
    "starts that violate rules": (("A(t=5) >= 0.5", "k <= 3"), lambda c: [c.at(5.0) - 0.5], {"start": (4.0, 9.0, 0.0)}),
    "starts far away": (("A(t=5) >= 0.5", "k >= 0"), lambda c: [c.at(5.0) - 0.5], {"start": (-1.0, 30.0, 0.1)}),
    "a rule behind the data": (("A(t=20) >= 0.5",), lambda c: [c.at(20.0) - 0.5], {}),
    "a rule at the start": (("A(0) <= 1.8",), lambda c: [c.A0 - 1.8], {}),
    "a mean": (("mean(A, over=t, from=0, to=5) = 0.9",), lambda c: [
        (c.s / c.k * 5.0 + (c.A0 - c.s / c.k) * (1.0 - ca.exp(-5.0 * c.k)) / c.k) / 5.0 - 0.9], {}),
    "as many as parameters": (("A(t=5) = 0.5", "k = 0.5", "A0 = 1.8"),
        lambda c: [c.at(5.0) - 0.5, c.k - 0.5, c.A0 - 1.8], {}),
    "twice the same": (("A(t=5) = 0.5", "A(t=5) = 0.5", "1e6*A(t=5) = 0.5e6"), lambda c: [c.at(5.0) - 0.5], {}),
    "a large unit": (("1e9*A(t=5) >= 0.5e9",), lambda c: [c.at(5.0) - 0.5], {}),
    "a small unit": (("1e-9*A(t=5) >= 0.5e-9",), lambda c: [c.at(5.0) - 0.5], {}),
}  # fmt: skip


@of_method
@pytest.mark.parametrize("name", VARIANTS)
def test_rules_in_problems_of_all_kinds(name, method):
    rules, active, options = VARIANTS[name]
    closed = Closed()
    objective = _prior(closed) if "prior" in name else None
    start = (0.5, 1.8, 0.15) if "as many" in name else (0.6, 2.0, 0.2)
    expected, _ = closed.solve(*active(closed), objective=objective, start=start)
    result = fitted(problem_of(*rules, **options), method)
    assert estimates(result) == pytest.approx(expected, rel=2e-6)
    assert not [rule for rule in result.rules if rule.state == "violated"]
    assert result.dof == T.size - max(0, 3 - len(active(closed)))


@of_method
def test_events_and_doses(method):
    closed = Closed()
    at = lambda t: _dosed(closed.k, closed.A0, closed.s, t)  # noqa: E731
    y = Y + np.where(T > 2.0, np.exp(-0.6 * (T - 2.0)), 0.0)
    x, multipliers = kkt(closed.theta, squares([at(t) for t in T], y), [0.75 - at(2.0), at(3.0) - 1.2], (0.6, 2.0, 0.2))
    rules = ("A(t=2) <= 0.75", "A(t=3) >= 1.2")
    by_event = problem_of(*rules, y=y, text=FEED + "\nat t=2: A += 1")
    by_dose = problem_of(*rules, y=y, experiments=[of.Experiment("main", events=(of.Dose(2.0, "A", 1.0),))])
    for problem in (by_event, by_dose):
        result = fitted(problem, method)
        assert estimates(result) == pytest.approx(x, rel=1e-6)
        assert [rule.multiplier for rule in result.rules] == pytest.approx(multipliers, rel=1e-5)


@of_method
def test_data_of_infinite_weight_beside_rules(method):
    closed = Closed()
    data = of.Measurements.from_columns(T, {"A": Y}, weight={"A": [1.0] * 9 + [math.inf]})
    objective = 0.5 * sum((closed.at(T[i]) - Y[i]) ** 2 for i in range(9))
    x, multipliers = closed.solve(closed.at(5.0) - Y[-1], closed.k - 0.5, objective=objective)
    result = fitted(problem_of("k <= 0.5", data=data), method)
    assert multipliers[1] < 0.0
    assert estimates(result) == pytest.approx(x, rel=1e-6)
    assert result.rules[0].multiplier == pytest.approx(-multipliers[1], rel=1e-5)
    assert result.dof == 8


@of_method
def test_rules_hold_in_every_experiment(method):
    theta = ca.SX.sym("theta", 4)
    k, a, b, s = ca.vertsplit(theta)
    at = lambda start, t: s / k + (start - s / k) * ca.exp(-k * t)  # noqa: E731
    y = [*Y, *(1.5 * Y)]
    objective = squares([*(at(a, t) for t in T), *(at(b, t) for t in T)], y)
    x, multipliers = kkt(theta, objective, [at(a, 5.0) - 0.45, 2.6 - b], (0.6, 2.0, 2.8, 0.2))
    assert (multipliers > 0.0).all()
    data = of.Measurements.from_columns(
        [*T, *T], {"A": y}, experiment=["a"] * 10 + ["b"] * 10, sigma={"A": SIGMA}
    )  # fmt: skip
    problem = problem_of(
        "A(t=5) >= 0.45", "A0 <= 2.6", data=data, of_parameters={"A0": {"per": "experiment"}},
        experiments=[of.Experiment("a"), of.Experiment("b")],
    )  # fmt: skip
    result = fitted(problem, method)
    assert [result.estimates[name] for name in ("k", "A0[a]", "A0[b]", "s")] == pytest.approx(x, rel=1e-6)
    places = {(rule.text, rule.experiment): rule for rule in result.rules}
    assert len(places) == 4
    assert places["A(t=5) >= 0.45", "a"].multiplier == pytest.approx(multipliers[0], rel=1e-6)
    assert places["A0 <= 2.6", "b"].multiplier == pytest.approx(multipliers[1], rel=1e-6)
    assert places["A(t=5) >= 0.45", "b"].state == places["A0 <= 2.6", "a"].state == "inactive"


@of_method
@pytest.mark.parametrize("unit", [1e6, 1e-6])
def test_units_make_no_difference(unit, method):
    data = of.Measurements.from_columns(T, {"A": unit * Y}, sigma={"A": unit * SIGMA})
    settings = of.Settings(rtol=1e-10, tol=1e-9)
    one = fitted(problem_of("A(t=5) >= 0.5", settings=settings), method)
    other = fitted(
        problem_of(f"A(t=5) >= {0.5 * unit!r}", data=data, settings=settings, start=(1.0, unit, 0.1 * unit)), method
    )
    k, A0, s = estimates(other)
    assert [k, A0 / unit, s / unit] == pytest.approx(estimates(one), rel=1e-6)
    assert other.rules[0].multiplier * unit == pytest.approx(one.rules[0].multiplier, rel=1e-5)
    assert other.rules[0].state == "active"


@of_method
def test_exact_data_meet_rules_that_are_true(method):
    exact = 0.3 + 1.7 * np.exp(-0.6 * T)
    data = of.Measurements.from_columns(T, {"A": exact})
    end = 0.3 + 1.7 * math.exp(-3.0)
    for rules in (("k <= 0.6", "A(0) >= 2"), (f"A(t=5) = {end!r}",), ("A >= 0",), (f"A(t=5) >= {end!r}",)):
        result = fitted(problem_of(*rules, data=data, settings=of.Settings()), method)
        assert estimates(result) == pytest.approx([0.6, 2.0, 0.18], rel=1e-5)
        assert not [rule for rule in result.rules if rule.state == "violated"]


PATH = "A' = -k*A\nB' = k*A - s*B\nA(0) = A0\nB(0) = 0"


def path_problem(*rules, **settings):
    """B rises and falls; its true largest value is about 0.89."""
    values = 2.0 * 0.8 / (0.8 - 0.5) * (np.exp(-0.5 * T) - np.exp(-0.8 * T))
    y = values + 0.03 * np.random.default_rng(6).standard_normal(T.size)
    data = of.Measurements.from_columns(T, {"B": y}, sigma={"B": 0.03})
    return problem_of(
        *rules, text=PATH, data=data, start=(0.7, 1.5, 0.6), settings=of.Settings(rtol=1e-9, tol=1e-8, **settings),
        of_parameters={"k": {"lower": 0.65}},
    )  # fmt: skip


@of_method
@pytest.mark.parametrize("grid", [10, 300, (1.0, 1.5, 2.0, 7.0)])
def test_a_path_constraint_holds_on_its_grid(method, grid):
    result = fitted(path_problem("B <= 0.8", path_times=grid), method)
    times = [rule.time for rule in result.rules]
    assert times == (list(grid) if isinstance(grid, tuple) else times)
    assert len(times) >= (len(grid) if isinstance(grid, tuple) else grid + 1)
    values = of.simulate(path_problem(), result.estimates, times=times)["B"].to_numpy()
    assert values.max() == pytest.approx(0.8, abs=1e-6)
    np.testing.assert_allclose([rule.value for rule in result.rules], 0.8 - values, atol=1e-6)
    active = [rule for rule in result.rules if rule.state == "active"]
    assert 1 <= len(active) <= 2
    assert all(rule.multiplier > 0.0 for rule in active)
    free = fitted(path_problem(), method)
    assert result.objective > free.objective
    assert result.evaluations <= 40 + 4 * free.evaluations


def test_a_finer_grid_changes_little():
    coarse, fine = (fitted(path_problem("B <= 0.8", path_times=n), "single") for n in (50, 500))
    assert fine.objective == pytest.approx(coarse.objective, rel=1e-2)
    assert fine.evaluations <= 3 * coarse.evaluations
    finest = of.simulate(path_problem(), fine.estimates, times=np.linspace(0.0, 5.0, 2001))["B"].max()
    assert finest <= 0.8 + 1e-5


DAE = "A' = -k*H*A\nA(0) = A0\nalgebraic H ~ 1\n0 = H*H + A*H - s"


@of_method
@pytest.mark.parametrize("fixed", ["H(t=5) >= 1.3", "H >= 0.85"])
def test_an_algebraic_unknown_in_rules(method, fixed):
    """H = -A/2 + sqrt(A^2/4 + s), which may be written instead."""
    text = DAE.split("algebraic")[0] + "H = -A/2 + sqrt(A^2/4 + s)"
    options = {
        "of_parameters": {"s": {"fixed": True}},
        "start": (0.5, 1.5, 2.0),
        "settings": of.Settings(rtol=1e-9, tol=1e-8),
    }
    found = fitted(problem_of(fixed, text=DAE, **options), method)
    plain = fitted(problem_of(fixed, text=text, **options), method)
    assert estimates(found) == pytest.approx(estimates(plain), rel=1e-5)
    assert [rule.state for rule in found.rules] == [rule.state for rule in plain.rules]
    assert "active" in [rule.state for rule in found.rules]


@pytest.mark.parametrize("method", ["single", "multiple"])
def test_many_starts_and_start_values_from_the_data(method):
    closed = Closed()
    x, _ = closed.solve(closed.at(5.0) - 0.5)
    problem = problem_of("A(t=5) >= 0.5", settings=of.Settings(rtol=1e-9, tol=1e-8))
    many = of.fit(problem, method=method, starts=5, workers=1)
    assert len(many.multistart.runs) == 5
    matched = of.fit(problem, method=method, start="auto")
    for result in (many, matched):
        assert result.converged
        assert estimates(result) == pytest.approx(x, rel=1e-6)
        assert result.rules[0].state == "active"


CONTRADICTORY = {
    "inequalities": (("k <= 0.2", "k >= 0.3", "A0 >= 0"), {}, '"k <= 0.2", "k >= 0.3"'),
    "equalities": (("k = 0.2", "2*k = 0.6"), {}, '"k = 0.2", "2\\*k = 0.6"'),
    "a bound": (("k <= 0.2",), {"of_parameters": {"k": {"lower": 0.5}}}, '"k <= 0.2", the bound k >= 0.5'),
    "a scale": (("k <= -0.2",), {"of_parameters": {"k": {"scale": "log"}}}, "\"k <= -0.2\", the scale 'log' of k"),
    "a chain": (("k <= A0", "2*A0 <= k", "k >= 0.1"), {}, '"k <= A0", "2\\*A0 <= k", "k >= 0.1"'),
    "more than parameters": (("k = 0.4", "A0 = 2", "s = 1", "k + A0 + s = 3"), {}, '"k \\+ A0 \\+ s = 3"'),
    "an initial value": (("A(0) <= 1", "A0 >= 2"), {}, '"A\\(0\\) <= 1", "A0 >= 2"'),
}


@of_method
@pytest.mark.parametrize("name", CONTRADICTORY)
def test_contradictory_rules_of_parameters_are_refused_at_once(name, method):
    rules, options, words = CONTRADICTORY[name]
    with pytest.raises(of.ProblemError, match=f"these rules contradict each other: .*{words}"):
        of.fit(problem_of(*rules, **options), method=method)


def test_they_are_refused_for_many_starts_too():
    with pytest.raises(of.ProblemError, match="these rules contradict each other"):
        of.fit(problem_of("k <= 0.2", "k >= 0.3"), starts=3, workers=1)


@pytest.mark.parametrize("rules", [("k <= 0.4", "k >= 0.4"), ("k = 0.4", "k <= 0.4"), ("floor(k) >= 0", "k <= 0.4")])
@of_method
def test_rules_that_just_agree_are_not_refused(rules, method):
    result = fitted(problem_of(*rules), method)
    assert result.estimates["k"] == pytest.approx(0.4, rel=1e-9)


@of_all
def test_contradictory_rules_at_times_are_named(method):
    result = of.fit(problem_of("A(t=5) >= 0.9", "A(t=5) <= 0.2", settings=of.Settings()), method=method)
    assert result.status == "infeasible"
    words = "these rules cannot be met together, as far as can be told from here"
    assert result.message == f'{words}: "A(t=5) >= 0.9", "A(t=5) <= 0.2"'
    assert all(math.isnan(rule.multiplier) for rule in result.rules)
    assert result.evaluations < 3000


ELSEWHERE = FEED + "\nB' = 1\nB(0) = 0"


@of_method
def test_a_rule_that_no_parameter_influences(method):
    met = fitted(problem_of("B(t=5) >= 2", "B(t=5) = 5", text=ELSEWHERE, settings=of.Settings()), method)
    assert [rule.state for rule in met.rules] == ["inactive", "redundant"]
    assert [rule.multiplier for rule in met.rules] == [0.0, 0.0]
    assert met.dof == 7
    for rule in ("B(t=5) >= 7", "B(t=5) = 7"):
        missed = of.fit(problem_of(rule, text=ELSEWHERE, settings=of.Settings()), method=method)
        assert missed.status == "infeasible"
        assert missed.message == f'rules could not be met: missed are "{rule}" by 2'
        assert missed.rules[0].state == "violated"
        assert missed.evaluations < 1000


@of_method
def test_dependent_equalities_have_one_multiplier(method):
    closed = Closed()
    _, [multiplier] = closed.solve(closed.at(5.0) - 0.5)
    result = fitted(problem_of("A(t=5) = 0.5", "A(t=5) = 0.5", "1e6*A(t=5) = 0.5e6"), method)
    total = sum(one.multiplier * (1e6 if one.text.startswith("1e6") else 1.0) for one in result.rules)
    assert total == pytest.approx(multiplier, rel=1e-6)
    assert sorted(one.state for one in result.rules) == ["holds", "redundant", "redundant"]


@of_method
def test_a_time_that_moves_out_of_reach_is_named(method):
    """A = 0.01 only at about t = 10, behind the data; the start value lets T come to 5 at most."""
    problem = problem_of(
        "A(t=T) = 0.01", more=[of.Parameter("T", 1.0)], of_parameters={"s": {"fixed": True}}, start=(1.0, 1.0, 0.0),
        settings=of.Settings(), y=2.0 * np.exp(-0.5 * T) + 0.01 * np.cos(7.0 * T),
    )  # fmt: skip
    result = of.fit(problem, method=method)
    assert not result.converged
    assert '"A(t=T) = 0.01" looks at t = ' in result.message
    assert "give that time a larger start value or upper bound" in result.message
    assert result.evaluations < 5000
    later = fitted(problem.with_bounds(T=(0.5, 20.0)).with_start(T=8.0), method)
    assert later.estimates["T"] == pytest.approx(
        math.log(later.estimates["A0"] / 0.01) / later.estimates["k"], rel=1e-6
    )
    assert later.rules[0].time == pytest.approx(later.estimates["T"])
    assert later.dof == 8
