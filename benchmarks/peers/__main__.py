"""Complete warm fits: CPU time, interleaved, best of rounds, as ratios to odefit.

    python -m benchmarks.peers [problem ...]

All integrate at rtol 1e-8, atol 1e-10 and start at the same values; models are compiled before the clock starts.
An objective that differs from the best one found by more than 1e-6 is marked.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import sys
import warnings
from collections.abc import Iterator

import odefit as of
from benchmarks.peers.contract import Outcome, Peer
from benchmarks.peers.problems import ATOL, RTOL, FitProblem, load, names
from benchmarks.timing import best_cpu_seconds, print_table

_PEERS = {  # what is shown: module, class, package to install
    "numbalsoda + SciPy": ("numbalsoda_scipy", "NumbalsodaScipy", "numbalsoda (needs gfortran and cmake)"),
    "pydiffsol + SciPy": ("pydiffsol_scipy", "PydiffsolScipy", "pydiffsol"),
    "CasADi + IPOPT": ("casadi_ipopt", "CasadiIpopt", "casadi"),
    "COPASI": ("copasi", "Copasi", "copasi-basico"),
    "SciPy, augmented": ("scipy_alone", "ScipyAugmented", "scipy"),
    "SciPy, differences": ("scipy_alone", "ScipyDifferences", "scipy"),
}
_SAME = 1e-6  # relative, of objectives
_SLOW = 0.5  # seconds: fits that take longer are timed once


class Odefit:
    """odefit with its defaults."""

    setup = "defaults"

    def __init__(self, problem: FitProblem) -> None:
        self.problem = problem.odefit

    def fit(self) -> Outcome:
        result = of.fit(self.problem)
        return Outcome(result.objective, result.iterations)


def _installed() -> tuple[dict[str, type[Peer]], list[str]]:
    """Return the peers, odefit first, and a line for each that is missing."""
    peers: dict[str, type[Peer]] = {"odefit": Odefit}
    missing: list[str] = []
    for name, (module, peer, package) in _PEERS.items():
        try:
            peers[name] = getattr(importlib.import_module(f"benchmarks.peers.{module}"), peer)
        except (ImportError, OSError) as error:  # OSError: a shared library is missing
            missing.append(f"{name}: not installed ({error}); pip install {package}")
    return peers, missing


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Send what native code prints (DOP853, LSODA, CasADi) to nowhere."""
    sys.stdout.flush()
    kept = [os.dup(1), os.dup(2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for number, copy in zip((1, 2), kept, strict=True):
            os.dup2(copy, number)
            os.close(copy)
        os.close(nowhere)


def compare(problem: FitProblem, peers: dict[str, type[Peer]]) -> list[str]:
    """Print the table of one problem; return a line for each peer that broke."""
    ready: dict[str, Peer] = {}
    outcomes: dict[str, Outcome] = {}
    broken: list[str] = []
    with _silence():
        for name, peer in peers.items():
            try:
                ready[name] = peer(problem)
                outcomes[name] = ready[name].fit()
            except Exception as error:  # a peer's failure is its result, not ours
                broken.append(f"{name}: failed on {problem.name}: {type(error).__name__}: {error}")
                ready.pop(name, None)
        best = _times(ready)
    lowest = min(outcome.objective for outcome in outcomes.values() if math.isfinite(outcome.objective))
    notes = {}
    for name, outcome in outcomes.items():
        ok = abs(outcome.objective - lowest) <= _SAME * lowest
        notes[name] = (
            f"objective {outcome.objective:.9g}  count {outcome.count:>6}  {'' if ok else 'ENDS ELSEWHERE  '}"
            f"{ready[name].setup}"
        )
    unknowns = "logarithms" if problem.in_logs else "unknowns"
    title = f"{problem.name}: {problem.n_parameters} {unknowns}, rtol {RTOL:g}, atol {ATOL:g}"
    print_table(title, best, "odefit", notes)
    good = {name: t for name, t in best.items() if name != "odefit" and "ENDS ELSEWHERE" not in notes[name]}
    if good:
        rival = min(good, key=good.__getitem__)
        print(f"  fastest peer that reaches the minimum: {rival}, {good[rival] / best['odefit']:.2f} x odefit's time")
    return broken


def _times(ready: dict[str, Peer]) -> dict[str, float]:
    """Return the best CPU time of each: interleaved in thirty rounds, slow ones in a first round only."""
    first = best_cpu_seconds({name: peer.fit for name, peer in ready.items()}, rounds=1, seconds_per_turn=0.0)
    quick = {name: ready[name].fit for name, seconds in first.items() if seconds < _SLOW}
    return first | best_cpu_seconds(quick)


def main() -> None:
    """Compare on the problems named, or on all."""
    peers, absent = _installed()
    for name in sys.argv[1:] or names():
        absent += compare(load(name), peers)
    if absent:
        print("\nNot compared:", *absent, sep="\n  ")


if __name__ == "__main__":
    main()
