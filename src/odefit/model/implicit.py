"""Algebraic unknowns: definitions whose value solves equations ``0 = ...``.

An unknown x is a function of what else stands in its equations, x = H(w).  In expressions it is a call, written like
that of a table (`odefit.model.table_calls`): ``CALL(block, guess, .., w, .., i)`` is output number i of a *block* of
unknowns that are solved for together, where `block` is a symbol that stands for it.  So an unknown is a definition like
any other to whatever resolves, replaces, searches or pickles expressions; `odefit.compile` solves and differentiates.

**Blocks.**  Which equations belong together is found from which unknowns stand in them.  A matching gives each equation
an unknown of its own; if equation e has the unknown x_e, and x_f occurs in it, x_e needs x_f.  The unknowns that need
each other (strongly connected components) are the blocks: the smallest systems that can be solved one after the other.
They do not depend on the matching.

**Arguments.**  The arguments w of a block are the largest parts of its equations in which none of its unknowns occurs.
They are evaluated once, not in each iteration; and a condition in time, a table of the time or another block in them
is seen by those who deal with such in any expression.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np
from casadi import SX

from odefit.errors import UnsupportedError
from odefit.model.dependencies import evaluation_order, symbols_in
from odefit.model.table_calls import CALL, call_table

LARGEST_BLOCK = 50
"""Unknowns that can be solved for together: the inverse is dense, and the code of derivatives grows with its cube."""

_MARK = "~"
_NO_UNKNOWN = (
    "this equation holds no algebraic unknown; if it constrains states, the index is higher than 1: differentiate the "
    "constraint in time until an unknown stands in it, and keep the constraint itself as an invariant"
)
_binary: Any = SX.binary
_unary: Any = SX.unary


def is_block_symbol(name: str) -> bool:
    """Tell whether a symbol of this name stands for a block of algebraic unknowns."""
    return name.endswith(_MARK)


def unknowns_of_symbol(name: str) -> str:
    """Return the names of the unknowns of a block, for messages, from that of its symbol."""
    return name.removesuffix(_MARK)


@dataclass(frozen=True, eq=False)
class Block:
    """Unknowns that are solved for together.

    Attributes
    ----------
    unknowns
        Their names.
    symbol
        Stands for the block in calls.
    residual
        CasADi function ``(x, w) -> G`` of unknowns and arguments.
    equations
        As they were written, for messages.
    inner
        Definitions that depend on unknowns and stand in the equations: these were put in.
    """

    unknowns: tuple[str, ...]
    symbol: SX
    residual: Any
    equations: tuple[str, ...]
    inner: tuple[str, ...]

    @property
    def n_arguments(self) -> int:
        """Number of arguments w."""
        return self.residual.numel_in(1)


class StructureFault(Exception):
    """Equations that do not determine the unknowns; `equation` is the number of that to blame, or `unknown` a name."""

    def __init__(self, message: str, *, equation: int | None = None, unknown: str = "") -> None:
        super().__init__(message)
        self.equation, self.unknown = equation, unknown


def implicit_definitions(
    guesses: Mapping[str, SX],
    equations: Sequence[tuple[SX, str]],
    definitions: Mapping[str, SX],
    symbols: Mapping[str, SX],
) -> tuple[tuple[Block, ...], dict[str, SX]]:
    """Return the blocks of algebraic unknowns, and for each unknown the call that is its value.

    Parameters
    ----------
    guesses
        Of each unknown, in its order.
    equations
        What must be zero, as expression and as text.
    definitions, symbols
        Of the model; definitions do not need each other.
    """
    if len(guesses) != len(equations):
        raise StructureFault(_numbers_differ(guesses, equations))
    inner = _inner_definitions(guesses, definitions, symbols)
    residuals = _with_definitions([one for one, _ in equations], inner, symbols)
    names = {symbols[name].element_hash(): number for number, name in enumerate(guesses)}
    found = [[names[s.element_hash()] for s in symbols_in(one) if s.element_hash() in names] for one in residuals]
    blocks: list[Block] = []
    calls: dict[str, SX] = {}
    for unknowns, rows in _blocks(found, list(guesses), [text for _, text in equations]):
        texts = tuple(equations[row][1] for row in rows)
        members = tuple(list(guesses)[number] for number in unknowns)
        if len(members) > LARGEST_BLOCK:
            raise StructureFault(_too_large(members), unknown=members[0])
        used = {s.name() for row in rows for s in _symbols_inside(equations[row][0], inner, symbols)}
        residual, arguments = _hoisted([residuals[row] for row in rows], [symbols[name] for name in members])
        block = Block(
            members, SX.sym(", ".join(members) + _MARK), residual, texts, tuple(name for name in inner if name in used)
        )
        blocks.append(block)
        with_arguments = call_table(block.symbol, [*(guesses[name] for name in members), *arguments])
        for number, name in enumerate(members):
            calls[name] = call_table(with_arguments, [SX(number)])
    return tuple(blocks), {name: calls[name] for name in guesses}


def _numbers_differ(guesses: Mapping[str, SX], equations: Sequence[tuple[SX, str]]) -> str:
    def counted(count: int, what: str) -> str:
        return f"{count or 'no'} {what}{'s' * (count != 1)}"

    names = f" ({', '.join(guesses)})" if guesses else ""
    advice = "add equations 0 = ..." if len(guesses) > len(equations) else "add 'algebraic NAME ~ GUESS'"
    return (
        f"there {'is' if len(guesses) == 1 else 'are'} {counted(len(guesses), 'algebraic unknown')}{names} but "
        f"{counted(len(equations), 'equation')} 0 = ...; their numbers must match: {advice}, or remove some"
    )


def _too_large(unknowns: Sequence[str]) -> str:
    return (
        f"{len(unknowns)} algebraic unknowns need each other ({', '.join(unknowns[:3])}, ...), and at most "
        f"{LARGEST_BLOCK} can be solved for together; eliminate some by hand, or make them states, x' = ..."
    )


def _inner_definitions(
    unknowns: Mapping[str, SX], definitions: Mapping[str, SX], symbols: Mapping[str, SX]
) -> dict[str, SX]:
    """Return the definitions that depend on unknowns, sorted so that each comes after what it needs."""
    names = {symbols[name].element_hash(): name for name in (*definitions, *unknowns)}
    needs = {
        name: [names[s.element_hash()] for s in symbols_in(one) if s.element_hash() in names]
        for name, one in definitions.items()
    }
    dependent = {*unknowns}
    order = [name for name in evaluation_order(needs) if name in definitions]
    for name in order:
        if dependent.intersection(needs[name]):
            dependent.add(name)
    return {name: definitions[name] for name in order if name in dependent}


def _with_definitions(expressions: list[SX], inner: Mapping[str, SX], symbols: Mapping[str, SX]) -> list[SX]:
    if not inner:
        return expressions
    _, inlined = ca.substitute_inplace([symbols[name] for name in inner], list(inner.values()), expressions)
    return inlined


def _symbols_inside(expression: SX, inner: Mapping[str, SX], symbols: Mapping[str, SX]) -> list[SX]:
    """Return the symbols of an expression and, through inner definitions, of those in it."""
    by_hash = {symbols[name].element_hash(): one for name, one in inner.items()}
    found = {s.element_hash(): s for s in symbols_in(expression)}
    waiting = list(found)
    for key in waiting:
        for s in symbols_in(by_hash[key]) if key in by_hash else ():
            if s.element_hash() not in found:
                found[s.element_hash()] = s
                waiting.append(s.element_hash())
    return list(found.values())


def _blocks(found: list[list[int]], names: list[str], texts: list[str]) -> list[tuple[list[int], list[int]]]:
    """Return numbers of unknowns and of their equations for each block; `found` are the unknowns in each equation."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components, maximum_bipartite_matching

    n = len(found)
    for number, unknowns in enumerate(found):
        if not unknowns:
            raise StructureFault(_NO_UNKNOWN, equation=number)
    for number, name in enumerate(names):
        if not any(number in unknowns for unknowns in found):
            raise StructureFault(f"the algebraic unknown '{name}' stands in no equation 0 = ...", unknown=name)
    if not n:
        return []
    rows = np.repeat(np.arange(n), [len(one) for one in found])
    columns = np.concatenate(found)
    incidence = csr_array((np.ones(rows.size), (rows, columns)), shape=(n, n))
    unknown_of = maximum_bipartite_matching(incidence, perm_type="column")
    if np.any(unknown_of < 0):
        _refuse_overdetermined(found, unknown_of.tolist(), names, texts)
    needs = csr_array((np.ones(rows.size), (unknown_of[rows], columns)), shape=(n, n))
    count, label = connected_components(needs, directed=True, connection="strong")
    equation_of = np.argsort(unknown_of)
    blocks = []
    for one in sorted(range(count), key=lambda one: int(np.argmax(label == one))):
        members = np.flatnonzero(label == one).tolist()
        blocks.append((members, [int(equation_of[number]) for number in members]))
    return blocks


def _refuse_overdetermined(found: list[list[int]], unknown_of: list[int], names: list[str], texts: list[str]) -> None:
    """Name equations in which fewer unknowns occur than there are equations."""
    first = unknown_of.index(-1)
    equation_of = {unknown: equation for equation, unknown in enumerate(unknown_of) if unknown >= 0}
    equations, unknowns = [first], dict[int, None]()
    for equation in equations:
        for unknown in found[equation]:
            if unknown not in unknowns:
                unknowns[unknown] = None
                equations.append(equation_of[unknown])
    lacking = [name for number, name in enumerate(names) if number not in unknowns]
    written = ", ".join(f"'{texts[number]}'" for number in sorted(equations))
    held = ", ".join(names[number] for number in sorted(unknowns))
    raise StructureFault(
        f"the {len(equations)} equations {written} hold only {held}: one too many for "
        f"{'it' if len(unknowns) == 1 else 'them'}, and one too few for {', '.join(lacking)}",
        equation=first,
    )


def _hoisted(residuals: list[SX], unknowns: list[SX]) -> tuple[Any, list[SX]]:
    """Return the function ``(x, w) -> G`` of a block, and the arguments w."""
    out = ca.vertcat(*residuals)
    hashes = {symbol.element_hash() for symbol in unknowns}
    others = [symbol for symbol in symbols_in(out) if symbol.element_hash() not in hashes]
    function = ca.Function("residual", [ca.vertcat(*unknowns), ca.vertcat(SX(0, 1), *others)], [out])
    x = ca.vertcat(*(SX.sym(symbol.name()) for symbol in unknowns))
    arguments: dict[int, tuple[SX, SX]] = {}
    actual: dict[int, SX] = {}  # registers in which no unknown occurs, as they are
    formal: dict[int, SX] = {}  # the others, in x and w
    result = SX.zeros(len(residuals))

    def in_formal(place: int) -> SX:
        if place in formal:
            return formal[place]
        value = actual[place]
        if value.is_constant():
            return value
        return arguments.setdefault(value.element_hash(), (value, SX.sym(f"w{len(arguments)}")))[1]

    for k in range(function.n_instructions()):
        operation, places = function.instruction_id(k), function.instruction_input(k)
        target = function.instruction_output(k)
        if operation == ca.OP_OUTPUT:
            result[target[1]] = in_formal(places[0])
            continue
        formal_now, actual_now = None, None
        if operation == ca.OP_CONST:
            actual_now = SX(function.instruction_constant(k))
        elif operation == ca.OP_INPUT and places[0] == 0:
            formal_now = x[places[1]]
        elif operation == ca.OP_INPUT:
            actual_now = others[places[1]]
        elif any(place in formal for place in places):
            if operation == CALL:
                raise UnsupportedError("a table of an algebraic unknown, within its own equations")
            parts = [in_formal(place) for place in places]
            formal_now = _unary(operation, *parts) if len(parts) == 1 else _binary(operation, *parts)
        else:
            parts = [actual[place] for place in places]
            actual_now = _unary(operation, *parts) if len(parts) == 1 else _binary(operation, *parts)
        for registers, value in ((formal, formal_now), (actual, actual_now)):
            registers.pop(target[0], None)
            if value is not None:
                registers[target[0]] = value
    w = [symbol for _, symbol in arguments.values()]
    residual = ca.Function("residual", [x, ca.vertcat(SX(0, 1), *w)], [result])
    return residual, [value for value, _ in arguments.values()]
