"""The evaluator for other optimisers and samplers: closed forms, derivatives, and a function of the point alone."""

from __future__ import annotations

import math
import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
from scipy.optimize import least_squares, minimize

import odefit as of
from odefit.gallery import load
from odefit.transcribe import evaluator as module

T = np.array([0.0, 0.5, 2.0])
DATA = np.array([1.0, 0.8, 0.3])


def decay(*, sigma=None, value=DATA, weight=None, k: dict | None = None, a: dict | None = None, **rest) -> of.Problem:
    """x = a exp(-k t), three data."""
    data = of.Measurements(["main"] * 3, T, ["x"] * 3, value, sigma=sigma, weight=weight)
    parameters = (of.Parameter("k", 0.7, **(k or {})), of.Parameter("a", 2.0, **(a or {})))
    return of.Problem(of.Model.from_text("x' = -k*x\nx(0) = a"), parameters, data, **rest)


def pole() -> of.Problem:
    """x = 1/(1 - k t) ends at t = 1/k; the datum lies at 0.5."""
    model = of.Model.from_text("x' = k*x^2\nx(0) = 1")
    return of.Problem(model, [of.Parameter("k", 1.0)], of.Measurements.from_columns([0.5], {"x": [2.5]}))


def oscillator(start: float = 2.0, **settings) -> of.Problem:
    """Van der Pol's equation: `auto` leaves it to the stiff method where mu is large."""
    model = of.Model.from_text("x' = y\ny' = mu*((1 - x^2)*y - x)\nx(0) = x0\ny(0) = 0")
    parameters = [of.Parameter("mu", start, lower=0.1, upper=1e6, scale="log"), of.Parameter("x0", 2.0)]
    data = of.Measurements.from_columns([0.2, 0.5], {"x": [1.8, 1.5]})
    return of.Problem(model, parameters, data, settings=of.Settings(**settings))


def residual(k, a):
    return a * np.exp(-k * T) - DATA


def slopes(k, a):
    return np.stack([-a * T * np.exp(-k * T), np.exp(-k * T)], axis=1)


def difference(f, x: np.ndarray, h: float = 1e-3) -> np.ndarray:
    """Return the derivatives of `f` by central differences of fourth order, the last axis for the variables."""
    columns = []
    for j in range(x.size):
        step = np.zeros(x.size)
        step[j] = h * max(abs(x[j]), 0.1)
        values = [np.asarray(f(x + i * step)) for i in (-2, -1, 1, 2)]
        columns.append((values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * step[j]))
    return np.stack(columns, axis=-1)


# --- values ---


def test_names_start_and_bounds():
    problem = decay(k={"scale": "log", "lower": 0.1, "upper": 9.0}, a={"lower": 0.0})
    natural, solver = of.Evaluator(problem), of.Evaluator(problem, scale="solver")
    assert natural.names == solver.names == ("k", "a")
    assert (natural.start.tolist(), natural.lower.tolist(), natural.upper.tolist()) == (
        [0.7, 2],
        [0.1, 0],
        [9, math.inf],
    )
    np.testing.assert_allclose(solver.start, [math.log(0.7), 2.0])
    np.testing.assert_allclose(solver.lower, [math.log(0.1), 0.0])
    np.testing.assert_allclose(solver.upper, [math.log(9.0), math.inf])
    with pytest.raises(ValueError, match="read-only"):
        natural.start[0] = 1.0
    assert repr(natural) == "Evaluator(k, a; 3 residuals, scale='natural')"


@pytest.mark.parametrize(
    "x", [[0.9, 1.5], (0.9, 1.5), np.array([0.9, 1.5]), {"k": 0.9, "a": 1.5}, {"a": 1.5, "k": 0.9}]
)
def test_closed_form(x):
    evaluator = of.Evaluator(decay(sigma=[0.1, 0.1, 0.2]))
    weights = 1.0 / np.array([0.1, 0.1, 0.2])
    r, j = weights * residual(0.9, 1.5), weights[:, None] * slopes(0.9, 1.5)
    np.testing.assert_allclose(evaluator.residuals(x), r, atol=1e-5)
    np.testing.assert_allclose(evaluator.jacobian(x), j, atol=1e-4)
    loglik = -0.5 * r @ r + np.log(weights).sum() - 1.5 * math.log(2 * math.pi)
    assert evaluator.loglik(x) == pytest.approx(loglik, rel=1e-5)
    assert evaluator.objective(x) == pytest.approx(0.5 * r @ r, rel=1e-5)
    np.testing.assert_allclose(evaluator.gradient(x), -j.T @ r, rtol=1e-4)


def test_names_that_are_left_out_keep_their_start():
    evaluator = of.Evaluator(decay())
    np.testing.assert_array_equal(evaluator.residuals({"k": 0.9}), evaluator.residuals([0.9, 2.0]))
    np.testing.assert_array_equal(evaluator.residuals({}), evaluator.residuals(evaluator.start))


def test_a_name_with_several_values_means_all_of_them():
    data = of.Measurements.from_columns([1.0, 1.0], {"x": [1.0, 2.0]}, experiment=["one", "two"])
    parameters = [of.Parameter("k", 0.7), of.Parameter("a", 2.0, per="experiment")]
    experiments = (of.Experiment("one"), of.Experiment("two"))
    model = of.Model.from_text("x' = -k*x\nx(0) = a")
    evaluator = of.Evaluator(of.Problem(model, parameters, data, experiments=experiments))
    assert evaluator.names == ("k", "a[one]", "a[two]")
    np.testing.assert_array_equal(evaluator.residuals({"a": 3.0}), evaluator.residuals([0.7, 3.0, 3.0]))
    np.testing.assert_array_equal(evaluator.residuals({"a[two]": 3.0}), evaluator.residuals([0.7, 2.0, 3.0]))


@pytest.mark.parametrize("order", [0, 1])
def test_the_record_is_that_of_problem_evaluate(order):
    problem = decay(k={"scale": "log", "prior": "normal(1, 0.1)"})
    mine, theirs = of.Evaluator(problem).evaluate([0.9, 1.5], order), problem.evaluate({"k": 0.9, "a": 1.5}, order)
    assert (mine.status, mine.message, mine.objective, mine.loglik) == ("ok", "", theirs.objective, theirs.loglik)
    np.testing.assert_array_equal(mine.residuals, theirs.residuals)
    assert (mine.jacobian is None) == (theirs.jacobian is None) == (order == 0)
    if order:
        np.testing.assert_array_equal(mine.jacobian, theirs.jacobian)


def test_priors_are_in_the_objective_and_the_last_residuals_but_not_in_the_likelihood():
    sigma = [0.1] * 3
    prior, plain = of.Evaluator(decay(k={"prior": "normal(1, 0.2)"}, sigma=sigma)), of.Evaluator(decay(sigma=sigma))
    x = [0.9, 1.5]
    assert (prior.n_data, prior.n_residuals, plain.n_residuals) == (3, 4, 3)
    np.testing.assert_allclose(prior.residuals(x), [*plain.residuals(x), -0.5])
    assert prior.objective(x) == pytest.approx(plain.objective(x) + 0.125)
    assert prior.loglik(x) == plain.loglik(x)
    np.testing.assert_array_equal(prior.gradient(x), plain.gradient(x))
    # with given sigmas the objective is the negative logarithm of the posterior, up to a constant
    constants = [prior.objective(z) + prior.loglik(z) - 0.5 * ((z[0] - 1) / 0.2) ** 2 for z in ([0.9, 1.5], [1.4, 1.1])]
    assert constants[0] == pytest.approx(constants[1], rel=1e-12)


def test_missing_data_have_no_residual():
    evaluator = of.Evaluator(decay(value=[1.0, math.nan, 0.3]))
    assert evaluator.n_residuals == 2
    np.testing.assert_allclose(evaluator.residuals([0.9, 1.5]), residual(0.9, 1.5)[[0, 2]], atol=1e-6)
    assert evaluator.jacobian([0.9, 1.5]).shape == (2, 2)
    assert np.isfinite(evaluator.gradient([0.9, 1.5])).all()


# --- derivatives ---

TIGHT = of.Settings(rtol=1e-11, atol=1e-13)
CASES = {
    "absolute": decay(sigma=[0.1, 0.2, 0.3], settings=TIGHT),
    "relative": decay(settings=TIGHT),
    "weighted": decay(weight=[1.0, 2.0, 5.0], settings=TIGHT),
    "exact": decay(weight=[math.inf, 2.0, 5.0], settings=TIGHT),
    "priors": decay(k={"scale": "log10", "prior": "lognormal(1, 0.1)"}, sigma=[0.1] * 3, settings=TIGHT),
    "scales": decay(k={"scale": "log"}, a={"scale": "logit", "lower": 0.5, "upper": 3.0}, settings=TIGHT),
}


@pytest.mark.parametrize("scale", ["natural", "solver"])
@pytest.mark.parametrize("case", CASES)
def test_derivatives_against_differences(case, scale):
    evaluator = of.Evaluator(CASES[case], scale=scale)
    x = evaluator.start * 1.1
    np.testing.assert_allclose(evaluator.gradient(x), difference(evaluator.loglik, x), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(evaluator.jacobian(x), difference(evaluator.residuals, x), rtol=1e-6, atol=1e-8)


def test_scales_give_the_same_numbers():
    natural, solver = (of.Evaluator(CASES["scales"], scale=scale) for scale in ("natural", "solver"))
    x = np.array([0.9, 1.2])
    theta = np.array([math.log(0.9), math.log((1.2 - 0.5) / (3.0 - 1.2))])
    for method in ("residuals", "loglik", "objective"):
        np.testing.assert_allclose(getattr(natural, method)(x), getattr(solver, method)(theta), rtol=1e-9, atol=1e-12)
    chain = np.array([0.9, (1.2 - 0.5) * (3.0 - 1.2) / 2.5])  # dq/dtheta
    np.testing.assert_allclose(natural.jacobian(x) * chain, solver.jacobian(theta), rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(natural.gradient(x) * chain, solver.gradient(theta), rtol=1e-7)


@pytest.mark.parametrize("name", ["barnes", "pyridine", "robertson", "ecoli_batches"])
def test_values_do_not_depend_on_the_order_of_derivatives(name):
    """So that what is remembered of a Jacobian answers for residuals."""
    problem = load(name)
    alone, both = of.Evaluator(problem), of.Evaluator(problem)
    x = alone.start * 1.01
    residuals, jacobian = both.residuals_and_jacobian(x)
    np.testing.assert_array_equal(alone.residuals(x), residuals)
    np.testing.assert_array_equal(alone.jacobian(x), jacobian)
    assert (of.Evaluator(problem).loglik(x), of.Evaluator(problem).objective(x)) == (both.loglik(x), both.objective(x))


# --- where there is nothing ---


def assert_nothing(evaluator: of.Evaluator, x, words: str) -> None:
    n, n_residuals = len(evaluator.names), evaluator.n_residuals
    assert np.isnan(evaluator.residuals(x)).all()
    assert evaluator.residuals(x).shape == (n_residuals,)
    assert np.isnan(evaluator.jacobian(x)).all()
    assert evaluator.jacobian(x).shape == (n_residuals, n)
    assert np.isnan(evaluator.gradient(x)).all()
    assert evaluator.gradient(x).shape == (n,)
    assert (evaluator.loglik(x), evaluator.objective(x)) == (-math.inf, math.inf)
    record = evaluator.evaluate(x)
    assert record.status == "failed"
    assert words in record.message
    assert np.isnan([*record.residuals, record.objective, record.loglik]).all()


@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize(
    ("x", "words"),
    [
        ([0.05, 2.0], "'k' is 0.05, outside its bounds [0.1, 9]"),
        ([9.1, 2.0], "'k' is 9.1, outside its bounds [0.1, 9]"),
        ([0.7, math.nan], "'a' is nan, outside its bounds [0, inf]"),
        ([0.7, 0.0], "'a' is 0, which its scale 'log' cannot reach"),
        ({"a": -1.0}, "'a' is -1, outside its bounds [0, inf]"),
    ],
)
def test_outside_the_bounds(x, words, freeze):
    evaluator = of.Evaluator(decay(k={"lower": 0.1, "upper": 9.0}, a={"scale": "log", "lower": 0.0}), freeze=freeze)
    assert_nothing(evaluator, x, words)
    assert np.isfinite(evaluator.residuals([0.1, 2.0])).all()  # the bound itself is inside


@pytest.mark.parametrize(("x", "words"), [([-2.4, 2.0], "[-2.30"), ([0.0, math.inf], "'a' is inf, which its scale")])
def test_outside_the_bounds_of_the_solver(x, words):
    evaluator = of.Evaluator(decay(k={"lower": 0.1, "upper": 9.0, "scale": "log"}), scale="solver")
    assert_nothing(evaluator, x, words)


@pytest.mark.parametrize("freeze", [False, True])
def test_where_the_model_fails(freeze):
    evaluator = of.Evaluator(pole(), freeze=freeze)
    assert_nothing(evaluator, [9.0], "the solution could not be continued beyond t = 0.111")
    assert evaluator.residuals([1.0])[0] == pytest.approx(2.0 - 2.5, abs=1e-6)  # nothing of it stays


@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize("first", ["residuals", "jacobian"])
def test_a_value_without_a_derivative(first, freeze):
    """sqrt(k) at k = 0, whichever is asked for first."""
    data = of.Measurements.from_columns([0.0, 1.0], {"y": [1.0, 1.0]})
    problem = of.Problem(of.Model.from_text("y = sqrt(k) + t"), [of.Parameter("k", 1.0, lower=0.0)], data)
    evaluator = of.Evaluator(problem, freeze=freeze)
    getattr(evaluator, first)([0.0])
    assert np.isnan(evaluator.jacobian([0.0])).all()
    np.testing.assert_array_equal(evaluator.residuals([0.0]), [-1.0, 0.0])
    assert "the derivative of an observable with respect to 'k'" in evaluator.evaluate([0.0]).message
    assert evaluator.evaluate([0.0], order=0).status == "ok"


@pytest.mark.parametrize(
    ("x", "words"),
    [
        ([0.7], r"a point has the shape \(1,\), but there are 2 free parameters: k, a\."),
        ([[0.7, 2.0]], r"a point has the shape \(1, 2\), but there are 2 free"),
        (0.7, r"a point has the shape \(\), but there are 2 free"),
        ("k", r"a point is 2 numbers or a mapping of names to numbers, not 'k'\."),
        ([0.7, "x"], "a point is 2 numbers or a mapping of names to numbers"),
        ({"kk": 0.7}, r"there is no free parameter 'kk'; did you mean 'k'\?"),
        ({"zzz": 0.7}, r"there is no free parameter 'zzz'\."),
        ({"k": "fast"}, r"'k' was given the value 'fast'; give a number\."),
    ],
)
def test_points_that_are_none(x, words):
    with pytest.raises(of.ProblemError, match=words):
        of.Evaluator(decay()).residuals(x)


def test_other_mistakes():
    with pytest.raises(of.OdefitError, match=r"an evaluator has no scale 'natura'; did you mean 'natural'\?"):
        of.Evaluator(decay(), scale="natura")
    with pytest.raises(of.ProblemError, match="'k' is not free; make an evaluator of problem.with_start"):
        of.Evaluator(decay().with_fixed("k")).residuals({"k": 1.0})
    with pytest.raises(of.OdefitError, match="evaluate was asked for order 2; residuals have orders 0 and 1"):
        of.Evaluator(decay()).evaluate(order=2)
    with pytest.raises(of.OdefitError, match="every evaluation chooses its own steps"):
        of.Evaluator(decay()).refresh([0.7, 2.0])
    with pytest.raises(of.FitError, match="there is nothing to fit"):
        of.Evaluator(decay(value=[math.nan] * 3))


# --- a function of the point alone ---


def test_nothing_depends_on_what_was_asked_before():
    """Explicit and stiff points mixed: an objective of its own would remember where a method gave up."""
    problem = oscillator()
    points = [[mu, 2.0] for mu in (2.0, 1e5, 300.0, 3e3, 1e3, 2.0, 1e5, 700.0, 300.0)]
    used = of.Evaluator(problem)
    for x in points:
        fresh = of.Evaluator(problem)
        np.testing.assert_array_equal(used.residuals(x), fresh.residuals(x))
        assert used.evaluate(x, 0).status == "ok"
        np.testing.assert_array_equal(used.gradient(x), of.Evaluator(problem).gradient(x))


def test_a_last_point_is_remembered(monkeypatch):
    counted = []

    class Counting(module.SingleShooting):
        def evaluate(self, x, order):
            counted.append(order)
            return super().evaluate(x, order)

    monkeypatch.setattr(module, "SingleShooting", Counting)
    evaluator, x = of.Evaluator(decay()), np.array([0.9, 1.5])
    evaluator.residuals(x)
    evaluator.loglik(x)
    evaluator.objective({"k": 0.9, "a": 1.5})
    assert counted == [0]
    evaluator.jacobian(x)
    evaluator.residuals(x)
    evaluator.gradient(x)
    assert counted == [0, 1]
    x[0] = 1.0  # the caller's array may change
    evaluator.residuals(x)
    assert counted == [0, 1, 0]


def test_results_belong_to_the_caller():
    evaluator, x = of.Evaluator(decay()), [0.9, 1.5]
    residuals, jacobian = evaluator.residuals_and_jacobian(x)
    expected = residuals.copy(), jacobian.copy()
    for array in (residuals, jacobian, evaluator.evaluate(x).residuals, evaluator.evaluate(x).jacobian):
        array[:] = 7.0
    np.testing.assert_array_equal(evaluator.residuals(x), expected[0])
    np.testing.assert_array_equal(evaluator.jacobian(x), expected[1])


def test_any_layout_of_the_point():
    evaluator, wide = of.Evaluator(decay()), np.array([1.5, 7.0, 0.9])
    read_only = np.array([0.9, 1.5])
    read_only.flags.writeable = False
    for x in (wide[::-2], read_only, np.array([0.9, 1.5], dtype=np.longdouble)):
        np.testing.assert_array_equal(evaluator.jacobian(x), of.Evaluator(decay()).jacobian([0.9, 1.5]))


@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize("problem", [load("barnes"), oscillator()], ids=["barnes", "oscillator"])
def test_threads_get_what_one_gets(problem, freeze):
    evaluator, serial = of.Evaluator(problem, freeze=freeze), of.Evaluator(problem, freeze=freeze)
    if freeze:
        evaluator.refresh(evaluator.start)
        serial.refresh(serial.start)
    rng = np.random.default_rng(0)
    points = evaluator.start * rng.uniform(0.9, 1.1, (60, evaluator.start.size))

    def everything(one, x):
        return [*one.residuals(x), *one.jacobian(x).ravel(), one.loglik(x), *one.gradient(x), one.objective(x)]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda x: everything(evaluator, x), points))
    np.testing.assert_array_equal(found, [everything(serial, x) for x in points])


@pytest.mark.parametrize("freeze", [False, True])
def test_pickles(freeze):
    problem = decay(k={"scale": "log", "prior": "normal(1, 0.2)"}, settings=of.Settings(rtol=1e-4))
    evaluator = of.Evaluator(problem, scale="solver", freeze=freeze)
    evaluator.residuals([0.3, 1.0])  # where frozen steps are chosen
    other = pickle.loads(pickle.dumps(evaluator))
    assert (other.names, other.scale, other.freeze) == (evaluator.names, "solver", freeze)
    x = [-0.1, 1.5]
    np.testing.assert_array_equal(other.jacobian(x), evaluator.jacobian(x))
    assert other.loglik(x) == evaluator.loglik(x)


def test_process_pools():
    evaluator = of.Evaluator(decay())
    points = [[0.7, 2.0], [0.9, 1.5], [0.5, 1.1]]
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert list(pool.map(evaluator.loglik, points)) == [evaluator.loglik(x) for x in points]


# --- frozen steps ---


def test_derivatives_on_frozen_steps_are_exact():
    """Differences see the steps change, by far more than their own error, unless these are frozen."""
    problem = load("barnes").with_settings(rtol=1e-3, atol=1e-5)
    frozen, free = of.Evaluator(problem, freeze=True), of.Evaluator(problem)
    x = frozen.start.copy()
    frozen.refresh(x)
    at = 1.02 * x
    exact = np.abs(frozen.jacobian(at) - difference(frozen.residuals, at)).max()
    assert exact < 1e-8
    assert np.abs(free.jacobian(at) - difference(free.residuals, at)).max() > 100 * exact


def test_the_first_point_chooses_the_steps():
    problem = load("barnes").with_settings(rtol=1e-3, atol=1e-5)
    first, refreshed = of.Evaluator(problem, freeze=True), of.Evaluator(problem, freeze=True)
    x, y = first.start, 1.3 * first.start
    assert np.isnan(first.residuals(np.full(x.size, math.nan))).all()  # no point at which steps could be chosen
    first.residuals(x)
    refreshed.refresh(x)
    np.testing.assert_array_equal(first.residuals(y), refreshed.residuals(y))
    before = refreshed.residuals(y)
    np.testing.assert_array_equal(refreshed.residuals(y), before)
    refreshed.refresh(y)
    assert np.abs(refreshed.residuals(y) - before).max() > 1e-9
    np.testing.assert_array_equal(refreshed.residuals(y), of.Evaluator(problem).residuals(y))


def test_steps_cannot_be_chosen_where_the_model_fails():
    evaluator = of.Evaluator(pole(), freeze=True)
    evaluator.refresh([1.0])
    expected = evaluator.residuals([1.1])
    with pytest.raises(of.FitError, match="steps cannot be chosen at this point: the solution could not be continued"):
        evaluator.refresh([9.0])
    np.testing.assert_array_equal(evaluator.residuals([1.1]), expected)
    with pytest.raises(of.FitError, match="steps cannot be chosen at this point: 'k' is nan"):
        evaluator.refresh([math.nan])


# --- in use ---


@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize("scale", ["natural", "solver"])
@pytest.mark.parametrize("name", ["barnes", "pyridine", "arrhenius"])
def test_scipy_finds_the_fit(name, scale, freeze):
    problem = load(name)
    result = of.fit(problem)
    ev = of.Evaluator(problem.with_start(**result.estimates), scale=scale, freeze=freeze)
    start = np.clip(ev.start * 1.01, ev.lower, ev.upper)
    found = least_squares(ev.residuals, start, jac=ev.jacobian, bounds=(ev.lower, ev.upper), x_scale="jac", xtol=1e-10)
    assert found.success
    assert found.cost == pytest.approx(result.objective, rel=1e-4)
    np.testing.assert_allclose(found.x, ev.start, rtol=2e-3)


def test_scipy_maximises_the_likelihood():
    problem = decay(sigma=[0.1] * 3)
    ev = of.Evaluator(problem)
    found = minimize(lambda x: -ev.loglik(x), ev.start, jac=lambda x: -ev.gradient(x), method="BFGS")
    result = of.fit(problem)
    np.testing.assert_allclose(found.x, list(result.estimates.values()), rtol=1e-4)
    assert -found.fun == pytest.approx(result.loglik, rel=1e-6)


def test_a_fit_stops_at_bounds_that_scipy_keeps():
    """Points beyond a bound are never needed: SciPy is told the bounds."""
    problem = decay().with_start(k=1.5).with_bounds(k=(0.9, 3.0))
    ev = of.Evaluator(problem)
    found = least_squares(ev.residuals, ev.start, jac=ev.jacobian, bounds=(ev.lower, ev.upper))
    estimates = of.fit(problem).estimates
    np.testing.assert_allclose(found.x, list(estimates.values()), rtol=1e-3)
    assert estimates["k"] == pytest.approx(0.9)
