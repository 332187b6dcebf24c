"""What `auto` chooses, that it replays its grids by the right method, and that failures keep their words."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from initial_value_problems import CASES, compiled_model, make_run, run_of, solve

import odefit as of
from odefit.compile import Seeds
from odefit.errors import OdefitError
from odefit.gallery import load
from odefit.integrate import CHOICES, METHODS, Run, Status

AUTO, DOPRI5, DOP853, DDM = CHOICES["auto"], METHODS["dopri5"], METHODS["dop853"], METHODS["ddm"]
STIFF = json.loads((Path(__file__).parents[1] / "reference" / "stiff.json").read_text())["problems"]

RELAXATION = "x' = -k*(x - cos(t))\nx(0) = 0"
LOTKA_VOLTERRA = "y1' = -k1*y1 + k2*y1*y2\ny2' = k3*y2 - k4*y1*y2\ny1(0) = 0.4\ny2(0) = 1"
DECAY = "x' = -k*x\nx(0) = 1"

# text, p, y0, output times
FAILURES = {
    "pole": ("x' = k*x^2\nx(0) = 1", [1.0], [1.0], [0.5, 2.0]),
    "Lotka-Volterra that explodes": (LOTKA_VOLTERRA, [0.5, 0.5, 0.5, -0.2], [0.4, 1.0], [1.0, 2.0, 3.0, 10.0]),
    "parameter NaN": (DECAY, [np.nan], [1.0], [1.0]),
    "initial state NaN": (DECAY, [1.0], [np.nan], [1.0]),
    "sqrt leaves its domain": ("x' = -k\ny' = sqrt(x)\nx(0) = 1\ny(0) = 0", [1.0], [1.0, 0.0], [0.5, 2.0]),
    "overflow": ("x' = k*x\nx(0) = 1", [1.0], [1.0], [0.5, 1000.0]),
}


def stiff_run(name: str, end: float | None = None) -> tuple:
    problem = STIFF[name]
    model = compiled_model("\n".join(problem["text"]))
    p = np.array([problem["parameters"][k] for k in model.parameters])
    times = np.array([problem["end"] if end is None else end])
    n, q = len(problem["y0"]), p.size
    seeds = Seeds(p, np.array(problem["y0"]), np.diag(p), np.zeros((n, q)), *model.no_pairs)
    return model, Run.of(seeds, 0.0, times)


def same(one, other) -> None:
    for a, b in zip(
        (one.y, one.S, one.S2, one.grid.steps), (other.y, other.S, other.S2, other.grid.steps), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    assert one[:3] == other[:3]
    assert one.grid.method == other.grid.method


# --- the choice ---


@pytest.mark.parametrize("rtol", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_explicit_where_it_is_enough(case, rtol):
    """And then to the last bit what the explicit method gives: watching changes nothing."""
    options = {"rtol": rtol, "atol": 1e-2 * rtol, "order": 2}
    method = DOP853 if rtol == 1e-9 else DOPRI5
    found = solve(AUTO, case, make_run(case), **options)
    assert found.status is Status.OK
    assert found.grid.method == method.name
    same(found, solve(method, case, make_run(case), **options))


@pytest.mark.parametrize(
    ("rtol", "used"), [(1e-2, "dopri5"), (1e-7, "dopri5"), (1.01e-8, "dopri5"), (1e-8, "dop853"), (1e-13, "dop853")]
)
@pytest.mark.parametrize("atol", [1e-14, 1e-3])
def test_explicit_method_goes_by_rtol_alone(rtol, used, atol):
    model, run = run_of(LOTKA_VOLTERRA, [0.5, 0.5, 0.5, 0.2], [0.4, 1.0], [1.0, 10.0])
    assert AUTO.solve(model, run, rtol=rtol, atol=atol, order=1).grid.method == used


@pytest.mark.parametrize("name", ["robertson", "hires", "orego", "pollu", "vdpol"])
@pytest.mark.parametrize("rtol", [1e-3, 1e-6, 1e-8])
def test_stiff_method_on_stiff_problems(name, rtol):
    model, run = stiff_run(name)
    options = {"rtol": rtol, "atol": 1e-6 * rtol, "order": 1}
    found = AUTO.solve(model, run, **options)
    assert found.status is Status.OK
    assert found.grid.method == "ddm"
    same(found, DDM.solve(model, run, **options))


@pytest.mark.parametrize("rtol", [1e-3, 1e-7, 1e-8])
def test_stiff_linear_problem_over_a_long_interval(rtol):
    """Behind the transient x = (k^2 cos t + k sin t)/(k^2 + 1)."""
    k, t = 1e4, 10.0
    model, run = run_of(RELAXATION, [k], [0.0], [t])
    found = AUTO.solve(model, run, rtol=rtol, atol=1e-2 * rtol, order=1)
    assert found.grid.method == "ddm"
    assert found.counters.steps < 1000  # explicit steps are shorter than 3.3/k, that is 30 000
    assert found.y[0, 0] == pytest.approx((k * k * np.cos(t) + k * np.sin(t)) / (k * k + 1), abs=20 * rtol)


@pytest.mark.parametrize(("rtol", "used"), [(1e-3, "dopri5"), (1e-7, "dopri5"), (1e-9, "dop853")])
@pytest.mark.parametrize(("text", "p", "y0", "end"), [(RELAXATION, [1e4], [0.0], 0.01), (DECAY, [1e4], [1.0], 0.02)])
def test_short_intervals_are_left_to_the_explicit_method(text, p, y0, end, rtol, used):
    model, run = run_of(text, p, y0, [end])
    assert AUTO.solve(model, run, rtol=rtol, atol=1e-2 * rtol).grid.method == used


@pytest.mark.parametrize("end", [1e-4, 1e-2])
def test_short_intervals_of_robertson(end):
    model, run = stiff_run("robertson", end)
    assert AUTO.solve(model, run, rtol=1e-6, atol=1e-10).grid.method == "dopri5"


def bioprocess_starts() -> list[dict[str, float]]:
    random = np.random.default_rng(7)
    free = load("bioprocess").free
    factors = np.exp(random.uniform(-0.4, 0.4, (20, len(free))))
    return [{p.name: p.start * f for p, f in zip(free, row, strict=True)} for row in factors.tolist()]


def test_bioprocess_is_not_stiff_at_its_start_nor_near_it():
    problem, n_ok = load("bioprocess"), 0
    for values in [{}, *bioprocess_starts()]:
        automatic, explicit = (
            problem.with_start(**values).with_settings(integrator=name).evaluate() for name in ("auto", "dopri5")
        )
        # some of these points fail where a power meets a negative number: explicitly as well, in the same words
        assert (automatic.status, automatic.message) == (explicit.status, explicit.message)
        np.testing.assert_array_equal(automatic.residuals, explicit.residuals)
        if automatic.status == "ok":
            np.testing.assert_array_equal(automatic.jacobian, explicit.jacobian)
            n_ok += 1
    assert n_ok >= 10


def test_pieces_together_decide_about_the_work_ahead():
    """Each piece is short, the run is long."""
    model, run = run_of(RELAXATION, [1e4], [0.0], [10.0], stops=np.arange(1, 1000) * 0.01)
    found = AUTO.solve(model, run, rtol=1e-3, atol=1e-5)
    assert found.status is Status.OK
    assert found.grid.method in ("dopri5", "ddm")
    exact = (1e8 * np.cos(10.0) + 1e4 * np.sin(10.0)) / (1e8 + 1)
    assert found.y[0, 0] == pytest.approx(exact, abs=1e-3)


# --- replay ---


@pytest.mark.parametrize(("rtol", "explicit"), [(1e-6, DOPRI5), (1e-8, DOP853)], ids=["dopri5", "dop853"])
def test_replay_by_the_method_that_made_the_grid(rtol, explicit):
    options = {"rtol": rtol, "atol": 1e-10, "order": 1}
    for model, run, method in ((*stiff_run("robertson"), DDM), (*run_of(DECAY, [1.0], [1.0], [1.0]), explicit)):
        chosen = AUTO.solve(model, run, **options)
        assert chosen.grid.method == method.name
        again = AUTO.solve(model, run, grid=chosen.grid, **options)
        same(again, chosen)
        same(again, method.solve(model, run, grid=chosen.grid, **options))


def test_grid_is_kept_where_another_rtol_would_choose_another_method():
    model, run = run_of(DECAY, [1.0], [1.0], [1.0])
    for rtol, method in ((1e-6, DOPRI5), (1e-9, DOP853)):
        grid = AUTO.solve(model, run, rtol=rtol, atol=1e-10).grid
        found = AUTO.solve(model, run, grid=grid, rtol=1e-15 / rtol, atol=1e-10)
        assert found.grid is grid
        np.testing.assert_array_equal(found.y, method.solve(model, run, grid=grid, rtol=rtol, atol=1e-10).y)


def test_explicit_grid_is_kept_where_the_model_has_become_stiff():
    """A replay chooses nothing, so it changes no method either: what it finds is as bad as the grid is."""
    model, mild = run_of(RELAXATION, [1.0], [0.0], [10.0])
    grid = AUTO.solve(model, mild, rtol=1e-6, atol=1e-8).grid
    assert grid.method == "dopri5"
    _, stiff = run_of(RELAXATION, [1e4], [0.0], [10.0])
    found = AUTO.solve(model, stiff, grid=grid, rtol=1e-6, atol=1e-8)
    assert found.grid.method == "dopri5"
    assert found.status is Status.NONFINITE or found.error_ratio > 1e3


def test_grids_of_other_methods_are_refused():
    case = CASES[0]
    grid = solve(METHODS["rk32"], case, make_run(case)).grid
    with pytest.raises(OdefitError, match="a step grid of 'rk32' cannot be replayed by 'auto'"):
        solve(AUTO, case, make_run(case), grid=grid)


# --- what the result of a fit says ---


def robertson_fit() -> of.Problem:
    text = "\n".join(STIFF["robertson"]["text"]).replace("y1(0) = 0", "y1(0) = 1")
    parameters = [of.Parameter(k, 1.2 * v, scale="log") for k, v in STIFF["robertson"]["parameters"].items()]
    model, run = stiff_run("robertson", 910.0)
    times = np.array([0.01, 0.1, 1.0, 10.0, 110.0, 910.0])
    y = DDM.solve(model, run._replace(times=times), rtol=1e-9, atol=1e-14).y
    columns = {f"y{i + 1}": y[:, i] for i in range(3)}
    sigma = dict(zip(columns, 0.01 * y.max(axis=0), strict=True))
    data = of.Measurements.from_columns(times, columns, sigma=sigma)
    return of.Problem(of.Model.from_text(text), tuple(parameters), data).with_settings(rtol=1e-7, atol=1e-11)


@pytest.mark.parametrize(("name", "used"), [("barnes", "dopri5"), ("robertson", "ddm")])
def test_result_says_what_was_used(name, used):
    problem = robertson_fit() if name == "robertson" else load(name)
    result = of.fit(problem)
    assert problem.settings.integrator == "auto"
    assert result.converged
    assert set(result.integrators.values()) == {used}
    assert json.loads(json.dumps(result.to_dict()))["integrators"] == result.integrators


def test_fit_of_robertson_finds_the_constants():
    result = of.fit(robertson_fit())
    for name, value in STIFF["robertson"]["parameters"].items():
        assert result.estimates[name] == pytest.approx(value, rel=1e-3)


# --- failures ---


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("name", FAILURES)
def test_failures_are_those_of_the_explicit_method(name, order):
    model, run = run_of(*FAILURES[name])
    options = {"rtol": 1e-7, "atol": 1e-9, "order": order, "max_steps": 10_000}
    found = AUTO.solve(model, run, **options)
    assert found.status not in (Status.OK, Status.STIFF)
    same(found, DOPRI5.solve(model, run, **options))
    assert found.sentence(model) == DOPRI5.solve(model, run, **options).sentence(model)


def test_place_of_the_pole():
    model, run = run_of(*FAILURES["Lotka-Volterra that explodes"])
    found = AUTO.solve(model, run, rtol=1e-7, atol=1e-9)
    assert found.status is Status.STEP_UNDERFLOW
    assert found.t_end == pytest.approx(3.3064, abs=1e-3)


def test_too_many_steps():
    model, run = run_of("x' = v\nv' = -w^2*x\nx(0) = 1\nv(0) = 0", [1e3], [1.0, 0.0], [1e-4, 100.0])
    found = AUTO.solve(model, run, rtol=1e-7, atol=1e-9, max_steps=2000)
    assert found.status is Status.TOO_MANY_STEPS
    assert found.counters.steps + found.counters.rejected == 2000
    assert np.isfinite(found.y[0]).all()
    assert np.isnan(found.y[1]).all()


@pytest.mark.parametrize("rtol", [1e-300, 0.0])
def test_tolerances_that_no_method_meets(rtol):
    model, run = run_of(DECAY, [1.0], [1.0], [1.0])
    found = AUTO.solve(model, run, rtol=rtol, atol=1e-300, order=1, max_steps=2000)
    assert found.status in (Status.STEP_UNDERFLOW, Status.TOO_MANY_STEPS)
    assert found.t_end < 1.0
    assert np.isnan(found.y).all()


@pytest.mark.parametrize("place", [0.1234, 1.2345, 1.9999])
def test_jump_that_no_step_knows_of_is_passed_explicitly(place):
    """Where a state tells the time, steps find the jump by themselves."""
    text = "clock' = 1\nx' = if(clock < c, 1, -1)\nclock(0) = 0\nx(0) = 0"
    model, run = run_of(text, [place], [0.0, 0.0], [2.0])
    found = AUTO.solve(model, run, rtol=1e-7, atol=1e-9, max_steps=500)
    assert found.status is Status.OK
    assert found.grid.method == "dopri5"
    assert found.y[0, 1] == pytest.approx(2 * place - 2.0, abs=1e-4)


def test_sliding_along_a_discontinuity_ends():
    """No method of ours gets along it; the place is right."""
    model, run = run_of("x' = if(x < 1, 1, -1)\nx(0) = 0", [], [0.0], [0.5, 2.0])
    found = AUTO.solve(model, run, rtol=1e-7, atol=1e-9, max_steps=2000)
    assert found.status is Status.CHATTERING
    assert found.t_end == pytest.approx(1.0, abs=1e-6)
    assert found.y[0, 0] == pytest.approx(0.5)


# --- shapes of runs ---


@pytest.mark.parametrize("times", [[], [0.0]])
def test_nothing_to_integrate(times):
    model, run = run_of(DECAY, [1.0], [2.0], times)
    found = AUTO.solve(model, run, rtol=1e-7, atol=1e-9, order=1)
    assert found.status is Status.OK
    assert found.grid.method == "dopri5"
    assert found.grid.steps.size == 0
    assert found.y.tolist() == [[2.0]] * len(times)


def test_piece_without_length():
    """A stop that stands twice ends a piece where it begins."""
    model, run = run_of(RELAXATION, [1e4], [0.0], [10.0], stops=[1.0, 1.0, 5.0])
    assert run.ends.tolist() == [1.0, 1.0, 5.0, 10.0]
    found = AUTO.solve(model, run, rtol=1e-5, atol=1e-7, order=1)
    assert found.status is Status.OK
    assert found.grid.method == "ddm"
    assert found.grid.pieces[1].size == 0
    assert np.isfinite(found.S).all()
    same(AUTO.solve(model, run, grid=found.grid, rtol=1e-5, atol=1e-7, order=1), found)
