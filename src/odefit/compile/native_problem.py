"""The native code of a problem: what belongs to its names and equations, whatever the numbers.

Code is kept with the model, by everything else that it depends on: problems with the same model share it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from odefit.compile.border_functions import BorderFunctions, native_borders
from odefit.compile.conditions import (
    Pattern,
    Variant,
    beginning_of,
    events_of,
    map_function,
    model_functions,
    parameters_of,
    pattern_of,
    split_of,
    time_calls,
    variant_of,
)
from odefit.compile.edges import states_at_edges
from odefit.compile.equation_rows import algebraic_rows, words_of_rows
from odefit.compile.events import EventFunctions, Kind, kinds_of
from odefit.compile.functions import FunctionLibrary, NativeFunction
from odefit.compile.gathering import NO_GATHERINGS, Gatherings, gatherings_of
from odefit.compile.penalties import penalty_function
from odefit.compile.switches import Split
from odefit.compile.table_inputs import TableShape, TimeCall, shapes_of
from odefit.model.kept import Kept
from odefit.problem import Problem
from odefit.problem.arguments import computed_in_cells
from odefit.problem.equilibration import runs_of
from odefit.problem.noise import sigma_expressions

Matrix = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Switches:
    """Where the conditions in time of a model change; see `odefit.compile.switches`.

    Attributes
    ----------
    function
        The switches and then their derivatives by time, a function of (time, p, u); differentiated by time and p.
    level, affine, whole, switch_of, kind
        See `Split`.
    moving
        Whether they, or times of events, depend on parameters: then the right-hand side is one in the fraction of a
        piece, and the last two entries of p are start and length of the piece.
    events
        What happens, None if nothing does.
    borders
        Conditions on states, and of events; None if there are none.
    """

    function: NativeFunction
    level: Integers
    affine: Integers
    whole: Integers
    switch_of: Integers
    kind: Integers
    moving: bool
    events: EventFunctions | None = None
    borders: BorderFunctions | None = None

    @property
    def n_inputs(self) -> int:
        """Number of inputs that conditions are."""
        return self.kind.size + (0 if self.borders is None else self.borders.kind.size)


@dataclass(frozen=True, eq=False)
class CompiledModel:
    """Native right-hand side of a model, with names for messages.

    ``rhs.value(t, y, p, u, out)``, its Jacobian with respect to (y, p) in CSR, and D2f[v, w].  What integrators work
    out from its pattern is `kept` here.  `switches` say where its inputs u change (None: it has none), `on_states`
    names conditions on states.  `time_calls` are the calls of tables in it whose knots are times, `moving_calls` text
    and table of those whose argument changes otherwise.  `gathering` tells which states are aggregates over time.

    Equations in several derivatives: ``rhs.value(t, (y, y'), p, u, out)`` is what must be zero (see
    `odefit.compile.equation_rows`), differentiated by (y, y', p), and `algebraic` has a 1 for each equation without a
    derivative; it is empty otherwise.  `written` are the words for these equations.
    """

    states: tuple[str, ...]
    parameters: tuple[str, ...]
    rhs: NativeFunction
    switches: Switches | None = None
    on_states: tuple[str, ...] = ()
    time_calls: tuple[TimeCall, ...] = ()
    moving_calls: tuple[tuple[str, str], ...] = ()
    gathering: Gatherings = NO_GATHERINGS
    algebraic: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    written: tuple[str, ...] = ()
    kept: Kept = field(default_factory=Kept, init=False, repr=False)

    @cached_property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.states)

    @property
    def in_equations(self) -> bool:
        """Whether it is made of equations in several derivatives."""
        return self.algebraic.size > 0

    @property
    def n_before_p(self) -> int:
        """Number of columns of the Jacobian of `rhs` that stand before those of p."""
        return self.n_states * (2 if self.in_equations else 1)

    @cached_property
    def n_parameters(self) -> int:
        """Length of p."""
        return len(self.parameters)

    @cached_property
    def no_pairs(self) -> tuple[Matrix, Matrix]:
        """Second-order seeds of p and y0 where there are none."""
        return np.empty((self.n_parameters, 0)), np.empty((self.n_states, 0))


@dataclass(frozen=True, eq=False)
class NativeVariant:
    """The code of one right-hand side, its observables and, where they are expressions, their standard deviations.

    `relative` are the states that must keep their relative accuracy (see `odefit.compile.edges`).  What else is
    compiled of it on demand is `kept` here.
    """

    model: CompiledModel
    observe: NativeFunction
    sigma: NativeFunction | None
    symbolic: Variant
    relative: npt.NDArray[np.bool_]
    kept: Kept = field(default_factory=Kept, init=False, repr=False)


@dataclass(frozen=True, eq=False)
class NativeProblem:
    """The code of one structure, and which part of it each experiment uses."""

    variants: tuple[NativeVariant, ...]
    variant_of: tuple[int, ...]
    maps: tuple[NativeFunction, ...]
    map_of: tuple[int, ...]
    penalty: NativeFunction | None


def native_problem(problem: Problem) -> NativeProblem:
    """Return the code of `problem`; it is made only if no problem with this model needed the same before."""
    return problem.model.kept.get(_fingerprint(problem), lambda: _build(problem))


def _fingerprint(problem: Problem) -> tuple[Any, ...]:
    """Return everything beside the model that decides which code a problem needs."""
    names = tuple((p.name, p.expression, p.per, p.penalty and p.penalty.kind) for p in problem.parameters)
    patterns = _patterns(problem)
    rules = tuple((rule.expression, rule.prior.kind) for rule in problem.rules)
    sigmas = tuple(sigma_expressions(problem).items())
    layout = problem.structure.slots
    begin = beginning_of(problem)
    return (
        "native", patterns, names, problem.observables, sigmas, rules, layout.names, layout.by_row, layout.fitted,
        begin, computed_in_cells(problem),
    )  # fmt: skip


def _patterns(problem: Problem) -> tuple[tuple[Pattern, tuple[TableShape, ...], tuple[Kind, ...]], ...]:
    """Return what decides which code each experiment, and each equilibration, needs."""
    return tuple((pattern_of(e), shapes_of(problem, e), kinds_of(problem, e)) for e in runs_of(problem).all)


def _build(problem: Problem) -> NativeProblem:
    patterns = _patterns(problem)
    distinct = list(dict.fromkeys(patterns))
    symbolic = [variant_of(problem, *pattern) for pattern in distinct]
    variants = list(dict.fromkeys(symbolic))
    maps = [
        FunctionLibrary("parameter map", [map_function(problem, variant, pattern)])["map"]
        for variant, (pattern, *_) in zip(symbolic, distinct, strict=True)
    ]
    penalty = penalty_function(problem)
    return NativeProblem(
        variants=tuple(_build_variant(problem, variant) for variant in variants),
        variant_of=tuple(variants.index(symbolic[distinct.index(pattern)]) for pattern in patterns),
        maps=tuple(maps),
        map_of=tuple(distinct.index(pattern) for pattern in patterns),
        penalty=None if penalty is None else FunctionLibrary("priors", [penalty])["penalty"],
    )


def _build_variant(problem: Problem, variant: Variant) -> NativeVariant:
    names = parameters_of(problem, variant)
    n, k = len(problem.model.states), len(names)
    title = f"model with {n} state{'s' * (n != 1)} and {k} parameter{'s' * (k != 1)}"
    split = split_of(problem, variant)
    functions = model_functions(problem, variant, problem.observables, split)
    library = FunctionLibrary(title, list(functions.values()))
    sigma = library["sigma"] if "sigma" in functions else None
    switches = None
    if split is not None and "switches" in functions:
        switches = _switches(library, split, problem, variant)
    on_states = () if split is None else split.on_states
    calls = time_calls(problem, variant)
    gathering = gatherings_of(problem.model, library["watch"] if "watch" in functions else None)
    rows = algebraic_rows(problem.model), words_of_rows(problem.model)
    model = CompiledModel(problem.model.states, names, library["rhs"], switches, on_states, *calls, gathering, *rows)
    relative = states_at_edges(functions["observe"], library["rhs"], n)
    return NativeVariant(model, library["observe"], sigma, variant, relative)


def _switches(library: FunctionLibrary, split: Split, problem: Problem, variant: Variant) -> Switches:
    columns = (split.level, split.affine, split.whole, split.switch_of, split.kind)
    events = None
    if variant.events:
        symbolic = events_of(problem, variant)
        events = EventFunctions(library["moments"], library["changes"], symbolic.first_change, symbolic.target)
    arrays = (np.array(column, dtype=np.int64) for column in columns)
    borders, model = None, problem.model
    if split.borders.kind or model.state_events:
        borders = native_borders(library, split, len(model.states), model.state_events, len(variant.events))
    return Switches(library["switches"], *arrays, moving=variant.moving, events=events, borders=borders)
