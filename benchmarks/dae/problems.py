"""Small index-1 problems, in the forms that the programs need.

Everything comes from one source, a problem of odefit.  Its equations G(t, (y, y'), p) = f - B y' = 0 are at hand as
CasADi expressions, and from these the semi-explicit form of other programs is made: differential variables x, which are
states or differences of such, algebraic ones z, and

    x' = f_d(t, x, z, p) / B,    0 = f_a(t, x, z, p).

Sensitivities are those to the solver's variables, the logarithms of most parameters.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np

import odefit as of
from benchmarks.peers.problems import Array
from odefit.compile import CompiledModel, Seeds, compile_problem
from odefit.compile.conditions import model_functions
from odefit.gallery import load
from odefit.integrate import Run, piece_ends
from odefit.model.unknowns_as_states import with_unknowns_as_states
from odefit.problem import Problem

REFERENCE = Path(__file__).parents[2] / "tests" / "reference" / "dae.json"
"""The problems of the test set, with their end values."""


@dataclass(frozen=True, eq=False)
class Form:
    """A problem of odefit as an integrator takes it: one experiment, compiled."""

    problem: Problem
    times: Array
    experiment: int = 0

    @cached_property
    def compiled(self) -> Any:
        return compile_problem(self.problem)

    @property
    def model(self) -> CompiledModel:
        return self.compiled.model(self.experiment)

    @cached_property
    def seeds(self) -> Seeds:
        return self.compiled.parameters(self.compiled.theta_start, self.experiment, 1)

    @cached_property
    def run(self) -> Run:
        """The run; whoever uses it must keep this object, which holds the data of its inputs."""
        tables, start = self.compiled.structure.tables[self.experiment], self.problem.experiments[self.experiment].start
        run = Run.of(self.seeds, start, self.times, piece_ends(start, self.times, tables.jumps))
        return run.with_tables(tables, self.compiled.new_inputs(self.experiment))

    def rows_of(self, names: tuple[str, ...]) -> list[int]:
        """Return the places of states."""
        return [self.model.states.index(name) for name in names]


@dataclass(frozen=True, eq=False)
class DaeProblem:
    """One problem.

    Attributes
    ----------
    problem
        As it is written.
    times
        Where solutions are compared.
    scale
        Absolute over relative tolerance.
    differences
        Pairs of states whose difference is a differential variable; the second state is an algebraic one then.
    end
        Published values at the last time, by name.
    experiment
        Number of the experiment that is solved.
    idas_scale
        Absolute over relative tolerance for IDAS, where it fails with that of the others.
    """

    name: str
    problem: Problem
    times: Array
    scale: float
    differences: tuple[tuple[str, str], ...] = ()
    end: dict[str, float] = field(default_factory=dict)
    experiment: int = 0
    idas_scale: float | None = None

    @cached_property
    def native(self) -> Form:
        """All unknowns are states."""
        model = with_unknowns_as_states(self.problem.model)
        return Form(replace(self.problem, model=model), self.times, self.experiment)

    @cached_property
    def inner(self) -> Form | None:
        """Algebraic unknowns are solved for inside f; None for equations in several derivatives."""
        return None if self.problem.model.mass else Form(self.problem, self.times, self.experiment)

    @property
    def compared(self) -> tuple[str, ...]:
        """States that all forms have."""
        return self.problem.model.shown

    @property
    def q(self) -> int:
        """Number of sensitivities."""
        return self.native.seeds.dp.shape[1]

    @cached_property
    def semi_explicit(self) -> SemiExplicit:
        """The form that IDAS takes."""
        return semi_explicit(self.native, self.differences)


@dataclass(frozen=True, eq=False)
class SemiExplicit:
    """Expressions for other programs: see the top of the module.

    Attributes
    ----------
    t, x, z, p, ode, alg
        Symbols and expressions.
    to_x, to_z
        Matrices with x = to_x y and z = to_z y.
    of_x, of_z
        Matrices with y = of_x x + of_z z.
    """

    t: Any
    x: Any
    z: Any
    p: Any
    ode: Any
    alg: Any
    to_x: Array
    to_z: Array
    of_x: Array
    of_z: Array

    @cached_property
    def eliminated(self) -> tuple[Any, Any] | None:
        """Right-hand side with z put in, and z, by (t, x, p); None where the equations of z are not linear in it."""
        slope = ca.jacobian(self.alg, self.z)
        if ca.depends_on(slope, self.z):
            return None
        z = -ca.solve(slope, ca.substitute(self.alg, self.z, ca.SX.zeros(self.z.numel())))
        return ca.substitute(self.ode, self.z, z), z


def semi_explicit(form: Form, differences: tuple[tuple[str, str], ...]) -> SemiExplicit:
    """Return the semi-explicit form; every difference and every other differential state has an equation of its own."""
    model, variant = form.model, form.compiled.variant(form.experiment).symbolic
    value = model_functions(form.problem, variant, ())["rhs"].value
    states, n = list(model.states), model.n_states
    algebraic = np.flatnonzero(model.algebraic)
    kept = [row for row in range(n) if row not in algebraic]
    unit = np.eye(n)
    second = [states.index(pair[1]) for pair in differences]
    first = {states.index(a): states.index(b) for a, b in differences}
    t, y, rates, p = ca.SX.sym("t"), ca.SX.sym("y", n), ca.SX.sym("v", n), ca.SX.sym("p", model.n_parameters)
    left = ca.jacobian(value(t, ca.vertcat(y, rates), p, ca.SX(0, 1))[kept], rates)
    pattern = np.array(ca.DM(left.sparsity(), 1.0)) != 0.0
    unknown = second or [column for column in range(n) if not pattern[:, column].any()]
    differential = [column for column in range(n) if column not in unknown]
    to_x = np.array([unit[i] - (unit[first[i]] if i in first else 0.0) for i in differential])
    to_z = unit[unknown]
    back = np.linalg.inv(np.vstack([to_x, to_z]))
    of_x, of_z = back[:, : len(differential)], back[:, len(differential) :]
    x, z, slope = (ca.SX.sym(name, size) for name, size in (("x", len(kept)), ("z", len(unknown)), ("s", len(kept))))
    whole = value(t, ca.vertcat(of_x @ x + of_z @ z, of_x @ slope), p, ca.SX(0, 1))
    factors = ca.sparsify(ca.simplify(ca.jacobian(whole[kept], slope)))
    at_rest = ca.substitute(whole, slope, ca.SX.zeros(len(kept)))
    order = [int(np.flatnonzero(row)[0]) for row in np.array(ca.DM(factors.sparsity(), 1.0))]
    ode = [ca.SX(0)] * len(kept)
    for row, column in enumerate(order):
        ode[column] = -at_rest[kept[row]] / factors[row, column]
    return SemiExplicit(t, x, z, p, ca.vertcat(*ode), at_rest[algebraic.tolist()], to_x, to_z, of_x, of_z)


def reference_problems() -> list[DaeProblem]:
    """Return those of the test set, solved to their ends."""
    found = json.loads(REFERENCE.read_text(encoding="utf-8"))["problems"]
    differences = {"transistor": (("y1", "y2"), ("y4", "y5"), ("y7", "y8"))}
    return [_of_reference(name, one, differences.get(name, ())) for name, one in found.items()]


def _of_reference(name: str, content: dict[str, Any], differences: tuple[tuple[str, str], ...]) -> DaeProblem:
    model = of.Model.from_text("\n".join(content["equations"]))
    parameters = tuple(of.Parameter(key, value, scale="log") for key, value in content["parameters"].items())
    times = np.array([content["end"]])
    data = of.Measurements.from_columns(times, {model.states[0]: [0.0]})
    problem = of.Problem(model, parameters, data)
    return DaeProblem(name, problem, times, content["atol_over_rtol"], differences, content["states"])


def gallery_problem(
    name: str, experiment: str, scale: float, idas_scale: float | None = None, **at: float
) -> DaeProblem:
    """Return one experiment of a gallery problem, at its start values or others, to the last of its data."""
    problem = load(name).with_start(**at)
    number = [one.name for one in problem.experiments].index(experiment)
    data = problem.measurements
    own = np.unique(data.time[data.experiment == experiment])
    return DaeProblem(
        name, problem, own[own > problem.experiments[number].start], scale, experiment=number, idas_scale=idas_scale
    )


def small_problems() -> list[DaeProblem]:
    """Return the problems of the comparison with other programs."""
    return [
        *reference_problems(),
        gallery_problem("urease", "strong", 1e-3, v_max=0.12, K_M=3.2, pKe1=6.1, pKe2=8.9),
        gallery_problem("dow/dae", "67C", 1e-4, idas_scale=1e-8),
    ]
