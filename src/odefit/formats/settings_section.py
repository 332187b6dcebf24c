"""``[integrator]`` and ``[fit]``: the settings of a problem, in and out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from odefit.criteria import criterion_named
from odefit.formats.sections import check_keys, number, numbers, table, text, whole
from odefit.problem import Settings

_Reader = Callable[[str, Any], Any]


def _criterion(where: str, value: Any) -> str:
    """Read the name of a criterion that exists."""
    return criterion_named(text(where, value)).name


def _atol(where: str, value: Any) -> Any:
    """Read "auto", a number, or a table of numbers by state."""
    if isinstance(value, Mapping):
        return {str(state): number(f"{where} '{state}'", one) for state, one in value.items()}
    return value if value == "auto" else number(where, value)


def _times(where: str, value: Any) -> Any:
    """Read a number of times, or a list of them."""
    return numbers(where, value) if isinstance(value, list) else whole(where, value)


SECTIONS: Mapping[str, Mapping[str, tuple[str, _Reader]]] = {
    "integrator": {
        "method": ("integrator", text),
        "rtol": ("rtol", number),
        "atol": ("atol", _atol),
        "max_step": ("max_step", number),
        "max_steps": ("max_steps", whole),
    },
    "fit": {
        "method": ("method", text),
        "solver": ("solver", text),
        "criterion": ("criterion", _criterion),
        "freeze": ("freeze", text),
        "tol": ("tol", number),
        "max_iterations": ("max_iterations", whole),
        "start": ("start", text),
        "starts": ("starts", whole),
        "seed": ("seed", whole),
        "horizons": ("horizons", numbers),
        "confidence": ("confidence", number),
        "relaxation": ("relaxation", number),
        "nodes": ("nodes", _times),
        "node_states": ("node_states", text),
        "path_times": ("path_times", _times),
    },
}
"""Section to key to the setting's own name and how it is read."""


def read_settings(content: Mapping[str, Any]) -> Settings:
    """Read the settings from the tables of a problem file."""
    options: dict[str, Any] = {}
    for name, keys in SECTIONS.items():
        section = table(f"[{name}]", content.get(name, {}))
        check_keys(f"[{name}]", section, keys)
        for key, value in section.items():
            setting, read = keys[key]
            options[setting] = read(f"[{name}] {key}", value)
    return Settings(**options)


def settings_tables(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return the tables for the settings that differ from their defaults."""
    defaults = {one.name: one.default for one in dataclasses.fields(Settings)}
    result: dict[str, dict[str, Any]] = {}
    for name, keys in SECTIONS.items():
        changed = {
            key: getattr(settings, setting)
            for key, (setting, _) in keys.items()
            if getattr(settings, setting) != defaults[setting]
        }
        if changed:
            result[name] = changed
    return result
