"""Equations in several derivatives in the text: statements become rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from casadi import SX

from odefit.model.arithmetic import subtract
from odefit.model.implicit_statements import check_guesses
from odefit.model.linear_terms import Terms, derivatives_in, is_zero, terms_of_text
from odefit.model.lowering import Namespace, lower
from odefit.model.mass_rows import Structured, structured_rows
from odefit.model.row_elimination import Row
from odefit.model.row_matching import MassFault
from odefit.model.statements import Statement
from odefit.model.tokens import error_at


def states_in(read: Sequence[Statement]) -> dict[str, Statement]:
    """Return the states of a text, in the order in which their derivatives occur, to the statement of the first.

    The name of that statement is the state's.
    """
    found: dict[str, Statement] = {}
    for one in read:
        if one.kind == "derivative":
            found.setdefault(one.name.value, one)
        for name, token in derivatives_in(one.left).items() if one.left is not None else ():
            found.setdefault(name, replace(one, name=token))
    return found


def read_mass(
    text: str,
    read: Sequence[Statement],
    algebraic: Mapping[str, Statement],
    definitions: Mapping[str, SX],
    needs: Mapping[str, Sequence[str]],
    namespace: Namespace,
) -> Structured:
    """Return the rows of a text with equations in several derivatives, and of its algebraic unknowns.

    Parameters
    ----------
    read
        All statements that are no events.
    definitions, needs
        The explicit definitions, and the names in each.
    namespace
        What names mean in equations; its states are those with a derivative.
    """
    check_guesses(text, algebraic, needs, namespace)
    places = [one for one in read if one.kind in ("derivative", "mass", "equation")]
    places.sort(key=lambda one: one.kind != "derivative")  # as `structured_rows` sorts them
    rows = [_row(text, one, namespace) for one in places]
    states = (*namespace.states, *algebraic)
    try:
        return structured_rows(rows, states, namespace.symbols, definitions)
    except MassFault as fault:
        first = next(one for one in read if one.kind == "mass")
        place = first if fault.row is None else places[fault.row]
        raise error_at(text, place.name, str(fault)) from None


def _row(text: str, one: Statement, namespace: Namespace) -> Row:
    right = lower(text, one.right, namespace)
    words = f"'{one.written}' (line {one.name.line})"
    if one.kind == "derivative":
        return Row({one.name.value: SX(1.0)}, right, words, explicit=True)
    left = Terms({}, SX(0.0)) if one.left is None else terms_of_text(text, one.left, namespace)
    return Row(left.coefficients, right if is_zero(left.rest) else subtract(right, left.rest), words)
