"""The smallest real example of a solver of one's own: docs/extending.md shows it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

import odefit as of
from odefit.gallery import load
from odefit.solve import SCALED, SOLVERS, Solver, TrustRegion, TrustStep
from odefit.solve.steps import LinearStep


@dataclass(frozen=True)
class Quartering:
    """Full Gauss-Newton steps, quartered until they bring a hundredth of what they promise."""

    attempts: int = 20

    def start(self, step):
        return QuarteringControl()


@dataclass
class QuarteringControl:
    alpha: float = 1.0
    radius: float = math.inf
    note: str = ""

    def propose(self, problem):
        return problem.shortened(problem.step(math.inf), self.alpha)

    def is_good(self, ratio):
        return ratio >= 0.01

    def taken(self, step, ratio):
        self.alpha = 1.0

    def rejected(self, step):
        self.alpha *= 0.25

    failed = rejected


OWN = Solver(LinearStep(), Quartering(), name="quartering")


@pytest.mark.parametrize("name", ["barnes", "arrhenius"])
def test_a_solver_of_ones_own(name):
    problem = load(name)
    mine, usual = of.fit(problem, solver=OWN), of.fit(problem)
    assert mine.status == "converged"
    assert mine.solver == "quartering"
    assert mine.objective == pytest.approx(usual.objective, rel=1e-6)


def test_a_solver_in_a_problem_file(monkeypatch, tmp_path):
    monkeypatch.setitem(SOLVERS, OWN.name, OWN)
    problem = load("barnes").with_settings(solver="quartering")
    problem.save(tmp_path / "own.toml")
    result = of.fit(of.load(tmp_path / "own.toml"))
    assert (result.status, result.solver) == ("converged", "quartering")


def test_parts_are_composed():
    """The metric of a step is a choice of its own: scaled unknowns, where pivoted factors are usual."""
    problem = load("barnes")
    scaled = of.fit(problem, solver=Solver(TrustStep(metric=SCALED), TrustRegion(), name="scaled"))
    usual = of.fit(problem)
    assert scaled.status == "converged"
    np.testing.assert_allclose(scaled.solution.x, usual.solution.x, rtol=1e-6)
    lengths = [[row.step for row in result.solution.trace] for result in (scaled, usual)]
    assert lengths[0] != lengths[1]
