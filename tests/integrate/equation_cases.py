"""Equations in several derivatives with closed-form solutions, for every integrator that solves such.

Initial values are inconsistent where an algebraic equation says so: then the closed form begins at the consistent
state, in which what the other equations carry on is that of the given one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import casadi as ca
import numpy as np
import pytest
from initial_value_problems import Case

from odefit.integrate import METHODS

SOLVERS = [method for method in METHODS.values() if method.equations_kernel is not None]
by_solver = pytest.mark.parametrize("method", SOLVERS, ids=lambda method: method.name)


@dataclass(frozen=True)
class EquationCase(Case):
    """`constraints(t, y, p)` returns what is zero in the algebraic equations."""

    constraints: Callable[..., list] = lambda t, y, p: []


def _bateman(t, p, y0):
    _, k1, k2 = p
    a, b = y0
    return [a * ca.exp(-k1 * t), b * ca.exp(-k2 * t) + a * k1 / (k2 - k1) * (ca.exp(-k1 * t) - ca.exp(-k2 * t))]


def _mass_of_time(t, p, y0):
    a, w = p
    return [y0[0] * (1 + a) / (1 + a * ca.cos(w * t)), y0[1] + t]


def _linear(t, p, y0):
    k, c, d = p
    x = y0[0] * ca.exp(-k * t)
    return [x, c * x + d * t]


def _logarithm(t, p, y0):
    k, c = p
    x = y0[0] * ca.exp(-k * t)
    return [x, ca.log(c + x)]


def _difference(t, p, y0):
    c, k, s, a = p
    d = (y0[0] - y0[1]) * ca.exp(-k * t / c)
    return [(s + a * t + d) / 2, (s + a * t - d) / 2]


def _product(t, p, y0):
    """(x z)' = -k x z with x = c z; from given x, z the state with z (x_new - x) + x (z_new - z) = 0."""
    k, c = p
    x, z = y0
    new = 2 * x * z / (c * z + x) * ca.exp(-k * t / 2)
    return [c * new, new]


def _of_time(t, p, y0):
    k, b = p
    x = y0[0] * ca.exp(-k * (t - 0.5))
    return [x, (2 + ca.sin(b * t)) * x, ca.sqrt(x * x + t)]


EQUATIONS = [
    EquationCase(
        "regular",
        "(1 + a*x + t)*x' + z*z' = -k1*x*(1 + a*x + t) + z*(k1*x - k2*z)\n"
        "x*x' - (2 + z)*z' = -k1*x*x - (2 + z)*(k1*x - k2*z)\nx(0) = 1\nz(0) = 0.5",
        (0.7, 1.1, 0.6), (1.0, 0.5), 0.0, 3.0, _bateman,
    ),
    EquationCase(
        "regular in time",
        "(1 + a*cos(w*t))*x' + x*z' = a*w*sin(w*t)*x + x\nz' = 1\nx(0) = 1\nz(0) = 0",
        (0.4, 1.5), (1.2, 0.3), 0.0, 4.0, _mass_of_time,
    ),
    EquationCase(
        "linear constraint",
        "(2 + w^2)*x' = -k*x*(2 + w^2)\nalgebraic w ~ 0.3\n0 = w - c*x - d*t\nx(0) = 1",
        (0.7, 1.3, 0.4), (1.5, 0.2), 0.0, 4.0, _linear,
        lambda t, y, p: [y[1] - p[1] * y[0] - p[2] * t],
    ),
    EquationCase(
        "nonlinear constraint",
        "(1 + k*w^2)*x' = -k*x*(1 + k*w^2)\nalgebraic w ~ 0.3\n0 = exp(w) - c - x\nx(0) = 1",
        (0.7, 0.5), (2.0, 0.1), 0.0, 4.0, _logarithm,
        lambda t, y, p: [ca.exp(y[1]) - p[1] - y[0]],
    ),
    EquationCase(
        "dependent rows",
        "C*(x' - z') = -k*(x - z)\nC*(z' - x') = k*(x - z) + x + z - s - a*t\nx(0) = 1\nz(0) = 0.5",
        (0.8, 1.1, 2.0, 0.3), (1.4, 0.2), 0.0, 3.0, _difference,
        lambda t, y, p: [y[0] + y[1] - p[2] - p[3] * t],
    ),
    EquationCase(
        "state in front of a derivative",
        "z*x' + x*z' = -k*x*z\n0 = x - c*z\nx(0) = 1\nz(0) = 0.5",
        (0.9, 1.7), (1.4, 0.6), 0.0, 4.0, _product,
        lambda t, y, p: [y[0] - p[1] * y[1]],
    ),
    EquationCase(
        "unknowns of time",
        "(1 + v^2)*x' = -k*x*(1 + v^2)\nalgebraic v ~ 2\nalgebraic w ~ 1\n0 = v - (2 + sin(b*t))*x\n"
        "0 = w^2 - x^2 - t\nx(0) = 1",
        (0.6, 2.0), (1.1, 2.0, 1.0), 0.5, 4.0, _of_time,
        lambda t, y, p: [y[1] - (2 + ca.sin(p[1] * t)) * y[0], y[2] ** 2 - y[0] ** 2 - t],
    ),
]  # fmt: skip
by_equations = pytest.mark.parametrize("case", EQUATIONS, ids=lambda case: case.name)
with_constraints = pytest.mark.parametrize(
    "case", [case for case in EQUATIONS if case.constraints(0.0, case.y0, case.p)], ids=lambda case: case.name
)


def misses(case: EquationCase, times, y, s) -> tuple[np.ndarray, np.ndarray]:
    """Return what is left of the constraints (m, k), and of their derivatives by all unknowns (m, k, q)."""
    t, point, theta = ca.SX.sym("t"), ca.SX.sym("y", len(case.y0)), ca.SX.sym("theta", case.theta.size)
    g = ca.vertcat(*case.constraints(t, ca.vertsplit(point), ca.vertsplit(theta)))
    parts = ca.Function(
        "g", [t, point, theta], [ca.densify(e) for e in (g, ca.jacobian(g, point), ca.jacobian(g, theta))]
    )
    found = [[np.array(part) for part in parts(time, row, case.theta)] for time, row in zip(times, y, strict=True)]
    derivatives = [by_y @ one + by_theta for (_, by_y, by_theta), one in zip(found, s, strict=True)]
    return np.array([value[:, 0] for value, _, _ in found]), np.array(derivatives)
