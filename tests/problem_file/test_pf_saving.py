"""Saving a problem and loading it again gives an equal problem."""

from __future__ import annotations

import dataclasses
import math
import tomllib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from pf_comparison import assert_same_problem
from pf_project import DATA, EQUATIONS, PARAMETERS

from odefit.errors import OdefitError, ProblemError, UnsupportedError
from odefit.formats import load_problem, save_problem
from odefit.formats.settings_section import SECTIONS
from odefit.formats.toml_writing import toml_block, toml_key, toml_value
from odefit.model import Model
from odefit.problem import Experiment, Measurements, Parameter, Period, Problem, Settings

FINITE = st.floats(allow_nan=False, allow_infinity=False)
POSITIVE = st.floats(min_value=1e-300, max_value=1e300)
IDENTIFIERS = ["k", "k_1", "α", "ß", "file", "NA", "until_", "Ω2", "q", "x1", "e1", "nan", "true", "default", "per"]
PLAIN = st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"])
TEXT = st.text(PLAIN | st.sampled_from("\t\\\"'#="), max_size=12)
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
LABEL = st.text(PLAIN | st.sampled_from(",;\"'#[]"), min_size=1, max_size=6).filter(
    lambda name: name == name.strip() and name.isprintable()
)
GROUP = LABEL.filter(lambda name: name not in (".", "NA", "na", "NaN", "nan", "NAN"))


@st.composite
def parameters(draw, name, **options):
    """A parameter whose start value and bounds agree."""
    scale = draw(st.sampled_from(["linear", "log", "log10", "logit"]))
    numbers = FINITE if scale == "linear" else POSITIVE
    if scale == "logit":
        lower, start, upper = sorted(draw(st.lists(FINITE, min_size=3, max_size=3, unique=True)))
        bounds = {"lower": lower, "upper": upper}
    else:
        lower, start, upper = sorted(draw(st.lists(numbers, min_size=3, max_size=3, unique=True)))
        bounds = {key: one for key, one in (("lower", lower), ("upper", upper)) if draw(st.booleans())}
    fixed = draw(st.booleans())
    if not fixed and "per" not in options and draw(st.booleans()):
        options["prior"] = draw(st.sampled_from(["normal(1, 0.02)", "lognormal(1,0.3)", " laplace( 0 , 1e-3 )"]))
    return Parameter(name, start, scale=scale, fixed=fixed, unit=draw(ANY_TEXT), **bounds, **options)


@st.composite
def measurements(draw, experiments, observables, t0, groups):
    n = draw(st.integers(1, 8))

    def column(strategy):
        return draw(st.lists(strategy, min_size=n, max_size=n))

    kind = draw(st.sampled_from(["sigma", "weight", "none"]))
    spread = {} if kind == "none" else {kind: column(st.just(math.nan) | POSITIVE)}
    if kind == "weight":
        spread["weight"] = [0.0 if one > 1e200 else one for one in spread["weight"]]
    labels = {} if not groups else {"gel": column(GROUP)}
    if groups == "unused":
        labels["gel"] = [name if draw(st.booleans()) else "" for name in labels["gel"]]
    return Measurements(
        experiment=column(st.sampled_from(experiments)),
        time=[t0 + abs(one) for one in column(st.floats(0, 1e6))],
        observable=column(st.sampled_from(observables)),
        value=column(FINITE | st.just(math.nan)),
        row=column(st.integers(-5, 10**12)) if draw(st.booleans()) else None,
        groups=labels,
        **spread,
    )


@st.composite
def problems(draw):
    state, k, q, start, factor, extra, time = draw(st.permutations(IDENTIFIERS))[:7]
    time = draw(st.sampled_from(["t", time]))
    comment = draw(TEXT)
    text = (
        f'{state}\' = -{k}*{state}*{q}  # {comment}\n{state}(0) = {start}\n\n  total = {factor}*{state} # """ {comment}'
        + draw(st.sampled_from(["\n", '"', "", "\r\n", "\\"]))
    )
    names = draw(st.lists(LABEL, min_size=1, max_size=3, unique=True))
    grouped = draw(st.sampled_from([None, "used", "unused"]))
    t0 = draw(st.just(0.0) | st.floats(-1e6, 1e6))
    found = [
        draw(parameters(k)),
        Parameter(q, expression=f"2*{k}", unit=draw(ANY_TEXT)) if draw(st.booleans()) else draw(parameters(q)),
        draw(parameters(start, per="experiment")),
        draw(parameters(factor, per="gel" if grouped == "used" else None)),
    ]
    overrides = st.dictionaries(
        st.sampled_from([k, f"{state}(0)", f"{state} (0)"]),
        FINITE | st.just(f"2*{q}") | st.just(f"{q} + {extra}"),
        max_size=2,
    )
    experiments = tuple(
        Experiment(
            name,
            (Period(t0, draw(overrides)),),
            until=draw(st.just(math.nan) | FINITE),
            use=draw(st.sampled_from(["fit", "validate"])),
        )
        for name in names
    )
    used = any(extra in str(value) for e in experiments for value in e.periods[0].overrides.values())
    if used:
        found.append(draw(parameters(extra)))
    order = draw(st.permutations(found))
    slot = next(p for p in found if p.name == start)
    slots = [f"{start}[{e.name}]" for e in experiments]
    units = draw(st.dictionaries(st.sampled_from([state, k, time, "total", "half"]), ANY_TEXT, max_size=3))
    return Problem(
        model=Model.from_text(text, time=time),
        parameters=tuple(order),
        measurements=draw(measurements(names, [state, "total"], t0, grouped)),
        experiments=experiments,
        constraints=tuple(
            draw(st.lists(st.sampled_from([f"{k} ~ normal(0, 1)", f"log({k}^2) ~laplace(1,2)"]), max_size=2))
        ),
        derived={"half": f"log(2)/{k}"} if draw(st.booleans()) or "half" in units else {},
        units=units,
        settings=draw(
            st.builds(
                Settings,
                rtol=st.floats(1e-12, 0.5),
                max_steps=st.integers(1, 10**9),
                tol=st.just(1e-6) | st.floats(1e-12, 0.5),
            )
        ),
        title=draw(ANY_TEXT),
        starts={name: slot.start for name in slots if draw(st.booleans())},
        noise=draw(st.dictionaries(st.just("default"), POSITIVE | st.just("7 %"))),
    )


@settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=200,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
@given(data=st.data())
def test_round_trip(tmp_path_factory, data):
    try:
        problem = data.draw(problems())
    except ProblemError:  # an experiment without data has no group
        reject()
    folder = tmp_path_factory.mktemp("saved")
    path = save_problem(problem, folder / "p.toml")
    assert sorted(file.name for file in folder.iterdir()) == ["p.csv", "p.toml"]
    again = load_problem(path)
    assert_same_problem(problem, again)
    save_problem(again, folder / "q.toml")
    assert (folder / "q.csv").read_bytes() == (folder / "p.csv").read_bytes()
    assert (folder / "q.toml").read_text() == path.read_text().replace('file = "p.csv"', 'file = "q.csv"')


MELTED = EQUATIONS + PARAMETERS + '[data]\nfile = "d.csv"\nmelt = { into = "w", value = "A" }\n'
CASES = {
    "plain": (None, None),
    "title and text": ('title = "a \\"b\\" \\\\ \\n"\n' + EQUATIONS + PARAMETERS + DATA, None),
    "melted": (MELTED, "time,350,360\n0,1,2\n1,3,4\n"),
    "percent": (EQUATIONS + PARAMETERS + DATA + '[noise]\ndefault = "5 %"', "time,A\n0,1\n1,3\n"),
    "sigma by an expression": (EQUATIONS + PARAMETERS + DATA + '[noise]\nA = "0.1 + t"', "time,A\n0,1\n1,3\n"),
    "weights": (None, "time,A,weight\n0,1,2\n1,3,0\n"),
    "nothing measured": (EQUATIONS + PARAMETERS + "[experiments]\nb = { until = 3 }", None),
    "patterns": (EQUATIONS + '[parameters]\n"*" = { start = 1, lower = 0 }\n' + DATA, None),
}


@pytest.mark.parametrize(("toml", "csv"), CASES.values(), ids=CASES)
def test_loaded_problems(project, toml, csv):
    problem = project.load(toml, csv)
    path = save_problem(problem, project.folder / "out" / "p.toml")
    assert_same_problem(problem, load_problem(path))


def test_noise_is_written_as_noise(project):
    noise = '[noise]\ndefault = "5 %"\nB = 0.25\n'
    problem = project.load(EQUATIONS + PARAMETERS + DATA + noise, "time,A,B,B.sigma\n0,1,2,\n1,3,0,0.5\n")
    path = save_problem(problem, project.folder / "out" / "p.toml")
    assert noise in path.read_text()
    rows = (path.parent / "p.csv").read_text().splitlines()
    assert rows[1:] == ["main,0.0,A,1.0,,0", "main,0.0,B,2.0,,0", "main,1.0,A,3.0,,1", "main,1.0,B,0.0,0.5,1"]
    again = load_problem(path)
    assert_same_problem(problem, again)
    assert again.sigma.tolist() == [0.05, 0.25, 0.15000000000000002, 0.5]


def test_text_of_the_file(project):
    toml = EQUATIONS + PARAMETERS.replace("k2 = 0.5", 'k2 = { start = 0.5, lower = 0, scale = "log" }') + DATA
    path = save_problem(project.load(toml, "time,A,sigma\n0,1,0.1\n0.1,,0.1\n"), project.folder / "s" / "my run.toml")
    assert path.read_text() == (
        EQUATIONS
        + '\n[parameters]\nk = 1.0\nk2 = { start = 0.5, lower = 0.0, scale = "log" }\nA0 = 1.0\n'
        + '\n[data]\nfile = "my run.csv"\n\n[experiments]\nmain = {}\n'
    )
    assert (path.parent / "my run.csv").read_text() == (
        "experiment,time,observable,value,sigma\nmain,0.0,A,1.0,0.1\nmain,0.1,A,,0.1\n"
    )


def changed(problem, **changes):
    return dataclasses.replace(problem, **changes)


def of_function():
    model = Model.from_function(lambda t, y, p: {"A": -p.k * y.A}, ["A"], ["k"], {"A": 1})
    return Problem(model, (Parameter("k", 1.0),), Measurements.from_columns([1], {"A": [1]}))


def data_of(**columns):
    return Measurements(**{"experiment": ["main"], "time": [1], "observable": ["A"], "value": [1], **columns})


class TestRefusals:
    def refused(self, project, problem, message, error=OdefitError):
        path = project.folder / "out" / "p.toml"
        with pytest.raises(error, match=message):
            save_problem(problem, path)
        assert not path.exists()
        assert not path.with_suffix(".csv").exists()

    def test_model_without_text(self, project):
        self.refused(project, of_function(), "Python function and has no text")

    def test_different_starts(self, project):
        experiments = (Experiment("main"), Experiment("b", (Period(1.0),)))
        self.refused(project, changed(project.load(), experiments=experiments), "start at different", UnsupportedError)

    def test_csv_as_problem(self, project):
        with pytest.raises(OdefitError, match="where its data go"):
            save_problem(project.load(), project.folder / "out.csv")

    def test_override_with_another_meaning(self, project):
        toml = EQUATIONS.replace("k2", "until") + PARAMETERS.replace("k2", "until") + DATA
        experiments = (Experiment("main", (Period(0.0, {"until": 2.0}),)),)
        self.refused(project, changed(project.load(toml), experiments=experiments), "sets 'until'")

    @pytest.mark.parametrize("name", [" a", "a\n", "a\rb", "", "\u3000"])
    def test_names_of_experiments(self, project, name):
        problem = changed(project.load(), measurements=data_of(experiment=[name]), experiments=(Experiment(name),))
        self.refused(project, problem, "experiment")

    @pytest.mark.parametrize("name", ["NA", ".", " a", "\t", 3])
    def test_names_of_groups(self, project, name):
        self.refused(project, changed(project.load(), measurements=data_of(groups={"gel": [name]})), "group 'gel'")

    @pytest.mark.parametrize("name", ["time", "sigma", "row", "below"])
    def test_groups_with_reserved_names(self, project, name):
        self.refused(project, changed(project.load(), measurements=data_of(groups={name: ["a"]})), f"group '{name}'")

    def test_two_unused_groups(self, project):
        data = data_of(groups={"u": ["a"], "v": ["b"]})
        self.refused(project, changed(project.load(), measurements=data), "'u' or 'v'")

    def test_units_of_nothing(self, project):
        self.refused(project, changed(project.load(), units={"zz": "h"}), "'zz', which does not occur")

    def test_text_that_is_not_unicode(self, project):
        self.refused(project, changed(project.load(), title="\ud800"), "not Unicode")

    def test_path_that_cannot_be(self, project):
        with pytest.raises(OdefitError, match="cannot be written"):
            save_problem(project.load(), "a\0b.toml")

    def test_folder_that_is_a_file(self, project):
        problem = project.load()
        with pytest.raises(OdefitError, match="cannot be written"):
            save_problem(problem, project.folder / "d.csv" / "p.toml")


def test_files_are_replaced_whole(project, monkeypatch):
    problem = project.load()
    path = save_problem(problem, project.folder / "out" / "p.toml")
    before = path.read_bytes()

    def broken(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", broken)
    with pytest.raises(OdefitError, match="No space left"):
        save_problem(problem.with_start(k=5.0), path)
    assert path.read_bytes() == before
    assert sorted(file.name for file in path.parent.iterdir()) == ["p.csv", "p.toml"]


def test_every_setting_has_a_key():
    named = [setting for keys in SECTIONS.values() for setting, _ in keys.values()]
    assert sorted(named) == sorted(one.name for one in dataclasses.fields(Settings))


VALUES = st.recursive(
    st.booleans() | st.integers(-(10**18), 10**18) | st.floats(allow_nan=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=6,
)


@settings(derandomize=True, database=None, deadline=None, max_examples=200)
@given(key=ANY_TEXT, value=VALUES)
def test_toml_values_read_back(key, value):
    assert tomllib.loads(f"{toml_key(key)} = {toml_value(value)}") == {key: value}


@settings(derandomize=True, database=None, deadline=None, max_examples=300)
@given(text=st.text(st.sampled_from("\"\\\n\r\tab'\x00\x7f\x85 ") | st.characters(exclude_categories=["Cs"])))
def test_toml_blocks_read_back(text):
    assert tomllib.loads(f"a = {toml_block(text)}\n") == {"a": text}


@settings(derandomize=True, database=None, deadline=None, max_examples=100)
@given(value=FINITE)
def test_floats_read_back_exactly(value):
    assert (
        np.float64(tomllib.loads(f"a = {toml_value(np.float64(value))}")["a"]).tobytes() == np.float64(value).tobytes()
    )
