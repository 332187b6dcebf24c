"""Random problems with nodes, and the same ones as dense matrices."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odefit.solve.node_elimination import FIRST_ROW, HANDOVER, LAST_ROW, N_STATES, NODE
from odefit.solve.nodes import HeavyRows, NodesLinear

INF = np.inf
Array = np.ndarray


class Chains(NamedTuple):
    """A problem with nodes as it is stored; see `odefit.solve.node_elimination.eliminate`."""

    rows: Array
    residual: Array
    chain: Array
    q: int
    handovers: Array
    data: Array
    priors: Array

    @property
    def n(self):
        return self.q + int(self.chain[self.chain[:, NODE] >= 0, N_STATES].sum())

    def dense(self):
        """All rows in all unknowns, theta first."""
        return dense(self.rows, self.chain, self.q, self.n)

    def linear(self, handover=INF, exact=(), limits=(), heavy=()):
        """Return the linear model; roots of the weights of handovers, exact rows, limits, (row, root) of other ones."""
        rows = [*self.handovers.tolist(), *exact, *limits, *(row for row, _ in heavy)]
        root = np.array([handover] * self.handovers.size + [INF] * (len(exact) + len(limits)) + [w for _, w in heavy])
        order = np.argsort(-root, kind="stable")
        heavy_rows = HeavyRows(np.array(rows, np.int64)[order], np.ones(root.size), root[order])
        return NodesLinear(self.rows, self.residual, self.chain, self.q, heavy_rows, np.array(limits, np.int64))


def dense(rows, chain, q, n):
    """Write all rows out; the entry of the next node counts negative."""
    out, before = np.zeros((rows.shape[0], n)), rows.shape[1] - q
    for i, one in enumerate(chain):
        own = np.arange(q + one[NODE], q + one[NODE] + one[N_STATES]) if one[NODE] >= 0 else np.empty(0, int)
        numbers = list(range(one[FIRST_ROW], one[LAST_ROW]))
        if one[HANDOVER] >= 0:
            numbers += range(one[HANDOVER], one[HANDOVER] + one[N_STATES])
        for r in numbers:
            out[r, :q] = rows[r, before:]
            out[r, own] = rows[r, : own.size]
            if one[HANDOVER] >= 0 and r >= one[HANDOVER]:
                out[r, q + chain[i + 1, NODE] + r - one[HANDOVER]] = -rows[r, before - 1]
    return out


def chains(rng, n_chains=1, q=2, data=None, states=None, nodes=None, growth=0.0, priors=2):
    """Make chains with numbers of nodes and states of their own, and up to 3 data in an interval without `data`.

    Rows stand as they do in fits: data of all intervals, what they hand over, priors of theta.
    """
    states = rng.integers(1, 5, n_chains) if states is None else states
    nodes = rng.integers(0, 7, n_chains) if nodes is None else nodes
    n_most, chain, row, node = int(max(states)), [], 0, 0
    for n, m in zip(states, nodes, strict=True):
        for j in range(m + 1):
            measured = int(rng.integers(0, 4)) if data is None else data
            chain.append([row, row + measured, -1, node if j else -1, n])
            row, node = row + measured, node + (n if j else 0)
    n_data, at = row, 0
    for n, m in zip(states, nodes, strict=True):
        for j in range(m + 1):
            if j < m:
                chain[at][HANDOVER] = row
                row += n
            at += 1
    chain = np.array([*chain, [row, row + priors, -1, -1, 0]], np.int64)
    n_rows = row + priors
    rows = np.zeros((n_rows, n_most + 1 + q))
    rows[:, n_most + 1 :] = rng.normal(size=(n_rows, q))
    for one in chain:
        n, own = one[N_STATES], slice(0, one[N_STATES] if one[NODE] >= 0 else 0)
        rows[one[FIRST_ROW] : one[LAST_ROW], own] = rng.normal(size=(one[LAST_ROW] - one[FIRST_ROW], n))[:, own]
        if one[HANDOVER] >= 0:
            hand = slice(one[HANDOVER], one[HANDOVER] + n)
            rows[hand, own] = (rng.normal(size=(n, n)) * 10.0 ** rng.uniform(-growth, growth))[:, own]
            rows[hand, n_most] = rng.uniform(0.5, 2.0, n)
    handovers = np.arange(n_data, n_rows - priors)
    return Chains(
        rows, rng.normal(size=n_rows), chain, q, handovers, np.arange(n_data), np.arange(n_rows - priors, n_rows)
    )  # fmt: skip


def null_space(exact):
    """Return a basis of the null space of exact rows."""
    if not exact.shape[0]:
        return np.eye(exact.shape[1])
    _, size, vt = np.linalg.svd(exact)
    return vt[int(np.sum(size > 1e-11 * size[0])) :].T


def solve_dense(matrix, right, weight, damping):
    """Minimise weighted damped least squares with exact rows; return the solution and the matrix of light rows."""
    exact = np.isinf(weight)
    n, light = matrix.shape[1], np.where(exact, 0.0, weight)
    a = np.vstack([light[:, None] * matrix, np.sqrt(damping) * np.eye(n)])
    b = np.append(light * right, np.zeros(n))
    base = np.linalg.lstsq(matrix[exact], right[exact], rcond=1e-13)[0] if exact.any() else np.zeros(n)
    free = null_space(matrix[exact])
    return base + free @ np.linalg.lstsq(a @ free, b - a @ base, rcond=None)[0], a, b
