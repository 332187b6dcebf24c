"""Interleaved timing: machines are shared and noisy, so candidates take turns and the best round counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any


def best_cpu_seconds(
    candidates: Mapping[str, Callable[[], Any]], *, rounds: int = 30, seconds_per_turn: float = 0.02
) -> dict[str, float]:
    """Return the CPU time of one call of each candidate: the best of `rounds` interleaved turns."""
    repeats: dict[str, int] = {}
    for name, call in candidates.items():
        call()  # warm
        started = time.process_time()
        call()
        once = max(time.process_time() - started, 1e-7)
        repeats[name] = max(1, min(2000, int(seconds_per_turn / once)))
    best = dict.fromkeys(candidates, float("inf"))
    for _ in range(rounds):
        for name, call in candidates.items():
            started = time.process_time()
            for _ in range(repeats[name]):
                call()
            best[name] = min(best[name], (time.process_time() - started) / repeats[name])
    return best


def print_table(title: str, best: Mapping[str, float], base: str, notes: Mapping[str, str] | None = None) -> None:
    """Print times and their ratio to the candidate `base`."""
    print(f"\n{title}")
    width = max(map(len, best))
    for name, seconds in best.items():
        note = f"   {notes[name]}" if notes and name in notes else ""
        print(f"  {name:<{width}}  {seconds * 1e6:12.1f} us  {seconds / best[base]:8.1f} x{note}")
