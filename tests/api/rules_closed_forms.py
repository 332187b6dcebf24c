"""Problems with rules whose solutions have closed forms; their conditions of optimality by Newton's method."""

from __future__ import annotations

import casadi as ca
import numpy as np

import odefit as of

T = np.linspace(0.5, 5.0, 10)
SIGMA = 0.05
Y = 0.3 + 1.7 * np.exp(-0.6 * T) + SIGMA * np.random.default_rng(5).standard_normal(T.size)
FEED = "A' = s - k*A\nA(0) = A0"
SHARP = of.Settings(rtol=1e-11, atol=1e-14, tol=1e-10)
METHODS = ("single", "incremental", "multiple")
ALL_METHODS = (*METHODS, "collocation")


def feed(k, A0, s, t):
    """Solution of A' = s - k A."""
    return s / k + (A0 - s / k) * ca.exp(-k * t)


def squares(values, y=Y, sigma=SIGMA):
    """Half the weighted sum of squares."""
    return 0.5 * sum(((values[i] - y[i]) / sigma) ** 2 for i in range(len(y)))


class Closed:
    """Symbols of k, A0, s, the objective, and the solution at a time."""

    def __init__(self):
        self.theta = ca.SX.sym("theta", 3)
        self.k, self.A0, self.s = ca.vertsplit(self.theta)
        self.objective = squares([self.at(t) for t in T])

    def at(self, t):
        return feed(self.k, self.A0, self.s, t)

    def solve(self, *active, objective=None, start=(0.6, 2.0, 0.2)):
        return kkt(self.theta, self.objective if objective is None else objective, active, start)


def kkt(theta, objective, active, start):
    """Minimise with these expressions zero, F' = g' lambda and g = 0; return theta and lambda."""
    g = ca.vertcat(*active) if active else ca.SX(0, 1)
    n, m = theta.numel(), g.numel()
    multiplier = ca.SX.sym("lambda", m)
    hessian, gradient = ca.hessian(objective - ca.dot(multiplier, g), theta)
    slope = ca.jacobian(g, theta)
    system = ca.blockcat([[hessian, -slope.T], [-slope, ca.SX(m, m)]])
    step = ca.Function("step", [theta, multiplier], [system, ca.vertcat(gradient, -g)])
    level = ca.Function("level", [theta, multiplier], [ca.sumsqr(gradient) + 1e6 * ca.sumsqr(g)])
    x, least = np.array(start, float), np.zeros(m)
    rows = np.array(ca.Function("g", [theta], [slope])(x))
    descent = np.array(ca.Function("f", [theta], [ca.gradient(objective, theta)])(x)).ravel()
    if m:
        least = np.linalg.lstsq(rows.T, descent, rcond=None)[0]
    for _ in range(200):
        matrix, right = (np.array(part) for part in step(x, least))
        move = -np.linalg.solve(matrix, right.ravel())
        share, now = 1.0, float(level(x, least))
        while share > 1e-6 and not float(level(x + share * move[:n], least + share * move[n:])) < now:
            share *= 0.5
        if share <= 1e-6:
            break
        x, least = x + share * move[:n], least + share * move[n:]
    assert np.abs(right).max() < 1e-7 * max(1.0, np.abs(least).max(initial=0.0))
    return x, least


def projected_errors(jacobian, equations):
    """Return standard errors where these rows are held: Z (Z'J'J Z)^-1 Z'."""
    _, size, vt = np.linalg.svd(equations)
    basis = vt[int(np.sum(size > 1e-12)) :].T
    seen = jacobian @ basis
    return np.sqrt(np.diag(basis @ np.linalg.inv(seen.T @ seen) @ basis.T))


def problem_of(
    *rules, y=Y, text=FEED, of_parameters=None, settings=SHARP, data=None, more=(), start=(1.0, 1.0, 0.1), **options
):
    """Return the problem of k, A0 and s with these rules."""
    given = of_parameters or {}
    named = [of.Parameter(n, one, **given.get(n, {})) for n, one in zip(("k", "A0", "s"), start, strict=True)]
    if data is None:
        data = of.Measurements.from_columns(T, {"A": y}, sigma={"A": SIGMA})
    return of.Problem(
        model=of.Model.from_text(text), parameters=[*named, *more], measurements=data, constraints=rules,
        settings=settings, **options,
    )  # fmt: skip


def estimates(result):
    """Return k, A0 and s."""
    return [result.estimates[name] for name in ("k", "A0", "s")]
