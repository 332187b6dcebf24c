"""Single shooting with rules: an objective in theta whose minimum must obey them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from odefit.compile import CompiledProblem
from odefit.native.stop import StopFlag
from odefit.problem import Problem
from odefit.problem.constrained import constrained
from odefit.solve import Evaluation, LeastSquares, heavy_of
from odefit.transcribe.extended import NO_NODES, extended_objective
from odefit.transcribe.observation import Observations, observations, until
from odefit.transcribe.plan import Plan, plan_of
from odefit.transcribe.without_nodes import point_without_nodes

Array = npt.NDArray[np.float64]

_NO_ROWS = np.empty(0, np.int64)
_OBEYED = 1e-4  # of the level of rules


class RuledShooting:
    """The objective of a problem with rules, to be minimised by means of `extended`.

    Attributes
    ----------
    extended
        The objective with a row for each rule.
    plan
        That of the problem without these rows.
    names, compiled
        Of the unknowns; functions and numbers.
    """

    def __init__(
        self, problem: Problem, stop: StopFlag | None = None, horizon: tuple[float, ...] | None = None
    ) -> None:
        with_rules = constrained(problem)
        assert with_rules is not None
        part: Observations | None = None
        own: Observations | None = None
        if horizon is not None:
            part, own = until(observations(with_rules.problem), horizon), until(observations(problem), horizon)
        self.extended = extended_objective(problem, NO_NODES, stop, part)
        self.plan: Plan = plan_of(problem, data=own)
        self.compiled: CompiledProblem = self.plan.compiled
        self.names = self.compiled.theta_names

    @property
    def n_data(self) -> int:
        """Number of measured values."""
        return self.plan.n_data

    @property
    def methods(self) -> dict[str, str]:
        """Which integrator made the present grids, per experiment that was fitted."""
        return self.extended.methods

    def refresh(self, x: Array) -> int:
        """Adapt all grids to `x`."""
        return self.extended.refresh(x)

    def evaluate(self, x: Array, order: int) -> Evaluation:
        """Replay the current grids at `x`; the rows of rules are left out."""
        point = self.extended.evaluate(x, order)
        if not isinstance(point, LeastSquares):
            return point
        return point_without_nodes(self.extended, point, self.plan, np.ones(x.size), _NO_ROWS)

    def obeys(self, x: Array) -> bool:
        """Tell whether the rules hold at `x`, to which the grids are adapted."""
        point = self.extended.evaluate(x, 0)
        heavy = heavy_of(point)
        if heavy is None:
            return False
        missed = float(np.linalg.norm(heavy.misfit[np.isinf(heavy.root)]))
        return missed <= _OBEYED * self.extended.rules.level
