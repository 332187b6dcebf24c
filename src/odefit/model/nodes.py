"""The syntax tree of an expression.

Named tuples: immutable, cheap (a statement may have 10^5 terms), freed without recursion.  A tree may be
deeper than Python's recursion limit, so it is only walked with an explicit stack, never compared or
printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from odefit.model.tokens import Token


class Number(NamedTuple):
    """A literal."""

    token: Token


class Name(NamedTuple):
    """A name used as a value."""

    token: Token


class Operation(NamedTuple):
    """An operator (`token`) with one or two operands."""

    token: Token
    operands: tuple[Node, ...]


class Call(NamedTuple):
    """A name (`token`) with arguments in brackets; `bracket` is the opening one."""

    token: Token
    bracket: Token
    operands: tuple[Node, ...]


class Named(NamedTuple):
    """An argument `token = operands[0]`; `equal` is the equals sign."""

    token: Token
    equal: Token
    operands: tuple[Node, ...]


Node = Number | Name | Operation | Call | Named


def walk(root: Node) -> Iterator[Node]:
    """Yield every node, parents before children, in the order of the text for leaves."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, Number | Name):
            stack.extend(reversed(node.operands))
