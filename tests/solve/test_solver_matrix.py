"""Every solver on every problem of More, Garbow and Hillstrom: a minimum, or an honest word."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.more_garbow_hillstrom import ending, is_minimum, run
from benchmarks.more_garbow_hillstrom_functions import FUNCTIONS

from odefit.solve import SOLVERS

ENDS = {"converged", "flat-valley", "slow-progress", "stalled", "iteration-limit"}
# known minima reached from the standard start; the rest says that it has not converged
LEAST = {"trust": 14, "trust-linear": 14, "subspace": 14, "diffpar": 13, "damped": 13, "gauss-newton": 11}


@pytest.mark.parametrize("factor", [1.0, 10.0])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("problem", FUNCTIONS, ids=lambda f: f.name)
def test_no_false_success(problem, solver, factor):
    result = run(problem, solver, factor)
    assert result.status in ENDS
    assert result.message
    assert ending(problem, result.x, result.value, result.converged, "") != "FALSE"


@pytest.mark.parametrize("solver", SOLVERS)
def test_how_many_minima_are_found(solver):
    found = [run(problem, solver) for problem in FUNCTIONS]
    good = [r.converged and is_minimum(p, r.value) for p, r in zip(FUNCTIONS, found, strict=True)]
    assert sum(good) >= LEAST[solver]


@pytest.mark.parametrize("solver", [name for name in SOLVERS if name != "gauss-newton"])
@pytest.mark.parametrize("problem", FUNCTIONS, ids=lambda f: f.name)
def test_objective_never_rises(problem, solver):
    """All but the undamped method take no step that makes matters worse."""
    values = [row.objective for row in run(problem, solver, 10.0).trace]
    assert (np.diff(values) <= 0.0).all()


@pytest.mark.parametrize("problem", FUNCTIONS, ids=lambda f: f.name)
def test_oscillation_is_not_seen_where_full_steps_converge(problem):
    result = run(problem, "gauss-newton")
    assert not (result.note and result.converged and is_minimum(problem, result.value))
