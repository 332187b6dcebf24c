"""Events at a time as functions: when they happen, and what they change.

What happens to an experiment is a list of *occurrences*.  Each is of a *kind* and has three numbers a of its own: a
thousand doses of one drug are a thousand occurrences of one kind, and need no code of their own.  A kind has

    its moment     tau = T(p, a),
    its changes    y_j+ = E_j(tau, y-, p, a)   for some of the states.

The statements of a model are kinds with one occurrence.  A dose is at ``time + a_0 + lag``, a_0 being its time if that
is a number and else how much later it is repeated, and adds ``fraction * amount``, where the amount is a_1 or an
expression.  One that takes the time a_2 (or an expression) is two kinds: it raises the rate at which the state is
supplied, which a state of its own holds, and lowers it again.  What a state is set to is never a fraction.

Where a later period of an experiment begins, states are set, those among them that hold what it replaces
(`odefit.problem.periods`).  Its a_2 is where the period before begins: it cannot begin earlier.

An event on a condition is a kind without occurrences: nobody knows beforehand how often it happens.

Where a moment depends on parameters, so do the ends of pieces; see `odefit.compile.switches`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import casadi as ca
import numpy as np
import numpy.typing as npt

from odefit.compile.functions import NativeFunction, SymbolicFunction
from odefit.errors import UnsupportedError
from odefit.model.events import rate_name
from odefit.problem import Experiment, Problem
from odefit.problem.equilibration import Equilibration
from odefit.problem.events import Dose
from odefit.problem.periods import PeriodChange, changes_of_periods
from odefit.problem.resolution import names_in, tables_in, unknowns_in

AT_ONCE, BEGIN, END, PERIOD, WHEN = range(5)
N_ARGUMENTS = 3
Integers = npt.NDArray[np.int64]
Array = npt.NDArray[np.float64]


class Kind(NamedTuple):
    """What occurrences have in common that share code.

    Attributes
    ----------
    statement
        Number of the event of the model, among those at a time or those on a condition; -1: it is a dose, or belongs to
        a period.
    target, how
        The state, and "add" or "set".
    time, amount, duration
        Texts of those that are expressions, None for numbers.
    lag, fraction
        Of the target, as texts.
    part
        AT_ONCE, or BEGIN or END of one that takes time; PERIOD: a state that is set where a period begins, no dose;
        WHEN: it happens on a condition.
    before
        Where the period before that one begins, if that is an expression.
    """

    statement: int = -1
    target: str = ""
    how: str = ""
    time: str | None = None
    amount: str | None = None
    duration: str | None = None
    lag: str | None = None
    fraction: str | None = None
    part: int = AT_ONCE
    before: str | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        """All expressions of a dose or period."""
        every = (self.time, self.amount, self.duration, self.lag, self.fraction, self.before)
        return tuple(text for text in every if text)


def texts_of(kinds: Iterable[Kind]) -> tuple[str, ...]:
    """Return all expressions of doses."""
    return tuple(text for kind in kinds for text in kind.texts)


@dataclass(frozen=True, eq=False)
class Occurrences:
    """What happens in an experiment, in the order in which it acts where times are equal.

    Attributes
    ----------
    kind
        Of each one.
    arguments
        The numbers a of each, one behind the other.
    """

    kind: Integers
    arguments: Array


@dataclass(frozen=True, eq=False)
class EventFunctions:
    """The native code of events.

    Attributes
    ----------
    moments
        T of all kinds, a function of (p, a), differentiated by p.
    changes
        E of all kinds, one behind the other, a function of ((tau, y), p, a), differentiated by (tau, y, p).
    first_change, target
        Kind k has the changes ``first_change[k]`` to ``first_change[k + 1] - 1``; the state that each is of.
    """

    moments: NativeFunction
    changes: NativeFunction
    first_change: Integers
    target: Integers


NO_OCCURRENCES = Occurrences(np.empty(0, np.int64), np.empty(0))


def kinds_of(problem: Problem, experiment: Experiment) -> tuple[Kind, ...]:
    """Return the kinds of events of an experiment: those of the model at a time first, those on a condition last."""
    if isinstance(experiment, Equilibration):
        return ()
    statements = (Kind(statement=k) for k in range(len(problem.model.events)))
    periods = (_kind_of_change(change) for change in changes_of_periods(problem.model, experiment))
    doses = (kind for dose in experiment.events for kind in _kinds_of_dose(problem, dose))
    on_conditions = (Kind(statement=k, part=WHEN) for k in range(len(problem.model.state_events)))
    return tuple(dict.fromkeys((*statements, *periods, *doses, *on_conditions)))


def _kind_of_change(change: PeriodChange) -> Kind:
    time, before, amount = (
        value if isinstance(value, str) else None for value in (change.time, change.before, change.value)
    )
    return Kind(-1, change.target, "set", time, amount, part=PERIOD, before=before)


def _kinds_of_dose(problem: Problem, dose: Dose) -> tuple[Kind, ...]:
    texts = [value if isinstance(value, str) else None for value in (dose.time, dose.amount, dose.duration)]
    lag, fraction = (_text(values.get(dose.target)) for values in (problem.lag, problem.fraction))
    time, amount, duration = texts
    kind = Kind(-1, dose.target, dose.how, time, amount, duration, lag, fraction if dose.how == "add" else None)
    return (kind._replace(part=BEGIN), kind._replace(part=END)) if dose.is_infusion else (kind,)


def _text(value: float | str | None) -> str | None:
    return None if value is None else value if isinstance(value, str) else repr(float(value))


def occurrences_of(problem: Problem, experiment: Experiment) -> Occurrences:
    """Return what happens in an experiment."""
    if isinstance(experiment, Equilibration):
        return NO_OCCURRENCES
    number = {kind: k for k, kind in enumerate(kinds_of(problem, experiment))}
    events = problem.model.events
    kinds = [k for k, event in enumerate(events) if event.first]
    arguments: list[tuple[float, ...]] = [(0.0, 0.0, 0.0)] * len(kinds)
    for change in changes_of_periods(problem.model, experiment):  # the new conditions come before what else is done
        kinds.append(number[_kind_of_change(change)])
        arguments.append(_numbers(change.time, change.value, change.before))
    further = [k for k, event in enumerate(events) if not event.first]
    kinds += further
    arguments += [(0.0, 0.0, 0.0)] * len(further)
    for dose in experiment.events:
        first, amount, duration = _numbers(dose.time, dose.amount, dose.duration)
        for k in range(dose.count):
            later = k * dose.every if k else 0.0
            for kind in _kinds_of_dose(problem, dose):
                kinds.append(number[kind])
                arguments.append((first + later, amount, duration))
    return Occurrences(np.array(kinds, dtype=np.int64), np.array(arguments, dtype=float).reshape(-1))


def _numbers(*values: float | str) -> tuple[float, ...]:
    """Return the numbers among values, 0 for those that are expressions."""
    return tuple(0.0 if isinstance(value, str) else float(value) for value in values)


class SymbolicEvents:
    """Moments and changes of the kinds of a variant of the model.

    Parameters
    ----------
    resolve
        Puts expressions into the symbols of time, states and p; with `at_start`, of p alone where events change what
        they use.
    """

    def __init__(self, problem: Problem, kinds: Sequence[Kind], resolve: Callable[..., list[Any]]) -> None:
        model = problem.model
        self._a = ca.SX.sym("(argument)", N_ARGUMENTS)
        moments: list[Any] = []
        changes: list[Any] = []
        target: list[int] = []
        first = [0]
        for kind in kinds:
            moment, changed = self._statement(problem, kind) if kind.statement >= 0 else self._dose(problem, kind)
            moments.append(moment)
            for state, value in changed.items():
                target.append(model.states.index(state))
                changes.append(value)
            first.append(len(changes))
        self.moments, self.changes = resolve(moments, at_start=True), resolve(changes)
        for table in sorted(tables_in(ca.vertcat(*self.moments, *self.changes))) if kinds else ():
            raise UnsupportedError(f"an event that uses the table '{table}'")
        for unknown in sorted(unknowns_in(ca.vertcat(*self.moments, *self.changes))) if kinds else ():
            raise UnsupportedError(
                f"an event, or a value at a given time such as x(t=5), that uses the algebraic unknown '{unknown}'"
            )
        self.target, self.first_change = np.array(target, dtype=np.int64), np.array(first, dtype=np.int64)

    @staticmethod
    def _statement(problem: Problem, kind: Kind) -> tuple[Any, dict[str, Any]]:
        if kind.part == WHEN:
            return ca.SX(0), dict(problem.model.state_events[kind.statement].changes)
        event = problem.model.events[kind.statement]
        return event.time, dict(event.changes)

    def _dose(self, problem: Problem, kind: Kind) -> tuple[Any, dict[str, Any]]:
        def value(text: str | None, otherwise: Any) -> Any:
            return otherwise if text is None else problem.expression(text)

        a, symbols = self._a, problem.model.symbols
        moment = value(kind.time, ca.SX(0)) + a[0] + value(kind.lag, ca.SX(0))
        amount = value(kind.fraction, ca.SX(1)) * value(kind.amount, a[1])
        target = kind.target
        if kind.part == PERIOD:
            moment = ca.if_else(moment >= value(kind.before, a[2]), moment, ca.SX.nan())
        elif kind.part != AT_ONCE:
            duration, target = value(kind.duration, a[2]), rate_name(kind.target)
            amount = amount / duration if kind.part == BEGIN else -amount / duration
            end = ca.if_else(duration > 0, moment + duration, ca.SX.nan())  # it cannot end before it begins
            moment = moment if kind.part == BEGIN else end
        return moment, {target: amount if kind.how == "set" else symbols[target] + amount}

    @property
    def moving(self) -> bool:
        """Whether a moment depends on parameters."""
        return any(names_in(moment) - {self._a[i].name() for i in range(N_ARGUMENTS)} for moment in self.moments)

    def functions(self, time: Any, y: Any, p: Any) -> tuple[SymbolicFunction, SymbolicFunction]:
        """Return both functions; "y" is nothing for the moments, and for the changes begins with the time."""
        column = [ca.vertcat(*part) if part else ca.SX(0, 1) for part in (self.moments, self.changes)]
        nothing = ca.SX.sym("nothing")
        moments = (("y", ca.SX(0, 1)), ("p", p), ("u", self._a))
        changes = (("y", ca.vertcat(time, y)), ("p", p), ("u", self._a))
        return (
            SymbolicFunction("moments", nothing, moments, ("y", "p"), column[0]),
            SymbolicFunction("changes", nothing, changes, ("y", "p"), column[1]),
        )
