"""CasADi: direct collocation of the whole problem, solved by IPOPT.

One element for each interval between data (or several), collocation at Radau or Legendre points, states
initialised by linear interpolation of the data.  There is no integration tolerance; degree and elements are the
cheapest whose objective agrees with that of an integration at the tolerances of the comparison.
"""

from __future__ import annotations

import casadi as ca
import numpy as np

from benchmarks.peers.contract import Outcome
from benchmarks.peers.problems import FitProblem

# degree, elements in an interval, Hessian; Gauss-Newton takes more iterations on Barnes and stalls on pyridine
_BEST = {
    "Barnes a": (3, 1, "exact"),
    "Barnes b": (4, 1, "exact"),
    "pyridine": (4, 1, "exact"),
}
_POINTS = "legendre"


class CasadiIpopt:
    """Collocation; see `_BEST`."""

    def __init__(self, problem: FitProblem) -> None:
        degree, elements, hessian = _BEST[problem.name]
        x, g, residual, self.start = _transcription(problem, degree, elements)
        self.bounds = np.full(self.start.size, np.inf)
        if problem.in_logs:  # without them trial steps overflow; the minimum is inside
            self.bounds[: problem.n_parameters] = 8.0
        options = {
            "ipopt.print_level": 0, "ipopt.sb": "yes", "print_time": False, "expand": True, "ipopt.tol": 1e-8,
            "calc_lam_p": False, "calc_multipliers": False,
        }  # fmt: skip
        if hessian == "Gauss-Newton":
            options["hess_lag"] = _gauss_newton(x, residual)
        nlp = {"x": x, "f": 0.5 * ca.sumsqr(residual), "g": g}
        self.solver = ca.nlpsol("fit", "ipopt", nlp, options)
        self.setup = f"{_POINTS} {degree} x {elements}, {hessian} Hessian"

    def fit(self) -> Outcome:
        solution = self.solver(x0=self.start, lbg=0, ubg=0, lbx=-self.bounds, ubx=self.bounds)
        stats = self.solver.stats()
        return Outcome(float(solution["f"]) if stats["success"] else np.nan, stats["iter_count"])


def _transcription(problem: FitProblem, degree: int, elements: int):
    """Return unknowns, equations, residuals and the start."""
    slope, value, _ = ca.collocation_coeff(ca.collocation_points(degree, _POINTS))
    f = ca.Function("f", [problem.y, problem.k], [problem.f])
    n, points = problem.n_states, [0.0, *ca.collocation_points(degree, _POINTS)]
    theta = ca.SX.sym("theta", problem.n_parameters)
    k = ca.exp(theta) if problem.in_logs else theta
    node = ca.SX.sym("y_0", n)
    unknowns, equations = [theta, node], [node - ca.substitute(problem.y0, problem.k, k)]
    residuals = [node - problem.values[0]]
    start = [problem.x_start, problem.values[0]]

    def guess(t: float):
        return np.array([np.interp(t, problem.times, column) for column in problem.values.T])

    for i in range(problem.times.size - 1):
        h = (problem.times[i + 1] - problem.times[i]) / elements
        for e in range(elements):
            t = problem.times[i] + e * h
            inner = ca.SX.sym(f"c_{i}_{e}", n, degree)
            all_points = ca.horzcat(node, inner)
            rates = ca.horzcat(*(f(inner[:, j], k) for j in range(degree)))
            equations.append(ca.vec(all_points @ slope - h * rates))
            end = ca.SX.sym(f"y_{i}_{e}", n)
            equations.append(all_points @ value - end)
            unknowns += [ca.vec(inner), end]
            start += [guess(t + h * point) for point in points[1:]] + [guess(t + h)]
            node = end
        residuals.append(node - problem.values[i + 1])
    return ca.vertcat(*unknowns), ca.vertcat(*equations), ca.vertcat(*residuals), np.concatenate(start)


def _gauss_newton(x, residual):
    """Return the Hessian function that IPOPT's interface expects, without second derivatives."""
    factor, multipliers = ca.SX.sym("lam_f"), ca.SX.sym("lam_g", 0)
    jacobian = ca.jacobian(residual, x)
    hessian = factor * ca.triu(jacobian.T @ jacobian)
    return ca.Function(
        "nlp_hess_l", [x, ca.SX.sym("p", 0), factor, multipliers], [hessian],
        ["x", "p", "lam_f", "lam_g"], ["triu_hess_gamma_x_x"],
    )  # fmt: skip
