"""Tables of families: one run, or two side by side."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.reliability.ends import BEST, CRASHED, FALSE, HUNG, OTHER, REFUSED, WARNED, WRONG, FamilyEnd

CONVERGED_KINDS = (BEST, OTHER, WARNED, FALSE, WRONG)
AT_BEST, SILENT = "at best", "silent"  # counted beside the kinds
BESIDE = (AT_BEST, SILENT)
HEADER = (
    "family", "fits", "at best", "converged", "no interval", "other", "warned", "no minimum", "untrue", "not converged",
)  # fmt: skip
Counts = Mapping[str, int]
Best = Mapping[tuple[str, int], float]


def best_of(*runs: Iterable[FamilyEnd]) -> dict[tuple[str, int], float]:
    """Return the lowest objective that anyone found, by family and data."""
    best: dict[tuple[str, int], float] = {}
    for end in (end for run in runs for end in run):
        for value in (end.value, end.reference, end.lower):
            if value == value:
                key = end.family, end.data
                best[key] = min(best.get(key, value), value)
    return best


def counted(ends: Iterable[FamilyEnd], best: Best) -> dict[str, Counter[str]]:
    """Return how many ends of each kind a family has; `AT_BEST` counts every end at the best objective."""
    counts: dict[str, Counter[str]] = {}
    for end in ends:
        mine = counts.setdefault(end.family, Counter())
        lowest = best[end.family, end.data]
        mine[end.kind(lowest)] += 1
        mine[AT_BEST] += end.is_at(lowest)
        mine[SILENT] += end.is_at(lowest) and bool(end.silent)
    return counts


def false_successes(counts: Counts) -> int:
    """Return how many fits say that they converged, and are wrong without a word."""
    return counts.get(FALSE, 0) + counts.get(WRONG, 0)


def fits(counts: Counts) -> int:
    """Return how many fits were counted."""
    return sum(n for kind, n in counts.items() if kind not in BESIDE)


def together(counts: Iterable[Counts]) -> Counter[str]:
    """Return the sum over families."""
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return total


def write_tally(path: Path, counts: Mapping[str, Counts]) -> None:
    """Write the counts of a run, a family a line."""
    lines = [f"  {json.dumps(name)}: {json.dumps(dict(sorted(one.items())))}" for name, one in counts.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def read_tally(path: Path) -> dict[str, Counts]:
    """Read what `write_tally` wrote."""
    return json.loads(path.read_text(encoding="utf-8"))


def table(counts: Mapping[str, Counts]) -> str:
    """Return the table of one run in Markdown."""
    rows = [_row(name, one) for name, one in counts.items()]
    return markdown(HEADER, [*rows, _row("all", together(counts.values()))])


def _row(name: str, counts: Counts) -> list[str]:
    rest = ", ".join(f"{n} {kind}" for kind, n in sorted(counts.items()) if kind not in (*CONVERGED_KINDS, *BESIDE))
    shown = (AT_BEST, BEST, SILENT, OTHER, WARNED, FALSE, WRONG)
    return [name, str(fits(counts)), *(str(counts.get(kind, 0)) for kind in shown), rest]


def comparison(before: Mapping[str, Counts], after: Mapping[str, Counts]) -> str:
    """Return two runs side by side in Markdown: before -> after."""
    header = ("family", "fits", "false success", "at the best", "warned", "other minimum", "refused, crashed, hung")
    names = [name for name in after if name in before]
    pairs = [(name, before[name], after[name]) for name in names]
    pairs.append(("all", together(before[n] for n in names), together(after[n] for n in names)))
    return markdown(header, [_pair(*pair) for pair in pairs])


def _pair(name: str, old: Counts, new: Counts) -> list[str]:
    def lost(counts: Counts) -> int:
        return sum(counts.get(kind, 0) for kind in (REFUSED, CRASHED, HUNG))

    def share(counts: Counts) -> str:
        return f"{100.0 * counts.get(AT_BEST, 0) / max(fits(counts), 1):.1f} %"

    return [
        name,
        _arrow(fits(old), fits(new)),
        _arrow(false_successes(old), false_successes(new)),
        _arrow(share(old), share(new)),
        _arrow(old.get(WARNED, 0), new.get(WARNED, 0)),
        _arrow(old.get(OTHER, 0), new.get(OTHER, 0)),
        _arrow(lost(old), lost(new)),
    ]


def _arrow(old: object, new: object) -> str:
    return str(new) if old == new else f"{old} → {new}"


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an aligned table."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    lines = [
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |" for row in (header, *rows)
    ]
    lines.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(lines)
