"""The problems of the comparison, in the forms that the peers need.

Everything comes from one source, the equations of the odefit problem: CasADi expressions of the right-hand
side, the augmented system of states and sensitivities, and straight-line Python of either.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np
import numpy.typing as npt

import odefit as of
from odefit.gallery import path_of
from odefit.problem import Problem

Array = npt.NDArray[np.float64]

RTOL, ATOL = 1e-8, 1e-10

_FILES = {
    "Barnes a": path_of("barnes"),
    "Barnes b": path_of("barnes/b"),
    "pyridine": Path(__file__).parents[1] / "data" / "pyridine.toml",
}


@dataclass(frozen=True, eq=False)
class FitProblem:
    """One problem: every state is measured at every time, all weights are 1.

    Attributes
    ----------
    rates, initial
        State to the text of its derivative and of its initial value.
    parameters, start
        Names of the unknowns and their natural start values.
    in_logs
        The optimiser sees the logarithms of the unknowns.
    times, values
        The data, (m,) and (m, n).
    """

    name: str
    odefit: Problem
    rates: dict[str, str]
    initial: dict[str, str]
    parameters: tuple[str, ...]
    start: Array
    in_logs: bool
    times: Array
    values: Array

    @property
    def n_states(self) -> int:
        return len(self.rates)

    @property
    def n_parameters(self) -> int:
        return len(self.parameters)

    @property
    def x_start(self) -> Array:
        """Where the optimiser starts."""
        return np.log(self.start) if self.in_logs else self.start.copy()

    @cached_property
    def y(self) -> Any:
        return ca.vertcat(*map(ca.SX.sym, self.rates))

    @cached_property
    def k(self) -> Any:
        return ca.vertcat(*map(ca.SX.sym, self.parameters))

    def _expressions(self, texts: dict[str, str]) -> Any:
        names = [*self.rates, *self.parameters]
        symbols = dict(zip(names, ca.vertsplit(ca.vertcat(self.y, self.k)), strict=True))
        return ca.vertcat(*(ca.SX(eval(text, {"__builtins__": {}}, symbols)) for text in texts.values()))

    @cached_property
    def f(self) -> Any:
        """Right-hand side, SX (n,)."""
        return self._expressions(self.rates)

    @cached_property
    def y0(self) -> Any:
        """Initial values, SX (n,)."""
        return self._expressions(self.initial)

    @cached_property
    def augmented(self) -> tuple[Any, Any, Any]:
        """State, right-hand side and start of the system with sensitivities ``s[i, j]``, row by row."""
        s = ca.SX.sym("s", self.n_states, self.n_parameters)
        slope = ca.jacobian(self.f, self.y) @ s + ca.jacobian(self.f, self.k)
        s0 = ca.jacobian(self.y0, self.k)
        return (
            ca.vertcat(self.y, ca.vec(s.T)),
            ca.vertcat(self.f, ca.vec(slope.T)),
            ca.vertcat(self.y0, ca.vec(s0.T)),
        )

    def natural(self, x: Array) -> Array:
        return np.exp(x) if self.in_logs else x


def load(name: str) -> FitProblem:
    """Return the problem `name` of `names()`."""
    problem = of.load(_FILES[name]).with_settings(rtol=RTOL, atol=ATOL)
    source = re.sub(r"(\w+)\^2", r"\1*\1", problem.model.source or "")
    rates = dict(re.findall(r"^\s*(\w+)'\s*=\s*(.+?)\s*$", source, re.M))
    initial = dict(re.findall(r"^\s*(\w+)\(0\)\s*=\s*(.+?)\s*$", source, re.M))
    data = problem.measurements
    times = np.unique(data.time)
    values = np.full((times.size, len(rates)), np.nan)
    for t, observable, value in zip(data.time, data.observable, data.value, strict=True):
        values[np.searchsorted(times, t), list(rates).index(str(observable))] = value
    if not np.isfinite(values).all():
        raise ValueError(f"{name}: the peers expect every state at every time")
    return FitProblem(
        name,
        problem,
        rates,
        {state: initial[state] for state in rates},
        tuple(p.name for p in problem.free),
        np.array([p.start for p in problem.free], dtype=float),
        all(p.scale == "log" for p in problem.free),
        times,
        values,
    )


def names() -> tuple[str, ...]:
    """Return the names of the problems."""
    return tuple(_FILES)


_OPERATIONS = {
    ca.OP_ADD: "{0} + {1}",
    ca.OP_SUB: "{0} - {1}",
    ca.OP_MUL: "{0} * {1}",
    ca.OP_DIV: "{0} / {1}",
    ca.OP_NEG: "-{0}",
    ca.OP_SQ: "{0} * {0}",
    ca.OP_INV: "1.0 / {0}",
    ca.OP_TWICE: "2.0 * {0}",
}


def straight_line(name: str, header: str, inputs: dict[str, Any], output: str, expression: Any) -> str:
    """Return the source of a function that fills ``output[i]``, one scalar statement for each operation.

    Parameters
    ----------
    header
        The arguments as text, ``"t, u, du, p"``.
    inputs
        Argument to the symbols it holds.
    """
    function = ca.Function(name, list(inputs.values()), [ca.densify(expression)]).expand()
    arrays = list(inputs)
    lines = [f"def {name}({header}):"]
    for i in range(function.n_instructions()):
        operation = function.instruction_id(i)
        into, sources = function.instruction_output(i), function.instruction_input(i)
        if operation == ca.OP_INPUT:
            lines.append(f"    w{into[0]} = {arrays[sources[0]]}[{sources[1]}]")
        elif operation == ca.OP_OUTPUT:
            lines.append(f"    {output}[{into[1]}] = w{sources[0]}")
        elif operation == ca.OP_CONST:
            lines.append(f"    w{into[0]} = {function.instruction_constant(i)!r}")
        else:
            operands = [f"w{j}" for j in sources]
            lines.append(f"    w{into[0]} = {_OPERATIONS[operation].format(*operands)}")
    return "\n".join(lines) + "\n"


def compiled_source(source: str, name: str) -> Any:
    """Return the Python function `name` that `source` defines."""
    scope: dict[str, Any] = {}
    exec(source, scope)
    return scope[name]
