"""Which names a model may use.

The same rules hold for equation text and for names given in Python.  `t` stays reserved even where the
independent variable has another name: an equation that still says `t` would otherwise gain a parameter.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping
from types import MappingProxyType

from odefit.errors import ModelError
from odefit.model.functions import FUNCTIONS

CONSTANTS: Mapping[str, float] = MappingProxyType({"pi": math.pi, "inf": math.inf})
KEYWORDS = frozenset({"and", "or", "not"})
OPENING_WORDS = frozenset({"algebraic", "field", "at", "when"})
RESERVED = KEYWORDS | OPENING_WORDS | frozenset(CONSTANTS) | {"t"}


_INITIAL = "(0)"


def initial_name(state: str) -> str:
    """Return the name of the initial value of a state, ``A(0)`` for ``A``."""
    return f"{state}{_INITIAL}"


def state_of_initial(name: str) -> str | None:
    """Return ``A`` for the name ``A(0)`` of an initial value, None for other names."""
    return name.removesuffix(_INITIAL).strip() if name.endswith(_INITIAL) else None


def normal_form(name: str) -> str:
    """Return `name` as Python would compare it (NFKC), so that look-alike spellings are one name."""
    return name if name.isascii() else unicodedata.normalize("NFKC", name)


def fault_of_name(name: str, time: str) -> str | None:
    """Say why `name` cannot be a state, parameter or definition, or return None.

    Parameters
    ----------
    name
        The name in normal form.
    time
        Name of the independent variable.
    """
    if name == time:
        return f"'{name}' is the independent variable; choose another name"
    if name == "t":
        return f"'t' is reserved, and the independent variable is called '{time}' here; write '{time}'"
    if name in FUNCTIONS:
        return f"'{name}' is a function of the language; choose another name"
    if name in RESERVED:
        return f"'{name}' is a reserved word; choose another name"
    return None


def checked_name(name: object, role: str, time: str) -> str:
    """Return a name given in Python in normal form, or raise ModelError.

    Parameters
    ----------
    name
        What the caller gave.
    role
        What it is to name ("state", "parameter", ...), for the message.
    time
        Name of the independent variable.
    """
    if not isinstance(name, str):
        raise ModelError(f"{role} names are strings, got {name!r}")
    if not name.isidentifier():
        raise ModelError(f"{role} {name!r} is not a name: use letters, digits and '_', no digit first")
    normal = normal_form(name)
    fault = fault_of_name(normal, time)
    if fault is not None:
        raise ModelError(f"{role} {name!r}: {fault}")
    return normal


def checked_time(time: object) -> str:
    """Return the name of the independent variable in normal form, or raise ModelError."""
    if time == "t":
        return "t"
    return checked_name(time, "independent variable", "t")
