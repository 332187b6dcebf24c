"""Doses in a problem file: the section ``[events]``, a line for each."""

from __future__ import annotations

import math
from typing import Any

from odefit.formats.toml_writing import toml_section, toml_value
from odefit.problem import Dose, Problem


def events_text(problem: Problem) -> list[str]:
    """Return the section ``[events]`` as text; nothing if there are no doses."""
    rows = [_row(one.name, dose) for one in problem.experiments for dose in one.events]
    if not rows:
        return []
    arrival = {name: dict(values) for name, values in (("lag", problem.lag), ("fraction", problem.fraction)) if values}
    lines = "".join(f"  {toml_value(row)},\n" for row in rows)
    return [f"{toml_section('events', arrival)}rows = [\n{lines}]\n"]


def _row(experiment: str, dose: Dose) -> dict[str, Any]:
    row: dict[str, Any] = {"experiment": experiment, "time": dose.time, "target": dose.target, dose.how: dose.amount}
    if dose.is_infusion:
        row["duration"] = dose.duration
    if not math.isnan(dose.every):
        row["every"] = dose.every
    if dose.count != 1 or not math.isnan(dose.every):
        row["count"] = dose.count
    return row
