"""From the solver's vector to what experiments run with: values, derivatives, columns, and what is compiled when."""

from __future__ import annotations

import dataclasses
import gc
import math
import weakref
from collections.abc import Callable

import numpy as np
import pytest

import odefit as of
from odefit.compile import compile_problem, native_problem
from odefit.compile.scales import natural_values, solver_value, solver_values
from odefit.errors import ModelError, ProblemError
from odefit.model import Model
from odefit.problem import SCALES, Experiment, Measurements, Parameter, Period, Problem

EQUATIONS = """
A' = -k*f*A + s
B' = k*f*A - c*B
A(0) = A0
B(0) = sqrt(A0)*r + base
f = exp(-E/T)
c = k2*gain
gain = 2*r + E^2
base = A0/E
total = A + c*B
"""
DATA = Measurements.from_columns([1.0, 2.0], {"A": [1.0, 1.0], "total": [1.0, 1.0]}, experiment="plain")


def parameter(name: str, start: float, scale: str = "linear", **options) -> Parameter:
    bounds = {"linear": (-math.inf, math.inf), "logit": (0.05, 9.0)}.get(scale, (1e-6, 1e3))
    return Parameter(name, start, *bounds, scale=scale, **options)


def parameters(k="linear", E="linear", s="linear", r="linear", A0="linear", T_fixed=True, k2=True):
    """The parameters of the model, each on the scale given; k2 is an expression or free."""
    return (
        parameter("k", 1.3, k),
        parameter("E", 2.1, E),
        Parameter("T", 3.0, fixed=T_fixed),
        parameter("s", 0.7, s),
        Parameter("k2", expression="k*r^2 + s") if k2 else Parameter("k2", 0.4),
        parameter("r", 0.5, r),
        parameter("A0", 2.5, A0),
    )


def experiment(name: str, start: float = 0.0, **overrides) -> Experiment:
    named = {key.replace("_at_0", "(0)"): value for key, value in overrides.items()}
    return Experiment(name, (Period(start, named),))


EXPERIMENTS = (
    experiment("plain"),
    experiment("numbers", T=4.0, A_at_0=1.5),
    experiment("other numbers", T=5.0, A_at_0=0.5, start=2.0),
    experiment("parameter by expression", k="3*E*s", T="2 + r"),
    experiment("parameter behind an expression", r=0.25),
    experiment("initial value by expression", B_at_0="A0*k^2"),
    experiment("initial value by definition", A_at_0="gain*r"),
    experiment("definition by number", gain=7.0),
    experiment("definition by expression", gain="s/r", base="k*E"),
    experiment("everything", k=2.0, k2="A0", gain="k*k2", A_at_0=1.0, B_at_0="sin(s)", s=0.1),
)


def expected(name: str, q: dict[str, float]) -> tuple[dict[str, float], list[float]]:
    """The parameters and initial values of an experiment, written out."""
    v = dict(q)
    v |= {
        "numbers": {"T": 4.0},
        "other numbers": {"T": 5.0},
        "parameter by expression": {"k": 3 * q["E"] * q["s"], "T": 2 + q["r"]},
        "parameter behind an expression": {"r": 0.25},
        "everything": {"k": 2.0, "s": 0.1},
    }.get(name, {})
    if name == "everything":
        v["k2"] = v["A0"]
    elif "k2" not in q:
        v["k2"] = v["k"] * v["r"] ** 2 + v["s"]
    v["gain"] = {
        "definition by number": 7.0,
        "definition by expression": v["s"] / v["r"],
        "everything": v["k"] * v["k2"],
    }.get(name, 2 * v["r"] + v["E"] ** 2)
    v["base"] = v["k"] * v["E"] if name == "definition by expression" else v["A0"] / v["E"]
    y0 = [v["A0"], math.sqrt(v["A0"]) * v["r"] + v["base"]]
    if name in ("numbers", "other numbers"):
        y0[0] = {"numbers": 1.5, "other numbers": 0.5}[name]
    elif name == "initial value by expression":
        y0[1] = v["A0"] * v["k"] ** 2
    elif name == "initial value by definition":
        y0[0] = v["gain"] * v["r"]
    elif name == "everything":
        y0 = [1.0, math.sin(v["s"])]
    return v, y0


def make(experiments=EXPERIMENTS, text: str = EQUATIONS, data: Measurements = DATA, **options) -> Problem:
    return Problem(Model.from_text(text), parameters(**options), data, experiments)


# all scales, a fixed and an expression parameter; and the other way round
SETTINGS = {
    "linear": {},
    "log": {"k": "log", "E": "log", "s": "log", "r": "log", "A0": "log"},
    "log10": {"k": "log10", "E": "log10", "s": "log10", "r": "log10", "A0": "log10"},
    "logit": {"k": "logit", "E": "logit", "s": "logit", "r": "logit", "A0": "logit"},
    "mixed": {"k": "log", "E": "log10", "s": "logit", "A0": "log", "T_fixed": False},
    "free": {"k": "log10", "r": "logit", "T_fixed": False, "k2": False},
}


@pytest.fixture(scope="module")
def problems() -> Callable[[str], tuple[Problem, object]]:
    known: dict[str, tuple[Problem, object]] = {}

    def get(setting: str):
        if setting not in known:
            problem = make(**SETTINGS[setting])
            known[setting] = (problem, compile_problem(problem))
        return known[setting]

    return get


def away_from_start(compiled) -> np.ndarray:
    return compiled.theta_start + 0.1 * np.random.default_rng(4).normal(size=compiled.n_theta)


def difference(f: Callable[[np.ndarray], np.ndarray], theta: np.ndarray, j: int, h: float = 0.02) -> np.ndarray:
    """Central differences at h, h/2, h/4, extrapolated: the error is O(h^6)."""
    unit = np.eye(len(theta))[j]
    level = [(f(theta + d * unit) - f(theta - d * unit)) / (2 * d) for d in (h, h / 2, h / 4)]
    for power in (4.0, 16.0):
        level = [(power * fine - coarse) / (power - 1) for coarse, fine in zip(level, level[1:], strict=False)]
    return level[0]


NUMBERED = pytest.mark.parametrize("e", range(len(EXPERIMENTS)), ids=[one.name for one in EXPERIMENTS])
EACH = pytest.mark.parametrize("setting", SETTINGS)


@NUMBERED
@EACH
def test_values(e, setting, problems):
    _, compiled = problems(setting)
    theta = away_from_start(compiled)
    seeds = compiled.parameters(theta, e)
    values, y0 = expected(EXPERIMENTS[e].name, compiled.natural(theta))
    names = compiled.model(0).parameters
    assert set(names) == {"k", "s", "A0", "r", "E", "T", "k2", "gain", "base"}
    np.testing.assert_allclose(seeds.p, [values[name] for name in names], rtol=1e-13)
    np.testing.assert_allclose(seeds.y0, y0, rtol=1e-13)
    assert seeds.dp.shape == (9, 0)
    assert seeds.d2y0.shape == (2, 0)


@NUMBERED
@EACH
def test_first_derivatives(e, setting, problems):
    _, compiled = problems(setting)
    theta = away_from_start(compiled)
    seeds = compiled.parameters(theta, e, order=1)

    def values(at):
        result = compiled.parameters(at, e)
        return np.concatenate([result.p, result.y0])

    columns = compiled.columns[e]
    assert seeds.dp.shape == (9, columns.size)
    assert seeds.dy0.shape == (2, columns.size)
    stacked = np.vstack([seeds.dp, seeds.dy0])
    for j in range(compiled.n_theta):
        numerical = difference(values, theta, j)
        if j in columns:
            actual = stacked[:, columns.tolist().index(j)]
            np.testing.assert_allclose(actual, numerical, rtol=1e-8, atol=1e-9)
        else:  # nothing that a state or an observable depends on
            assert not numerical[-2:].any()
        everything = compiled.all_derivatives(theta, e)[:, j]
        np.testing.assert_allclose(everything, numerical[:-2], rtol=1e-8, atol=1e-9)


@NUMBERED
@EACH
def test_second_derivatives(e, setting, problems):
    _, compiled = problems(setting)
    theta = away_from_start(compiled)
    seeds = compiled.parameters(theta, e, order=2)
    first = compiled.parameters(theta, e, order=1)
    np.testing.assert_array_equal(seeds.dp, first.dp)
    np.testing.assert_array_equal(seeds.dy0, first.dy0)

    def slopes(at):
        result = compiled.parameters(at, e, order=1)
        return np.vstack([result.dp, result.dy0])

    columns = compiled.columns[e]
    k = columns.size
    stacked = np.vstack([seeds.d2p, seeds.d2y0])
    assert stacked.shape == (11, k * (k + 1) // 2)
    pairs = [(a, b) for a in range(k) for b in range(a, k)]
    numerical = [difference(slopes, theta, int(columns[b])) for b in range(k)]
    for pair, (a, b) in enumerate(pairs):
        np.testing.assert_allclose(stacked[:, pair], numerical[b][:, a], rtol=1e-7, atol=1e-8)


NEEDED = {
    "plain": "k E s r A0",
    "numbers": "k E s r A0",
    "other numbers": "k E s r A0",
    "parameter by expression": "E s r A0",
    "parameter behind an expression": "k E s A0",
    "initial value by expression": "k E s r A0",
    "initial value by definition": "k E s r A0",
    "definition by number": "k E s r A0",
    "definition by expression": "k E s r A0",
    "everything": "E A0",
}


@NUMBERED
@pytest.mark.parametrize("setting", ["linear", "log"])
def test_columns_are_what_the_experiment_needs(e, setting, problems):
    _, compiled = problems(setting)
    assert compiled.theta_names == ("k", "E", "s", "r", "A0")
    assert [compiled.theta_names[j] for j in compiled.columns[e]] == NEEDED[EXPERIMENTS[e].name].split()


def test_columns_of_one_experiment_do_not_depend_on_the_others():
    everything = compile_problem(make())
    for e, one in enumerate(EXPERIMENTS[1:], start=1):
        alone = compile_problem(make((one,), data=data_of(one.name)))
        assert alone.columns[0].tolist() == everything.columns[e].tolist()
        whole, single = (c.parameters(c.theta_start, i, 1) for c, i in ((everything, e), (alone, 0)))
        np.testing.assert_array_equal(whole.y0, single.y0)
        np.testing.assert_array_equal(whole.dy0, single.dy0)


def data_of(name: str) -> Measurements:
    return dataclasses.replace(DATA, experiment=np.full(len(DATA), name, dtype=object), time=DATA.time + 2.0)


def test_experiments_that_replace_the_same_names_share_a_map():
    compiled = compile_problem(make())
    structure = compiled.structure
    assert structure.map_function(1) is structure.map_function(2)
    assert len({id(structure.map_function(e)) for e in range(len(EXPERIMENTS))}) == len(EXPERIMENTS) - 1


# ------------------------------------------------------------------------------------------- fixed parameters


@pytest.mark.parametrize("fixed", [("k",), ("E", "A0"), ("r", "s", "k"), ("k", "E", "s", "r", "A0")])
@NUMBERED
def test_fixed_parameters(fixed, e, problems):
    problem, free = problems("mixed")
    problem = problem.with_fixed(*fixed)
    held = compile_problem(problem)
    kept = [name for name in free.theta_names if name not in fixed]
    assert list(held.theta_names) == kept
    at = free.theta_start
    kept_at = np.array([i for i, name in enumerate(free.theta_names) if name in kept], dtype=int)
    one, other = held.parameters(at[kept_at], e, 2), free.parameters(at, e, 2)
    np.testing.assert_allclose(one.y0, other.y0, rtol=1e-13)
    np.testing.assert_allclose(one.p, other.p, rtol=1e-13)
    columns = [j for j in free.columns[e] if free.theta_names[j] in kept]
    assert [held.theta_names[j] for j in held.columns[e]] == [free.theta_names[j] for j in columns]
    local = [free.columns[e].tolist().index(j) for j in columns]
    np.testing.assert_allclose(one.dp, other.dp[:, local], rtol=1e-13)
    np.testing.assert_allclose(one.dy0, other.dy0[:, local], rtol=1e-13)
    size = free.columns[e].size
    pairs = [(a, b) for a in range(size) for b in range(a, size)]
    both = [i for i, (a, b) in enumerate(pairs) if a in local and b in local]
    np.testing.assert_allclose(one.d2p, other.d2p[:, both], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(one.d2y0, other.d2y0[:, both], rtol=1e-12, atol=1e-14)


def test_fixed_parameter_keeps_its_changed_value():
    problem = make().with_fixed("k").with_start(k=4.0, E=3.0)
    compiled = compile_problem(problem)
    natural = compiled.natural(compiled.theta_start)
    assert (natural["k"], natural["E"], natural["T"]) == (4.0, 3.0, 3.0)
    values, y0 = expected("plain", natural)
    seeds = compiled.parameters(compiled.theta_start, 0)
    np.testing.assert_allclose(seeds.y0, y0, rtol=1e-14)
    assert seeds.p[compiled.model(0).parameters.index("k")] == 4.0
    assert values["k"] == 4.0


# ---------------------------------------------------------------------------------------------------- scales


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("value", [0.06, 0.5, 1.0, 4.0, 8.9])
def test_scale_and_back(scale, value):
    compiled = compile_problem(make(k=scale).with_start(k=value))
    assert compiled.natural(compiled.theta_start)["k"] == pytest.approx(value, rel=1e-14)
    inside = {"linear": value, "log": math.log(value), "log10": math.log10(value)}
    inside["logit"] = math.log((value - 0.05) / (9.0 - value))
    assert compiled.theta_start[0] == pytest.approx(inside[scale], rel=1e-14, abs=1e-15)


@pytest.mark.parametrize(
    ("scale", "bounds", "expected_bounds"),
    [
        ("linear", (-2.0, 5.0), (-2.0, 5.0)),
        ("linear", (-math.inf, math.inf), (-math.inf, math.inf)),
        ("log", (0.0, math.inf), (-math.inf, math.inf)),
        ("log", (-3.0, math.e), (-math.inf, 1.0)),
        ("log10", (0.01, 100.0), (-2.0, 2.0)),
        ("logit", (0.5, 3.0), (-math.inf, math.inf)),
    ],
)
def test_bounds_on_the_scale(scale, bounds, expected_bounds):
    compiled = compile_problem(make(k=scale).with_bounds(k=bounds))
    assert (compiled.theta_lower[0], compiled.theta_upper[0]) == pytest.approx(expected_bounds)
    assert (compiled.lower[0], compiled.upper[0]) == bounds


@pytest.mark.parametrize("code", range(4), ids=SCALES)
@pytest.mark.parametrize("theta", [-3.0, -0.5, 0.0, 0.7, 2.0])
def test_derivatives_of_the_scales(code, theta):
    def values(at):
        q, dq, d2q = np.empty(1), np.empty(1), np.empty(1)
        natural_values(np.array([code]), at, np.array([-1.0]), np.array([4.0]), q, dq, d2q)
        return np.concatenate([q, dq, d2q])

    at = np.array([theta])
    q, dq, d2q = values(at)
    numerical = difference(values, at, 0)
    np.testing.assert_allclose([dq, d2q], numerical[:2], rtol=1e-9, atol=1e-10)
    assert solver_value.py_func(code, q, -1.0, 4.0) == pytest.approx(theta, abs=1e-13)


def test_values_of_the_solver():
    """The kernel against the formula in Python; it names the first value that cannot be used."""
    codes, lower, upper = np.arange(4), np.array([-2.0, 0.0, 0.1, -1.0]), np.array([2.0, 9.0, 5.0, 4.0])
    natural, theta = np.array([-1.5, 0.7, 0.3, 2.5]), np.empty(4)
    assert solver_values(codes, natural, lower, upper, theta) == -1
    expected = [solver_value.py_func(*entry) for entry in zip(codes, natural, lower, upper, strict=True)]
    np.testing.assert_array_equal(theta, expected)
    for i, bad in ((0, -2.1), (0, math.nan), (1, 0.0), (1, -1.0), (2, 5.1), (3, -1.0), (3, 4.0), (3, math.inf)):
        other = natural.copy()
        other[i] = bad
        assert solver_values(codes, other, lower, upper, theta) == i


@pytest.mark.parametrize("theta", [1.0, 10.0, 20.0, 30.0, 100.0])
def test_logit_is_as_exact_near_the_upper_bound_as_near_the_lower(theta):
    q, dq, d2q = np.empty(2), np.empty(2), np.empty(2)
    natural_values(np.array([3, 3]), np.array([-theta, theta]), np.zeros(2), np.full(2, 2.0), q, dq, d2q)
    small = math.exp(-theta)
    np.testing.assert_allclose(dq, 2 * small / (1 + small) ** 2, rtol=1e-13)
    np.testing.assert_allclose(d2q, dq * np.array([1, -1]) * (1 - small) / (1 + small), rtol=1e-13)


@pytest.mark.parametrize("theta", [-1000.0, 1000.0])
def test_logit_far_out_is_finite(theta):
    q, dq, d2q = np.empty(1), np.empty(1), np.empty(1)
    natural_values(np.array([3]), np.array([theta]), np.array([1.0]), np.array([3.0]), q, dq, d2q)
    assert [q[0], dq[0], d2q[0]] == [1.0 if theta < 0 else 3.0, 0.0, 0.0]


# ----------------------------------------------------------------------------------------------- compiled when


@pytest.fixture
def built(monkeypatch) -> list[str]:
    """Titles of the libraries that are built, from the cache on disk or not."""
    titles: list[str] = []

    class Counting(native_problem.FunctionLibrary):
        def __init__(self, title, functions):
            titles.append(title)
            super().__init__(title, functions)

    monkeypatch.setattr(native_problem, "FunctionLibrary", Counting)
    return titles


OTHER_VALUES = dataclasses.replace(DATA, value=DATA.value + 1.0)
LONGER = Measurements.from_columns([1.0, 2.0, 9.0], {"A": [1.0, 1.0, 1.0], "total": [3.0] * 3}, experiment="plain")

SAME_CODE = {
    "with_start": lambda p: p.with_start(k=2.0, E=1.0),
    "with_bounds": lambda p: p.with_bounds(k=(0.1, 50.0)),
    "with_fixed": lambda p: p.with_fixed("k", "r"),
    "with_settings": lambda p: p.with_settings(rtol=1e-9, atol=1e-12, max_steps=7),
    "a chain": lambda p: p.with_fixed("k").with_start(k=3.0).with_bounds(E=(0.0, 9.0)).with_settings(tol=1e-3),
    "other data": lambda p: dataclasses.replace(p, measurements=OTHER_VALUES),
    "more data": lambda p: dataclasses.replace(p, measurements=LONGER),
    "another scale": lambda p: dataclasses.replace(p, parameters=parameters(k="log10")),
    "title": lambda p: dataclasses.replace(p, title="another"),
}


@pytest.mark.parametrize("change", SAME_CODE)
def test_changed_numbers_compile_nothing(change, built):
    problem = make()
    first = compile_problem(problem)
    assert len(built) == 1 + len(EXPERIMENTS) - 1
    built.clear()
    changed = SAME_CODE[change](problem)
    compiled = compile_problem(changed)
    assert not built
    assert compiled is not first
    assert compiled.model(0) is first.model(0)
    assert compile_problem(changed).structure is compiled.structure
    assert compile_problem(problem).structure is first.structure
    values, y0 = expected("plain", compiled.natural(compiled.theta_start))
    seeds = compiled.parameters(compiled.theta_start, 0, order=2)
    np.testing.assert_allclose(seeds.y0, y0, rtol=1e-13)
    assert values["k"] == seeds.p[compiled.model(0).parameters.index("k")]


OTHER_MODEL = EQUATIONS.replace("A(0) = A0", "A(0) = 2*A0")
ONLY_A = Measurements.from_columns([1.0], {"A": [1.0]}, experiment="plain")

OTHER_CODE = {
    "model": lambda p: dataclasses.replace(p, model=Model.from_text(OTHER_MODEL)),
    "equal model": lambda p: dataclasses.replace(p, model=Model.from_text(EQUATIONS)),
    "experiments": lambda p: dataclasses.replace(p, experiments=(*EXPERIMENTS, experiment("more", base=1.0))),
    "number of an experiment": lambda p: dataclasses.replace(
        p, experiments=(EXPERIMENTS[0], experiment("numbers", T=9.0, A_at_0=8.0))
    ),
    "observables": lambda p: dataclasses.replace(p, measurements=ONLY_A),
    "expression": lambda p: dataclasses.replace(
        p,
        parameters=tuple(Parameter("k2", expression="5*k") if one.name == "k2" else one for one in parameters()),
    ),
    "expression instead of a value": lambda p: dataclasses.replace(p, parameters=parameters(k2=False)),
}


@pytest.mark.parametrize("change", OTHER_CODE)
def test_changed_structure_is_compiled(change, built):
    problem = make()
    first = compile_problem(problem)
    before = first.parameters(first.theta_start, 0, 1)
    built.clear()
    changed = OTHER_CODE[change](problem)
    compiled = compile_problem(changed)
    assert built
    built.clear()
    assert compile_problem(changed).structure is compiled.structure
    assert compile_problem(problem).structure is first.structure
    assert not built
    for one, other in zip(first.parameters(first.theta_start, 0, 1), before, strict=True):
        np.testing.assert_array_equal(one, other)


def test_replaced_model_is_used():
    problem = make()
    other = dataclasses.replace(problem, model=Model.from_text(OTHER_MODEL))
    results = []
    for one in (problem, other, problem):
        compiled = compile_problem(one)
        results.append(compiled.parameters(compiled.theta_start, 0).y0[0])
    assert results == [2.5, 5.0, 2.5]


def test_replaced_expression_is_used():
    problem = make()
    compiled = compile_problem(OTHER_CODE["expression"](problem))
    p = dict(zip(compiled.model(0).parameters, compiled.parameters(compiled.theta_start, 0).p, strict=True))
    assert p["k2"] == 5 * p["k"]


def test_replaced_numbers_of_experiments_are_used():
    compile_problem(problem := make())
    compiled = compile_problem(OTHER_CODE["number of an experiment"](problem))
    seeds = compiled.parameters(compiled.theta_start, 1)
    assert seeds.y0[0] == 8.0
    assert seeds.p[compiled.model(0).parameters.index("T")] == 9.0


def test_problems_made_apart_do_not_share(built):
    compile_problem(make(EXPERIMENTS[:1]))
    count = len(built)
    compile_problem(make(EXPERIMENTS[:1]))
    assert len(built) == 2 * count


def test_problem_is_not_kept_alive():
    problem = make(EXPERIMENTS[:1])
    compiled = compile_problem(problem)
    watch = weakref.ref(problem)
    del problem
    gc.collect()
    assert watch() is None
    assert compiled.parameters(compiled.theta_start, 0).y0[0] == 2.5  # the code still lives


# --------------------------------------------------------------------------------------------- special shapes


def test_parameter_given_by_experiments_only():
    given = tuple(one for one in parameters() if one.name != "T")
    problem = Problem(Model.from_text(EQUATIONS), given, DATA, (experiment("plain", T=4.5), experiment("b", T="k")))
    compiled = compile_problem(problem)
    at = compiled.model(0).parameters.index("T")
    assert compiled.parameters(compiled.theta_start, 0).p[at] == 4.5
    assert compiled.parameters(compiled.theta_start, 1).p[at] == 1.3


def test_model_without_parameters():
    data = Measurements.from_columns([1.0], {"x": [1.0]})
    compiled = compile_problem(Problem(Model.from_text("x' = -x\nx(0) = 3"), (), data))
    seeds = compiled.parameters(compiled.theta_start, 0, order=2)
    assert compiled.theta_names == ()
    assert seeds.y0.tolist() == [3.0]
    assert [one.shape for one in seeds] == [(0,), (1,), (0, 0), (1, 0), (0, 0), (1, 0)]


def test_model_without_states():
    data = Measurements.from_columns([1.0], {"g": [1.0]})
    problem = Problem(Model.from_text("g = a*exp(-b*t)"), (Parameter("a", 2.0), Parameter("b", 3.0)), data)
    compiled = compile_problem(problem)
    seeds = compiled.parameters(np.array([5.0, 7.0]), 0, order=2)
    assert seeds.p.tolist() == [5.0, 7.0]
    assert seeds.dp.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert seeds.y0.size == 0
    assert not seeds.d2p.any()


def test_initial_value_may_depend_on_nothing_free():
    text = "x' = -k*x\nx(0) = 2"
    problem = Problem(Model.from_text(text), (Parameter("k", 1.0),), Measurements.from_columns([1.0], {"x": [1.0]}))
    seeds = compile_problem(problem).parameters(np.array([1.0]), 0, order=1)
    assert seeds.dy0.tolist() == [[0.0]]
    assert seeds.dp.tolist() == [[1.0]]


@pytest.mark.parametrize(
    ("name", "replacement"),
    [("gain", "A"), ("gain", "2*t"), ("total", "3"), ("f", "if(t < 1, T, A)"), ("k", "B + E"), ("s", "0.1*t")],
)
@pytest.mark.parametrize("k2", [True, False], ids=["k2 computed from k and s", "k2 free"])
def test_replacement_that_varies_in_time_is_a_variant(name, replacement, k2):
    """An experiment that replaces an expression is the model with that line changed."""
    value = float(replacement) if replacement == "3" else replacement
    changed = Experiment("changed", (Period(0.0, {name: value}),))
    both = make((EXPERIMENTS[0], changed), k2=k2)
    lines = [line for line in EQUATIONS.splitlines() if not line.startswith(f"{name} =")]
    text = "\n".join([*lines, f"{name} = {replacement}", *(["k2 = k*r^2 + s"] if k2 else [])])
    others = tuple(p for p in parameters(k2=k2) if p.name != name and not (k2 and p.name == "k2"))
    alone = Problem(Model.from_text(text), others, DATA, EXPERIMENTS[:1])
    times = np.linspace(0.0, 2.0, 5)
    frame = of.simulate(both, times=times)
    plain = of.simulate(make((EXPERIMENTS[0],), k2=k2), times=times)
    expected_frame = of.simulate(alone, times=times)
    for column in ("A", "B", "total", "c"):
        np.testing.assert_array_equal(frame[frame.experiment == "plain"][column], plain[column])
        np.testing.assert_allclose(
            frame[frame.experiment == "changed"][column], expected_frame[column], rtol=1e-6, atol=1e-9
        )


def test_initial_value_of_something_that_varies_is_refused():
    text = "x' = -k*x\nx(0) = k"
    experiments = (Experiment("main"), Experiment("b", (Period(0.0, {"k": "1 + t"}),)))
    data = Measurements.from_columns([1.0], {"x": [1.0]})
    problem = Problem(Model.from_text(text), (Parameter("k", 1.0),), data, experiments)
    with pytest.raises(ProblemError, match=r"'x\(0\)' depends on 'k', which changes along the trajectory"):
        compile_problem(problem)


def test_initial_value_that_varies_is_refused():
    with pytest.raises(ProblemError, match=r"'A\(0\)' in experiment 'bad' uses the state 'B'"):
        make((EXPERIMENTS[0], Experiment("bad", (Period(0.0, {"A(0)": "B"}),))))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"gain": "c"}, r"gain -> c -> gain|c -> gain -> c"),
        ({"k": "k2", "k2": "3*k"}, r"k -> k2 -> k|k2 -> k -> k2"),
    ],
)
def test_replacements_that_need_each_other_are_refused(overrides, message):
    problem = make((EXPERIMENTS[0], Experiment("bad", (Period(0.0, overrides),))))
    with pytest.raises(ModelError, match=message):
        compile_problem(problem)
