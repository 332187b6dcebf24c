"""Every solver on the problems of the gallery (but `LEFT_OUT`), from perturbed starts: is what it says true.

    python -m benchmarks.reliability

Every start is multiplied by a log-uniform factor in [1/3, 3].  Ends are looked at again at rtol 1e-10, atol 1e-12:

best
    Reported converged, and the objective is that of the best minimum known (to 1e-4, or 1e-9 absolute).
other
    Reported converged, stationary, the objective is higher: another minimum.
false
    Reported converged, but not stationary, ||Q'r|| > 10 max(tol ||r||, 0.1 rtol ||data||) with the rtol of the fit, or
    on a plateau: the full Gauss-Newton step still changes a parameter by more than 20 % (0.2 on a log scale).
    (This is looked at first: a false success may have any objective.)
others
    Not converged, by status.
warned
    Ends at the best minimum with a warning that the fit did not converge, in percent of all ends at the best minimum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

import odefit as of
from benchmarks.starts import Look, look, perturbed, tight_minimum
from benchmarks.tables import print_rows
from odefit.gallery import WITHOUT_MINIMUM, load, names
from odefit.solve import SOLVERS
from odefit.strategy import FitResult

STARTS, FACTOR, SEED = 20, 3.0, 1
LEFT_OUT = WITHOUT_MINIMUM | {
    "robertson/exact": "exact data: all that is left is the error of `ddm`, 5 times what `threshold` allows",
    "closed_orbit": "its rules confine the minimum, and ends are looked at without them",
    "lorenz": "chaos: at other tolerances the trajectory from the start alone is another one",
}
PROBLEMS = tuple(name for name in names() if name not in LEFT_OUT)
SAME_RELATIVE, SAME_ABSOLUTE = 1e-4, 1e-9
LARGEST_FULL_STEP = 0.2
BEST, OTHER, FALSE = "best", "other", "false"


@dataclass(frozen=True)
class End:
    """How one fit ended."""

    problem: str
    solver: str
    number: int
    start: dict[str, float]
    status: str
    iterations: int
    seen: Look
    threshold: float
    warned: bool
    kind: str = ""
    at_best: bool = False


def threshold(result: FitResult, seen: Look) -> float:
    """Return what ||Q'r|| may be at a point that is called stationary."""
    settings = result.problem.settings
    resolved = 0.1 * settings.rtol * result.plan.data.norm
    return 10.0 * max(settings.tol * seen.norm, resolved)


def ends_of(name: str, solvers: Iterable[str], count: int) -> list[End]:
    """Fit one problem by several solvers from the same perturbed starts."""
    ends = []
    for number, problem in enumerate(perturbed(load(name), FACTOR, count, SEED)):
        start = {p.name: p.start for p in problem.free}
        for solver in solvers:
            result = of.fit(problem, solver=solver)
            with np.errstate(over="ignore"):  # derivatives at the end of a fit that ran away may be huge
                seen = look(result)
                warned = any(notice.code.startswith("convergence") for notice in result.warnings)
            limit = threshold(result, seen)
            ends.append(End(name, solver, number, start, result.status, result.iterations, seen, limit, warned))
    return ends


def best_known(name: str, ends: Sequence[End]) -> float:
    """Return the lowest objective of a stationary point: from the file's start, or of any of these fits."""
    return min([tight_minimum(load(name)), *(e.seen.objective for e in ends if is_stationary(e))])


def is_stationary(end: End) -> bool:
    """Tell whether an end is stationary at tight tolerances, and meets rows of infinite weight."""
    return end.seen.removable <= end.threshold and end.seen.violation <= end.threshold


def judged(end: End, best: float) -> End:
    """Say what kind of end this is."""
    at_best = end.seen.objective <= best * (1.0 + SAME_RELATIVE) + SAME_ABSOLUTE
    if end.status != "converged":
        kind = end.status
    elif not is_stationary(end) or not end.seen.full_step <= LARGEST_FULL_STEP:
        kind = FALSE
    else:
        kind = BEST if at_best else OTHER
    return replace(end, kind=kind, at_best=at_best)


def run(problems: Iterable[str], solvers: Sequence[str], count: int = STARTS) -> list[End]:
    """Return all ends, judged."""
    every = []
    for name in problems:
        ends = ends_of(name, solvers, count)
        best = best_known(name, ends)
        every += [judged(end, best) for end in ends]
    return every


def share(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0


def false_share(ends: Sequence[End]) -> float:
    """Return the percentage of false successes among all fits."""
    return share(sum(e.kind == FALSE for e in ends), len(ends))


def warned_share(ends: Sequence[End]) -> float:
    """Return the percentage of ends at the best minimum that say they did not converge."""
    at_best = [e for e in ends if e.at_best and e.kind != FALSE]
    return share(sum(e.warned for e in at_best), len(at_best))


def row(words: Sequence[str], ends: Sequence[End]) -> list[str]:
    kinds = Counter(e.kind for e in ends)
    rest = ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items()) if kind not in (BEST, OTHER, FALSE))
    return [*words, *(str(kinds[k]) for k in (BEST, OTHER, FALSE)), f"{warned_share(ends):.1f} %", rest]


def print_table(ends: Sequence[End]) -> None:
    header = ["problem", "solver", "best", "other", "false", "warned", "not converged"]
    rows = [
        row([name, solver], [e for e in ends if (e.problem, e.solver) == (name, solver)])
        for name in dict.fromkeys(e.problem for e in ends)
        for solver in dict.fromkeys(e.solver for e in ends)
    ]
    print_rows("Ends by problem and solver", header, rows, text=2)
    rows = [row([solver], [e for e in ends if e.solver == solver]) for solver in dict.fromkeys(e.solver for e in ends)]
    print_rows("Ends by solver", [header[1], *header[2:]], [*rows, row(["all"], ends)])


def print_false(ends: Sequence[End]) -> None:
    for e in ends:
        if e.kind == FALSE:
            start = ", ".join(f"{name} {value:.6g}" for name, value in e.start.items())
            print(
                f"  false: {e.problem}, {e.solver}, start {e.number} ({start}): objective {e.seen.objective:.6g}, "
                f"||Q'r|| {e.seen.removable:.1e} (limit {e.threshold:.1e}), full step {e.seen.full_step:.2g}"
            )


def main() -> None:
    ends = run(PROBLEMS, tuple(SOLVERS))
    print_table(ends)
    print_false(ends)
    for label, part in (("all solvers", ends), ("trust", [e for e in ends if e.solver == "trust"])):
        print(
            f"\n{label}: {len(part)} fits, false success {false_share(part):.2f} % (mark: below 1 %), "
            f"warned at the best minimum {warned_share(part):.2f} % (mark: below 5 %)"
        )


if __name__ == "__main__":
    main()
