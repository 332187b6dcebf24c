"""What happens where states cross a border, and its derivatives, by every integrator."""

from __future__ import annotations

import numpy as np
import pytest
from initial_value_problems import central_difference
from test_pieces_conformance import (
    CHAIN,
    ROUNDING,
    RTOL,
    Case,
    check_true_derivatives,
    chosen_and_replayed,
    differ,
    packed,
)

import odefit as of
from odefit.integrate import CHOICES

DIFFERENCES = (1e-4, 5e-5, 1e-5, 5e-6)
"""Relative steps of differences of the replayed solution: with a long one, outputs or borders may move past the end of
a step; with a short one rounding counts."""
CASES = [
    Case(
        "threshold and reset", CHAIN + "when x < a: x += D*z, z *= 0.9", {"k": 0.6, "c": 0.4, "a": 0.45, "D": 1.5},
        (0.7, 1.9, 3.0, 3.9),
    ),
    Case(
        "bouncing ball", "x' = v\nv' = -g - c*v\nx(0) = h\nv(0) = 0\nwhen x < 0: v = -e*v",
        {"g": 9.81, "e": 0.8, "h": 1.0, "c": 0.5}, (0.3, 0.6, 1.0, 1.5),
    ),
    Case(
        "thermostat",
        "T' = -k*(T - 5) + heat*P\nheat = 0\nT(0) = 21\nwhen T < low: heat = 1\nwhen T > high: heat = 0",
        {"k": 0.3, "P": 12.0, "low": 19.0, "high": 22.0}, (0.3, 0.65, 1.2, 2.2, 3.3, 4.3, 5.4),
    ),
    Case(
        "two events at one time",
        CHAIN + "when x < a: z += D*x\nwhen x < a: x *= 1.5, z *= 0.7\nw' = -k*w\nw(0) = 1\n"
        "when w < a: z += w*D, w += 0.2",
        {"k": 0.6, "c": 0.4, "a": 0.45, "D": 1.5}, (0.7, 1.9, 3.5),
    ),
    Case(
        "event in a stiff phase",
        "x' = -1e4*(x - cos(t))\nz' = x - k*z^2 + s\nx(0) = 0\nz(0) = 1\ns = 0\n"
        "when x < a: s = 2*k\nwhen z > b: z *= 1 - D",
        {"k": 0.5, "a": 0.6, "b": 1.12, "D": 0.2}, (0.15, 0.6, 1.1, 1.4),
        methods=("ddm", "bdf3", "limex"), reference="ddm",
    ),
    Case("two rates", "x' = if(x > a, -k1, -k2)*x\nx(0) = 1", {"a": 0.5, "k1": 0.4, "k2": 1.3}, (0.7, 1.9, 3.5)),
    Case(
        "corners", "x' = -k*max(x, a) + abs(x - b)\nz' = 0.3*floor(3*x) - min(z, b)*c\nx(0) = 2\nz(0) = 1",
        {"k": 1.6, "a": 0.9, "b": 0.7, "c": 0.3}, (0.3, 0.8, 1.4, 2.2, 3.5),
    ),
    Case(
        "tables of a state", "x' = -k*x*H(x) + L(x)\nx(0) = 2", {"k": 0.6, "h": 0.7, "b": 0.1}, (0.7, 1.4, 2.2, 3.5),
        tables={
            "H": of.Table([0, 0.8, 1.4], [1, "h", 2], kind="hold", outside="hold"),
            "L": of.Table([0, 1, 3], [0.2, "b", 0.3]),
        },
    ),
    Case(
        "time and state", CHAIN + "when x < a and t > tau: x += 1\nwhen t > tau + 1: z += k",
        {"k": 0.6, "c": 0.4, "a": 0.5, "tau": 1.3}, (0.7, 1.9, 3.5, 4.1),
    ),
]  # fmt: skip
MATRIX = [(CHOICES[name], case) for case in CASES for name in case.methods]
by_method_and_case = pytest.mark.parametrize(
    ("method", "case"), MATRIX, ids=[f"{method.name}-{case.name}" for method, case in MATRIX]
)


@by_method_and_case
def test_derivatives_are_those_of_the_true_solution(method, case):
    check_true_derivatives(method, case)


@by_method_and_case
def test_derivatives_are_those_of_the_replayed_solution(method, case):
    order, chosen = chosen_and_replayed(method, case)

    def replayed(x, order):
        return case.solve(method, x, order, grid=chosen.grid)

    tolerance = ROUNDING.get(method.name, 1e-9) if chosen.derivatives == "discrete" else 10 * RTOL
    assert closest(case, lambda x: replayed(x, 0).y, chosen.S) <= tolerance
    if order == 2:
        if "stiff" in case.name:
            tolerance *= 10  # what rounding leaves of differences there
        assert closest(case, lambda x: replayed(x, 1).S, chosen.S2) <= tolerance


def closest(case: Case, function, right: np.ndarray) -> float:
    """Return how far differences of a function are from its derivatives, by the best of some steps."""
    found = (central_difference(function, case.x, step=step) for step in DIFFERENCES)
    return min(differ(case, packed(one) if one.ndim == 4 else one, right) for one in found)
