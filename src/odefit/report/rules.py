"""What became of the rules of a problem, as a table."""

from __future__ import annotations

import math

from odefit.strategy import FitResult
from odefit.transcribe.active_rules import ACTIVE, HOLDS, INACTIVE, WEAK, RuleReport

_MOST_ACTIVE = 6  # places of one rule that are shown


def rules_table(result: FitResult) -> list[tuple[str, ...]]:
    """Return a row for each rule, and for each place where one with many places is active; no rows without rules."""
    if not result.rules:
        return []
    rows = [("rule", "value", "multiplier", "where", "state")]
    for text in dict.fromkeys(rule.text for rule in result.rules):
        rows += _rows_of(text, [rule for rule in result.rules if rule.text == text])
    return rows


def _rows_of(text: str, places: list[RuleReport]) -> list[tuple[str, ...]]:
    """Return the rows of one rule."""
    if len(places) == 1:
        return [_row(text, places[0])]
    telling = [rule for rule in places if rule.state != INACTIVE]
    shown = sorted(telling, key=lambda rule: -abs(rule.multiplier))[:_MOST_ACTIVE]
    rows = [_row(text, rule) for rule in places if rule in shown]
    quiet = [rule for rule in places if rule.state == INACTIVE]
    if len(telling) > len(shown):
        rows.append(("", "", "", "", f"and {len(telling) - len(shown)} more places"))
    if quiet:
        nearest, times = min(quiet, key=lambda rule: rule.value), [rule.time for rule in places]
        where = f"{_place(nearest)}, of {len(places)} times from {min(times):g} to {max(times):g}"
        where = f"{_place(nearest)}, of {len(places)} places" if any(map(math.isnan, times)) else where
        rows.append((text if not shown else "", f"{nearest.value:.4g}", "-", where, INACTIVE))
    return rows


def _row(text: str, rule: RuleReport) -> tuple[str, ...]:
    multiplier = f"{rule.multiplier:.5g}" if rule.state in (HOLDS, ACTIVE, WEAK) else "-"
    return text, f"{rule.value:.4g}", multiplier, _place(rule), rule.state


def _place(rule: RuleReport) -> str:
    """Return where a rule holds, in a few words; "" if that stands in the rule."""
    words = [rule.experiment] if rule.experiment else []
    if not math.isnan(rule.time):
        words.append(f"t = {rule.time:g}")
    return ", ".join(words)
