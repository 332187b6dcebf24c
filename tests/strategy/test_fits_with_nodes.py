"""Fits by multiple shooting as a user meets them: chaos, hidden states, nodes that are asked for, words."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.shooting import fitzhugh_nagumo, lorenz, within_a_factor

import odefit as of
from odefit.errors import ProblemError, UnsupportedError
from odefit.gallery import load
from odefit.strategy.node_curves import curves_at_nodes


@pytest.fixture(scope="module")
def chaos():
    problem = lorenz()
    [start] = within_a_factor(problem, 3.0, 1, 5)
    return of.fit(problem, method="multiple"), of.fit(start, method="multiple")


def test_chaos_ends_at_the_same_optimum_from_elsewhere(chaos):
    known, found = chaos
    assert (known.converged, found.converged) == (True, True)
    assert found.objective == pytest.approx(known.objective, rel=1e-6)
    assert abs(2.0 * found.objective / found.dof - 1.0) < 0.2
    for name, truth in {"s": 10.0, "r": 28.0, "b": 8.0 / 3.0}.items():
        row = found.parameters[name]
        assert abs(row.estimate - truth) < 4.0 * row.standard_error


def test_standard_errors_of_chaos_are_those_of_the_data(chaos):
    """One direction grows by 1e8 and is as good as exact; the others are not lost beside it."""
    found = chaos[1]
    errors = np.array(list(found.standard_errors().values()))
    assert (errors > 1e-3).all()
    assert found.dof == found.n_data - 5  # one direction is as good as exact


def test_what_cannot_be_followed_from_the_start_is_said(chaos):
    found = chaos[1]
    [notice] = [one for one in found.warnings if one.code == "solution.unstable"]
    assert "does not follow the one through the nodes" in notice.text
    band = found.predict(np.array([5.0, 15.0, 20.0]))
    data = found.problem.measurements
    for name in "xyz":
        measured = data.value[(data.observable == name) & np.isin(data.time.round(6), [5.0, 15.0, 20.0])]
        np.testing.assert_allclose(band[name], measured, atol=4.0 * 0.5)
        assert band[f"{name}.se"].isna().all()


def test_stable_solutions_have_bands_and_no_such_warning():
    found = of.fit(fitzhugh_nagumo(), method="multiple")
    assert not found.strays
    assert found.predict(np.array([1.0, 10.0]))["V.se"].notna().all()
    values = curves_at_nodes(found.problem, found.placed, found.solution.x, 0, np.array([1.3, 10.0]), ("V", "R"))
    frame = of.simulate(found.problem, found.estimates, np.array([1.3, 10.0]))
    np.testing.assert_allclose(values, frame[["V", "R"]], rtol=1e-4)


@pytest.mark.parametrize("nodes", [3, (2.0, 5.5, 11.0), 1])
@pytest.mark.parametrize("node_states", ["reset", "data", "simulated"])
def test_nodes_that_are_asked_for(nodes, node_states):
    problem = fitzhugh_nagumo(("V", "R")).with_settings(nodes=nodes, node_states=node_states)
    found = of.fit(problem, method="multiple")
    assert found.converged
    assert len(found.placed.nodes[0]) == (nodes if isinstance(nodes, int) else len(nodes))
    assert found.objective == pytest.approx(of.fit(problem).objective, rel=1e-6)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"nodes": 0}, "there must be at least one"),
        ({"nodes": (3.0, 1.0)}, "a list of increasing times"),
        ({"nodes": ()}, "a number of nodes, or a list"),
        ({"node_states": "measured"}, "'node_states' is 'measured'"),
        ({"path_times": 0}, "at least one part"),
        ({"path_times": (float("nan"),)}, "a list of times"),
    ],
)
def test_settings_that_make_no_sense(settings, words):
    with pytest.raises(ProblemError, match=words):
        load("barnes").with_settings(**settings)


def test_nodes_outside_the_data_are_refused():
    with pytest.raises(ProblemError, match=r"no node lies between the start at 0 and the last datum at 5"):
        of.fit(load("barnes").with_settings(nodes=(7.0, 9.0)), method="multiple")


def test_too_many_states_are_refused():
    n = 301
    equations = "\n".join(f"x{i}' = -k*x{i}\nx{i}(0) = 1" for i in range(n))
    data = of.Measurements.from_columns([1.0, 2.0], {"x0": [0.4, 0.1]})
    problem = of.Problem(of.Model.from_text(equations), [of.Parameter("k", 1.0)], data)
    with pytest.raises(UnsupportedError, match=r"nodes of a model with 301 states \(at most 300\)"):
        of.fit(problem, method="multiple")


def test_a_model_without_equations_of_its_own_has_nothing_to_cut():
    data = of.Measurements.from_columns([1.0, 2.0], {"y": [1.0, 2.0]})
    problem = of.Problem(of.Model.from_text("y = a*t"), [of.Parameter("a", 1.0)], data)
    with pytest.raises(of.OdefitError, match="no differential equations"):
        of.fit(problem, method="multiple")


def test_max_over_time_is_refused():
    data = of.Measurements.from_columns([1.0, 2.0, 3.0], {"top": [0.4, 0.4, 0.4]})
    model = of.Model.from_text("x' = -k*x\nx(0) = 1\ntop = max(x, over=t)")
    with pytest.raises(UnsupportedError, match="max or min over time"):
        of.fit(of.Problem(model, [of.Parameter("k", 1.0)], data), method="multiple")


def test_other_solvers_are_refused():
    with pytest.raises(of.OdefitError, match='can be damped only; use solver = "trust"'):
        of.fit(load("barnes"), method="multiple", solver="subspace")


def test_an_interval_that_leads_nowhere_gets_another_node():
    """x' = k x^2 from a start that explodes at t = 1/(k x0)."""
    times = np.linspace(0.2, 4.0, 20)
    truth = 1.0 / (2.0 - 0.4 * times)  # k = 0.4, x0 = 0.5
    data = of.Measurements.from_columns(times, {"x": truth})
    model = of.Model.from_text("x' = k*x^2\nx(0) = 0.5")
    problem = of.Problem(model, [of.Parameter("k", 3.0)], data)
    found = of.fit(problem, method="multiple")
    assert found.converged
    assert found.estimates["k"] == pytest.approx(0.4, rel=1e-6)


def test_a_state_that_noise_makes_impossible_moves_back():
    """The root of a state: noise below zero leads nowhere."""
    times = np.linspace(0.25, 4.0, 16)
    exact = (1.0 - 0.24 * times) ** 2
    values = exact - 0.02 * (-1.0) ** np.arange(times.size)
    values[-2:] = -0.01
    data = of.Measurements.from_columns(times, {"x": values}, sigma={"x": 0.02})
    model = of.Model.from_text("x' = -2*k*sqrt(x)\nx(0) = 1")
    found = of.fit(of.Problem(model, [of.Parameter("k", 0.1)], data), method="multiple")
    single = of.fit(of.Problem(model, [of.Parameter("k", 0.2)], data))
    assert found.converged
    assert found.estimates["k"] == pytest.approx(single.estimates["k"], rel=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_half_the_states_hidden_from_afar(seed):
    problem = fitzhugh_nagumo(seed=seed)
    best = of.fit(problem, method="multiple").objective
    for start in within_a_factor(problem, 5.0, 4, seed):
        found = of.fit(start, method="multiple")
        assert found.converged
        assert found.objective == pytest.approx(best, rel=1e-3)
