"""TOML text to tables, and what to tell a person whose text is no TOML.

The parser says where it stopped; the line at that place usually shows what was meant.  No advice is given on lines that
are too long to be a person's own: searching them can take time that grows with the square of their length.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

from odefit.errors import ProblemError, caret

_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_SECTION = re.compile(r"\s*\[([^\[\]]+)\]\s*(#.*)?$")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|\'[^\']*\'')
_INITIAL = re.compile(r"\b(\w++)\s*+\(\s*+0\s*+\)")
_DECIMAL_COMMA = re.compile(r"=\s*[+-]?\d+,\d+\s*(#.*)?$")
_UNFINISHED_NUMBER = re.compile(r"=\s*[+-]?(\.\d|\d+\.(?!\d)|0\d)")
_LONGEST_LINE = 1000
_MOST_PARTS = 100


def parse_toml(content: bytes, *, quoting: bool = True) -> dict[str, Any]:
    """Parse the bytes of a TOML file.

    Parameters
    ----------
    quoting
        Whether messages may show lines of the file.

    Raises
    ------
    ProblemError
        With the line, a caret, and advice.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ProblemError(f"line {line} is not UTF-8 text; save the file in UTF-8.") from error
    _check_long_keys(text)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        if not quoting:
            raise ProblemError("this is not valid TOML.") from None
        raise ProblemError(_explained(text.replace("\r\n", "\n"), str(error))) from error
    except ValueError as error:
        raise ProblemError("the file has a whole number with thousands of digits; shorten it.") from error
    except RecursionError:
        raise ProblemError("the file cannot be read: its brackets are nested too deeply.") from None


def _check_long_keys(text: str) -> None:
    """Refuse keys of thousands of parts (a.b.c. ...), which take the parser time that grows with their square."""
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > _LONGEST_LINE and line.partition("=")[0].count(".") > _MOST_PARTS:
            raise ProblemError(f"line {number} has more than {_MOST_PARTS} points in a key; shorten it.")


def _explained(text: str, message: str) -> str:
    place = _PLACE.search(message)
    reason = _PLACE.sub("", message)
    reason = reason[:1].lower() + reason[1:]
    if place is None or place.group(1) is None:
        advice = _advice_at_end(text, reason)
        return f"this is not valid TOML: {reason} (at the end of the file){advice}"
    line, column = int(place.group(1)), int(place.group(2))
    shown = text.split("\n")[line - 1]
    advice = _advice(shown, column, reason, _section_above(text, line)) if len(shown) <= _LONGEST_LINE else "."
    return f"line {line} is not valid TOML: {reason}{advice}\n{caret(shown, 1, column)}"


def _advice_at_end(text: str, reason: str) -> str:
    if "unterminated string" in reason:
        return '; a text is never closed: add the missing quotes (""" after the equations).'
    if "unclosed" in reason:
        return "; a bracket is never closed."
    if "overwrite" in reason:
        return "; the last key of the file is given twice: remove one."
    return "."


def _section_above(text: str, line: int) -> str:
    """Return the name of the section that a line stands in, "" for the top of the file."""
    for above in reversed(text.split("\n")[: line - 1]):
        match = _SECTION.match(above)
        if match is not None:
            return match.group(1)
    return ""


def _advice(line: str, column: int, reason: str, section: str) -> str:
    """Say what to do about an error at a one-based column of a line in a section."""
    bare = _QUOTED.sub("", line)
    initial = _INITIAL.search(bare)
    here = line[column - 1 : column]
    if initial is not None and reason.startswith(("expected '=' after a key", "invalid")):
        return f'; quote it: "{initial.group(1)}(0)" = ...'
    if reason.startswith("invalid value"):
        return _advice_on_value(line, column)
    if not here.isascii() and here.isalpha():
        return f'; quote it: "{_word(line, column)}" = ... (a bare key has only letters a-z, digits, _ and -).'
    if bare.count("{") > bare.count("}") or "inline table" in reason:
        name = ".".join(part for part in (section, bare.split("=")[0].strip()) if part)
        return f"; an inline table stands on one line: close it there, or use [{name}] with a line for each key."
    if bare.count("{") and here == "}":
        return "; remove the comma before '}'."
    if "unescaped '\\'" in reason or "\\" in here:
        return "; write / instead of \\ in paths."
    if _DECIMAL_COMMA.search(bare):
        return "; decimals are written with a point: 1.5."
    if _UNFINISHED_NUMBER.search(bare):
        return "; a number needs digits on both sides of the point and no zero in front: 0.5, 1.0."
    if "overwrite" in reason or "twice" in reason:
        return "; this name is given twice: remove one."
    if "expected '=' after a key" in reason:
        return "; write key = value, and quote a key that has other characters than letters a-z, digits, _ and -."
    return "."


def _advice_on_value(line: str, column: int) -> str:
    rest = line[column - 1 :].strip()
    if re.match(r"(true|false)\b", rest, re.IGNORECASE):
        return "; true and false are written with small letters."
    if re.match(r"[+-]?\.\d", rest):
        return "; a number needs a digit before the point: 0.5."
    if rest[:1] == "=":
        return "; write one '='."
    if not rest or rest.startswith("#"):
        return "; something has to follow '='."
    return "; text needs quotes: " + f'"{_word(line, column)}".'


def _word(line: str, column: int) -> str:
    start = end = column - 1
    while start > 0 and (line[start - 1].isalnum() or line[start - 1] in "_-"):
        start -= 1
    while end < len(line) and (line[end].isalnum() or line[end] in "_-"):
        end += 1
    return line[start:end]
