"""Arguments of rows: a problem with them is the one in which every kind of row has a definition of its own."""

from __future__ import annotations

import numpy as np
import pytest

import odefit as of
from odefit.compile import compile_problem
from odefit.transcribe import SingleShooting

DYNAMICS = "A' = -k*A\nA(0) = A0\nB' = k*A - m*B\nB(0) = 0\n"
ROUNDING = 1e-11  # of the largest entry: the same steps, other arithmetic


def parameters() -> list[of.Parameter]:
    """Every kind of parameter that a cell may name."""
    return [
        of.Parameter("k", 0.7, scale="log"),
        of.Parameter("m", 0.2),
        of.Parameter("A0", 1.0, per="experiment"),
        of.Parameter("plain", 1.3),
        of.Parameter("scaled", 0.8, scale="log10"),
        of.Parameter("between", 0.4, lower=0.0, upper=2.0, scale="logit"),
        of.Parameter("fixed", 1.9, fixed=True),
        of.Parameter("of_run", 1.1, per="experiment"),
        of.Parameter("of_gel", 0.9, per="gel"),  # varies within experiments
        of.Parameter("of_lab", 1.2, per="lab"),  # does not
        of.Parameter("computed", expression="2*plain*scaled - twice/8"),
        of.Parameter("twice", expression="2*k + of_run"),
        of.Parameter("replaced", 0.6),
        of.Parameter("fancy", 0.5),
    ]


RUNS = (
    of.Experiment("one"),
    of.Experiment("two", (of.Period(0.0, {"k": 0.9, "m": 0.3}),)),
    of.Experiment("three", (of.Period(0.0, {"replaced": 2.5, "fancy": "plain + fixed*of_run"}),)),
)
STARTS = {"of_run[two]": 1.7, "of_gel[g2]": 0.3, "A0[three]": 1.4}
NAMED = [p.name for p in parameters() if p.name != "A0"]


def cells(rng: np.random.Generator, n: int) -> list[float | str]:
    return [str(rng.choice(NAMED)) if rng.uniform() < 0.8 else float(rng.uniform(0.5, 2.0)) for _ in range(n)]


def rows_of(rng: np.random.Generator, n: int) -> dict:
    run = rng.choice(["one", "two", "three"], n)
    run[:6] = ["one", "one", "two", "two", "three", "three"]
    gel = rng.choice(["g1", "g2"], n)
    gel[:6] = ["g1", "g2"] * 3
    return {
        "experiment": run.astype(object),
        "time": rng.choice(np.linspace(0, 4, 9), n),
        "observable": rng.choice(["y", "z"], n).astype(object),
        "value": rng.normal(1.0, 0.3, n),
        "groups": {"gel": gel.astype(object), "lab": np.where(run == "two", "north", "south").astype(object)},
    }


# parameters that experiments replace have to be the model's own
EXTRA = "held = replaced + fancy + 0*t\n"


def with_arguments(rows: dict, s: list, o: list, **changes) -> of.Problem:
    model = of.Model.from_text(f"{DYNAMICS}{EXTRA}y = s*A + o\nz = A + s*o*exp(-s*B)")
    data = of.Measurements(**rows, arguments={"s": s, "o": o}, **changes.pop("columns", {}))
    return of.Problem(model, changes.pop("parameters", parameters()), data, RUNS, starts=STARTS, **changes)


def by_hand(rows: dict, s: list, o: list, **changes) -> of.Problem:
    """The same, with a definition for each pair of cells."""
    formula = {"y": "({s})*A + ({o})", "z": "A + ({s})*({o})*exp(-({s})*B)"}
    names: dict[tuple, str] = {}
    for one in zip(rows["observable"], s, o, strict=True):
        names.setdefault(one, f"g{len(names)}")
    text = [f"{name} = {formula[g].format(s=a, o=b)}" for (g, a, b), name in names.items()]
    # what the rows do not name stands somewhere too
    text.append("everything = " + " + ".join(p.name for p in parameters()))
    model = of.Model.from_text(f"{DYNAMICS}{EXTRA}" + "\n".join(text))
    observable = np.array([names[one] for one in zip(rows["observable"], s, o, strict=True)], dtype=object)
    data = of.Measurements(**{**rows, "observable": observable}, **changes.pop("columns", {}))
    return of.Problem(model, changes.pop("parameters", parameters()), data, RUNS, starts=STARTS, **changes)


def close(found, expected) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=ROUNDING * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("seed", range(6))
def test_rows_are_those_of_definitions_written_by_hand(seed):
    rng = np.random.default_rng(seed)
    rows = rows_of(rng, 40)
    s, o = cells(rng, 40), cells(rng, 40)
    one, other = with_arguments(rows, s, o), by_hand(rows, s, o)
    mine, theirs = one.evaluate(order=1), other.evaluate(order=1)
    close(mine.residuals, theirs.residuals)
    names, others = compile_problem(one).theta_names, compile_problem(other).theta_names
    # a value of a parameter with `per` that no cell names is not estimated; written by hand nothing depends on it
    assert {*names} <= {*others}
    place = [others.index(name) for name in names]
    close(mine.jacobian, theirs.jacobian[:, place])
    left = np.delete(theirs.jacobian, place, axis=1)
    assert not left.any()


@pytest.mark.parametrize("seed", range(3))
def test_derivatives_are_those_of_differences(seed):
    rng = np.random.default_rng(100 + seed)
    objective = SingleShooting(with_arguments(rows_of(rng, 30), cells(rng, 30), cells(rng, 30)))
    x = objective.compiled.theta_start.copy()
    objective.refresh(x)
    jacobian = objective.evaluate(x, 1).linear.jacobian
    for i in range(x.size):
        h, parts = 1e-3, []
        for step, weight in ((-2, 1), (-1, -8), (1, 8), (2, -1)):
            moved = x.copy()
            moved[i] += step * h
            parts.append(weight * objective.evaluate(moved, 0).residual)
        np.testing.assert_allclose(np.sum(parts, axis=0) / (12 * h), jacobian[:, i], rtol=1e-8, atol=1e-9)


def test_fits_and_their_statistics_are_those_written_by_hand():
    rng = np.random.default_rng(7)
    t = np.sort(rng.uniform(0, 3, 40))
    names = rng.choice(["low", "high", "mean"], 40)
    size = {"low": 1.0, "high": 3.0, "mean": 2.0}
    value = np.array([size[name] for name in names]) * np.exp(-0.5 * t) + 0.05 * rng.normal(size=40)
    known = [
        of.Parameter("k", 0.8, scale="log"),
        of.Parameter("low", 2.0),
        of.Parameter("high", 2.0),
        of.Parameter("mean", expression="(low + high)/2"),
    ]
    decay = "A' = -k*A\nA(0) = 1\n"
    one = of.Problem(
        of.Model.from_text(f"{decay}y = s*A"),
        known,
        of.Measurements.from_columns(t, {"y": value}, arguments={"s": names}),
    )
    other = of.Problem(
        of.Model.from_text(f"{decay}y_low = low*A\ny_high = high*A\ny_mean = mean*A"),
        known,
        of.Measurements(["main"] * 40, t, [f"y_{name}" for name in names], value),
    )
    mine, theirs = of.fit(one), of.fit(other)
    assert mine.status == theirs.status == "converged"
    assert mine.objective == pytest.approx(theirs.objective, rel=1e-10)
    assert mine.loglik == pytest.approx(theirs.loglik, rel=1e-10)
    assert dict(mine.estimates) == pytest.approx(dict(theirs.estimates), rel=1e-7)
    assert mine.standard_errors() == pytest.approx(theirs.standard_errors(), rel=1e-7)
    assert mine.estimates["high"] == pytest.approx(3.0, rel=0.05)


def test_incremental_fits_take_the_arguments_of_the_first_rows():
    rng = np.random.default_rng(3)
    t = np.linspace(0, 4, 12)
    scale = np.where(np.arange(12) % 2 == 0, "s1", "s2")
    value = np.where(scale == "s1", 2.0, 3.0) * np.exp(-0.6 * t) + 0.01 * rng.normal(size=12)
    made = of.Problem(
        of.Model.from_text("A' = -k*A\nA(0) = 1\ny = s*A"),
        [of.Parameter("k", 1.5), of.Parameter("s1", 1.0), of.Parameter("s2", 1.0)],
        of.Measurements.from_columns(t, {"y": value}, arguments={"s": scale}),
    )
    single, incremental = of.fit(made), of.fit(made, method="incremental")
    assert single.status == incremental.status == "converged"
    assert dict(incremental.estimates) == pytest.approx(dict(single.estimates), rel=1e-5)
    assert single.estimates["s2"] == pytest.approx(3.0, rel=0.02)


def test_blocks_know_what_cells_name():
    """Thirty experiments with a scale each, named in the cells; elimination by blocks fits like a dense one."""
    rng = np.random.default_rng(5)
    n, t = 30, np.linspace(0, 3, 6)
    names = [f"e{i}" for i in range(n)]
    scale = rng.uniform(0.5, 2.0, n)
    value = scale[:, None] * np.exp(-0.7 * t) + 0.01 * rng.normal(size=(n, t.size))
    common = {
        "experiment": np.repeat(np.array(names, dtype=object), t.size),
        "time": np.tile(t, n),
        "observable": np.full(n * t.size, "y", dtype=object),
        "value": value.ravel(),
    }
    runs = [of.Experiment(name) for name in names]
    k, scales = of.Parameter("k", 0.3), [of.Parameter(f"s{i}", 1.0) for i in range(n)]
    one = of.Problem(
        of.Model.from_text("A' = -k*A\nA(0) = 1\ny = s*A"),
        [k, of.Parameter("own", 1.0, per="experiment")],
        of.Measurements(**common, arguments={"s": ["own"] * n * t.size}),
        runs,
    )
    named = of.Measurements(**common, arguments={"s": np.repeat([p.name for p in scales], t.size)})
    several = of.Problem(one.model, [k, *scales], named, runs)
    plain = of.Problem(
        of.Model.from_text("A' = -k*A\nA(0) = 1\ny = own*A"), one.parameters, of.Measurements(**common), runs
    )
    results = [of.fit(problem) for problem in (one, several, plain)]
    assert all(result.plan.layout is not None for result in results)
    for result in results[:2]:
        assert result.objective == pytest.approx(results[2].objective, rel=1e-9)
        np.testing.assert_allclose([*result.estimates.values()], [*results[2].estimates.values()], rtol=1e-6)


def test_observables_with_arguments_of_their_own_are_evaluated_together():
    """As each of twenty observables with a scale of its own has an empty cell for those of the others."""
    n, t = 20, [1.0, 2.0, 3.0]
    text = "A' = -k*A\nA(0) = 1\n" + "\n".join(f"y{i} = s{i}*A + {i}" for i in range(n))
    rows = [(time, i) for time in t for i in range(n)]
    arguments = {f"s{i}": [(f"c{i}" if time < 3 else 2.0) if i == j else "" for time, j in rows] for i in range(n)}
    observables = [f"y{i}" for _, i in rows]
    data = of.Measurements(["main"] * 60, [t for t, _ in rows], observables, np.ones(60), arguments=arguments)
    scales = [of.Parameter(f"c{i}", 1.0 + i) for i in range(n)]
    made = of.Problem(of.Model.from_text(text), [of.Parameter("k", 0.5), *scales], data)
    objective = SingleShooting(made)
    [one] = objective.observations
    for source, number in zip(one.argument_source.reshape(3, n, n), one.argument_number.reshape(3, n, n), strict=True):
        assert (source == source[0]).all()
        assert np.array_equal(number, np.broadcast_to(number[0], (n, n)), equal_nan=True)
    found = made.evaluate(order=1)
    a = np.exp(-0.5 * np.array(t))
    factor = np.where(np.array(t)[:, None] < 3, 1.0 + np.arange(n), 2.0)
    np.testing.assert_allclose(found.residuals.reshape(3, n), factor * a[:, None] + np.arange(n) - 1, atol=1e-6)
    by_scale = found.jacobian.reshape(3, n, n + 1)[:, :, 1:]
    np.testing.assert_allclose(
        by_scale, np.where([[[True]], [[True]], [[False]]], np.eye(n) * a[:, None, None], 0), atol=1e-6
    )
    np.testing.assert_allclose(found.jacobian[:, 0].reshape(3, n), -factor * (np.array(t) * a)[:, None], atol=1e-5)


def test_values_that_no_cell_names_are_not_estimated():
    data = of.Measurements(
        ["b1", "b1", "b2"], [1.0, 2.0, 1.0], ["y"] * 3, [1.0, 2.0, 3.0],
        arguments={"s": ["own", "own", 2.0]}, groups={"gel": ["g1", "g2", "g1"]},
    )  # fmt: skip
    runs = (of.Experiment("b1"), of.Experiment("b2"))
    model = of.Model.from_text("y = s*t + a")
    one = of.Problem(model, [of.Parameter("a", 1.0), of.Parameter("own", 1.0, per="experiment")], data, runs)
    assert compile_problem(one).theta_names == ("a", "own[b1]")
    two = of.Problem(model, [of.Parameter("a", 1.0), of.Parameter("own", 1.0, per="gel")], data, runs)
    assert compile_problem(two).theta_names == ("a", "own[g1]", "own[g2]")
    # in a definition it stands for all of them
    model = of.Model.from_text("y = s*t + a\nother = own*t")
    three = of.Problem(model, one.parameters, data, runs)
    assert compile_problem(three).theta_names == ("a", "own[b1]", "own[b2]")


def test_multistart_shares_the_rows():
    t = np.linspace(0, 3, 8)
    made = of.Problem(
        of.Model.from_text("A' = -k*A\nA(0) = 1\ny = s*A"),
        [of.Parameter("k", 1.0, lower=0.1, upper=5.0), of.Parameter("s1", 1.0, lower=0.1, upper=9.0)],
        of.Measurements.from_columns(t, {"y": 2 * np.exp(-0.5 * t)}, arguments={"s": ["s1"] * 7 + [2.0]}),
    )
    result = of.fit(made.with_settings(starts=4, seed=1))
    assert result.estimates["s1"] == pytest.approx(2.0, rel=1e-5)
