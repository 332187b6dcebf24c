"""What to tell a person whose expression does not parse.

The parser knows that a token was unexpected; the tokens around it usually show what was meant.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from odefit.model.functions import FUNCTIONS
from odefit.model.tokens import Token

_CHARACTERS = {
    "−": "write a plain '-'",
    "–": "write a plain '-'",
    "×": "write '*'",
    "·": "write '*'",
    "÷": "write '/'",
    "≤": "write '<='",
    "≥": "write '>='",
    "≠": "write '!='",
    "’": "write a plain apostrophe: x'",
    "′": "write a plain apostrophe: x'",
    "&": "write 'and'",
    "|": "write 'or'",
    "!": "write 'not'",
    "~": "'~' has no meaning in an expression",
    ";": "one statement a line; begin a new line instead of ';'",
    ":": "':' has no meaning in an expression; a condition is written if(cond, a, b)",
    "[": "brackets are round: ( )",
    "]": "brackets are round: ( )",
    "{": "brackets are round: ( )",
    "}": "brackets are round: ( )",
    "%": "'%' has no meaning in an expression; write x - n*floor(x/n) for a remainder",
    "@": "there are no matrices; write '*' for a product",
}
_MODULES = frozenset({"math", "np", "numpy", "sp", "scipy", "casadi", "ca", "cmath"})


def explain(tokens: Sequence[Token], index: int, expected: Collection[str]) -> str:
    """Word the error for the unexpected token.

    Parameters
    ----------
    tokens
        The expression.
    index
        Which token was unexpected; `len(tokens)` for the end.
    expected
        Token types that could have stood there.
    """
    before = tokens[index - 1] if index else None
    if index == len(tokens):
        return f"the expression ends after '{tokens[-1].value}'; something has to follow it"
    token = tokens[index]
    if token.type == "OTHER":
        return explain_character(tokens, index)
    if before is not None and "NUMBER" not in expected:
        return _explain_after_operand(before, token)
    return _explain_missing_operand(before, token)


def explain_character(tokens: Sequence[Token], index: int) -> str:
    """Word the error for a character that has no meaning in the language."""
    token = tokens[index]
    if token.value == "." and index and tokens[index - 1].type == "NAME" and index + 1 < len(tokens):
        owner, member = tokens[index - 1].value, tokens[index + 1].value
        if owner in _MODULES or member in FUNCTIONS:
            return f"functions are written without a module: '{member}', not '{owner}.{member}'"
        return f"a name has no '.'; write '{owner}_{member}'"
    if token.value in _CHARACTERS:
        return f"'{token.value}': {_CHARACTERS[token.value]}"
    return f"unexpected character '{token.value}' (U+{ord(token.value):04X}); remove it"


def _explain_after_operand(before: Token, token: Token) -> str:
    """Word the error where an operator, a comma, a bracket or the end could follow a complete operand."""
    if token.type == "EQUAL":
        return "'=' inside an expression; to compare, use '=='"
    if token.type == "COMPARE":
        return "comparisons do not chain; write 'a < b and b < c'"
    if token.type == "PRIME":
        name = before.value if before.type == "NAME" else "x"
        return (
            f"a derivative stands only on the left: define the rate, {name}' = rate, and use its name, or bring all "
            "terms with derivatives to the left, a*x' + b*y' = ..."
        )
    if token.type == "COMMA":
        return "',' stands only between the arguments of a function; decimals are written with a point: 0.5"
    if token.type == "RPAR":
        return "')' closes nothing; remove it or add '('"
    if token.type == "STRING":
        return "text in quotes has no place in an expression; remove it"
    if token.value == "if" or before.value in ("if", "else"):
        return "a condition is written if(cond, a, b)"
    if token.type == "NOT":
        return "an operator is missing before 'not'; write 'and not' or 'or not'"
    if token.type == "LPAR" or before.type in ("NUMBER", "RPAR") or token.type in ("NAME", "NUMBER"):
        return f"an operator is missing: for a product write '{before.value}*{token.value}'"
    return f"'{token.value}' cannot stand after '{before.value}'"


def _explain_missing_operand(before: Token | None, token: Token) -> str:
    """Word the error where a number, a name or a bracket had to come."""
    if token.type == "STRING":
        return "text in quotes has no place in an expression; remove it"
    if token.type == "NOT":
        return "'not' binds weaker than the operator before it; put it in brackets: (not a)"
    place = f"after '{before.value}'" if before is not None else "at the beginning of an expression"
    if token.value == "/" and before is not None and before.value == "/":
        return "there is no operator '//'; write floor(a/b)"
    if token.type == "EQUAL" and before is not None and before.type == "EQUAL":
        return "write '==' without a space"
    return f"{place} a number, a name or '(' has to come, but '{token.value}' came"
