"""The grammar of expressions, and the parser.

Lark's LALR parser keeps its own stack and calls the tree builder at each reduction, so nesting is limited
by memory only.  It is fed with the tokens of tokens.py, whose places are those of the whole text.

Precedence from weak to strong: or, and, not, comparison (does not chain), + -, * /, sign, power (to the
right; its exponent may carry a sign).  So -x^2 = -(x^2), 2^-3 = 1/8 and 2^3^2 = 2^9.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from odefit.model.diagnosis import explain
from odefit.model.nodes import Call, Name, Named, Node, Number, Operation
from odefit.model.tokens import Token, error_at

_GRAMMAR = """
?start: disjunction
?disjunction: conjunction | disjunction OR conjunction -> binary
?conjunction: negation | conjunction AND negation -> binary
?negation: comparison | NOT negation -> unary
?comparison: sum | sum COMPARE sum -> binary
?sum: product | sum SIGN product -> binary
?product: signed | product SCALE signed -> binary
?signed: power | SIGN signed -> unary
?power: atom | atom POWER signed -> binary
?atom: NUMBER -> number
     | NAME -> name
     | NAME LPAR arguments RPAR -> call
     | LPAR disjunction RPAR -> group
arguments: [argument (COMMA argument)*]
?argument: disjunction | NAME EQUAL disjunction -> named
%declare OR AND NOT COMPARE SIGN SCALE POWER NUMBER NAME LPAR RPAR COMMA EQUAL
"""


def parse(text: str, tokens: Sequence[Token]) -> Node:
    """Parse the tokens of one expression (at least one) of `text`."""
    from lark.exceptions import UnexpectedToken

    last = tokens[-1]
    ending = Token("$END", "", last.line, last.end, last.end)
    parser = _parser().parse_interactive()
    result: Any = None
    for index, token in enumerate((*tokens, ending)):
        try:
            result = parser.feed_token(token)
        except UnexpectedToken as error:
            raise error_at(text, token, explain(tokens, index, error.expected)) from None
    return result


@functools.cache
def _parser() -> Any:
    """Build the parser; takes 25 ms, and Lark is imported only here."""
    from lark import Lark, Transformer
    from lark.lexer import Lexer

    class Fed(Lexer):
        """Stands where Lark expects a lexer; tokens are fed by `parse`."""

        def __init__(self, _: object) -> None: ...

        def lex(self, lexer_state: Any, parser_state: Any) -> Any:
            return iter(())

    class Builder(Transformer):
        """Turns each reduction into a node."""

        def number(self, children: list[Any]) -> Node:
            return Number(children[0])

        def name(self, children: list[Any]) -> Node:
            return Name(children[0])

        def unary(self, children: list[Any]) -> Node:
            return Operation(children[0], (children[1],))

        def binary(self, children: list[Any]) -> Node:
            return Operation(children[1], (children[0], children[2]))

        def group(self, children: list[Any]) -> Node:
            return children[1]

        def arguments(self, children: list[Any]) -> tuple[Node, ...]:
            return tuple(children[::2])

        def named(self, children: list[Any]) -> Node:
            return Named(children[0], children[1], (children[2],))

        def call(self, children: list[Any]) -> Node:
            return Call(children[0], children[1], children[2])

    return Lark(_GRAMMAR, parser="lalr", lexer=Fed, transformer=Builder(), maybe_placeholders=False)
