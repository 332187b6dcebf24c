"""What an experiment changes in the model, symbolically.

An experiment may replace parameters, definitions and initial values by numbers or expressions.  What
becomes of a replaced definition or parameter depends on what it is replaced by:

* a number, or an expression of parameters: the name is *lifted*.  In the compiled model it is an entry
  of p, and the experiment's map computes its value.  Numbers are run-time constants ``c`` of the map.
* an expression that changes along the trajectory: it is *inlined* in a right-hand side of its own, and so
  are parameters whose own expressions then change with it.

Experiments with the same lifted and inlined names share a `Variant` of the model; those that also
replace the same names share a map.  So sixty subjects with different doses need one of each.  Initial
values are part of the map.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import casadi as ca

from odefit.compile.border_functions import border_functions
from odefit.compile.equation_rows import balance
from odefit.compile.events import Kind, SymbolicEvents, texts_of
from odefit.compile.functions import SymbolicFunction
from odefit.compile.gathering import watched
from odefit.compile.switch_kinds import EQUAL, UNEQUAL
from odefit.compile.switches import PIECE_LENGTH, PIECE_START, Split, in_fraction, smooth, split_at_conditions
from odefit.compile.table_inputs import PlacedTables, TableShape, TimeCall
from odefit.errors import ProblemError
from odefit.model import Model
from odefit.problem import Experiment, Problem, initial_name, state_of_initial
from odefit.problem.arguments import computed_in_cells
from odefit.problem.equilibration import runs_of
from odefit.problem.noise import sigma_expressions
from odefit.problem.resolution import (
    computed_parameters,
    names_in,
    resolve_in_experiment,
    resolved,
    symbol_of,
)

Pattern = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True)
class Variant:
    """One right-hand side: definitions that are entries of p, expressions put in their place, and shapes of tables.

    `events` are the kinds of what happens.  `moving`: conditions in time or times of events depend on parameters, or
    there are conditions on states, and start and length of a piece are the last entries of p.
    """

    lifted: tuple[str, ...]
    inlined: tuple[tuple[str, str], ...]
    tables: tuple[TableShape, ...] = ()
    events: tuple[Kind, ...] = ()
    moving: bool = False


def pattern_of(experiment: Experiment) -> Pattern:
    """Return what `experiment` replaces, numbers left out: experiments with equal patterns share a map."""
    overrides = experiment.overrides
    return tuple((name, value if isinstance(value, str) else None) for name, value in sorted(overrides.items()))


def constants_of(experiment: Experiment) -> list[float]:
    """Return the numbers of the experiment's overrides, in the order of its pattern."""
    overrides = experiment.overrides
    return [float(value) for _, value in sorted(overrides.items()) if not isinstance(value, str)]


def stack(parts: Iterable[Any]) -> Any:
    """Return a column of scalar expressions, possibly empty."""
    scalars = list(parts)
    return ca.vertcat(*scalars) if scalars else ca.SX(0, 1)


def variant_of(
    problem: Problem, pattern: Pattern, tables: tuple[TableShape, ...] = (), events: tuple[Kind, ...] = ()
) -> Variant:
    """Decide what is lifted and what is inlined for the experiments with this pattern and such tables and events."""
    model = problem.model
    moving = {model.time, *model.states}
    ever = {name for e in runs_of(problem).all for name in e.overrides if state_of_initial(name) is None}
    overrides = dict(pattern)
    computed = {p.name: p.expression for p in problem.parameters if p.expression is not None}
    replacing = computed_parameters(problem)
    for name, text in overrides.items():
        replacing[name] = ca.SX.sym("c") if text is None else problem.expression(text)
    lifted: list[str] = []
    inlined: list[tuple[str, str]] = []
    for name in (*model.definitions, *model.parameters):
        if name not in ever and name not in computed:
            continue
        moves = bool(names_in(resolved(problem, [model.symbols[name]], replacing)[0]) & moving)
        text = overrides.get(name) if name in overrides else computed.get(name)
        if moves and text is not None:
            inlined.append((name, text))
        elif not moves and name in model.definitions:
            lifted.append(name)
    lifted += _initial_values_in(problem, [*overrides.values(), *computed.values(), *texts_of(events)])
    fixed = Variant(tuple(lifted), tuple(inlined), tables, events)
    split = split_of(problem, fixed)
    moving = bool(model.state_events) or (
        split is not None and (split.depends_on_parameters(model.symbols[model.time]) or bool(split.borders.kind))
    )
    return replace(fixed, moving=moving or (bool(events) and events_of(problem, fixed).moving))


def _initial_values_in(problem: Problem, texts: Iterable[str | None]) -> list[str]:
    """Return the names ``A(0)`` in the equations, and in such texts: they are entries of p."""
    model = problem.model
    events = [one for event in model.events for one in (event.time, *event.changes.values())]
    events += [one for event in model.state_events for one in (event.condition, *event.changes.values())]
    further = {*sigma_expressions(problem).values(), *texts} - {None}
    read = (problem.expression(text) for text in further if text is not None)
    used = names_in(stack((*model.rhs.values(), *model.coefficients, *model.definitions.values(), *events, *read)))
    return [name for name in model.initial_values if name in used]


def split_of(problem: Problem, variant: Variant) -> Split | None:
    """Return right-hand side, conditions of events and coefficients of derivatives, with conditions taken out.

    None if all of it is one piece.
    """
    model = problem.model
    conditions = _resolved_in(problem, variant, [event.condition for event in model.state_events])
    _refuse_equalities(problem, conditions)
    equations = _resolved_in(problem, variant, [*(model.rhs[name] for name in model.states), *model.coefficients])
    n = len(model.states)
    out = stack([*equations[:n], *conditions, *equations[n:]])
    states = stack(model.symbols[name] for name in model.states)
    corners = {shape.name: shape.corners for shape in variant.tables}
    time, begin = model.symbols[model.time], beginning_of(problem)
    held = [name for name in model.held if name not in model.gathered]
    split = split_at_conditions(out, time, states, begin, corners, held=held, blocks=model.implicit)
    if split is None:
        return smooth(out) if variant.events else None
    return split


def _refuse_equalities(problem: Problem, conditions: list[Any]) -> None:
    """Refuse events whose condition is true at single moments, which nobody would meet."""
    model = problem.model
    states = stack(model.symbols[name] for name in model.states)
    for event, condition in zip(model.state_events, conditions, strict=True):
        split = split_at_conditions(condition, model.symbols[model.time], states, blocks=model.implicit)
        if split is not None and (split.on_states or {EQUAL, UNEQUAL} & {*split.kind}):
            raise ProblemError(
                f"the event '{event.text}' compares with == or !=, which changes for single moments only; write <, <=, "
                "> or >=."
            )


def events_of(problem: Problem, variant: Variant) -> SymbolicEvents:
    """Return the events of a variant, as expressions."""
    return SymbolicEvents(problem, variant.events, partial(_resolved_in, problem, variant))


def beginning_of(problem: Problem) -> float:
    """Return the time at which the first experiment starts."""
    return min((experiment.start for experiment in problem.experiments), default=-math.inf)


def _resolved_in(problem: Problem, variant: Variant, expressions: list[Any], *, at_start: bool = False) -> list[Any]:
    """Return expressions in t, y and p, definitions inlined; `at_start` with what events change as it begins."""
    replacing = {name: problem.expression(text) for name, text in variant.inlined}
    return resolved(problem, expressions, replacing, keeping=variant.lifted, at_start=at_start)


def parameters_of(problem: Problem, variant: Variant) -> tuple[str, ...]:
    """Return the entries of p.

    They are the model's parameters that are not chosen by row, what is lifted, own ones of sigma, of tables, of doses
    and computed ones that cells of the data name, and with moving ends of pieces start and length of the piece.
    """
    by_row = problem.slots.by_row
    texts = dict.fromkeys(sigma_expressions(problem).values())
    sigmas = (resolve_in_experiment(problem, problem.expression(text), None) for text in texts)
    further = {name for sigma in sigmas for name in names_in(sigma)} & {*problem.own_symbols} - {*by_row}
    further |= {name for shape in variant.tables for name in shape.names} & {*problem.own_symbols}
    of_doses = dict.fromkeys(texts_of(variant.events))
    doses = (resolve_in_experiment(problem, problem.expression(text), None) for text in of_doses)
    further |= {name for dose in doses for name in names_in(dose)} & {*problem.own_symbols} - {*by_row}
    further |= {*computed_in_cells(problem)} & {*problem.own_symbols}
    model = (name for name in problem.model.parameters if name not in by_row)
    piece = (PIECE_START, PIECE_LENGTH) if variant.moving else ()
    return (*model, *variant.lifted, *sorted(further), *piece)


def formal_parameters(problem: Problem) -> tuple[str, ...]:
    """Return the inputs of the maps: parameters with a value of their own that are not chosen by row."""
    by_row = problem.slots.by_row
    return tuple(p.name for p in problem.parameters if p.expression is None and p.name not in by_row)


def map_function(problem: Problem, variant: Variant, pattern: Pattern) -> SymbolicFunction:
    """Return ``(q, c) -> (p, y0)`` for the experiments with this pattern."""
    constants = [ca.SX.sym(f"c_{name}") for name, text in pattern if text is None]
    names, outputs = map_expressions(problem, variant, pattern, constants)
    tables = PlacedTables(problem, variant.tables)
    formal = formal_parameters(problem)
    inlined = {name for name, _ in variant.inlined}
    _refuse_unknown(problem, names, outputs, {*formal} - inlined, constants)
    return SymbolicFunction(
        name="map",
        time=ca.SX.sym("t"),
        arrays=(
            ("q", stack(symbol_of(problem, name) for name in formal)),
            ("c", stack(constants)),
            ("u", tables.inputs),
        ),
        by=("q",),
        out=tables.placed(stack(outputs)),
        blocks=tables.blocks,
        remembering=False,  # its inputs are shared
    )


def map_expressions(
    problem: Problem,
    variant: Variant,
    pattern: Pattern,
    constants: Sequence[Any] | None = None,
    keeping: Collection[str] = (),
) -> tuple[list[str], list[Any]]:
    """Return names and expressions of all entries of p and y0, in parameters, `constants` and what is kept."""
    model = problem.model
    if constants is None:
        constants = [ca.SX.sym(f"c_{name}") for name, text in pattern if text is None]
    numbers = iter(constants)
    inlined = {name for name, _ in variant.inlined}
    replacing = computed_parameters(problem)
    initial = dict(model.initial)
    for name, text in pattern:
        value = next(numbers) if text is None else problem.expression(text)
        state = state_of_initial(name)
        if state is not None:
            initial[state] = value
        if name not in inlined:
            replacing[name] = value
    names = parameters_of(problem, variant)
    # the value of an inlined parameter is not used: its expression stands in the right-hand side; kernels fill in
    # start and length of a piece
    unused = {**dict.fromkeys(inlined, ca.SX.nan()), PIECE_START: ca.SX(0), PIECE_LENGTH: ca.SX(0)}
    expressions = [unused[name] if name in unused else symbol_of(problem, name) for name in names]
    expressions += [initial[name] for name in model.states]
    outputs = resolved(problem, expressions, replacing, keeping, at_start=True)
    return [*names, *map(initial_name, model.states)], outputs


def _refuse_unknown(
    problem: Problem, names: list[str], outputs: list[Any], formal: set[str], constants: list[Any]
) -> None:
    """See that parameters and initial values depend on nothing but what the map is given."""
    known = formal | {constant.name() for constant in constants}
    for name, expression in zip(names, outputs, strict=True):
        left = sorted(names_in(expression) - known)
        by_row = [other for other in left if other in problem.slots.by_row]
        if by_row:
            raise ProblemError(
                f"'{name}' depends on '{by_row[0]}', which has a different value for single measurements of one "
                "experiment; such a parameter may enter observables only."
            )
        if left:
            raise ProblemError(
                f"'{name}' depends on '{left[0]}', which changes along the trajectory; an initial value or a "
                "parameter cannot."
            )


def model_functions(
    problem: Problem, variant: Variant, observables: tuple[str, ...], split: Split | None = None
) -> Mapping[str, SymbolicFunction]:
    """Return right-hand side and observables as functions of ``t, y, p`` (and ``a``), definitions inlined.

    Where noise is given by expressions, "sigma" is the standard deviation of each observable (0 where it is not).  With
    `split` the conditions in time of the right-hand side are its inputs u, and "switches" tells where they change.
    """
    model: Model = problem.model
    by_row = problem.slots.by_row
    left = model.coefficients
    expressions = [*(model.rhs[name] for name in model.states), *left, *(model.symbols[name] for name in observables)]
    texts = sigma_expressions(problem)
    expressions += [problem.expression(texts[name]) if name in texts else ca.SX(0) for name in observables if texts]
    outputs = _resolved_in(problem, variant, expressions)
    tables = PlacedTables(problem, variant.tables)
    n, m = len(model.states), len(observables)
    equations, outputs = outputs[: n + len(left)], outputs[n + len(left) :]
    words = [f"the equation of '{name}'" for name in model.states] + ["the factor of a derivative"] * len(left)
    for name, expression in zip(words, equations, strict=True):
        for other in sorted(names_in(expression) & {*by_row}):
            raise ProblemError(
                f"{name} uses '{other}', which has a different value for single measurements of "
                "one experiment; such a parameter may enter observables only."
            )
    names = parameters_of(problem, variant)
    piece = ca.SX.sym("piece", 2) if variant.moving else ca.SX(0, 1)
    p = stack(symbol_of(problem, name) for name in names if name not in (PIECE_START, PIECE_LENGTH))
    y = stack(model.symbols[name] for name in model.states)
    common = (("y", y), ("p", ca.vertcat(p, piece)), ("u", tables.inputs))
    a = stack(symbol_of(problem, name) for name in by_row)
    time = model.symbols[model.time]
    # a parameter of the problem's own that an inlined expression uses must reach the right-hand side
    used = {name for e in (*equations, *outputs) for name in names_in(e)}
    unreached = used & {*problem.own_symbols} - {*by_row, *names}
    if unreached:
        raise ProblemError(
            f"'{sorted(unreached)[0]}' does not occur in the equations, but an expression that changes along the "
            "trajectory uses it; add it to the equations as a definition of its own."
        )
    by_measurement = (*common, ("a", a))
    observed = tables.placed(stack(outputs))
    if split is None or not (split.inputs.numel() or variant.moving):
        parts, inputs = stack(equations), (ca.SX(0, 1), ca.SX(0, 1))
    else:
        rows = split.out.elements()
        parts = stack([*rows[:n], *rows[n + len(model.state_events) :]])
        inputs = (split.inputs, split.borders.inputs)
    functions = {
        "rhs": _right_hand_side(model, parts, inputs, tables, time, y, p, moving=variant.moving),
        "observe": SymbolicFunction(
            "observe", time, by_measurement, ("y", "p", "a"), observed[:m], blocks=tables.blocks
        ),
    }
    watch = watched(
        model, y, ca.vertcat(p, piece), tables.inputs,
        lambda parts: tables.placed(stack(_resolved_in(problem, variant, parts))),
    )  # fmt: skip
    if watch is not None:
        functions["watch"] = replace(watch, blocks=tables.blocks)
    if texts:
        functions["sigma"] = SymbolicFunction(
            "sigma", time, by_measurement, ("y", "p", "a"), observed[m:], blocks=tables.blocks
        )
    if split is not None and (split.inputs.numel() or split.borders.kind or variant.events):
        functions["switches"] = _switch_function(split, time, ca.vertcat(p, piece))
    if split is not None and (split.borders.kind or model.state_events):
        u = ca.vertcat(tables.inputs, split.inputs, split.borders.inputs)
        triggers = split.out[n : n + len(model.state_events)]
        parts = tables.placed(split.borders.functions), triggers, time, y, ca.vertcat(p, piece), u, tables.blocks
        for function in border_functions(*parts):
            functions[function.name] = function
    if split is not None and variant.events:
        for function in events_of(problem, variant).functions(time, y, ca.vertcat(p, piece)):
            functions[function.name] = function
    return functions


def time_calls(problem: Problem, variant: Variant) -> tuple[tuple[TimeCall, ...], tuple[tuple[str, str], ...]]:
    """Return the calls of tables at a time in the right-hand side, and text and table of those at something moving."""
    if not variant.tables:
        return (), ()
    tables = PlacedTables(problem, variant.tables)
    rhs = [*(problem.model.rhs[name] for name in problem.model.states), *problem.model.coefficients]
    tables.placed(stack(_resolved_in(problem, variant, rhs)), within_piece=True)
    return tuple(tables.time_calls), tuple(tables.moving_calls.items())


def _right_hand_side(
    model: Model, parts: Any, inputs: tuple[Any, Any], tables: PlacedTables, time: Any, y: Any, p: Any, *, moving: bool
) -> SymbolicFunction:
    """Return the right-hand side within a piece, from right sides and coefficients of derivatives.

    With moving ends it is one in the fraction of the piece.  Equations in several derivatives are what must be zero, a
    function of states and rates.
    """
    n = y.numel()
    out, piece, length = tables.placed(parts, within_piece=True), ca.SX(0, 1), ca.SX(1)
    if moving:
        out, time, piece = in_fraction(out, time)
        length = piece[1]
    if model.mass:
        rates = ca.SX.sym("rate", n)
        out, y = balance(model, out[:n], out[n:], rates, length), ca.vertcat(y, rates)
    elif moving:
        out = length * out
    arrays = (("y", y), ("p", ca.vertcat(p, piece)), ("u", ca.vertcat(tables.inputs, *inputs)))
    return SymbolicFunction("rhs", time, arrays, ("y", "p"), out, directional=True, blocks=tables.blocks)


def _switch_function(split: Split, time: Any, p: Any) -> SymbolicFunction:
    """Return all switches and, behind them, their derivatives by time; "y" is the time, which is a variable here."""
    slopes = [ca.jtimes(split.switches[j], time, ca.SX(1)) for j in range(split.switches.numel())]
    arrays = (("y", time), ("p", p), ("u", split.inputs))
    return SymbolicFunction("switches", ca.SX.sym("nothing"), arrays, ("y", "p"), ca.vertcat(split.switches, *slopes))
