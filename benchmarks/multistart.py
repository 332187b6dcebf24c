"""Multistart on one worker and on all cores: wall clock, and CPU of the work itself.

    python -m benchmarks.multistart [number of starts]

On a busy machine the wall clock says little; `CPU` is what the fits took in all processes, and shows what several
workers cost beyond one.
"""

from __future__ import annotations

import resource
import sys
import time

import odefit as of
from benchmarks.start_values import CASES, simulated
from odefit.gallery import load
from odefit.native.threads import usable_cores
from odefit.problem import Problem


def cpu_seconds() -> float:
    """Return user and system time of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def fitzhugh_nagumo() -> Problem:
    case = CASES["FitzHugh-Nagumo, 5 %"]
    noisy = simulated(case, case.problem(), 0)
    return noisy.with_start(a=1, b=1, c=1).with_bounds(a=(0.01, 2), b=(0.01, 2), c=(0.5, 6))


def main(starts: int = 500) -> None:
    workers = usable_cores()
    print(f"{'problem':18} {'workers':>7} {'wall s':>8} {'CPU s':>8} {'speed-up':>9}  outcome")
    for name, problem in (("pyridine", load("pyridine")), ("FitzHugh-Nagumo", fitzhugh_nagumo())):
        of.fit(problem, starts=2)
        alone = 0.0
        for n in (1, workers):
            wall, cpu = time.perf_counter(), cpu_seconds()
            result = of.fit(problem, starts=starts, seed=1, workers=n)
            wall, cpu = time.perf_counter() - wall, cpu_seconds() - cpu
            alone = alone or wall
            assert result.multistart is not None
            print(f"{name:18} {n:>7} {wall:8.2f} {cpu:8.2f} {alone / wall:9.2f}  {result.multistart.text}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
