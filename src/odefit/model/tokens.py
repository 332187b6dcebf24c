"""Equation text to tokens, and tokens to statements.

A statement ends with its line, unless a bracket is open or the line's last token is an operator, a comma or
an equals sign.  Nothing is refused here but unbalanced brackets and names that are none: a character without
meaning becomes an `OTHER` token, so that the error is worded where its neighbours are known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from odefit.errors import LanguageError, UnsupportedError
from odefit.model.names import KEYWORDS, normal_form


class Token(NamedTuple):
    """A piece of the text.

    Attributes
    ----------
    type
        Name of the terminal in the grammar.
    value
        The text; names are in normal form.
    line, column
        One-based place of the first character.
    end
        One-based column after the last character.
    """

    type: str
    value: str
    line: int
    column: int
    end: int


_TOKEN = re.compile(
    r"""(?P<SPACE>[\s\ufeff]+|\#.*)
    |(?P<NUMBER>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    |(?P<NAME>[^\W\d]\w*)
    |(?P<POWER>\*\*|\^)
    |(?P<COMPARE><=|>=|==|!=|<|>)
    |(?P<SIGN>[+-])
    |(?P<SCALE>[*/])
    |(?P<LPAR>\()
    |(?P<RPAR>\))
    |(?P<COMMA>,)
    |(?P<EQUAL>=)
    |(?P<PRIME>')
    |(?P<STRING>"[^"]*")
    |(?P<OTHER>.)""",
    re.VERBOSE,
)
_CONTINUING = frozenset({"SIGN", "SCALE", "POWER", "COMPARE", "COMMA", "EQUAL", "AND", "OR", "NOT"})


def error_at(text: str, token: Token, message: str) -> LanguageError:
    """Make the error whose caret points at `token`."""
    return LanguageError(message, text=text, line=token.line, column=token.column)


def unsupported_at(text: str, token: Token, what: str) -> UnsupportedError:
    """Make the error for a construct that is part of the language but not built."""
    return UnsupportedError(f"{what} (line {token.line}: `{text.splitlines()[token.line - 1].strip()}`)")


def tokens(text: str) -> Iterator[list[Token]]:
    """Yield the tokens of each line of `text`."""
    # splitlines, because errors.caret counts lines with it
    for number, line in enumerate(text.splitlines(), start=1):
        line_tokens = []
        for match in _TOKEN.finditer(line):
            kind = match.lastgroup or "OTHER"
            if kind == "SPACE":
                continue
            token = Token(kind, match.group(), number, match.start() + 1, match.end() + 1)
            line_tokens.append(_named(text, token) if kind == "NAME" else token)
        yield line_tokens


def _named(text: str, token: Token) -> Token:
    """Normalise a name, and tell keywords from names."""
    name = normal_form(token.value)
    if not token.value.isidentifier():
        # superscripts count as word characters: x² must not silently become the name x2
        raise error_at(
            text,
            token,
            f"'{token.value}' is not a name: use letters, digits and '_' (a power is written x^2)",
        )
    return token._replace(value=name, type=name.upper() if name in KEYWORDS else "NAME")


def statements(text: str) -> list[list[Token]]:
    """Split `text` into statements, each a list of tokens that is not empty."""
    complete: list[list[Token]] = []
    current: list[Token] = []
    opened: list[Token] = []
    for line in tokens(text):
        for token in line:
            _match_bracket(text, token, opened)
        current.extend(line)
        if current and not opened and current[-1].type not in _CONTINUING:
            complete.append(current)
            current = []
    if opened:
        raise error_at(text, opened[-1], "'(' is never closed; add ')'")
    if current:
        last = current[-1]
        raise error_at(text, last, f"the text ends after '{last.value}'; something has to follow it")
    return complete


def _match_bracket(text: str, token: Token, opened: list[Token]) -> None:
    if token.type == "LPAR":
        opened.append(token)
    elif token.type == "RPAR":
        if not opened:
            raise error_at(text, token, "')' closes nothing; remove it or add '('")
        opened.pop()
