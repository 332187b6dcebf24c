"""The one family of exceptions that leaves odefit.

Inside the package a numerical failure is a *value* (a status with time, place and cause); an
exception is raised only at the door, where a person has to change something.  Every message names
the thing, says what was required, what came, and what to do.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable

_LONGEST_LINE = 600
_LONGEST_NAME = 200
_WINDOW = 100  # characters of a long line that are shown around a caret


class OdefitError(Exception):
    """Root of every error that odefit raises on purpose.

    Its text is fit for a terminal whatever a file had in it: no control characters, and lines of bounded length.
    """

    def __str__(self) -> str:
        return "\n".join(map(_shortened, plain(super().__str__()).split("\n")))


class ModelError(OdefitError):
    """The model is wrong: equations, names, initial values, tracing of a Python function."""


class LanguageError(ModelError):
    """Equation text that cannot be read, with its place.

    Attributes
    ----------
    line, column
        One-based place of the caret in the text that was given.
    """

    def __init__(self, message: str, *, text: str = "", line: int = 0, column: int = 0) -> None:
        self.line = line
        self.column = column
        super().__init__(message if not line else f"line {line}: {message}\n{caret(text, line, column)}")


class ProblemError(OdefitError):
    """Parameters, experiments or data contradict the model or each other."""


class MeasurementError(ProblemError):
    """One measured value is wrong.

    Attributes
    ----------
    index
        Its number among the measurements.
    fault
        The message without the place, for those who know a better one (the line of a file).
    cell
        What is wrong with it, "sigma" or an argument; "" for the value itself.
    """

    def __init__(self, message: str, *, index: int = -1, fault: str = "", cell: str = "") -> None:
        self.index = index
        self.fault = fault
        self.cell = cell
        super().__init__(message)


class UnsupportedError(OdefitError):
    """A construct of the language that this version does not offer yet."""

    def __init__(self, what: str) -> None:
        super().__init__(f"not supported yet: {what}")


class CompileError(OdefitError):
    """Native code could not be made or loaded."""


class FitError(OdefitError):
    """A fit or simulation that cannot even begin (the model has no finite value at the start)."""


def plain(text: str) -> str:
    """Return `text` with a mark in place of each character that moves the cursor, changes colours or hides others."""
    if text.isprintable():
        return text
    return "".join("\ufffd" if _is_hidden(letter) else letter for letter in text)


def _is_hidden(letter: str) -> bool:
    """Tell whether a character is a control, a format, a separator of lines, or none at all."""
    return letter not in "\n\t" and (unicodedata.category(letter)[0] == "C" or letter in "\u2028\u2029")


def _shortened(line: str) -> str:
    """Leave out the middle of a line that nobody would read."""
    if len(line) <= _LONGEST_LINE:
        return line
    half = _LONGEST_LINE // 2
    return f"{line[:half]} ... {line[-half:]}"


def caret(text: str, line: int, column: int) -> str:
    """Show line `line` of `text` (both one-based) with a caret under `column`; of a long line, what is around it."""
    lines = text.splitlines()
    if not 1 <= line <= len(lines):
        return ""
    shown = lines[line - 1].replace("\t", " ")
    place = max(column, 1) - 1
    if len(shown) > 2 * _WINDOW:
        first = max(0, place - _WINDOW // 2)
        lead, trail = "... " if first else "", " ..." if first + _WINDOW < len(shown) else ""
        shown, place = f"{lead}{shown[first : first + _WINDOW]}{trail}", place - first + len(lead)
    return f"    {shown}\n    {' ' * place}^"


def suggestion(name: str, known: Iterable[str]) -> str:
    """End a sentence about an unknown `name`: with the known name closest to it, or with a full stop."""
    return nearest(name, known) or "."


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `'; did you mean "x"?'` for the known name closest to `name`, or an empty string."""
    if len(name) > _LONGEST_NAME:
        return ""  # comparing takes time that grows with the square of the length
    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean '{matches[0]}'?" if matches else ""
