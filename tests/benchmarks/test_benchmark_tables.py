"""The marks of the benchmark tables, on parts of them that are quick."""

from __future__ import annotations

import dataclasses
import math

import pytest

import odefit as of
from benchmarks import diffpar, freeze, pyridine, reliability, starts
from odefit.gallery import load
from odefit.solve import SOLVERS


@pytest.mark.parametrize(
    ("name", "most"),
    [("barnes", 7), ("barnes/b", 6), ("barnes/d_y1", 5), ("bioprocess", 5), ("pyridine/exact", 9), ("shock_front", 19)],
)
def test_default_solver_meets_the_counts_of_diffpar(name, most):
    found = diffpar.count(name, "trust")
    assert found is not None
    assert found <= most


def test_pyridine_needs_as_many_steps_as_the_paper_has_iterations():
    """Ten linearised problems, that is nine steps."""
    found = diffpar.count("pyridine", "trust")
    assert found is not None
    assert found - 1 <= diffpar.PAPER["pyridine"]


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("weight", [1e6, 1e12, math.inf])
def test_heavy_weights_in_stages_lead_to_the_better_minimum(solver, weight):
    result = of.fit(diffpar.with_last_weight(weight), solver=solver)
    assert result.converged
    assert diffpar.minimum_of(result) == "better"


def test_heavy_weights_at_once_lead_to_the_worse_minimum():
    """So the stages are what makes the difference."""
    at_once = dataclasses.replace(SOLVERS["trust"], weights=())
    assert diffpar.minimum_of(of.fit(diffpar.with_last_weight(math.inf), solver=at_once)) == "worse"


@pytest.mark.parametrize("seed", [1, 4])
def test_noisy_pyridine_is_as_good_as_scipy(seed):
    problem = pyridine.noisy(seed, 26)
    found = {"trust": pyridine.by_odefit(problem, "trust"), "trf": pyridine.Scipy(problem).fit("trf")}
    assert abs(pyridine.excess(found)) <= pyridine.MARK
    assert pyridine.meets_mark(found)
    assert not pyridine.meets_mark(
        found | {"better": pyridine.Attempt(1e-3, "", "")} | {"trust": pyridine.Attempt(1.0, "", "")}
    )


def test_frozen_grids_converge_as_often_as_readapted_ones():
    """Pyridine at rtol 1e-3."""
    problems = freeze.starts("pyridine")
    limit = freeze.allowed(problems[0])
    loose = {"rtol": 1e-3, "atol": 1e-5}
    frozen = freeze.score(problems, limit, freeze="growth", **loose)
    rough = freeze.score(problems, limit, freeze="readapt", **loose)
    assert frozen.converged >= rough.converged


# --- reliability ---


def test_default_solver_tells_the_truth_from_perturbed_starts():
    found = reliability.run(reliability.PROBLEMS, ("trust",), 3)
    assert len(found) == 3 * len(reliability.PROBLEMS)
    assert reliability.false_share(found) == 0.0
    assert reliability.warned_share(found) == 0.0
    assert sum(end.kind == reliability.BEST for end in found) >= 2 * len(reliability.PROBLEMS)


def ends(*, tol: float) -> list[reliability.End]:
    """Return fits that stop far too early but say that they converged."""
    problem = load("barnes").with_settings(tol=tol)
    result = of.fit(problem)
    assert result.converged
    seen = starts.look(result)
    limit = reliability.threshold(of.fit(load("barnes")), seen)
    return [reliability.End("barnes", "trust", 0, {}, result.status, result.iterations, seen, limit, False)]


def test_a_false_success_is_seen():
    best = reliability.best_known("barnes", [])
    [early] = [reliability.judged(end, best) for end in ends(tol=1e-2)]
    [late] = [reliability.judged(end, best) for end in ends(tol=1e-6)]
    assert early.kind == reliability.FALSE
    assert late.kind == reliability.BEST


def test_perturbed_starts_keep_signs_and_bounds():
    problem = load("arrhenius").with_bounds(E1=(4e4, 6e4)).with_start(A0=-1.0)
    for made in starts.perturbed(problem, 3.0, 20, 1):
        values = {p.name: p.start for p in made.free}
        assert 4e4 <= values["E1"] <= 6e4
        assert -3.0 <= values["A0"] <= -1 / 3


@pytest.mark.slow
def test_all_solvers_tell_the_truth_from_perturbed_starts():
    found = reliability.run(reliability.PROBLEMS, tuple(SOLVERS))
    for part in (found, [end for end in found if end.solver == "trust"]):
        assert reliability.false_share(part) < 1.0
        assert reliability.warned_share(part) < 5.0
