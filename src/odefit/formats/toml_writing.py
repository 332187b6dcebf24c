"""Values and tables as TOML text that reads back exactly."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_CLOSING = re.compile(r'"(?="|\Z)')  # quotes that could end the block
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def toml_key(name: str) -> str:
    """Return a key, in quotes if it needs them."""
    return name if _BARE.fullmatch(name) else toml_text(name)


def toml_text(value: str) -> str:
    """Return text in quotes on one line."""
    return f'"{"".join(_escaped(letter) for letter in value)}"'


def toml_block(value: str) -> str:
    """Return text of several lines in triple quotes, as readable as it was given."""
    kept = _CLOSING.sub('\\\\"', value.replace("\\", "\\\\"))
    lines = "".join(letter if letter in '\n\t"\\' else _escaped(letter) for letter in kept)
    return f'"""\n{lines}"""'


def toml_value(value: Any) -> str:
    """Return a number, text, flag, list or inline table."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return toml_text(value)
    if isinstance(value, Mapping):
        inner = ", ".join(f"{toml_key(key)} = {toml_value(one)}" for key, one in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml_value(one) for one in value)}]"
    if isinstance(value, int):
        return str(value)
    return repr(float(value))


def toml_section(name: str, entries: Mapping[str, Any]) -> str:
    """Return a section with one line for each key."""
    lines = [f"{toml_key(key)} = {toml_value(value)}" for key, value in entries.items()]
    return "\n".join((f"[{name}]", *lines)) + "\n"


def _escaped(letter: str) -> str:
    if letter in _ESCAPES:
        return _ESCAPES[letter]
    if ord(letter) < 0x20 or ord(letter) == 0x7F:
        return f"\\u{ord(letter):04X}"
    return letter
