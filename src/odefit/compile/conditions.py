"""What an experiment changes in the model, symbolically.

An experiment may replace parameters, definitions and initial values by numbers or expressions.

* Numbers become run-time constants ``c`` of the experiment's map.
* A *definition* that some experiment replaces is lifted: in the compiled model it is an additional
  parameter, and every experiment's map computes its value (the replacement, or the model's own
  expression).  This needs expressions of parameters only; one that changes along the trajectory
  would need another right-hand side and is refused.
* Initial values are part of the map.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import casadi as ca

from odefit.compile.functions import SymbolicFunction
from odefit.errors import UnsupportedError
from odefit.model import Model
from odefit.problem import Experiment, Problem


@dataclass(frozen=True, eq=False)
class Layout:
    """Names behind the vectors of a compiled problem.

    Attributes
    ----------
    outer
        The problem's parameters that have a value of their own: the entries of q.
    parameters
        The entries of p: the model's parameters, then the lifted definitions.
    """

    outer: tuple[str, ...]
    parameters: tuple[str, ...]
    lifted: tuple[str, ...]


def layout_of(problem: Problem) -> Layout:
    """Decide which names make up q and p."""
    model = problem.model
    replaced = {name for e in problem.experiments for name in e.periods[0].overrides}
    lifted = tuple(name for name in model.definitions if name in replaced)
    outer = tuple(p.name for p in problem.parameters if p.expression is None)
    return Layout(outer, (*model.parameters, *lifted), lifted)


def pattern_of(experiment: Experiment) -> tuple[tuple[str, str | None], ...]:
    """Return what `experiment` replaces, numbers left out: experiments with equal patterns share a map."""
    overrides = experiment.periods[0].overrides
    return tuple((name, value if isinstance(value, str) else None) for name, value in sorted(overrides.items()))


def constants_of(experiment: Experiment) -> list[float]:
    """Return the numbers of the experiment's overrides, in the order of its pattern."""
    overrides = experiment.periods[0].overrides
    return [float(value) for _, value in sorted(overrides.items()) if not isinstance(value, str)]


def map_function(problem: Problem, layout: Layout, pattern: tuple[tuple[str, str | None], ...]) -> SymbolicFunction:
    """Return ``(q, c) -> (p, y0)`` for the experiments with this pattern."""
    model = problem.model
    constants = [ca.SX.sym(f"c_{name}") for name, text in pattern if text is None]
    numbers = iter(constants)
    replacing: dict[str, Any] = {}
    for parameter in problem.parameters:
        if parameter.expression is not None:
            replacing[parameter.name] = model.expression(parameter.expression)
    initial = dict(model.initial)
    for name, text in pattern:
        value = next(numbers) if text is None else model.expression(text)
        if name.endswith("(0)"):
            initial[name[:-3].strip()] = value
        else:
            replacing[name] = value
    wanted = [
        *(model.symbols[name] for name in layout.parameters),
        *(initial[name] for name in model.states),
    ]
    resolved = model.resolve(wanted, replacing)
    _refuse_variable(model, layout, pattern, resolved)
    q = ca.vertcat(*(model.symbols[name] for name in layout.outer)) if layout.outer else ca.SX(0, 1)
    return SymbolicFunction(
        name="map",
        time=ca.SX.sym("t"),
        arrays=(("q", q), ("c", ca.vertcat(*constants) if constants else ca.SX(0, 1)), ("u", ca.SX(0, 1))),
        by=("q",),
        out=ca.vertcat(*resolved) if resolved else ca.SX(0, 1),
    )


def _refuse_variable(model: Model, layout: Layout, pattern: Any, resolved: list[Any]) -> None:
    moving = {model.time, *model.states}
    names = [*layout.parameters, *(f"{name}(0)" for name in model.states)]
    for name, expression in zip(names, resolved, strict=True):
        depends = sorted({s.name() for s in ca.symvar(ca.SX(expression))} & moving)
        if depends:
            raise UnsupportedError(
                f"an experiment that replaces '{name}' while it depends on {', '.join(depends)} in the model "
                "or in the replacement"
            )


def model_functions(model: Model, layout: Layout, observables: tuple[str, ...]) -> Mapping[str, SymbolicFunction]:
    """Return right-hand side and observables as functions of ``t, y, p``, definitions inlined."""
    rhs = [model.rhs[name] for name in model.states]
    seen = [model.symbols[name] for name in observables]
    resolved = model.resolve([*rhs, *seen], keeping=layout.lifted)
    states = [model.symbols[name] for name in model.states]
    y = ca.vertcat(*states) if states else ca.SX(0, 1)
    parameters = [model.symbols[name] for name in layout.parameters]
    p = ca.vertcat(*parameters) if parameters else ca.SX(0, 1)
    nothing = ca.SX(0, 1)
    time = model.symbols[model.time]

    def stack(parts: list[Any]) -> Any:
        return ca.vertcat(*parts) if parts else ca.SX(0, 1)

    common = (("y", y), ("p", p), ("u", nothing))
    return {
        "rhs": SymbolicFunction("rhs", time, common, ("y", "p"), stack(resolved[: len(rhs)]), directional=True),
        "observe": SymbolicFunction(
            "observe", time, (*common, ("a", nothing)), ("y", "p"), stack(resolved[len(rhs) :])
        ),
    }
