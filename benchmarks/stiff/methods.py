"""The programs that are compared: each is made for a problem, and for a tolerance returns a call to be timed.

A call returns states (m, n) and sensitivities to the logarithms of the parameters (m, n, q).  Right-hand sides are
compiled wherever a program takes compiled ones; all that can be made before is made before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import casadi as ca
import numpy as np

from benchmarks.peers.problems import Array, compiled_source, straight_line
from benchmarks.stiff.problems import StiffProblem
from odefit.integrate import CHOICES, Status

Solution = tuple[Array, Array]


class Method(Protocol):
    """A program set up for one problem; `at` raises where it cannot solve."""

    def __init__(self, problem: StiffProblem) -> None: ...

    def at(self, rtol: float) -> Callable[[], Solution]: ...


class Odefit:
    """The stiff integrator `ddm`."""

    integrator = "ddm"

    def __init__(self, problem: StiffProblem) -> None:
        self.problem = problem
        self.model, self.run = problem.model, problem.run

    def at(self, rtol: float) -> Callable[[], Solution]:
        method, atol = CHOICES[self.integrator], rtol * self.problem.scale

        def call() -> Solution:
            trajectory = method.solve(self.model, self.run, rtol=rtol, atol=atol, order=1)
            if trajectory.status is not Status.OK:
                raise RuntimeError(trajectory.sentence(self.model))
            return trajectory.y, trajectory.S

        return call


class OdefitAuto(Odefit):
    """The default `auto`, which begins explicitly."""

    integrator = "auto"


class OdefitLimex(Odefit):
    """Extrapolation, `limex`."""

    integrator = "limex"


class Cvodes:
    """CVODES through CasADi: the function of forward sensitivities, which integrates states and sensitivities.

    It returns no states; those come from the integrator itself, whose time is not counted.
    """

    def __init__(self, problem: StiffProblem) -> None:
        self.problem = problem
        self.dae = {"x": problem.y, "p": problem.k, "ode": problem.f}

    def at(self, rtol: float) -> Callable[[], Solution]:
        problem = self.problem
        n, q, m = problem.n, problem.q, problem.times.size
        options = {"reltol": rtol, "abstol": rtol * problem.scale, "max_num_steps": 100_000}
        states = ca.integrator("states", "cvodes", self.dae, 0.0, problem.times, options)
        both = states.forward(q)
        y = np.array(states(x0=problem.y0, p=problem.p)["xf"]).T
        inputs = {"x0": problem.y0, "p": problem.p, "fwd_p": np.diag(problem.p)}

        def call() -> Solution:
            s = np.array(both(**inputs)["fwd_xf"])  # (n, q m), direction by direction
            return y, s.reshape(n, q, m).transpose(2, 0, 1)

        return call


class Pydiffsol:
    """Diffsol's variable-order BDF with forward sensitivities, which follow the steps of the states."""

    solver = "bdf"

    def __init__(self, problem: StiffProblem) -> None:
        import pydiffsol

        self.problem = problem
        sparse = problem.n >= 100
        self.ode = pydiffsol.Ode(
            _diffsl(problem),
            matrix_type=pydiffsol.faer_sparse if sparse else pydiffsol.nalgebra_dense,
            ode_solver=getattr(pydiffsol, self.solver),
        )

    def at(self, rtol: float) -> Callable[[], Solution]:
        logs, times = np.log(self.problem.p), self.problem.times

        def call() -> Solution:
            self.ode.rtol, self.ode.atol = rtol, rtol * self.problem.scale
            solution = self.ode.solve_fwd_sens(logs, times)
            return solution.ys.T, np.asarray(solution.sens).transpose(2, 1, 0)

        return call


def _diffsl(problem: StiffProblem) -> str:
    inputs = ", ".join(f"l{name} = 0" for name in problem.parameters)
    natural = "\n".join(f"{name} {{ exp(l{name}) }}" for name in problem.parameters)
    state = ",\n".join(f"{name} = {problem.start[name]!r}" for name in problem.rates)
    rates = ",\n".join(problem.rates.values())
    return f"in_i {{ {inputs} }}\n{natural}\nu_i {{\n{state}\n}}\nF_i {{\n{rates}\n}}\n"


class Numbalsoda:
    """LSODA, compiled, on the augmented system; its Jacobian is by differences."""

    def __init__(self, problem: StiffProblem) -> None:
        import numba
        from numbalsoda import lsoda, lsoda_sig

        self.problem = problem
        state, slope = problem.augmented
        source = straight_line("rhs", "t, u, du, p", {"u": state, "p": problem.k}, "du", slope)
        self.callback = numba.cfunc(lsoda_sig)(compiled_source(source, "rhs"))
        self.lsoda = lsoda

    def at(self, rtol: float) -> Callable[[], Solution]:
        problem = self.problem
        start, times = _augmented_start(problem), np.concatenate([[0.0], problem.times])

        def call() -> Solution:
            rows, ok = self.lsoda(
                self.callback.address, start, times, problem.p, rtol, rtol * problem.scale, mxstep=100_000
            )
            if not ok:
                raise RuntimeError("LSODA failed")
            return problem.from_augmented(rows[1:])

        return call


class _Scipy:
    """The augmented system with right-hand side and Jacobian compiled by numba."""

    def __init__(self, problem: StiffProblem) -> None:
        import numba

        self.problem = problem
        state, slope = problem.augmented
        size, p = problem.n * (problem.q + 1), problem.p
        inputs = {"u": state, "p": problem.k}
        rhs = numba.njit(compiled_source(straight_line("rhs", "u, p, du", inputs, "du", slope), "rhs"))
        derivative = ca.jacobian(slope, state)
        rows, columns = map(np.array, derivative.sparsity().get_triplet())
        entries = ca.vertcat(*derivative.nonzeros())
        fill = numba.njit(compiled_source(straight_line("fill", "u, p, out", inputs, "out", entries), "fill"))

        @numba.njit
        def f(t: float, u: Array) -> Array:
            du = np.empty(size)
            rhs(u, p, du)
            return du

        @numba.njit
        def jacobian(t: float, u: Array) -> Array:
            values, out = np.empty(rows.size), np.zeros((size, size))
            fill(u, p, values)
            for e in range(rows.size):
                out[rows[e], columns[e]] = values[e]
            return out

        self.f, self.jacobian = f, jacobian

    def integrate(self, rtol: float, atol: float) -> Array:
        raise NotImplementedError

    def at(self, rtol: float) -> Callable[[], Solution]:
        return lambda: self.problem.from_augmented(self.integrate(rtol, rtol * self.problem.scale))


class ScipyLsoda(_Scipy):
    """SciPy's odeint."""

    def integrate(self, rtol: float, atol: float) -> Array:
        from scipy.integrate import odeint

        times = np.concatenate([[0.0], self.problem.times])
        start = _augmented_start(self.problem)
        return odeint(self.f, start, times, Dfun=self.jacobian, tfirst=True, rtol=rtol, atol=atol, mxstep=100_000)[1:]


class ScipyBdf(_Scipy):
    """SciPy's solve_ivp with BDF."""

    method = "BDF"

    def integrate(self, rtol: float, atol: float) -> Array:
        from scipy.integrate import solve_ivp

        times, start = self.problem.times, _augmented_start(self.problem)
        solution: Any = solve_ivp(
            self.f, (0.0, times[-1]), start, method=self.method, t_eval=times, jac=self.jacobian, rtol=rtol, atol=atol
        )
        if not solution.success:
            raise RuntimeError(solution.message)
        return solution.y.T


class ScipyRadau(ScipyBdf):
    """SciPy's solve_ivp with Radau: slow and accurate."""

    method = "Radau"


def _augmented_start(problem: StiffProblem) -> Array:
    return np.concatenate([problem.y0, np.zeros(problem.n * problem.q)])


SMALL: dict[str, type[Method]] = {
    "odefit ddm": Odefit,
    "odefit auto": OdefitAuto,
    "odefit limex": OdefitLimex,
    "CVODES (CasADi)": Cvodes,
    "pydiffsol bdf": Pydiffsol,
    "numbalsoda LSODA": Numbalsoda,
    "SciPy LSODA": ScipyLsoda,
    "SciPy BDF": ScipyBdf,
}
LARGE: dict[str, type[Method]] = {name: SMALL[name] for name in tuple(SMALL)[:5]}
