"""Expressions that are linear in derivatives: ``a*x' + b*y' + c`` becomes {x: a, y: b} and c.

A *sum of terms* is a pair: the coefficients of derivatives, and what stands beside them.  With u = (A, c), v = (B, d)

    u + v = (A + B, c + d)          -u = (-A, -c)
    u * e = (A e, c e)              u / e = (A/e, c/e)          where e holds no derivative;

anything else that holds a derivative is not linear.  This is decided from how an expression is written, so that the
message can point at the place; nothing is multiplied out but products of a sum of derivatives with a factor.  Terms
that cancel as numbers leave no coefficient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import casadi as ca
from casadi import SX

from odefit.errors import ModelError
from odefit.model.arithmetic import add, divide, multiply, negate, subtract
from odefit.model.lowering import Namespace, lower
from odefit.model.nodes import Name, Node, Number, Operation, walk
from odefit.model.tokens import Token, error_at

ADVICE = "introduce an unknown: algebraic v ~ 0, x' = v, and 0 = ... in v"
_PRIME = "'"
_binary: Any = SX.binary
_unary: Any = SX.unary


class Terms(NamedTuple):
    """The coefficients of derivatives, by state, and what stands beside them."""

    coefficients: dict[str, SX]
    rest: SX


def state_of_derivative(name: str) -> str | None:
    """Return ``x`` for the name ``x'`` of a derivative, None for other names."""
    return name.removesuffix(_PRIME) if name.endswith(_PRIME) else None


def with_joined_primes(tokens: Sequence[Token]) -> list[Token]:
    """Return tokens in which each ``x'`` is a single name."""
    joined: list[Token] = []
    for token in tokens:
        single = joined and joined[-1].type == "NAME" and not joined[-1].value.endswith(_PRIME)
        if token.type == "PRIME" and single:
            before = joined.pop()
            joined.append(before._replace(value=before.value + _PRIME, end=token.end))
        else:
            joined.append(token)
    return joined


def derivatives_in(root: Node) -> dict[str, Token]:
    """Return the states whose derivatives stand in an expression, to the place of the first, as the state's name."""
    found: dict[str, Token] = {}
    for node in walk(root):
        state = state_of_derivative(node.token.value) if isinstance(node, Name) else None
        if state is not None:
            found.setdefault(state, node.token._replace(value=state))
    return found


def terms_of_text(text: str, root: Node, namespace: Namespace) -> Terms:
    """Return the terms of an expression of `text`; raise LanguageError at what is not linear."""
    holding = _nodes_with_derivatives(root)
    pending: list[tuple[Node, bool]] = [(root, False)]
    values: list[Terms] = []
    while pending:
        node, operands_done = pending.pop()
        if id(node) not in holding:
            values.append(Terms({}, lower(text, node, namespace)))
        elif isinstance(node, Name):
            values.append(Terms({str(state_of_derivative(node.token.value)): SX(1.0)}, SX(0.0)))
        elif not isinstance(node, Operation) or node.token.value not in _LINEAR:
            raise error_at(text, node.token, _not_linear(node))
        elif operands_done:
            count = len(node.operands)
            operands, values = values[len(values) - count :], values[: len(values) - count]
            values.append(_combined(text, node, operands))
        else:
            pending.append((node, True))
            pending.extend((operand, False) for operand in reversed(node.operands))
    return _without_zeros(values[0])


def _nodes_with_derivatives(root: Node) -> set[int]:
    holding: set[int] = set()
    for node in reversed(list(walk(root))):  # operands before what they stand in
        if isinstance(node, Name):
            if state_of_derivative(node.token.value) is not None:
                holding.add(id(node))
        elif not isinstance(node, Number) and any(id(one) in holding for one in node.operands):
            holding.add(id(node))
    return holding


def _combined(text: str, node: Operation, operands: list[Terms]) -> Terms:
    try:
        result = _LINEAR[node.token.value](*operands)
    except ModelError as error:
        raise error_at(text, node.token, str(error)) from None
    if result is None:
        raise error_at(text, node.token, _not_linear(node))
    return result


def _not_linear(node: Node) -> str:
    word, found = node.token.value, f"{next(iter(derivatives_in(node)))}' stands under '{node.token.value}'"
    if isinstance(node, Operation) and word == "*":
        found = "a product of two of them stands"
    elif isinstance(node, Operation) and word == "/":
        found = f"a division by {next(iter(derivatives_in(node.operands[1])))}' stands"
    return f"an equation is linear in its derivatives, but {found} here; {ADVICE}"


def _sum(first: Terms, second: Terms | None = None) -> Terms:
    if second is None:
        return first
    coefficients = dict(first.coefficients)
    for name, one in second.coefficients.items():
        coefficients[name] = add(coefficients[name], one) if name in coefficients else one
    return Terms(coefficients, add(first.rest, second.rest))


def _difference(first: Terms, second: Terms | None = None) -> Terms:
    if second is None:
        return Terms({name: negate(one) for name, one in first.coefficients.items()}, negate(first.rest))
    coefficients = dict(first.coefficients)
    for name, one in second.coefficients.items():
        coefficients[name] = subtract(coefficients[name], one) if name in coefficients else negate(one)
    return Terms(coefficients, subtract(first.rest, second.rest))


def _product(first: Terms, second: Terms) -> Terms | None:
    if first.coefficients and second.coefficients:
        return None
    sums, factor = (first.coefficients, second.rest) if first.coefficients else (second.coefficients, first.rest)
    return Terms({name: multiply(one, factor) for name, one in sums.items()}, multiply(first.rest, second.rest))


def _quotient(first: Terms, second: Terms) -> Terms | None:
    if second.coefficients:
        return None
    over = {name: divide(one, second.rest) for name, one in first.coefficients.items()}
    return Terms(over, divide(first.rest, second.rest))


_LINEAR: Mapping[str, Callable[..., Terms | None]] = {"+": _sum, "-": _difference, "*": _product, "/": _quotient}


def _without_zeros(terms: Terms) -> Terms:
    kept = {name: one for name, one in terms.coefficients.items() if not is_zero(one)}
    return Terms(kept, terms.rest)


def is_zero(coefficient: SX) -> bool:
    """Tell whether a coefficient is the number zero."""
    return coefficient.is_constant() and float(coefficient) == 0.0


_OF_TAPE: Mapping[int, Callable[..., Terms | None]] = {
    ca.OP_ADD: _sum,
    ca.OP_SUB: _difference,
    ca.OP_NEG: _difference,
    ca.OP_MUL: _product,
    ca.OP_DIV: _quotient,
    ca.OP_TWICE: lambda one: _sum(one, one),
}


def terms_of_expression(expression: SX, derivatives: Mapping[str, SX]) -> Terms | None:
    """Return the terms of an SX in the symbols `derivatives`, by state; None if it is not linear in them."""
    symbols = ca.symvar(expression)
    states = {symbol.element_hash(): name for name, symbol in derivatives.items()}
    function = ca.Function("terms", [ca.vertcat(SX(0, 1), *symbols)], [ca.densify(expression)])
    register: dict[int, Terms] = {}
    result = Terms({}, SX(0.0))
    for k in range(function.n_instructions()):
        operation, places = function.instruction_id(k), function.instruction_input(k)
        target = function.instruction_output(k)
        parts = [] if operation in (ca.OP_CONST, ca.OP_INPUT) else [register[place] for place in places]
        if operation == ca.OP_OUTPUT:
            result = parts[0]
            continue
        if operation == ca.OP_CONST:
            value: Terms | None = Terms({}, SX(function.instruction_constant(k)))
        elif operation == ca.OP_INPUT:
            symbol = symbols[places[1]]
            state = states.get(symbol.element_hash())
            value = Terms({}, symbol) if state is None else Terms({state: SX(1.0)}, SX(0.0))
        elif not any(one.coefficients for one in parts):
            rests = [one.rest for one in parts]
            value = Terms({}, _unary(operation, *rests) if len(rests) == 1 else _binary(operation, *rests))
        else:
            value = _OF_TAPE[operation](*parts) if operation in _OF_TAPE else None
        if value is None:
            return None
        register[target[0]] = value
    return _without_zeros(result)
