"""The same solutions with dense and sparse linear algebra, and which of them a model gets."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from initial_value_problems import central_difference, compiled_model, run_of

import odefit as of
from odefit.compile import Seeds
from odefit.integrate import METHODS, Run, Status, elimination
from odefit.integrate.elimination import compiled_algebra, dense_algebra, linear_algebra, sparse_algebra
from odefit.integrate.selection import Selection
from odefit.transcribe import SingleShooting

DDM = METHODS["ddm"]


def chain(n: int) -> str:
    """A chain of reactions with losses of second order."""
    lines = ["x0' = -k*x0", *(f"x{j}' = k*x{j - 1} - k*x{j} - c*x{j}^2" for j in range(1, n))]
    return "\n".join([*lines, *(f"x{j}(0) = 0" for j in range(n))])


def network(n: int, seed: int = 0) -> str:
    """2 n random reactions of first and second order with rates over four decades."""
    rng = np.random.default_rng(seed)
    change: list[list[str]] = [[] for _ in range(n)]
    for r in range(2 * n):
        a, b, c = rng.choice(n, 3, replace=False)
        rate = f"{10 ** rng.uniform(-2, 2):.3g}*" + (f"k*x{a}*x{b}" if r % 2 else f"c*x{a}")
        change[a].append("- " + rate)
        change[c].append("+ " + rate)
        if r % 2:
            change[b].append("- " + rate)
    lines = [f"x{i}' = -0.01*x{i} " + " ".join(terms) for i, terms in enumerate(change)]
    return "\n".join([*lines, *(f"x{i}(0) = 1" for i in range(n))])


def make(text: str, q: int = 5):
    model = compiled_model(text)
    n, n_p = model.n_states, model.n_parameters
    rng = np.random.default_rng(4)
    dp = rng.uniform(0.5, 1.0, size=(n_p, q))
    dy0, pairs = rng.uniform(0.0, 1.0, size=(n, q)), q * (q + 1) // 2
    y0, p = rng.uniform(0.1, 1.0, size=n), np.array([1.0, 0.5])[:n_p]
    times = np.array([0.1, 2.0, 10.0])
    return model, Run.of(Seeds(p, y0, dp, dy0, np.zeros((n_p, pairs)), np.zeros((n, pairs))), 0.0, times)


@pytest.fixture
def algebra(monkeypatch):
    """Let a test prescribe the linear algebra."""

    def prescribe(chosen):
        monkeypatch.setattr("odefit.integrate.single_method.linear_algebra", lambda model: chosen)

    return prescribe


MODELS = {"chain": chain(25), "network": network(30), "large network": network(70, seed=2)}
by_model = pytest.mark.parametrize("name", MODELS)


@by_model
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("patience", [1.0, 20.0, 1000.0])
def test_dense_and_sparse_agree_to_rounding(name, order, patience, algebra):
    """On the same steps, whatever the cost of a factorisation (and with it how often one is made) is said to be."""
    model, run = make(MODELS[name])
    algebra(dense_algebra(model)._replace(patience=1.0))
    dense = DDM.solve(model, run, rtol=1e-6, atol=1e-8, order=order)
    assert dense.status is Status.OK
    algebra(sparse_algebra(model, np.ones(model.rhs.col.size), 2.0 * model.n_states)._replace(patience=patience))
    steps = dense.grid._replace(orders=dense.grid.orders & 7, algebra=None)
    sparse = DDM.solve(model, run, rtol=1e-6, atol=1e-8, order=order, grid=steps)
    for name in ("y", "S", "S2"):
        expected = getattr(dense, name)
        np.testing.assert_allclose(
            getattr(sparse, name), expected, rtol=2e-11, atol=2e-12 * np.abs(expected).max(initial=0)
        )


@by_model
@pytest.mark.parametrize("patience", [1.0, 1000.0])
def test_derivatives_are_those_of_the_discrete_solution(name, patience, algebra):
    model, run = make(MODELS[name], q=2)
    run = run._replace(dp=np.eye(2), dy0=np.zeros((model.n_states, 2)))
    algebra(sparse_algebra(model, np.ones(model.rhs.col.size), 2.0 * model.n_states)._replace(patience=patience))
    options = {"rtol": 1e-3, "atol": 1e-4}
    grid = DDM.solve(model, run, **options).grid
    found = DDM.solve(model, run, grid=grid, order=1, **options)
    numeric = central_difference(lambda p: DDM.solve(model, run._replace(p=p), grid=grid, **options).y, run.p)
    assert np.abs(found.S - numeric).max() <= 1e-9 * np.abs(found.S).max()


@by_model
@pytest.mark.parametrize("patience", [1.0, 1000.0])
def test_replay_repeats_to_the_last_bit(name, patience, algebra):
    model, run = make(MODELS[name])
    algebra(sparse_algebra(model, np.ones(model.rhs.col.size), 2.0 * model.n_states)._replace(patience=patience))
    chosen = DDM.solve(model, run, rtol=1e-6, atol=1e-8, order=1)
    again = DDM.solve(model, run, rtol=1e-6, atol=1e-8, order=1, grid=chosen.grid)
    np.testing.assert_array_equal(again.y, chosen.y)
    np.testing.assert_array_equal(again.S, chosen.S)


def test_old_factorisations_are_used_where_new_ones_are_dear(algebra):
    model, run = make(MODELS["large network"])
    counts = []
    for patience in (1.0, 1000.0):
        algebra(dense_algebra(model)._replace(patience=patience))
        counters = DDM.solve(model, run, rtol=1e-6, atol=1e-8).counters
        counts.append((counters.jacobian / counters.steps, counters.rhs / counters.steps))
    assert counts[0][0] >= 1.0
    assert counts[1][0] < 0.5
    assert counts[0][1] < 4.0 < counts[1][1] < 15.0


def test_choice_of_the_backend():
    def choice(text):
        algebra = linear_algebra(compiled_model(text))
        kind = "sparse" if algebra.pattern.row_of.size else "dense"
        return "code" if algebra.library is not None else kind

    full = [f"x{i}' = -x{i}*(" + " + ".join(f"x{j}" for j in range(45)) + ")" for i in range(45)]
    full = "\n".join([*full, *(f"x{i}(0) = 1" for i in range(45))])
    assert choice(chain(1)) == choice(chain(5)) == choice(chain(40)) == choice(network(35)) == "code"
    assert choice(full) == "dense"
    assert choice(chain(800)) == "sparse"


@pytest.mark.parametrize("name", ["chain", "network"])
@pytest.mark.parametrize("order", [1, 2])
def test_code_and_loops_agree_to_rounding(name, order, algebra):
    model, run = make(MODELS[name])
    algebra(compiled_algebra(model))
    code = DDM.solve(model, run, rtol=1e-6, atol=1e-8, order=order)
    assert code.grid.algebra.library is not None
    algebra(sparse_algebra(model, np.ones(model.rhs.col.size), 2.0 * model.n_states)._replace(patience=1.0))
    loops = DDM.solve(model, run, rtol=1e-6, atol=1e-8, order=order, grid=code.grid._replace(algebra=None))
    for name in ("y", "S", "S2"):
        expected = getattr(loops, name)
        np.testing.assert_allclose(
            getattr(code, name), expected, rtol=2e-11, atol=2e-12 * np.abs(expected).max(initial=0)
        )


def test_linear_algebra_in_a_pickle_finds_its_code_again():
    model, run = make(MODELS["chain"])
    chosen = DDM.solve(model, run, rtol=1e-6, atol=1e-8, order=1)
    grid = pickle.loads(pickle.dumps(chosen.grid))
    assert grid.algebra.library is not chosen.grid.algebra.library
    assert grid.algebra.pattern.factorise not in (0, chosen.grid.algebra.pattern.factorise)
    again = DDM.solve(model, run, rtol=1e-6, atol=1e-8, order=1, grid=grid)
    np.testing.assert_array_equal(again.S, chosen.S)
    dense = dense_algebra(model)
    copy = pickle.loads(pickle.dumps(dense))
    assert copy[1:] == dense[1:]
    np.testing.assert_array_equal(copy.pattern.col, dense.pattern.col)


@pytest.mark.parametrize("pairs", [1, 3])
def test_small_model_whose_pivots_vanish_exchanges_rows(monkeypatch, pairs):
    orders, exchanges = count_calls(monkeypatch, "reordered"), count_calls(monkeypatch, "exchanging")
    model, run = decaying_pairs(pairs)
    found = DDM.solve(model, run, rtol=1e-7, atol=1e-9, order=1)
    assert found.status is Status.OK
    assert (len(orders), len(exchanges)) == (1, 0)
    assert found.grid.algebra.pattern.row_of.size == 0
    np.testing.assert_allclose(found.y[:, 0], np.exp(-np.array([1e-9, 1.0, 10.0])), rtol=1e-5, atol=1e-7)


# a has fewer neighbours than b, so that it is eliminated first
PAIR = "a{0}' = K*b{0}\nb{0}' = -K*a{0} - 3*K*b{0} + 0.1*c\na{0}(0) = 1\nb{0}(0) = 0"


def count_calls(monkeypatch, name: str) -> list:
    calls: list = []
    function = getattr(elimination, name)
    monkeypatch.setattr(f"odefit.integrate.selection.{name}", lambda *a, **k: calls.append(a) or function(*a, **k))
    return calls


def decaying_pairs(n: int):
    text = "\n".join(["c' = -c\nc(0) = 1", *(PAIR.format(i) for i in range(n))])
    return run_of(text, (1e9,), (1.0, *[1.0, 0.0] * n), [1e-9, 1.0, 10.0])


@pytest.mark.parametrize("largest", [1000, 0])
def test_pivots_that_vanish(monkeypatch, largest):
    """The diagonal of a pair is 1/h beside entries of 1e9: right for short steps, hopeless for long ones.

    The exchange that long steps need is bad for short ones, so that only rows exchanged as needed serve both; a model
    too large for that goes on with growth, which Newton's method survives here.
    """
    monkeypatch.setattr(elimination, "DENSE_TO", largest)
    orders, exchanges = count_calls(monkeypatch, "reordered"), count_calls(monkeypatch, "exchanging")
    model, run = decaying_pairs(10 if largest else 11)
    found = DDM.solve(model, run, rtol=1e-7, atol=1e-9, order=1)
    assert (len(orders), len(exchanges)) == (1, 1)
    assert found.status is Status.OK
    np.testing.assert_allclose(found.y[:, 0], np.exp(-np.array([1e-9, 1.0, 10.0])), rtol=1e-5, atol=1e-7)
    # slow and fast decay of a pair with the rates K (3 -+ sqrt 5)/2
    slow, fast = (3 - 5**0.5) / 2, (3 + 5**0.5) / 2
    expected = (fast * np.exp(-slow) - slow * np.exp(-fast)) / (fast - slow)
    np.testing.assert_allclose(found.y[0, 1::2], expected, rtol=1e-5)
    np.testing.assert_allclose(found.y[1:, 1:], 0.0, atol=1e-7)
    # what served goes with the grid
    again = DDM.solve(model, run, rtol=1e-7, atol=1e-9, order=1, grid=found.grid)
    assert (len(orders), len(exchanges)) == (1, 1)
    np.testing.assert_array_equal(again.y, found.y)
    np.testing.assert_array_equal(again.S, found.S)


def test_a_choice_of_pivots_is_of_no_consequence_to_other_integrations(monkeypatch):
    """A run whose entries grow leaves the model as it was: the same run before and after it gives the same bits."""
    orders = count_calls(monkeypatch, "reordered")
    model, long = decaying_pairs(10)
    short = long._replace(times=np.array([1e-10]), ends=np.array([1e-10]))
    before = DDM.solve(model, short, rtol=1e-7, atol=1e-9, order=1)
    assert not orders
    DDM.solve(model, long, rtol=1e-7, atol=1e-9, order=1)
    assert orders
    after = DDM.solve(model, short, rtol=1e-7, atol=1e-9, order=1)
    assert after.grid.algebra is before.grid.algebra is linear_algebra(model)
    for name in ("y", "S"):
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
    np.testing.assert_array_equal(after.grid.steps, before.grid.steps)


def test_a_replay_that_needs_another_order_says_which():
    """Pairs that are slow where the steps are chosen, and fast where they are replayed."""
    model, run = decaying_pairs(10)
    slow = run._replace(p=np.array([1.0]), times=np.array([1.0]), ends=np.array([1.0]))
    chosen = DDM.solve(model, slow, rtol=1e-7, atol=1e-9, order=1)
    assert chosen.grid.algebra is linear_algebra(model)
    fast = slow._replace(p=np.array([1e9]))
    first = DDM.solve(model, fast, rtol=1e-7, atol=1e-9, order=1, grid=chosen.grid)
    assert first.grid.algebra is not chosen.grid.algebra
    again = DDM.solve(model, fast, rtol=1e-7, atol=1e-9, order=1, grid=first.grid)
    assert again.grid is first.grid
    for name in ("y", "S"):
        np.testing.assert_array_equal(getattr(again, name), getattr(first, name))


def pairs_to_fit() -> of.Problem:
    """A decay to be fitted beside pairs whose rate K decides whether entries grow."""
    text = "\n".join(["c' = -r*c\nc(0) = 1", *(PAIR.format(i) for i in range(10))])
    times = np.array([0.5, 1.0, 2.0, 4.0])
    data = of.Measurements.from_columns(times, {"c": np.exp(-times) + 0.01 * np.sin(9 * times), "a3": 0.1 * times})
    parameters = [of.Parameter("r", 0.5), of.Parameter("K", 1.0, fixed=True)]
    settings = of.Settings(integrator="ddm", rtol=1e-6)
    return of.Problem(of.Model.from_text(text), parameters, data, settings=settings)


def test_fits_do_not_depend_on_what_ran_before(monkeypatch):
    """A fit of the same model whose entries grow lies between two equal fits, which are equal to the bit."""
    orders, problem = count_calls(monkeypatch, "reordered"), pairs_to_fit()
    first = of.fit(problem)
    assert not orders
    of.fit(problem.with_start(K=1e9))
    assert orders
    second = of.fit(problem)
    assert dict(second.estimates) == dict(first.estimates)
    assert second.objective == first.objective


def test_replays_of_an_objective_do_not_find_the_order_again(monkeypatch):
    objective = SingleShooting(pairs_to_fit().with_start(K=1e9))
    objective.refresh(np.array([0.5]))
    orders = count_calls(monkeypatch, "reordered")
    at_start = [objective.evaluate(np.array([0.5]), 1).residual for _ in range(2)]
    assert objective.evaluate(np.array([0.6]), 1).linear is not None
    assert not orders
    np.testing.assert_array_equal(*at_start)


def test_an_order_that_a_replay_needs_is_found_once(monkeypatch):
    """Grids are chosen for slow pairs; the objective takes over what the first replay with fast ones finds."""
    problem = pairs_to_fit().with_free("K")
    orders = count_calls(monkeypatch, "reordered")
    objective = SingleShooting(problem)
    objective.refresh(np.array([0.5, 1.0]))
    assert not orders
    fast = [objective.evaluate(np.array([0.5, 1e9]), 0).residual for _ in range(3)]
    assert len(orders) == 1
    np.testing.assert_array_equal(fast[0], fast[2])


def test_the_place_of_a_matrix_that_grows_does_not_move():
    """Tables hold its address from adaptation to adaptation, whether or not the linear algebra changes in between."""
    selection = Selection(DDM, make(MODELS["chain"])[0], 1e-6, 1000)
    selection.choose()
    place = selection.elimination.trouble
    selection.choose()
    assert selection.elimination.trouble is place
