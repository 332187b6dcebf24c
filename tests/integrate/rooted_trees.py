"""Rooted trees and the order conditions of Runge-Kutta methods (Hairer, Norsett and Wanner I, II.2).

A tableau has order p if for every tree with up to p vertices sum_s b_s Phi_s(tree) = 1/density(tree); a continuous
extension has it if its weights at the fraction x of a step give x^vertices/density(tree).
"""

from __future__ import annotations

from functools import cache
from math import prod

import numpy as np

from odefit.integrate.tableau import Tableau

Tree = tuple  # of its subtrees, in descending order


@cache
def trees(order: int) -> tuple[Tree, ...]:
    """Return the rooted trees with `order` vertices: a root above a collection of smaller trees."""

    def forests(total: int, largest: Tree | None):
        if total == 0:
            yield ()
        for size in range(1, total + 1):
            for tree in trees(size):
                if largest is None or (size, tree) <= (vertices(largest), largest):
                    yield from ((tree, *rest) for rest in forests(total - size, tree))

    return tuple(forests(order - 1, None))


@cache
def vertices(tree: Tree) -> int:
    return 1 + sum(map(vertices, tree))


@cache
def density(tree: Tree) -> int:
    return vertices(tree) * prod(map(density, tree))


def elementary_weights(tableau: Tableau, order: int) -> np.ndarray:
    """Return Phi (trees, stages) of all trees with `order` vertices."""
    known: dict[Tree, np.ndarray] = {}

    def phi(tree: Tree) -> np.ndarray:
        if tree not in known:
            known[tree] = np.prod([np.ones(tableau.c.size), *(tableau.A @ phi(branch) for branch in tree)], axis=0)
        return known[tree]

    return np.array([phi(tree) for tree in trees(order)])


def largest_defect(tableau: Tableau, weights: np.ndarray, order: int, x: float = 1.0) -> float:
    """Return by how much `weights` miss the conditions for trees with `order` vertices, at the fraction `x` of a step.

    It is relative to the size of the terms that cancel, at least 1: coefficients are rounded.
    """
    phi = elementary_weights(tableau, order)
    wanted = x**order / np.array([density(tree) for tree in trees(order)])
    return float((np.abs(phi @ weights - wanted) / np.maximum(1.0, np.abs(phi) @ np.abs(weights))).max())


def dense_weights(tableau: Tableau, x: float) -> np.ndarray:
    """Return the weights of the stages in the continuous extension, as the module `tableau` states them."""
    w = np.zeros(tableau.c.size)
    for i in reversed(range(tableau.dense.shape[0])):
        w = (x if i % 2 == 0 else 1.0 - x) * (tableau.dense[i] + w)
    return w
