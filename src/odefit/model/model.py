"""The model: symbolic equations, frozen, without numbers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import casadi as ca
from casadi import SX

from odefit.errors import ModelError, nearest
from odefit.model.aggregates import Aggregates, with_gathered
from odefit.model.arithmetic import add, multiply
from odefit.model.dependencies import Cycle, evaluation_order, symbols_in
from odefit.model.equations import Equations
from odefit.model.events import TimeEvent, held_name, rate_name
from odefit.model.holding import Holding
from odefit.model.kept import Kept
from odefit.model.lowering import Namespace, expression_from_text
from odefit.model.names import initial_name
from odefit.model.packing import packed_expressions, unpacked_expressions
from odefit.model.reading import read_equations
from odefit.model.tracing import Initial, Traced, TracedMass, TracedResidual, trace_equations

_NOTHING: Mapping[Any, Any] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class Model(Equations):
    """A differential-equation model; see `Equations` for the first fields.

    Models are equal only to themselves: symbols of one mean nothing in another.  So a copy of a model is the model, and
    one that comes out of a pickle is another model with the same equations.

    Attributes
    ----------
    source
        The text the model was read from, if it was.
    kept
        What later stages made of it.
    """

    source: str | None = None
    kept: Kept = field(default_factory=Kept, init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        lacking = {name: SX.sym(name) for name in map(initial_name, self.shown) if name not in self.symbols}
        object.__setattr__(self, "symbols", MappingProxyType({**self.symbols, **lacking}))

    @classmethod
    def from_text(cls, text: str, *, time: str = "t", tables: Collection[str] | None = None) -> Model:
        """Read equations in the language of problem files.

        Parameters
        ----------
        text
            Statements ``x' = expr``, ``a*x' + b*y' = expr``, ``x(0) = expr``, ``name = expr``, ``algebraic x ~ guess``
            with ``0 = expr``, ``at t=expr: x += expr`` and ``when x > expr: x = expr``, one a line.
        time
            Name of the independent variable.
        tables
            Names of the tables that the equations may call.  Without, a call ``U(x)`` of what is no function is taken
            for a table, which the problem has to give.

        Raises
        ------
        LanguageError
            With line, caret and advice.
        UnsupportedError
            For constructs of the language that are not built yet.
        """
        return cls._of(read_equations(text, time, tables), source=text)

    @classmethod
    def from_function(
        cls,
        rhs: Traced | None,
        states: Sequence[str],
        parameters: Sequence[str],
        initial: Initial,
        *,
        observables: Traced | None = None,
        time: str = "t",
        algebraic: Mapping[str, Any] | None = None,
        equations: Traced | None = None,
        mass: TracedMass | None = None,
        residual: TracedResidual | None = None,
    ) -> Model:
        """Trace a Python function once.

        Parameters
        ----------
        rhs
            ``rhs(t, y, p)`` with `y.name`, `p.name`; returns a dict from state to expression or number.
        states, parameters
            Their names.
        initial
            State to number or text such as "2*A0"; or a function of `p` that returns such a dict, whose
            values may be expressions too.
        observables
            ``observables(t, y, p)`` that returns a dict from name to expression; they become definitions.
        time
            Name of the independent variable.
        algebraic
            Algebraic unknowns to their guesses, numbers or text as in `initial`; in functions they are `y.name` too.
        equations
            ``equations(t, y, p)`` that returns a dict from a name, for messages, to what must be zero; as many as
            there are algebraic unknowns.
        mass
            ``mass(t, y, p)`` that returns a dict from row to a dict from state to coefficient, for equations in several
            derivatives: the sum of coefficients times derivatives is what `rhs` returns for that row.  Rows have any
            names.  A row that is not there is ``x' = ...`` if it has the name of a state, and ``0 = ...`` otherwise.
        residual
            ``residual(t, y, ydot, p)`` in the place of `rhs` (which is None) and `mass`, with `ydot.name`; returns a
            dict from a name, for messages, to what must be zero, linear in the derivatives.

        With `mass` or `residual` there are as many rows, with those of `equations`, as states and algebraic unknowns.
        Algebraic unknowns are then states, whose guesses are their initial values.
        """
        traced = trace_equations(
            rhs, states, parameters, initial, observables, time, algebraic, equations, mass, residual
        )
        return cls._of(traced, source=None)

    @classmethod
    def _of(cls, equations: Equations, source: str | None) -> Model:
        return cls(**{one.name: getattr(equations, one.name) for one in fields(Equations)}, source=source)

    def expression(
        self,
        text: str,
        further: Mapping[str, SX] = _NOTHING,
        tables: Mapping[str, SX] = _NOTHING,
        aggregates: Aggregates | None = None,
    ) -> SX:
        """Parse an expression whose names are those of this model, of `further` and of `tables`; it is not inlined.

        Aggregates over time and values at a time are taken up by `aggregates`, and refused without.
        """
        symbols = {name: self.symbols[name] for name in (*self.names, *self.initial_values)}
        started = [name for name in self.shown if name not in self.algebraic_states]
        names = Namespace(
            self.time, started, {**symbols, **further}, {**tables, **self.tables}, aggregates, self._held_parameters
        )
        return expression_from_text(text, names)

    @cached_property
    def shown(self) -> tuple[str, ...]:
        """The states that are not held: those with an equation of their own."""
        return self.states[: len(self.states) - len(self.held)]

    @cached_property
    def algebraic_states(self) -> tuple[str, ...]:
        """The states whose derivative stands in no equation: their initial value is a guess."""
        differential = {name for row in self.mass.values() for name in row}
        return tuple(name for name in self.states if name in self.mass and name not in differential)

    @cached_property
    def coefficients(self) -> tuple[SX, ...]:
        """All coefficients of derivatives in `mass`, row by row."""
        return tuple(one for row in self.mass.values() for one in row.values())

    @cached_property
    def intervals(self) -> tuple[str, ...]:
        """The aggregates over the interval of a measurement."""
        return tuple(name for name, one in self.gathered.items() if one.interval)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All names that a person may use: time, states, parameters and definitions, but none that is held."""
        hidden = {*self.held, *self.initial_values}
        return tuple(name for name in self.symbols if name not in hidden)

    @cached_property
    def initial_values(self) -> Mapping[str, SX]:
        """Names ``A(0)``, which expressions may use as a constant, to the initial values of the states."""
        return MappingProxyType({initial_name(name): self.initial[name] for name in self.shown})

    @cached_property
    def changed_by_events(self) -> tuple[str, ...]:
        """The parameters and definitions that events set."""
        return tuple(name for name in (*self.parameters, *self.definitions) if held_name(name) in self.held)

    def fault_of_replacing(self, name: str) -> str | None:
        """Say why an experiment cannot replace a definition by something else, or return None."""
        if name in self.algebraic:
            return f"'{name}' is an algebraic unknown; replace what stands in its equations"
        for block in self.implicit:
            if name in block.inner:
                unknown = block.unknowns[0]
                return f"'{name}' depends on the algebraic unknown '{unknown}' and stands in its equations"
        return None

    @cached_property
    def _held_parameters(self) -> Mapping[str, SX]:
        """Parameters that events change, to the symbols of the states that hold them."""
        names = (name for name in self.parameters if held_name(name) in self.held)
        return {name: self.symbols[held_name(name)] for name in names}

    def with_rates(self, targets: tuple[str, ...]) -> Model:
        """Return the model with a held state, 0 at the start, for the rate at which something is given to each target.

        The rate r is added to the right side of the target x, so that x' is greater by r.  Where x' stands in rows of
        `mass`, B_ix r is added to the right side of each row i: B (y' - r e_x) = f.  Targets that have a rate already
        get no other; the same targets always give the same model.
        """
        lacking = tuple(name for name in targets if rate_name(name) not in self.symbols)
        return self.kept.get(("rates", lacking), lambda: self._with_rates(lacking)) if lacking else self

    def _with_rates(self, targets: tuple[str, ...]) -> Model:
        rates = {rate_name(name): SX.sym(rate_name(name)) for name in targets}
        given = dict(self.rhs)
        for name in targets:
            rate = rates[rate_name(name)]
            if name in self.algebraic_states:
                raise ModelError(f"'{name}' is an algebraic unknown, to which nothing can be given")
            if name not in self.mass:
                given[name] = add(given[name], rate)
            for row, coefficients in self.mass.items():
                if name in coefficients:
                    given[row] = add(given[row], multiply(coefficients[name], rate))
        return replace(
            self,
            states=(*self.states, *rates),
            rhs={**given, **dict.fromkeys(rates, SX(0.0))},
            initial={**self.initial, **dict.fromkeys(rates, SX(0.0))},
            symbols={**self.symbols, **rates},
            held=(*self.held, *rates),
        )

    def with_quantities(
        self, quantities: Mapping[str, SX], aggregates: Aggregates, further: Mapping[str, SX] = _NOTHING
    ) -> Model:
        """Return the model with further definitions, and the hidden states of the aggregates that these use.

        `further` are parameters that this model does not have.
        """
        names = {name: one.symbol for name, one in aggregates.readings.items()}
        zero = dict.fromkeys(names, SX(0.0))
        readings = (
            TimeEvent(one.time, {name: one.expression}, name, first=True) for name, one in aggregates.readings.items()
        )
        definitions = {name: SX.sym(name) for name in quantities}
        extended = replace(
            self,
            states=(*self.states, *names),
            parameters=(*self.parameters, *further),
            rhs={**self.rhs, **zero},
            initial={**self.initial, **zero},
            definitions={**self.definitions, **quantities},
            symbols={**self.symbols, **further, **names, **definitions},
            events=(*readings, *self.events),
            held=(*self.held, *names),
            source=None,
        )
        return with_gathered(extended, aggregates.gathered)

    def with_held(self, names: tuple[str, ...]) -> Model:
        """Return the model with held states for these parameters and definitions, as if an event changed them.

        Those that have one already get no other; the same names always give the same model.
        """
        lacking = tuple(name for name in names if held_name(name) not in self.symbols)
        return self.kept.get(("held", lacking), lambda: self._with_held(lacking)) if lacking else self

    def _with_held(self, names: tuple[str, ...]) -> Model:
        holding = Holding.of_names(names, self.parameters, self.definitions, self.symbols)
        before = [self.symbols[name] for name in holding.parameters]
        after = list(holding.parameters.values())

        def held(expressions: Mapping[str, SX]) -> dict[str, SX]:
            """Put held states in the place of parameters."""
            values = ca.substitute(list(expressions.values()), before, after)
            return dict(zip(expressions, values, strict=True))

        zero = dict.fromkeys(holding.symbols, SX(0.0))
        definitions = held(self.definitions)
        return replace(
            self,
            states=(*self.states, *holding.symbols),
            rhs={**held(self.rhs), **zero},
            mass={row: held(coefficients) for row, coefficients in self.mass.items()},
            initial={**self.initial, **holding.initial},
            definitions={name: holding.definition(name, formula) for name, formula in definitions.items()},
            symbols={**self.symbols, **holding.symbols},
            events=tuple(replace(event, changes=held(event.changes)) for event in self.events),
            state_events=tuple(
                replace(event, condition=held({"": event.condition})[""], changes=held(event.changes))
                for event in self.state_events
            ),
            gathered={name: one.in_place(before, after) for name, one in self.gathered.items()},
            held=(*self.held, *holding.symbols),
        )

    @cached_property
    def _order(self) -> tuple[str, ...]:
        return self._sorted({**self.definitions, **self.initial_values})

    @cached_property
    def _name_of_symbol(self) -> dict[int, str]:
        return {symbol.element_hash(): name for name, symbol in self.symbols.items()}

    def _sorted(self, definitions: Mapping[str, SX]) -> tuple[str, ...]:
        try:
            return evaluation_order({name: self._names_in(sx) for name, sx in definitions.items()})
        except Cycle as cycle:
            raise ModelError(f"{cycle.words} need each other; remove one of these uses") from None

    def _names_in(self, expression: SX) -> list[str]:
        names = (self._name_of_symbol.get(symbol.element_hash()) for symbol in symbols_in(expression))
        return [name for name in names if name is not None]

    def resolve(
        self,
        expressions: Sequence[SX],
        replacing: Mapping[str, SX] = _NOTHING,
        keeping: Collection[str] = (),
        *,
        at_start: bool = False,
    ) -> list[SX]:
        """Inline the definitions, and the initial values that expressions use.

        Parameters
        ----------
        expressions
            Scalar SX in the symbols of this model.
        replacing
            Definitions, parameters and initial values ``A(0)`` that get another right side here, in the symbols of
            this model or foreign ones.
        keeping
            Those of them that stay symbols.
        at_start
            Put in the initial values of held states: what initial values and times of events mean.

        Returns
        -------
        list of SX
            The same expressions in the symbols of time, states, parameters, and what is kept.
        """
        for name in replacing:
            if not any(name in known for known in (self.definitions, self.parameters, self.initial_values)):
                known = (*self.definitions, *self.parameters)
                raise ModelError(f"'{name}' is not a definition or parameter of the model{nearest(name, known)}")
        every = {**self.definitions, **self.initial_values, **replacing}
        current = {name: sx for name, sx in every.items() if name not in keeping}
        if at_start:
            current |= {name: self.initial[name] for name in self.held}
        if not current:
            return list(expressions)
        order = self._sorted(current) if replacing or keeping or at_start else self._order
        _, inlined = ca.substitute_inplace(
            [self.symbols[name] for name in order], [current[name] for name in order], list(expressions)
        )
        return inlined

    def __copy__(self) -> Model:
        return self

    def __deepcopy__(self, memo: object) -> Model:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        state = {one.name: getattr(self, one.name) for one in fields(self) if one.init}
        return _unpacked, (packed_expressions(state),)


def _unpacked(packed: Mapping[str, Any]) -> Model:
    """Return the model of a pickle."""
    return Model(**unpacked_expressions(packed))
