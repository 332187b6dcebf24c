"""Fits do not depend on the units of parameters, data and time.

Units are powers of two: a product with one is exact, so that a fit in other units makes the same steps.  Only
logarithms are rounded in another way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

import odefit as of
from odefit.solve import SOLVERS
from odefit.study.sampling import start_box
from odefit.transcribe import plan_of

POWERS = (-100, -41, 37, 100)  # of two: 8e-31 to 1e30
RNG = np.random.default_rng(5)
T = np.linspace(0.25, 8.0, 16)


@dataclass(frozen=True)
class Case:
    """A problem whose equations hold in any units.

    Attributes
    ----------
    text
        The model; `n_<symbol>` is a fixed factor, the number of new units in an old one.
    parameters
        Free ones, with their unit as exponents of the units that may change: ``{"T": -1}`` is one over time.
    observed
        Observables with their units, and their values at `times` in each experiment.
    """

    text: str
    parameters: tuple[of.Parameter, ...]
    units: Mapping[str, Mapping[str, int]]
    observed: Mapping[str, np.ndarray]
    changeable: tuple[str, ...]
    times: np.ndarray = field(default_factory=lambda: T)
    experiments: int = 1
    settings: Mapping[str, object] = field(default_factory=dict)

    def problem(self, solver: str = "trust", **units: float) -> of.Problem:
        """Return the problem with this many new units in each old one."""

        def factor(name: str) -> float:
            return math.prod(units.get(unit, 1.0) ** power for unit, power in self.units.get(name, {}).items())

        free = [
            of.Parameter(
                p.name, p.start * factor(p.name), lower=p.lower * factor(p.name), upper=p.upper * factor(p.name),
                scale=p.scale, per=p.per, fixed=p.fixed,
            )
            for p in self.parameters
        ]  # fmt: skip
        model = of.Model.from_text(self.text)
        known = {p.name for p in free}
        fixed = [
            of.Parameter(name, units.get(name.removeprefix("n_"), 1.0), fixed=True)
            for name in model.parameters
            if name not in known
        ]
        columns: dict[str, list] = {"experiment": [], "time": [], "observable": [], "value": [], "weight": []}
        for name, values in self.observed.items():
            for e, series in enumerate(np.atleast_2d(values)):
                columns["experiment"] += [f"e{e}"] * series.size
                columns["time"] += (self.times * units.get("T", 1.0)).tolist()
                columns["observable"] += [name] * series.size
                columns["value"] += (series * factor(name)).tolist()
                columns["weight"] += [factor(name) ** -2] * series.size
        data = of.Measurements(**{key: np.array(value) for key, value in columns.items()})
        settings = {"atol": 1e-9 * units.get("Y", 1.0), "solver": solver, "max_iterations": 60} | dict(self.settings)
        return of.Problem(
            model, [*free, *fixed], data, experiments=[of.Experiment(f"e{e}") for e in range(self.experiments)],
            settings=of.Settings(**settings),
        )  # fmt: skip

    def factors(self, **units: float) -> dict[str, float]:
        """Return the number of new units in an old one for each parameter."""
        return {
            p.name: math.prod(units.get(unit, 1.0) ** power for unit, power in self.units.get(p.name, {}).items())
            for p in self.parameters
        }


def noisy(values: np.ndarray, size: float = 0.02) -> np.ndarray:
    return values + size * np.abs(values).max() * RNG.standard_normal(values.shape)


def two_compartments(t: np.ndarray) -> np.ndarray:
    a, b, k10, k12, k21 = 10.0, 0.0, 0.4, 0.7, 0.3
    matrix = np.array([[-k10 - k12, k21], [k12, -k21]])
    values, vectors = np.linalg.eig(matrix)
    weights = np.linalg.solve(vectors, [a, b])
    return np.real((vectors * weights) @ np.exp(np.outer(values, t)))


BARNES = (
    [1, 1.1, 1.3, 1.1, 0.9, 0.7, 0.5, 0.6, 0.7, 0.8, 1],
    [0.3, 0.35, 0.4, 0.5, 0.5, 0.4, 0.3, 0.25, 0.25, 0.3, 0.35],
)
BARNES_MODEL = """
y1' = k1*y1 - k2*y1*y2
y2' = k2*y1*y2 - k3*y2
y1(0) = a
y2(0) = b
z1 = n_O*y1
"""
RATE, AMOUNT = {"T": -1}, {"Y": 1}
CASES = {
    "barnes": Case(
        BARNES_MODEL,
        tuple(of.Parameter(name, value) for name, value in dict(k1=1.0, k2=1.0, k3=1.0, a=1.0, b=0.3).items()),
        {
            "k1": RATE,
            "k2": {"T": -1, "Y": -1},
            "k3": RATE,
            "a": AMOUNT,
            "b": AMOUNT,
            "y2": AMOUNT,
            "z1": {"Y": 1, "O": 1},
        },
        {"z1": np.array(BARNES[0]), "y2": np.array(BARNES[1])},
        ("T", "Y", "O"),
        np.linspace(0.0, 5.0, 11),
    ),
    "two compartments, log10": Case(
        "c' = -(k10 + k12)*c + k21*p\np' = k12*c - k21*p\nc(0) = D\np(0) = 0*D\nz = c*s",
        (
            *(of.Parameter(name, 1.0, scale="log10") for name in ("k10", "k12", "k21")),
            of.Parameter("s", 0.3, scale="log10"),
            of.Parameter("D", 10.0, fixed=True),
        ),
        {"k10": RATE, "k12": RATE, "k21": RATE, "D": AMOUNT, "s": {"Y": -1, "O": 1}, "z": {"O": 1}},
        {"z": noisy(two_compartments(T)[0])},
        ("T", "Y", "O"),
    ),
    "explicit": Case(
        "z = A*exp(-k*t) + B",
        (of.Parameter("A", 1.0), of.Parameter("k", 2.0), of.Parameter("B", 0.0)),
        {"A": {"O": 1}, "k": RATE, "B": {"O": 1}, "z": {"O": 1}},
        {"z": noisy(3.0 * np.exp(-0.5 * T) + 0.4)},
        ("T", "O"),
    ),
    "bounds": Case(
        "x' = -k*x + u - m*x\ny' = k*x - l*y\nx(0) = 3*n_Y\ny(0) = 0*n_Y",
        (
            of.Parameter("k", 1.0, lower=0.0, upper=4.0),
            of.Parameter("l", 0.5, lower=0.0, upper=8.0),
            of.Parameter("m", 0.5, lower=0.0, upper=2.0),
            of.Parameter("u", 1.0, lower=0.0, upper=16.0),
        ),
        {"k": RATE, "l": RATE, "m": RATE, "u": {"T": -1, "Y": 1}, "x": AMOUNT, "y": AMOUNT},
        {
            "x": noisy(3.0 * np.exp(-0.7 * T)),
            "y": noisy(3.0 * 0.7 / (0.7 - 0.2) * (np.exp(-0.2 * T) - np.exp(-0.7 * T))),
        },
        ("T", "Y"),
    ),
    "blocks": Case(
        "x' = -k*x\nx(0) = a\nz = n_O*x + c",
        (of.Parameter("k", 1.0), of.Parameter("a", 1.0, per="experiment"), of.Parameter("c", 0.0)),
        {"k": RATE, "a": AMOUNT, "x": AMOUNT, "z": {"Y": 1, "O": 1}, "c": {"Y": 1, "O": 1}},
        {"z": noisy(np.arange(2.0, 28.0)[:, None] * np.exp(-0.4 * T) + 0.25)},
        ("T", "Y", "O"),
        experiments=26,
    ),
    "from zero": Case(
        "x' = u + v*t - k*x\nx(0) = a",
        (of.Parameter("u", 0.0), of.Parameter("v", 0.0), of.Parameter("k", 0.0), of.Parameter("a", 0.0)),
        {"u": {"T": -1, "Y": 1}, "v": {"T": -2, "Y": 1}, "k": RATE, "a": AMOUNT, "x": AMOUNT},
        {"x": noisy(2.0 - 1.5 * np.exp(-0.8 * T))},
        ("T", "Y"),
    ),
    "stiff": Case(
        "a' = -k1*a + k2*b*c\nb' = k1*a - k2*b*c - k3*b^2\nc' = k3*b^2\na(0) = n_Y\nb(0) = 0*n_Y\nc(0) = 0*n_Y",
        (of.Parameter("k1", 0.08), of.Parameter("k2", 2e4), of.Parameter("k3", 6e7)),
        {"k1": RATE, "k2": {"T": -1, "Y": -1}, "k3": {"T": -1, "Y": -1}, "a": AMOUNT, "c": AMOUNT},
        {
            "a": np.array([0.9852, 0.9422, 0.8414, 0.6172, 0.4505]) + 1e-3 * RNG.standard_normal(5),
            "c": np.array([0.0148, 0.0577, 0.1586, 0.3828, 0.5495]) + 1e-3 * RNG.standard_normal(5),
        },
        ("T", "Y"),
        np.array([0.4, 2.0, 10.0, 100.0, 400.0]),
        settings={"integrator": "ddm"},
    ),
}


def test_blocks_are_blocks():
    assert plan_of(CASES["blocks"].problem()).layout is not None


def assert_same(case: Case, one: of.FitResult, two: of.FitResult, **units: float) -> None:
    """The two fits are one fit in two units."""
    assert (two.status, two.iterations) == (one.status, one.iterations)
    assert two.objective == pytest.approx(one.objective, rel=1e-8)
    for name, factor in case.factors(**units).items():
        slots = [slot for slot in one.parameters if slot.split("[")[0] == name]
        assert slots
        for slot in slots:
            expected, found = one.parameters[slot], two.parameters[slot]
            assert found.verdict == expected.verdict
            assert found.estimate / factor == pytest.approx(expected.estimate, rel=1e-8)
            if expected.standard_error is None or found.standard_error is None:
                assert found.standard_error is expected.standard_error
            else:
                assert found.standard_error / factor == pytest.approx(expected.standard_error, rel=1e-6)


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize(("name", "unit"), [(name, unit) for name, case in CASES.items() for unit in case.changeable])
def test_units(name, unit, power):
    case, units = CASES[name], {unit: 2.0**power}
    assert_same(case, of.fit(case.problem()), of.fit(case.problem(**units)), **units)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", CASES)
def test_units_with_any_solver(name, solver):
    """All units are changed at once, each in its own way."""
    case, units = CASES[name], {"T": 2.0**31, "Y": 2.0**-29, "O": 2.0**17}
    assert_same(case, of.fit(case.problem(solver)), of.fit(case.problem(solver, **units)), **units)


def decay(factor: float) -> of.Problem:
    """Return ``y' = -k*y/factor``: `k` is so much larger than a rate."""
    t = np.linspace(0.5, 5.0, 10)
    return of.Problem(
        of.Model.from_text(f"y' = -k*{1.0 / factor!r}*y\ny(0) = A"),
        [of.Parameter("k", factor), of.Parameter("A", 0.5)],
        of.Measurements.from_columns(t, {"y": np.exp(-0.7 * t) + 0.01 * np.cos(9 * t)}),
    )


@pytest.mark.parametrize("factor", [1e-30, 1e-20, 1e-8, 1e8, 1e30])
def test_a_small_unit_does_not_freeze_the_other_parameters(factor):
    by_hand, result = of.fit(decay(1.0)), of.fit(decay(factor))
    assert result.converged
    assert result.objective == pytest.approx(by_hand.objective, rel=1e-8)
    assert result.estimates["A"] == pytest.approx(by_hand.estimates["A"], rel=1e-6)
    assert result.estimates["k"] == pytest.approx(factor * by_hand.estimates["k"], rel=1e-6)


@pytest.mark.parametrize("start", [0.0, 1e-300, 1e-12, -1e-12])
def test_a_start_far_too_small_tells_no_size(start):
    t = np.linspace(0.0, 5.0, 11)
    problem = of.Problem(
        of.Model.from_text("y = a + b*t"),
        [of.Parameter("a", start), of.Parameter("b", start)],
        of.Measurements.from_columns(t, {"y": 1.0 + 2.0 * t + 0.1 * np.sin(7 * t)}),
    )
    result = of.fit(problem)
    expected = np.linalg.lstsq(np.stack([np.ones(11), t], axis=1), 1 + 2 * t + 0.1 * np.sin(7 * t), rcond=None)[0]
    assert result.converged
    np.testing.assert_allclose(list(result.estimates.values()), expected, rtol=1e-6)
    assert result.iterations <= 5


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("name", ["blocks", "explicit"])
def test_draws_around_zero_know_the_unit(name, power):
    case, units = CASES[name], {"T": 2.0**power, "Y": 2.0**-power, "O": 2.0**power}
    of_name = case.factors(**units)
    factors = np.array([of_name[name.split("[")[0]] for name in plan_of(case.problem()).names])
    for one, two in zip(start_box(case.problem()), start_box(case.problem(**units)), strict=True):
        np.testing.assert_allclose(two, factors * one, rtol=1e-12)


@pytest.mark.parametrize("power", [-100, 100])
@pytest.mark.parametrize(("name", "unit"), [("barnes", "T"), ("barnes", "Y"), ("from zero", "Y"), ("bounds", "T")])
def test_units_on_growing_horizons(name, unit, power):
    case, units = CASES[name], {unit: 2.0**power}
    one, two = (of.fit(problem, method="incremental") for problem in (case.problem(), case.problem(**units)))
    assert_same(case, one, two, **units)
    assert [a.status for a in two.attempts] == [a.status for a in one.attempts]
