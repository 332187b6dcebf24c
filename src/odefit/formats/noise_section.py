"""``[noise]`` and ``[data] sigma``: how exact values are that have no sigma of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odefit.errors import ProblemError
from odefit.formats.sections import check_keys, flag, number, text
from odefit.model.names import normal_form
from odefit.problem import Noise
from odefit.problem.noise import DEFAULT

_KEYS = ("sigma", "distribution", "below", "above", "correlated")
_OF_DISTRIBUTIONS = ("phi", "n", "nu")


def read_noise(section: Mapping[str, Any], sigma: Any = None) -> dict[str, Noise]:
    """Read ``[noise]``, and ``[data] sigma``, which is short for its default."""
    if sigma is not None and DEFAULT in section:
        raise ProblemError("[data] sigma is short for [noise] default; both are given: keep one.")
    entries = {} if sigma is None else {DEFAULT: _noise("[data] sigma", sigma)}
    return entries | {normal_form(name): _noise(f"[noise] {name}", entry) for name, entry in section.items()}


def _noise(where: str, entry: Any) -> Noise:
    is_table = isinstance(entry, dict)
    noise = _from_table(where, entry) if is_table else Noise.of(_sigma(where, entry))
    noise.check(where)
    if is_table:
        check_keys(where, entry, _KEYS, _OF_DISTRIBUTIONS)
    return noise


def _sigma(where: str, entry: Any) -> float | str:
    return entry if isinstance(entry, str) else number(where, entry)


def _from_table(where: str, entry: dict[str, Any]) -> Noise:
    check_keys(where, entry, (*_KEYS, *_OF_DISTRIBUTIONS))
    options: dict[str, Any] = {}
    for key, value in entry.items():
        if key == "sigma":
            options[key] = _sigma(f"{where} sigma", value)
        elif key == "distribution":
            options[key] = text(f"{where} distribution", value)
        elif key == "correlated":
            options[key] = flag(f"{where} correlated", value)
        elif key in _KEYS:
            options[key] = number(f"{where} {key}", value)
    return Noise(**options)
