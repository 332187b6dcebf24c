"""Stiff initial value problems, in the forms that the programs need.

Everything comes from one source, the right-hand sides as text.  Sensitivities are those to the logarithms of the
parameters: programs that test their errors then have numbers of the size of the states.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import casadi as ca
import numpy as np

import odefit as of
from benchmarks.peers.problems import Array
from odefit.compile import CompiledModel, Seeds, compile_problem
from odefit.integrate import Run
from odefit.problem import Problem


@dataclass(frozen=True, eq=False)
class StiffProblem:
    """One problem.

    Attributes
    ----------
    rates, start
        State to the text of its derivative and to its value at t = 0.
    parameters
        Name to value; all are differentiated.
    times
        Where states and sensitivities are compared.
    scale
        Absolute over relative tolerance.
    tolerances
        Relative tolerances to try.
    """

    name: str
    rates: dict[str, str]
    start: dict[str, float]
    parameters: dict[str, float]
    times: Array
    scale: float
    tolerances: tuple[float, ...]

    @property
    def n(self) -> int:
        return len(self.rates)

    @property
    def q(self) -> int:
        return len(self.parameters)

    @cached_property
    def p(self) -> Array:
        return np.array(list(self.parameters.values()))

    @cached_property
    def y0(self) -> Array:
        return np.array([self.start[state] for state in self.rates])

    # --- odefit ---

    @cached_property
    def text(self) -> str:
        equations = [f"{state}' = {rate}" for state, rate in self.rates.items()]
        return "\n".join(equations + [f"{state}(0) = {self.start[state]!r}" for state in self.rates])

    def problem(self, data: of.Measurements, **settings: Any) -> Problem:
        """Return the problem of odefit, all parameters logarithmic."""
        unknowns = tuple(of.Parameter(name, value, scale="log") for name, value in self.parameters.items())
        return of.Problem(of.Model.from_text(self.text), unknowns, data).with_settings(**settings)

    @cached_property
    def model(self) -> CompiledModel:
        data = of.Measurements.from_columns([0.0], {next(iter(self.rates)): [0.0]})
        return compile_problem(self.problem(data)).model(0)

    @cached_property
    def run(self) -> Run:
        n, q = self.n, self.q
        by_name = np.array([self.parameters[name] for name in self.model.parameters])
        seeds = np.zeros((q, q))
        for row, name in enumerate(self.model.parameters):
            seeds[row, list(self.parameters).index(name)] = self.parameters[name]
        return Run.of(Seeds(by_name, self.y0, seeds, np.zeros((n, q)), *self.model.no_pairs), 0.0, self.times)

    # --- CasADi, and what is made of its expressions ---

    @cached_property
    def y(self) -> Any:
        return ca.SX.sym("y", self.n)

    @cached_property
    def k(self) -> Any:
        return ca.SX.sym("k", self.q)

    @cached_property
    def f(self) -> Any:
        """Right-hand side, SX (n,)."""
        names = [*self.rates, *self.parameters]
        symbols = dict(zip(names, ca.vertsplit(ca.vertcat(self.y, self.k)), strict=True))
        return ca.vertcat(*(ca.SX(eval(text, {"__builtins__": {}}, symbols)) for text in self.rates.values()))

    @cached_property
    def augmented(self) -> tuple[Any, Any]:
        """State and right-hand side of the system with sensitivities ``s[i, j]``, row by row."""
        s = ca.SX.sym("s", self.n, self.q)
        slope = ca.jacobian(self.f, self.y) @ s + ca.jacobian(self.f, self.k) @ ca.diag(self.k)
        return ca.vertcat(self.y, ca.vec(s.T)), ca.vertcat(self.f, ca.vec(ca.densify(slope).T))

    def from_augmented(self, rows: Array) -> tuple[Array, Array]:
        """Split rows of (y, s)."""
        return rows[:, : self.n], rows[:, self.n :].reshape(-1, self.n, self.q)


def robertson() -> StiffProblem:
    """Return Robertson's reactions at 38 times to t = 910."""
    times = np.concatenate([np.arange(1, 11) * 1e-3, np.arange(2, 11) * 1e-2, np.arange(2, 11) * 0.1])
    return StiffProblem(
        "Robertson",
        {"y1": "-k1*y1 + k2*y2*y3", "y2": "k1*y1 - k2*y2*y3 - k3*y2*y2", "y3": "k3*y2*y2"},
        {"y1": 1.0, "y2": 0.0, "y3": 0.0},
        {"k1": 0.04, "k2": 1e4, "k3": 3e7},
        np.concatenate([times, np.arange(10.0, 911.0, 100.0)]),
        1e-4,
        (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8),
    )


def hires() -> StiffProblem:
    """Return HIRES of the Test Set for IVP Solvers, with its ten constants as parameters."""
    back = "kp*y6*y8 - (k2 + km + ks)*y7"
    return StiffProblem(
        "HIRES",
        {
            "y1": "-k1*y1 + k2*y2 + k6*y3 + oks",
            "y2": "k1*y1 - (k2 + k3)*y2",
            "y3": "-(k6 + k1)*y3 + k2*y4 + k5*y5",
            "y4": "k3*y2 + k1*y3 - (k4 + k2)*y4",
            "y5": "-(k1 + k5)*y5 + k2*y6 + k2*y7",
            "y6": "-kp*y6*y8 + k4*y4 + k1*y5 - k2*y6 + km*y7",
            "y7": back,
            "y8": f"-({back})",
        },
        {"y1": 1.0, "y2": 0.0, "y3": 0.0, "y4": 0.0, "y5": 0.0, "y6": 0.0, "y7": 0.0, "y8": 0.0057},
        {
            "k1": 1.71, "k2": 0.43, "k3": 8.32, "k4": 0.69, "k5": 0.035, "k6": 8.32, "kp": 280.0, "km": 0.69,
            "ks": 0.69, "oks": 0.0007,
        },
        np.array([1.0, 5.0, 20.0, 50.0, 100.0, 200.0, 300.0, 321.8122]),
        1e-3,
        (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8),
    )  # fmt: skip


def van_der_pol(e: float) -> StiffProblem:
    """Return van der Pol's relaxation oscillation on its slow time, at 40 times over two and a half periods."""
    return StiffProblem(
        f"van der Pol, e = {e:g}",
        {"x": "v", "v": "(mu*(1 - x*x)*v - x)/e"},
        {"x": 2.0, "v": -0.66},
        {"mu": 1.0, "e": e},
        np.linspace(0.1, 4.0, 40),
        1.0,
        (1e-4, 1e-5, 1e-6, 1e-7, 1e-8),
    )


def oregonator() -> StiffProblem:
    """Return the Oregonator of Hairer and Wanner II, IV.10, with its three constants as parameters."""
    return StiffProblem(
        "Oregonator",
        {"y1": "s*(y2 + y1*(1 - q*y1 - y2))", "y2": "(y3 - (1 + y1)*y2)/s", "y3": "w*(y1 - y3)"},
        {"y1": 1.0, "y2": 2.0, "y3": 3.0},
        {"s": 77.27, "q": 8.375e-6, "w": 0.161},
        np.arange(30.0, 361.0, 30.0),
        1.0,
        (1e-4, 1e-5, 1e-6, 1e-7, 1e-8),
    )


def pyridine() -> StiffProblem:
    """Return Bock's denitrogenation of pyridine, all eleven rate constants."""
    values = (1.81, 0.894, 29.4, 9.21, 0.058, 2.43, 0.0644, 5.55, 0.0201, 0.577, 2.15)
    return StiffProblem(
        "pyridine",
        {
            "y1": "-k1*y1 + k9*y2",
            "y2": "k1*y1 - k2*y2 - k3*y2*y3 + k7*y4 - k9*y2 + k10*y4*y6",
            "y3": "k2*y2 - k3*y2*y3 - 2*k4*y3*y3 - k6*y3 + k8*y5 + k10*y4*y6 + 2*k11*y5*y6",
            "y4": "k3*y2*y3 - k5*y4 - k7*y4 - k10*y4*y6",
            "y5": "k4*y3*y3 + k5*y4 - k8*y5 - k11*y5*y6",
            "y6": "k3*y2*y3 + k4*y3*y3 + k6*y3 - k10*y4*y6 - k11*y5*y6",
            "y7": "k6*y3 + k7*y4 + k8*y5",
        },
        {"y1": 1.0, "y2": 0.0, "y3": 0.0, "y4": 0.0, "y5": 0.0, "y6": 0.0, "y7": 0.0},
        {f"k{i}": value for i, value in enumerate(values, 1)},
        np.linspace(0.1, 2.5, 25),
        1e-2,
        (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8),
    )


def brusselator(n: int) -> StiffProblem:
    """Return the Brusselator with diffusion in one dimension (BRUSS of Hairer and Wanner II, IV.10) with `n` states.

    Ten parameters: inflow, both rates, the autocatalysis, both diffusion constants and the four boundary values.
    """
    cells = n // 2
    rates: dict[str, str] = {}
    start: dict[str, float] = {}
    for i in range(1, cells + 1):
        left = (f"u{i - 1}", f"v{i - 1}") if i > 1 else ("ul", "vl")
        right = (f"u{i + 1}", f"v{i + 1}") if i < cells else ("ur", "vr")
        gain = f"c*u{i}*u{i}*v{i}"
        rates[f"u{i}"] = f"a + {gain} - b*u{i} - d*u{i} + du*({left[0]} - 2*u{i} + {right[0]})"
        rates[f"v{i}"] = f"b*u{i} - {gain} + dv*({left[1]} - 2*v{i} + {right[1]})"
        start[f"u{i}"] = 1.0 + math.sin(2.0 * math.pi * i / (cells + 1))
        start[f"v{i}"] = 3.0
    diffusion = (cells + 1) ** 2 / 50.0
    constants = {"a": 1.0, "b": 3.0, "c": 1.0, "d": 1.0, "du": diffusion, "dv": diffusion}
    return StiffProblem(
        f"Brusselator of {n} states", rates, start, constants | {"ul": 1.0, "ur": 1.0, "vl": 3.0, "vr": 3.0},
        np.array([2.5, 5.0, 7.5, 10.0]), 1.0, (1e-3, 1e-4, 1e-5, 1e-6, 1e-7),
    )  # fmt: skip
