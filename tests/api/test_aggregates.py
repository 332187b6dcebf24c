"""Integrals, means and extremes over time in observables, against closed forms and another integrator."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import odefit as of

METHODS = ["rk32", "dopri5", "dop853", "bdf3", "ddm"]
WAVE = """
x' = w*y
y' = -w*x
x(0) = 0
y(0) = A
sum = B*integral(x, over=t)
average = mean(x, over=t)
top = max(x, over=t)
bottom = min(x, over=t)
so_far = integral(x, over=t, from=t1)
limited = integral(x, over=t, from=t1, to=t2)
limited_mean = mean(x, over=t, from=t1, to=t2)
limited_top = max(x*t, over=t, from=t1, to=t2)
"""
VALUES = {"w": 1.3, "A": 2.0, "B": 0.5, "t1": 0.4, "t2": 0.9}
TIMES = np.array([0.7, 1.5, 1.9, 3.0, 4.4])
OBSERVED = ("sum", "average", "top", "bottom", "so_far", "limited", "limited_mean", "limited_top")


def problem(observed=OBSERVED, since=None, times=TIMES, text=WAVE, values=VALUES, **settings):
    rows = [(time, name) for name in observed for time in times]
    data = of.Measurements(
        experiment=["main"] * len(rows),
        time=[time for time, _ in rows],
        observable=[name for _, name in rows],
        value=np.zeros(len(rows)),
        since=None if since is None else np.tile(since, len(observed)),
    )
    return of.Problem(
        of.Model.from_text(text),
        [of.Parameter(name, value) for name, value in values.items()],
        data,
        experiments=[of.Experiment("main")],
        settings=of.Settings(**settings),
    )


def extreme(a, b, w, A, sign):
    """The largest (smallest) value of A sin(w t) from a to b."""
    tops = [(np.pi / 2 * (1 if sign > 0 else 3) + 2 * np.pi * k) / w for k in range(-1, 3)]
    points = np.array([a, b, *(time for time in tops if a < time < b)])
    return sign * np.max(sign * A * np.sin(w * points))


def expected(name, since, time, w, A, B, t1, t2):
    def area(a, b):
        return A / w * (np.cos(w * a) - np.cos(w * b))

    end = min(time, t2)
    if name == "limited_top":
        grid = np.linspace(t1, end, 200_001)
        return np.max(A * np.sin(w * grid) * grid)
    return {
        "sum": B * area(since, time),
        "average": area(since, time) / (time - since),
        "top": extreme(since, time, w, A, 1),
        "bottom": extreme(since, time, w, A, -1),
        "so_far": area(t1, time),
        "limited": area(t1, end),
        "limited_mean": area(t1, end) / (end - t1),
    }[name]


def predictions(made):
    """The predictions in the order of the data."""
    return made_in_order(made, made.evaluate(order=0).residuals)


def made_in_order(made, rows):
    """Sort rows of an evaluation as the data are."""
    from odefit.transcribe.observation import observations

    out = np.empty_like(rows)
    out[observations(made).of_experiment[0].source] = rows
    return out


BEFORE = np.array([0.0, *TIMES[:-1]])


@pytest.mark.parametrize("method", METHODS)
def test_values_since_the_row_before(method):
    made = problem(integrator=method, rtol=1e-8)
    found = predictions(made)
    wanted = [
        expected(name, since, time, **VALUES) for name in OBSERVED for since, time in zip(BEFORE, TIMES, strict=True)
    ]
    np.testing.assert_allclose(found, wanted, rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", VALUES)
def test_derivatives(name, method):
    made = problem(integrator=method, rtol=1e-8)
    found = made.evaluate()
    column = made_in_order(made, found.jacobian[:, list(VALUES).index(name)])
    step = 1e-4
    sides = [{**VALUES, name: VALUES[name] + h} for h in (step, -step)]
    rows = [(label, since, time) for label in OBSERVED for since, time in zip(BEFORE, TIMES, strict=True)]
    ahead, behind = (np.array([expected(*row, **side) for row in rows]) for side in sides)
    wanted = (ahead - behind) / (2 * step)
    np.testing.assert_allclose(column, wanted, atol=5e-6)


def test_derivatives_are_those_of_the_replayed_solution():
    from odefit.transcribe import SingleShooting

    made = problem(OBSERVED[:4])
    objective = SingleShooting(made)
    x = np.array([VALUES[name] for name in VALUES])
    objective.refresh(x)
    jacobian = objective.evaluate(x, 1).linear.jacobian
    for j in range(2):
        step = 1e-5
        ahead, behind = (objective.evaluate(x + h * np.eye(x.size)[j], 0).residual for h in (step, -step))
        np.testing.assert_allclose(jacobian[:, j], (ahead - behind) / (2 * step), atol=1e-8)


def test_a_from_column_and_overlapping_intervals():
    since = np.array([0.2, 0.1, 1.5, 0.7, 1.5])
    made = problem(OBSERVED[:4], since=since)
    wanted = [
        expected(name, begin, time, **VALUES) for name in OBSERVED[:4] for begin, time in zip(since, TIMES, strict=True)
    ]
    np.testing.assert_allclose(predictions(made), wanted, rtol=1e-6, atol=1e-7)


def test_a_missing_value_ends_an_interval():
    rows = of.Measurements(
        experiment=["main"] * 3, time=[1.0, 2.0, 3.0], observable=["sum"] * 3, value=[0.0, np.nan, 0.0]
    )
    made = problem().with_measurements(rows)
    wanted = [expected("sum", since, since + 1.0, **VALUES) for since in (0.0, 2.0)]
    np.testing.assert_allclose(made.evaluate().residuals, wanted, rtol=1e-6)


def test_late_intervals_of_a_large_integral_are_exact():
    text = "x' = -x\nx(0) = 1e8\ncount = integral(x, over=t)"
    times = np.arange(1.0, 31.0)
    made = problem(("count",), text=text, values={}, times=times)
    found = of.simulate(made, times=times)["count"].to_numpy()
    wanted = 1e8 * (np.exp(-(times - 1)) - np.exp(-times))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-7)  # rounding of 1e8


def test_extremes_where_the_solution_jumps():
    """The largest value behind a dose at an unknown time, and at the end of an infusion of unknown duration."""
    text = "x' = -k*x\nx(0) = 1\ntop = max(x, over=t)\nat t=T: x += D"
    values = {"k": 0.5, "T": 1.2, "D": 3.0}
    made = problem(("top",), text=text, values=values, times=np.array([1.0, 2.0]), rtol=1e-9)
    peak = np.exp(-0.5 * 1.2) + 3.0
    found = made.evaluate()
    np.testing.assert_allclose(found.residuals, [1.0, peak], rtol=1e-7)
    slope = [-1.2 * np.exp(-0.6), -0.5 * np.exp(-0.6), 1.0]
    np.testing.assert_allclose(found.jacobian, [[0.0] * 3, slope], atol=1e-6)


def test_extremes_of_what_changes_faster_than_the_states():
    text = "x' = -0.01*x\nx(0) = 1\ntop = max(x*sin(200*t), over=t)"
    made = problem(("top",), text=text, values={}, times=np.array([1.0, 2.0]))
    found = of.simulate(made, times=[1.0, 2.0])["top"]
    crests = (np.pi / 2 + 2 * np.pi * np.array([0, 32])) / 200  # the first ones behind 0 and 1
    np.testing.assert_allclose(found, np.exp(-0.01 * crests), rtol=1e-6)


def test_an_integral_in_an_equation():
    """A controller with an integral part."""
    text = "x' = u - x\nx(0) = 0\nu = Kp*(1 - x) + Ki*integral(1 - x, over=t, from=0)"
    made = problem(("x",), text=text, values={"Kp": 2.0, "Ki": 1.5}, rtol=1e-9)
    run = solve_ivp(
        lambda t, s: [2.0 * (1 - s[0]) + 1.5 * s[1] - s[0], 1 - s[0]], (0, 5), [0, 0], t_eval=TIMES, rtol=1e-11,
        atol=1e-12,
    )  # fmt: skip
    np.testing.assert_allclose(of.simulate(made, times=TIMES)["x"], run.y[0], rtol=1e-6)


def test_it_survives_a_pickle():
    made = problem()
    again = pickle.loads(pickle.dumps(made))
    np.testing.assert_array_equal(again.evaluate().residuals, made.evaluate().residuals)


def test_files_with_intervals(tmp_path):
    (tmp_path / "p.toml").write_text(
        '[model]\nequations = """x\' = -k*x\nx(0) = A\ncount = integral(x, over=t)"""\n[parameters]\nk = 0.5\nA = 100\n'
        '[data]\nfile = "d.csv"\n'
    )
    (tmp_path / "d.csv").write_text("time,from,count\n1,,78.1\n2,,48\n3,1,77\n4,2.5,30\n")
    made = of.load(tmp_path / "p.toml")
    made.save(tmp_path / "again.toml")
    assert of.load(tmp_path / "again.toml").measurements == made.measurements
    assert np.isfinite(made.evaluate().residuals).all()


MISTAKES = {
    "empty": ({"time": [0.0]}, "its interval from 0 to 0 is empty; give an earlier 'from', let the experiment start"),
    "early": ({"time": [1.0], "since": [-1.0]}, "its interval begins at -1, before the experiment's start at 0"),
    "at a time": (
        {"time": [1.0], "since": [0.5], "observable": ["x"]},
        "its interval begins at 0.5, but 'x' is measured at a time; leave 'from' out, or define it by an integral",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_intervals_that_cannot_be(case):
    changes, words = MISTAKES[case]
    columns = {"experiment": ["main"], "observable": ["sum"], "value": [1.0], **changes}
    with pytest.raises(of.OdefitError) as caught:
        problem().with_measurements(of.Measurements(**columns))
    assert words in str(caught.value)


TEXTS = {
    "in an equation": ("x' = integral(x, over=t)\nx(0) = 1", "is taken since the row of data before, which there is"),
    "through": ("x' = y\nx(0) = 1\ny = 2*z\nz = mean(x, over=t)", "'y': mean(..., over=t) is taken since the row"),
    "over what": ("x' = 1\nx(0) = 1\ny = integral(x)", "over what? write integral(..., over=t)"),
    "order": ("x' = 1\nx(0) = 1\ny = integral(over=t)", "what integral() is taken of comes first: integral(x, over=t)"),
    "two": ("x' = 1\nx(0) = 1\ny = max(x, 2, over=t)", "max() is taken of one expression: max(x, over=t)"),
    "option": ("x' = 1\nx(0) = 1\ny = max(x, over=t, form=3)", "max() has no option 'form'; did you mean 'from'?"),
    "twice": ("x' = 1\nx(0) = 1\ny = max(x, over=t, from=3, from=2)", "'from' is given twice; keep one"),
    "nested": ("x' = 1\nx(0) = 1\ny = integral(mean(x, over=t), over=t)", "mean(..., over=t) is taken since the row"),
    "point": ("x' = 1\nx(0) = 1\ny = x(t=5)", "values at a time stand in [derived]; write an event, at t=...: w = x"),
}


@pytest.mark.parametrize("case", TEXTS)
def test_texts_that_mean_nothing(case):
    text, words = TEXTS[case]
    with pytest.raises(of.OdefitError) as caught:
        of.Model.from_text(text)
    assert words in str(caught.value)


def test_start_values_do_not_take_counts_for_states():
    text = "x' = -k*x\nx(0) = A\ncount = integral(x, over=t)"
    times = np.arange(1.0, 9.0)
    counts = 5.0 / 0.6 * (np.exp(-0.6 * (times - 1)) - np.exp(-0.6 * times))
    data = of.Measurements.from_columns(times, {"count": counts, "x": 5.0 * np.exp(-0.6 * times)})
    made = of.Problem(of.Model.from_text(text), [of.Parameter("k", 3.0), of.Parameter("A", 1.0)], data)
    result = of.fit(made, start="auto")
    assert result.start_values.values["k"] == pytest.approx(0.6, rel=0.05)
    assert result.estimates == pytest.approx({"k": 0.6, "A": 5.0}, rel=1e-5)


@pytest.mark.parametrize("method", ["single", "incremental"])
def test_fits_of_counts_on_growing_horizons(method):
    made = problem(("sum", "top"), times=np.arange(0.5, 6.0, 0.5)).with_fixed("t1", "t2", "B")
    rows = made_in_order(made, made.evaluate(order=0).residuals)
    data = dataclasses.replace(made.measurements, value=rows)
    result = of.fit(made.with_measurements(data).with_start(w=1.1), method=method)
    assert result.estimates["w"] == pytest.approx(1.3, rel=1e-5)


DERIVED = {
    "half": "log(2)/k",
    "area": "integral(c, over=t, from=0, to=24)",
    "before": "x(t=2)",
    "late": "c(t=T + log(2)/k)",
    "all": "integral(x, over=t)",
    "peak": "max(c, over=t, from=1)",
    "average": "mean(x, over=t, from=0, to=2)",
    "ratio": "x(t=8)/x(t=0)",
}


def derived_by_hand(k, A, D):
    """A decay from A with a dose D at 2, data up to 5; V is 2 and T is 1."""

    def x(t):
        return A * np.exp(-k * t) + (D * np.exp(-k * (t - 2)) if t > 2 else 0.0)

    def area(t):
        return A / k * (1 - np.exp(-k * t)) + (D / k * (1 - np.exp(-k * (t - 2))) if t > 2 else 0.0)

    return {
        "half": np.log(2) / k,
        "area": area(24) / 2,
        "before": x(2),
        "late": x(1 + np.log(2) / k) / 2,
        "all": area(5),
        "peak": (A * np.exp(-2 * k) + D) / 2,
        "average": area(2) / 2,
        "ratio": x(8) / A,
    }


def test_derived_quantities_along_the_solution():
    random = np.random.default_rng(1)
    times = np.linspace(0.1, 5.0, 30)
    model = of.Model.from_text("x' = -k*x\nx(0) = A\nc = x/V\nat t=2: x += D")
    clean = 2.5 * np.exp(-0.4 * times) + np.where(times > 2, 1.3 * np.exp(-0.4 * (times - 2)), 0.0)
    data = of.Measurements.from_columns(times, {"x": clean + 0.01 * random.standard_normal(30)})
    free = [of.Parameter("k", 0.5), of.Parameter("A", 3.0), of.Parameter("D", 1.0)]
    fixed = [of.Parameter("V", 2.0, fixed=True), of.Parameter("T", 1.0, fixed=True)]
    result = of.fit(of.Problem(model, [*free, *fixed], data, derived=DERIVED))
    at = {name: result.estimates[name] for name in ("k", "A", "D")}
    wanted = derived_by_hand(**at)
    assert list(result.derived) == list(DERIVED)
    assert {name: one.estimate for name, one in result.derived.items()} == pytest.approx(wanted, rel=1e-6)
    gradients = np.empty((len(DERIVED), 3))
    for j, name in enumerate(at):
        ahead, behind = (derived_by_hand(**{**at, name: at[name] + h}) for h in (1e-5, -1e-5))
        gradients[:, j] = [(ahead[one] - behind[one]) / 2e-5 for one in DERIVED]
    covariance = result.statistics.covariance[:3, :3]
    errors = np.sqrt(np.einsum("ij,jk,ik->i", gradients, covariance, gradients))
    np.testing.assert_allclose([one.standard_error for one in result.derived.values()], errors, rtol=1e-5)


def test_derived_quantities_follow_events():
    """A parameter that an event changes means its present value in an integral, and its first one elsewhere."""
    model = of.Model.from_text("x' = -k*x\nx(0) = 1\nat t=1: k = 0")
    data = of.Measurements.from_columns([1.0, 2.0], {"x": [np.exp(-0.5), np.exp(-0.5)]})
    derived = {"lost": "integral(k*x, over=t)", "first": "k*2", "last": "k(t=2)"}
    result = of.fit(of.Problem(model, [of.Parameter("k", 0.4)], data, derived=derived))
    found = {name: one.estimate for name, one in result.derived.items()}
    assert found == pytest.approx({"lost": 1 - np.exp(-0.5), "first": 1.0, "last": 0.0}, abs=1e-6)


def test_derived_quantities_of_several_experiments():
    model = of.Model.from_text("x' = -k*x\nx(0) = A")
    data = of.Measurements(
        experiment=["a", "a", "b", "b"], time=[1, 2, 1, 3], observable=["x"] * 4,
        value=[np.exp(-0.5), np.exp(-1), 2 * np.exp(-0.5), 2 * np.exp(-1.5)],
    )  # fmt: skip
    experiments = [of.Experiment("a", [of.Period(0.0, {"A": 1.0})]), of.Experiment("b", [of.Period(0.0, {"A": 2.0})])]
    made = of.Problem(model, [of.Parameter("k", 0.4)], data, experiments, derived={"all": "integral(x, over=t)"})
    found = {name: one.estimate for name, one in of.fit(made).derived.items()}
    assert found == pytest.approx({"all[a]": 2 * (1 - np.exp(-1)), "all[b]": 4 * (1 - np.exp(-1.5))}, rel=1e-6)


def test_an_experiment_without_an_end_has_no_quantity_along_it():
    data = of.Measurements(experiment=["a", "a"], time=[1.0, 2.0], observable=["x"] * 2, value=[0.6, 0.4])
    made = of.Problem(
        of.Model.from_text("x' = -k*x\nx(0) = 1"), [of.Parameter("k", 0.4)], data,
        [of.Experiment("a"), of.Experiment("b")], derived={"all": "integral(x, over=t)", "at": "x(t=1)"},
    )  # fmt: skip
    assert list(of.fit(made).derived) == ["all[a]", "at[a]", "at[b]"]


NO_DERIVED = {
    "a state": ("x*2", "the derived quantity 'q' uses the state 'x'; write x(t=...) for its value at a time"),
    "no end": ("integral(x, over=t)*x(t=9)", "looks at 9, behind the end of the experiment at 2, while an aggregate"),
    "early": ("x(t=-1)", "'q' in experiment 'main' is taken at -1, before the experiment's start at 0"),
    "unknown": ("xx(t=1)", "'xx' is no state and no definition, so it has no value at a time; did you mean 'x'?"),
}


@pytest.mark.parametrize("case", NO_DERIVED)
def test_derived_quantities_that_cannot_be(case):
    text, words = NO_DERIVED[case]
    data = of.Measurements.from_columns([1.0, 2.0], {"x": [0.6, 0.4]})
    model = of.Model.from_text("x' = -k*x\nx(0) = 1")
    with pytest.raises(of.OdefitError) as caught:
        of.Problem(model, [of.Parameter("k", 0.4)], data, derived={"q": text})
    assert words in str(caught.value)
