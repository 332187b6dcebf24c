"""The command line: the table of the gallery, or the tables of the families."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.reliability import gallery
from benchmarks.reliability.ends import FamilyEnd
from benchmarks.reliability.families import FAMILIES
from benchmarks.reliability.family_table import (
    Best,
    best_of,
    comparison,
    counted,
    false_successes,
    fits,
    read_tally,
    table,
    together,
    write_tally,
)
from benchmarks.reliability.runner import read_ends, run_families, write_ends


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    if not options.families:
        gallery.main()
        return
    ends = _ends(options)
    before: list[FamilyEnd] = []
    if options.against is not None and options.against.suffix == ".jsonl":
        same = {(end.family, end.seed) for end in ends}
        before = [end for end in read_ends(options.against) if (end.family, end.seed) in same]
    best = best_of(ends, before)
    counts = counted(ends, best)
    print(table(counts))
    total = together(counts.values())
    print(f"\n{fits(total)} fits, false success {false_successes(total)}")
    if options.against is not None:
        old = counted(before, best) if before else read_tally(options.against)
        print(f"\n{comparison(old, counts)}")
    if options.tally is not None:
        write_tally(options.tally, counts)
    _list(ends, best, options.list)


def _ends(options: argparse.Namespace) -> list[FamilyEnd]:
    """Return the ends of a file, or fit."""
    if options.results is not None:
        return read_ends(options.results)
    ends = []
    families = [FAMILIES[name] for name in options.only or FAMILIES]
    for end in run_families(families, options.share, options.first):
        ends.append(end)
        if options.out is not None:
            write_ends(options.out / "families.jsonl", ends[-1:], first=len(ends) == 1)
        print(f"\r{len(ends)} fits: {end.family} {end.seed}    ", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return ends


def _list(ends: Sequence[FamilyEnd], best: Best, kinds: Sequence[str]) -> None:
    for end in ends:
        lowest = best[end.family, end.data]
        kind = end.kind(lowest)
        if kind in kinds:
            found = f"objective {end.value:.6g} (best {lowest:.6g}, around {end.lower:.6g})"
            words = "; ".join([*end.wrong, f"warnings: {', '.join(end.warnings) or 'none'}"])
            print(f"  {kind}: {end.family} {end.seed}: {found}, {end.iterations} iterations, {end.message}; {words}")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reliability")
    parser.add_argument("--families", action="store_true", help="families made to deceive, instead of the gallery")
    parser.add_argument("--only", nargs="+", choices=FAMILIES, metavar="NAME", help="these families alone")
    parser.add_argument("--share", type=float, default=1.0, help="fit this part of each family's cases")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="of their seeds; others are other cases")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write raw results to DIR/families.jsonl")
    parser.add_argument("--results", type=Path, metavar="FILE", help="fit nothing, show these raw results")
    parser.add_argument("--against", type=Path, metavar="FILE", help="show another run beside: raw (.jsonl) or a tally")
    parser.add_argument("--tally", type=Path, metavar="FILE", help="write the counts to FILE (.json)")
    parser.add_argument("--list", nargs="+", default=[], metavar="KIND", help="list ends of these kinds (false, wrong)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
