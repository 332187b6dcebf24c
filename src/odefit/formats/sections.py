"""Reading the sections of a problem file: every key is known, unsupported by name, or an error."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from odefit.errors import ProblemError, UnsupportedError, suggestion

TOP_LEVEL = ("title", "base", "time")
"""Keys that a person is apt to write below a section."""


def check_keys(
    where: str, keys: Iterable[str], known: Iterable[str], planned: Iterable[str] = (), *, kind: str = "key"
) -> None:
    """Refuse keys that are unknown, or part of the language but not built yet.

    Parameters
    ----------
    where
        The section in words: "[model]", "parameter 'k1'", "'parameters.csv'".
    kind
        What a key is called there.
    """
    known, planned = tuple(known), tuple(planned)
    for key in keys:
        if key in planned:
            raise UnsupportedError(f"'{key}' in {where}")
        if key in TOP_LEVEL and key not in known:
            raise ProblemError(
                f"'{key}' stands in {where}; write it at the top of the file, before the first [section]."
            )
        if key not in known:
            raise ProblemError(f"{where} has an unknown {kind} '{key}'{suggestion(key, (*known, *planned))}")


def table(where: str, value: Any) -> dict[str, Any]:
    """Return `value` if it is a table."""
    if not isinstance(value, dict):
        raise ProblemError(f"{where} must be a table of keys, not {words_for(value)}.")
    return value


def text(where: str, value: Any) -> str:
    """Return `value` if it is text."""
    if not isinstance(value, str):
        raise ProblemError(f"{where} must be text in quotes, not {words_for(value)}.")
    return value


def number(where: str, value: Any) -> float:
    """Return `value` as a float if it is a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ProblemError(f"{where} must be a number, not {words_for(value)}.")
    try:
        return float(value)
    except OverflowError:
        raise ProblemError(f"{where} is too large for a number.") from None


def numbers(where: str, value: Any) -> tuple[float, ...]:
    """Return `value` if it is a list of numbers."""
    if not isinstance(value, list):
        raise ProblemError(f"{where} must be a list of numbers, not {words_for(value)}.")
    return tuple(number(f"{where}, entry {i + 1},", one) for i, one in enumerate(value))


def whole(where: str, value: Any) -> int:
    """Return `value` if it is a whole number."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ProblemError(f"{where} must be a whole number, not {words_for(value)}.")
    if abs(value) >= 2**63:
        raise ProblemError(f"{where} is too large for a number.")
    return value


def flag(where: str, value: Any) -> bool:
    """Return `value` if it is true or false."""
    if not isinstance(value, bool):
        raise ProblemError(f"{where} must be true or false, not {words_for(value)}.")
    return value


def words_for(value: Any) -> str:
    """Describe a TOML value."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"the text '{value}'"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, int) and abs(value) >= 2**63:
        return "a huge number"
    return "a table" if isinstance(value, dict) else str(value)
