"""The linearised problem of multiple shooting: node states and shared unknowns; see `odefit.solve.node_elimination`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from odefit.errors import OdefitError
from odefit.solve.contract import NODES, Flags, Heavy, LinearModel, Reduced, Triangle
from odefit.solve.node_elimination import (
    FIRST_ROW,
    HANDOVER,
    LAST_ROW,
    N_STATES,
    NODE,
    eliminate,
    expand_nodes,
    node_gradient,
    node_products,
    node_squares,
)

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

_NO_ROWS = np.empty((0, 0))
_NO_INDICES = np.empty(0, np.int64)
_NEGLIGIBLE = 1e-12  # of the largest column: damping of node states that nothing determines
_FREE = 1e3  # what the value of a limit is measured in, relative to its size: damping must not hold it


class HeavyRows(NamedTuple):
    """Which rows are heavy, what turns such a row into one of ordinary weight, and the roots of their weights."""

    rows: Indices
    factor: Array
    root: Array


class Border(NamedTuple):
    """What is left when all nodes are eliminated: rows of the shared unknowns, scaled.

    Attributes
    ----------
    R, b
        Least squares, damped: a triangle (q, q), and (q,).
    exact, exact_right
        Rows that must hold, (k, q) and (k,).
    removed
        Square of what the nodes remove.
    """

    R: Array
    b: Array
    exact: Array
    exact_right: Array
    removed: float


class NodesLinear:
    """``r + J dx`` where the unknowns dx are theta and the states of nodes; see `LinearModel`.

    Reduced coordinates are the light rows as they are.

    Parameters
    ----------
    rows, residual, chain
        See `odefit.solve.node_elimination.eliminate`.
    q
        Number of the shared unknowns.
    heavy
        Rows of large weight: those that hand states over, data, rules, and limits.
    limits
        Rows that must not become negative; what they miss is the negative part.
    """

    metric = NODES

    def __init__(
        self, rows: Array, residual: Array, chain: Indices, q: int, heavy: HeavyRows, limits: Indices = _NO_INDICES
    ) -> None:
        self.rows, self.residual, self.chain, self.q = rows, residual, chain, q
        self.limits = limits
        self._heavy = heavy
        self._light = np.ones(residual.size, dtype=bool)
        self._light[heavy.rows] = False
        self._is_limit = np.isin(heavy.rows, limits)
        self.n = q + int(np.sum(chain[chain[:, 3] >= 0, 4]))

    @property
    def heavy(self) -> Heavy:
        """Weights and right-hand sides; the rows themselves are too many to be written out."""
        return Heavy(_NO_ROWS, -self._missed(self.residual), self._heavy.root)

    def _missed(self, residual: Array) -> Array:
        """Return what the heavy rows miss, without weights."""
        values = residual[self._heavy.rows] * self._heavy.factor
        return np.where(self._is_limit, np.minimum(values, 0.0), values)

    def heavy_times(self, v: Array) -> Array:
        """See `LinearModel`; of a limit this is the change of its negative part."""
        changes = self.all_times(v)
        return self._missed(self.residual + changes) - self._missed(self.residual)

    @property
    def right(self) -> Array:
        """See `LinearModel`."""
        return -self.residual[self._light]

    @property
    def jacobian(self) -> Array:
        """All rows in all unknowns, as a dense matrix: for tests and small problems."""
        return np.stack([self.all_times(unit) for unit in np.eye(self.n)], axis=1)

    def factor(self) -> Array:
        """See `LinearModel`."""
        return self.jacobian[self._light]

    def triangle(self) -> Triangle:
        """Refuse: there are too many unknowns for it."""
        raise OdefitError("the linearised problem of multiple shooting is never written out as a triangle.")

    def reduce(self, damping: float, scale: Array, fixed: Flags, right: Array, negligible: float) -> Reduced:
        """Refuse: `NodeSteps` eliminates."""
        raise OdefitError("steps of multiple shooting are those of odefit.solve.node_steps.")

    def expand(self, reduced: Reduced, z: Array) -> Array:
        """Refuse: see `reduce`."""
        raise OdefitError("steps of multiple shooting are those of odefit.solve.node_steps.")

    def reduce_residual(self, residual: Array) -> Array:
        """See `LinearModel`."""
        return -residual[self._light]

    residual_in_triangle = reduce_residual

    def times(self, steps: Array) -> Array:
        """See `LinearModel`."""
        return np.stack([self.all_times(v)[self._light] for v in steps])

    def descent(self, right: Array | None = None) -> Array:
        """See `LinearModel`."""
        values = np.zeros(self.residual.size)
        values[self._light] = self.right if right is None else right
        finite = np.isfinite(self._heavy.root)
        rows, weight = self._heavy.rows[finite], (self._heavy.root * self._heavy.factor)[finite]
        values[rows] = (
            -weight
            * weight
            * np.where(self._is_limit[finite], np.minimum(self.residual[rows], 0.0), self.residual[rows])
        )
        out = np.empty(self.n)
        node_gradient(self.rows, self.chain, self.q, values, out)
        return out

    def column_norms(self) -> Array:
        """See `LinearModel`."""
        weight = self.weights()
        out = np.empty(self.n)
        node_squares(self.rows, self.chain, self.q, np.where(np.isfinite(weight), weight, 0.0), out)
        return np.sqrt(out)

    def all_column_norms(self) -> Array:
        """Return the norms of the columns, rows that must hold exactly counted as ordinary ones."""
        weight = self.weights()
        out = np.empty(self.n)
        node_squares(self.rows, self.chain, self.q, np.where(np.isfinite(weight), weight, 1.0), out)
        return np.sqrt(out)

    def weights(self) -> Array:
        """Return the weight of every row: infinite where it must hold exactly, 0 for limits."""
        weight = np.ones(self.residual.size)
        weight[self._heavy.rows] = self._heavy.root * self._heavy.factor
        weight[self.limits] = 0.0
        return weight

    def reweighted(self, root: Array) -> LinearModel:
        """See `LinearModel`."""
        return NodesLinear(self.rows, self.residual, self.chain, self.q, self._heavy._replace(root=root), self.limits)

    def all_times(self, v: Array) -> Array:
        """Return what a step changes of all rows, without weights."""
        out = np.empty(self.residual.size)
        node_products(self.rows, self.chain, self.q, v, out)
        return out

    def in_shared(self) -> Array:
        """Return all rows in the shared unknowns alone, (N, q): node states follow exactly where they are handed over.

        This is the Jacobian of the problem without nodes, at a point without gaps; its entries grow as solutions do.
        """
        q, n_most = self.q, self.rows.shape[1] - 1 - self.q
        out, states = np.empty((self.residual.size, q)), np.empty((0, q))
        for row in self.chain:
            n = int(row[N_STATES]) if row[NODE] >= 0 else 0
            states = states[:n]
            for first, last in ((row[FIRST_ROW], row[LAST_ROW]), (row[HANDOVER], row[HANDOVER] + row[N_STATES])):
                if first >= 0:
                    out[first:last] = self.rows[first:last, n_most + 1 :] + self.rows[first:last, :n] @ states
            if row[HANDOVER] >= 0:
                hand = slice(row[HANDOVER], row[HANDOVER] + row[N_STATES])
                states = out[hand] / self.rows[hand, n_most, None]
                out[hand] = 0.0
        return out

    def following(self, sizes: Array) -> tuple[Array, Array]:
        """Return all rows in the shared unknowns alone, (N, q), and rows of these that must be zero, (k, q).

        Where solutions grow so much that no number holds what they do at the end, shared unknowns are tied to each
        other so exactly that a condition is left of it; with that the entries are those of `in_shared`, without they
        would only be as large as the growth.
        """
        nodes = Elimination(self, sizes, exact=self._handovers)
        nodes.weight[self._light] = 1.0
        largest = float(np.max(self.column_norms() * sizes, initial=0.0))
        nothing, fixed = np.zeros(self.residual.size), np.zeros(self.q, dtype=bool)
        border = nodes.border(nothing, (_NEGLIGIBLE * largest) ** 2, fixed)
        out = np.empty((self.residual.size, self.q))
        for j, unit in enumerate(np.eye(self.q)):
            out[:, j] = self.all_times(nodes.expand(unit) * sizes) / sizes[j]
        return out, border.exact / sizes[: self.q]

    def closing(self, sizes: Array) -> Array:
        """Return what all rows change by, (N,), when the shortest step, in units of `sizes`, closes all gaps."""
        nodes = Elimination(self, sizes, exact=self._handovers)
        border = nodes.border(-self.residual, 1.0, np.zeros(self.q, dtype=bool), light=False)
        theta = np.linalg.lstsq(border.exact, border.exact_right, rcond=None)[0]
        return self.all_times(nodes.expand(np.asarray(theta, np.float64)) * sizes)

    @property
    def _handovers(self) -> Indices:
        """Rows that hand states over."""
        ends = self.chain[self.chain[:, HANDOVER] >= 0]
        parts = [np.arange(row[HANDOVER], row[HANDOVER] + row[N_STATES]) for row in ends]
        return np.concatenate(parts) if parts else _NO_INDICES

    def row_sizes(self, rows: Indices, scale: Array) -> Array:
        """Return the norms of these data rows in scaled unknowns."""
        first, before = self.chain[:, FIRST_ROW], self.rows.shape[1] - self.q
        out = np.empty(rows.size)
        order = np.argsort(first, kind="stable")
        for k, row in enumerate(rows.tolist()):
            interval = self.chain[order[np.searchsorted(first[order], row, side="right") - 1]]
            node, n = int(interval[NODE]), int(interval[N_STATES]) if interval[NODE] >= 0 else 0
            own = self.rows[row, :n] * scale[self.q + node : self.q + node + n]
            out[k] = np.linalg.norm(np.append(self.rows[row, before:] * scale[: self.q], own))
        return out


class Elimination:
    """Eliminates the nodes of one linear model for different dampings and right-hand sides.

    A limit g >= 0 becomes a shared unknown of its own, by how much it changes (from zero, where it is violated), so
    that the condensed problem has bounds only.
    With `exact` these rows alone count; of the limits only `limits` do, each of which makes every node dearer (None:
    all).

    Attributes
    ----------
    limits
        Rows of the limits that count.
    """

    def __init__(
        self, linear: NodesLinear, scale: Array, exact: Indices | None = None, limits: Indices | None = None
    ) -> None:
        limits = linear.limits if limits is None else limits
        self.limits = limits = limits if exact is None else _NO_INDICES
        self.linear, q, k = linear, linear.q, limits.size
        self.q = q + k
        self.weight = linear.weights()
        if exact is not None:
            self.weight[:] = 0.0
            self.weight[exact] = np.inf
        self.weight[np.setdiff1d(linear.limits, limits)] = 0.0
        self.rows, self.scale = linear.rows, scale
        if k:
            self.rows = np.hstack([linear.rows, np.zeros((linear.residual.size, k))])
            self.rows[limits, linear.rows.shape[1] + np.arange(k)] = -1.0
            self.weight[limits] = np.inf
            sizes = np.maximum(np.abs(linear.residual[limits]), linear.row_sizes(limits, scale))
            sizes = _FREE * np.where(sizes > 0.0, sizes, 1.0)
            self.scale = np.concatenate([scale[:q], sizes, scale[q:]])
        n, m = linear.rows.shape[1] - 1 - q, linear.chain.shape[0]
        most = int(np.max(linear.chain[:, 1] - linear.chain[:, 0], initial=0))
        self._back, self._pivots = np.zeros((m, n, 2 * n + self.q + 1)), np.zeros((m, n), np.int64)
        self._ranks = np.zeros(m, np.int64)
        self._border = np.zeros((4 * self.q + 2, self.q + 1))
        self._exact = np.zeros((4 * self.q + 4 * n + most + 2, self.q + 1))

    def border(self, right: Array, damping: float, fixed: Flags, *, light: bool = True) -> Border:
        """Eliminate all nodes; without `light` rows damping alone counts beside the exact ones."""
        weight = self.weight if light else np.where(np.isinf(self.weight), np.inf, 0.0)
        held = np.append(fixed, np.zeros(self.q - fixed.size, dtype=bool))
        n, n_exact, removed = eliminate(
            self.rows, right, weight, self.linear.chain, self.scale, damping, held,
            self._back, self._pivots, self._ranks, self._border, self._exact,
        )  # fmt: skip
        q = self.q
        assert n == q
        return Border(
            self._border[:q, :q].copy(), self._border[:q, q].copy(), self._exact[:n_exact, :q].copy(),
            self._exact[:n_exact, q].copy(), removed,
        )  # fmt: skip

    def expand(self, theta: Array) -> Array:
        """Return all scaled unknowns, without the values of limits, for the shared ones of the last border."""
        nodes = np.zeros(self.linear.n - self.linear.q)
        expand_nodes(self.linear.chain, self._back, self._pivots, theta, nodes)
        return np.concatenate([theta[: self.linear.q], nodes])
