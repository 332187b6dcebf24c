"""Which rules hold as equations at the end of a fit, and their multipliers.

At a solution the gradient of the objective F is a combination of those of the equalities E and of the active
inequalities and bounds C,

    F' = E'lambda + C'nu,   nu >= 0.

They come from the program of the linearised problem in theta alone, node states eliminated (see
`odefit.solve.quadratic_program`), at the point where the fit ended.  A multiplier is the derivative of the smallest
objective by the right-hand side of its rule: with g >= c it grows by nu dc.

What is missed by no more than the fit's own tolerance counts as met: rows that depend on each other would contradict
each other otherwise, by rounding.  Where rules that are missed contradict each other there are no multipliers.

An inequality is *weakly active* if it holds as an equation and its multiplier is zero: without it the solution would be
the same.  It does not count in the statistics.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from odefit.solve import LeastSquares
from odefit.solve.node_elimination import HANDOVER
from odefit.solve.nodes import NodesLinear
from odefit.solve.quadratic_program import CONTRADICTORY, solve_program
from odefit.transcribe.multiple import MultipleShooting

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.int64]

HOLDS, ACTIVE, WEAK, INACTIVE, VIOLATED, REDUNDANT = (
    "holds", "active", "weakly active", "inactive", "violated", "redundant",
)  # fmt: skip
"""What becomes of a rule: an equality that holds, or depends on others; an inequality."""
_DAMPING = 1e-12  # of the largest column: directions that nothing determines stay where they are
_WEAK = 1e-7  # of the residual, that the multiplier of an active row stands for, and that is as good as none
_SHORT = 1e-9  # of the level of rules: a row that changes less with all unknowns has no influence
_MISSED = 1e-4  # of the level of rules, by which they are violated
_DEPENDENT = 1e-10  # singular values of equalities below this fraction of the largest


class RuleReport(NamedTuple):
    """A rule at one place.

    Attributes
    ----------
    text, experiment, time
        The rule; where it holds ("": everywhere), and when (NaN: always, or at times that are estimated).
    value
        Greater minus less side.
    state, multiplier
        What has become of it, and its multiplier: NaN where rules contradict each other.
    """

    text: str
    experiment: str
    time: float
    value: float
    state: str
    multiplier: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain types; what a rule does not have is left out."""
        content: dict[str, Any] = {"rule": self.text, "value": self.value, "state": self.state}
        content |= {"experiment": self.experiment} if self.experiment else {}
        content |= {} if math.isnan(self.time) else {"time": self.time}
        return content | {"multiplier": self.multiplier}

    @property
    def counts(self) -> bool:
        """Whether it holds as an equation that confines the estimates."""
        return self.state in (HOLDS, ACTIVE)


class ActiveSet(NamedTuple):
    """What holds at the end of a fit.

    Attributes
    ----------
    rules
        All rules that the data reach.
    rows
        Rows of rules that hold as equations.
    contradictory
        Rules, in quotation marks, and bounds that cannot be met together.
    """

    rules: tuple[RuleReport, ...]
    rows: Indices
    contradictory: tuple[str, ...]


class InShared(NamedTuple):
    """All rows in theta alone, (N, q), what they are where gaps are closed to first order, and rows that must be zero.

    The latter, (k, q), are there where solutions grow very much; see `odefit.solve.nodes.NodesLinear.following`.
    """

    jacobian: Array
    residual: Array
    exact: Array


def in_shared(linear: NodesLinear, residual: Array, sizes: Array) -> InShared:
    """Return the rows of a linearisation without node states, which follow from theta."""
    if not (linear.chain[:, HANDOVER] >= 0).any():
        n = linear.rows.shape[1] - linear.q
        return InShared(np.ascontiguousarray(linear.rows[:, n:]), residual, np.empty((0, linear.q)))
    jacobian, exact = linear.following(sizes)
    return InShared(jacobian, residual + linear.closing(sizes), exact)


def active_set(objective: MultipleShooting, point: LeastSquares, sizes: Array, lower: Array, upper: Array) -> ActiveSet:
    """Return which rules hold at a point.

    Parameters
    ----------
    sizes
        Typical ones of all unknowns.
    lower, upper
        Bounds of theta.
    """
    rules, q = objective.rules, objective.intervals.n_theta
    if not rules.rows.size or not isinstance(point.linear, NodesLinear):
        return ActiveSet((), np.empty(0, np.int64), ())
    shared = in_shared(point.linear, point.residual, sizes)
    program = _Program(objective, shared, sizes[:q], point.x[:q], lower, upper)
    return program.outcome(objective)


class _Program:
    """The linearised problem in theta, in units of their sizes."""

    def __init__(
        self, objective: MultipleShooting, shared: InShared, sizes: Array, x: Array, lower: Array, upper: Array
    ) -> None:
        rules, data = objective.rules, objective.plan.data
        self.value = shared.residual[rules.rows]
        self.missed = _MISSED * rules.level
        self._theta = x
        self.level = math.sqrt(float(np.sum(np.square(np.delete(shared.residual, self._not_light(objective))))))
        jacobian = shared.jacobian * sizes
        self.norms = np.linalg.norm(jacobian[rules.rows], axis=1)
        self.is_felt = self.norms > _SHORT * rules.level
        jacobian[rules.rows[~self.is_felt]] = 0.0
        light = np.ones(shared.residual.size, dtype=bool)
        light[self._not_light(objective)] = False
        rows, right = jacobian[light], -shared.residual[light]
        finite = np.isfinite(data.heavy_root)
        heavy, root = data.heavy[finite], (data.heavy_root * data.heavy_factor)[finite]
        rows = np.vstack([rows, root[:, None] * jacobian[heavy]])
        right = np.append(right, -root * shared.residual[heavy])
        largest = float(np.max(np.linalg.norm(rows, axis=0), initial=0.0)) or 1.0
        stacked = np.vstack([rows, _DAMPING * largest * np.eye(sizes.size)])
        basis, r = np.linalg.qr(stacked)
        b = basis.T @ np.append(right, np.zeros(sizes.size))
        is_limit = np.isin(rules.rows, rules.limits)
        own_exact = np.setdiff1d(data.exact, rules.rows)
        self.equalities, self.limits = rules.rows[~is_limit], rules.rows[is_limit]
        equality = np.vstack([jacobian[self.equalities], jacobian[own_exact], shared.exact * sizes])
        equality_right = -np.concatenate(
            [
                self._left(shared.residual[self.equalities]),
                shared.residual[own_exact],
                np.zeros(shared.exact.shape[0]),
            ]
        )
        self.is_redundant = _depend(equality)
        bounded = np.isfinite(np.concatenate([lower, upper]))
        eye = np.vstack([np.eye(sizes.size), -np.eye(sizes.size)])[bounded]
        with np.errstate(invalid="ignore"):
            least = np.concatenate([(lower - x) / sizes, (x - upper) / sizes])[bounded]
        inequality = np.vstack([jacobian[self.limits], eye])
        above = shared.residual[self.limits]
        inequality_right = np.append(-np.where(above < 0.0, self._left(above), above), least)
        self._bounds = np.tile(np.arange(sizes.size), 2)[bounded]
        self.lambda_, self.nu = np.zeros(equality_right.size), np.zeros(inequality_right.size)
        self.active = np.zeros(inequality_right.size, dtype=bool)
        self.status, _ = solve_program(
            np.ascontiguousarray(r), b, np.ascontiguousarray(equality), equality_right,
            np.ascontiguousarray(inequality), inequality_right, np.zeros(sizes.size), self.lambda_, self.nu,
            self.active,
        )  # fmt: skip

    def _left(self, values: Array) -> Array:
        """Return what rules are missed by; nothing where that is within the tolerance."""
        return np.where(np.abs(values) > self.missed, values, 0.0)

    @staticmethod
    def _not_light(objective: MultipleShooting) -> Indices:
        """Return the rows that have no share in the sum of squares, or one of their own weight."""
        n, hand = objective.plan.data.n_data, objective.intervals.n_handover
        return np.concatenate([objective.plan.data.heavy, n + np.arange(hand)]).astype(np.int64)

    def outcome(self, objective: MultipleShooting) -> ActiveSet:
        """Return what becomes of each rule."""
        rules = objective.rules
        assert rules.constrained is not None
        factor = _natural_factors(objective)
        estimates = objective.compiled.natural(self._theta)
        multiplier = dict(zip(self.equalities.tolist(), self.lambda_.tolist(), strict=False))
        multiplier |= dict(zip(self.limits.tolist(), self.nu.tolist(), strict=False))
        active = dict(zip(self.limits.tolist(), self.active.tolist(), strict=False))
        redundant = set(
            self.equalities[
                self.is_redundant[: self.equalities.size] & (self.lambda_[: self.equalities.size] == 0.0)
            ].tolist()
        )
        reports, holding, wrong = [], [], []
        for k, (row, number) in enumerate(zip(rules.rows.tolist(), rules.number.tolist(), strict=True)):
            one, value = rules.constrained.rows[number], float(self.value[k])
            constraint = rules.constrained.constraints[one.constraint]
            felt = abs(multiplier[row]) * float(self.norms[k])
            if self.status == CONTRADICTORY and multiplier[row] != 0.0:
                wrong.append(f'"{constraint.text}"')
            if (value < -self.missed) if constraint.at_least else (abs(value) > self.missed):
                state = VIOLATED
            elif not constraint.at_least:
                state = HOLDS if self.is_felt[k] and row not in redundant else REDUNDANT
            elif active[row]:
                state = ACTIVE if felt > _WEAK * self.level else WEAK
            else:
                state = WEAK if value <= 1e-3 * self.missed and self.is_felt[k] else INACTIVE
            name = rules.constrained.problem.experiments[one.experiment].name
            several = len(rules.constrained.problem.experiments) > 1 and not rules.constrained.is_everywhere(number)
            natural = float(value / (rules.weights[row] * factor[row]))
            of_rule = float(multiplier[row] * rules.weights[row] * factor[row] / objective.plan.factor**2)
            of_rule = math.nan if self.status == CONTRADICTORY else of_rule
            time = rules.constrained.looks_at(number, estimates)
            reports.append(RuleReport(constraint.text, name if several else "", time, natural, state, of_rule))
            if state in (HOLDS, ACTIVE):
                holding.append(row)
        wrong += [f"the bounds of {objective.names[i]}" for i in self._bounds[self.nu[self.limits.size :] > 0.0]]
        contradictory = tuple(dict.fromkeys(wrong)) if self.status == CONTRADICTORY else ()
        return ActiveSet(tuple(reports), np.array(holding, np.int64), contradictory)


def _depend(rows: Array) -> Flags:
    """Return whether each row depends on others: without it the rank would be the same."""
    size = np.linalg.norm(rows, axis=1)
    u, w, _ = np.linalg.svd(rows / np.where(size > 0.0, size, 1.0)[:, None], full_matrices=True)
    rank = int(np.sum(w > _DEPENDENT * w[0])) if w.size else 0
    return np.any(np.abs(u[:, rank:]) > _DEPENDENT, axis=1)


def _natural_factors(objective: MultipleShooting) -> Array:
    """Return what a measurement of infinite weight is multiplied by, per row, before rules are weighed."""
    return np.concatenate([o.root_weight for o in objective.plan.data.of_experiment])
