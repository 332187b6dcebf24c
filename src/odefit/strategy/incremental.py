"""Incremental single shooting: fits on growing horizons, each from the estimates of the one before.

C. Michalik, R. Hannemann and W. Marquardt, Comput. Chem. Eng. 33 (2009) 1298-1305.  While estimates are poor the
model is integrated only as far as the horizon, so it cannot run into the singularities that poor estimates
cause later on, and the objective of few data near the known start has fewer minima than that of all.

``incremental`` is the published method.  The i-th horizon holds 2^(i-1) data of a measured quantity (or
`horizons` says where they end).  After each horizon the estimates are confined to their 99 % confidence bounds,
theta +- q sqrt(V_jj), V = (S'S)^-1 with weighted sensitivities S, on the scale of the solver and never outside
the user's bounds.  Where the next horizon's minimum lies at a bound of that kind, that bound is moved by
`relaxation` times the width, (10) and (11), and the horizon is fitted again.

Where the paper says nothing:

* The first horizons hold fewer data than unknowns, and S'S is singular.  A parameter that takes part in an
  undetermined direction keeps the user's bounds: its variance is infinite.  (A pseudo-inverse would give it the
  small variance of its determined part, a bound that the data do not support.)  The same holds where the
  residual variance is to be estimated and there is no degree of freedom yet.
* Bounds have a least width, since a very unstable model fixes its parameters to rounding; and a bound is active if
  the estimate is nearer to it than a small part of the width, since the estimate itself is not exact.
* Data at the start of an experiment tell nothing of rates: horizons are counted in later ones.
* Several experiments each have horizons of their own and grow together.  Data of steady states are fitted on the last.
* A horizon at which the model cannot be computed from the last estimates is approached by one half as far ahead.
* Few data may drive parameters on logarithmic scales to values at which they have no influence, and tell nothing of
  them: these keep the values that they had before.  Where the last horizon ends so, the fit tries to come back (see
  `odefit.solve.comeback`).
* Few data may lead away from a good start.  If all data are fitted worse in the end than they were by the start
  itself, they are fitted from there, and the better fit counts.

``incremental-dense`` adds one time point after the other and needs no bounds: a step of the horizon that is
so small moves the minimum little.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from odefit.errors import ProblemError
from odefit.native.stop import StopFlag
from odefit.problem import Problem
from odefit.solve import Failed, Solver, SolverResult, SolverStatus, TraceRow, idle_unknowns
from odefit.strategy.result import Attempt, FitResult
from odefit.strategy.single import Objective, Search
from odefit.strategy.uncertainty import Uncertainty
from odefit.transcribe.observation import Observations, observations
from odefit.transcribe.ruled import RuledShooting

Array = npt.NDArray[np.float64]
Callback = Callable[[TraceRow], None]
Horizon = tuple[float, ...]
"""Where the data end, for each experiment that has any."""

_LEAST_WIDTH = 1e-6  # of an interval of bounds, relative to the size of the unknown
_ACTIVE = 1e-3  # nearer to a bound than this part of the width
_MOST_RELAXATIONS = 20  # each makes an interval three times as wide; then the user's bounds
_MOST_HORIZONS = 200  # of the dense variant, and of horizons put in between
_COARSE = 1e-3  # tolerance on the way of the dense variant: the next horizon moves the minimum anyway

_LED_AWAY = "the horizons led to a worse point than the start itself, from which all data were fitted instead"


def fit_incremental(
    problem: Problem, solver: Solver, stop: StopFlag | None = None, callback: Callback | None = None
) -> FitResult:
    """Fit on horizons of 1, 2, 4, ... data with bounds from the confidence of the last."""
    data = observations(problem)
    horizons = user_horizons(data, problem.settings.horizons) or doubling_horizons(data)
    return _Incremental(problem, solver, stop, callback, "incremental", confined=True).run(horizons)


def fit_incremental_dense(
    problem: Problem, solver: Solver, stop: StopFlag | None = None, callback: Callback | None = None
) -> FitResult:
    """Fit on horizons that grow by one time point, without bounds of their own."""
    horizons = dense_horizons(observations(problem))
    return _Incremental(problem, solver, stop, callback, "incremental-dense", confined=False).run(horizons)


def doubling_horizons(data: Observations) -> list[Horizon]:
    """Return horizons by which the most often measured quantity of an experiment has 1, 2, 4, ... data."""
    ends = []
    for o in data.of_experiment:
        if o.at_rest:
            ends.append([])
            continue
        late = o.times[o.at] > o.t0
        series = [np.sort(o.times[o.at[late & (o.observable == k)]]) for k in np.unique(o.observable)]
        longest = max((s.size for s in series), default=0)
        counts = [2**i for i in range(max(1, math.ceil(math.log2(max(longest, 1)))))]
        times = [min(float(s[n - 1]) for s in series if s.size >= n) for n in counts if n < longest]
        ends.append([*times, float(o.times[-1])])
    return _together(ends)


def dense_horizons(data: Observations) -> list[Horizon]:
    """Return horizons that grow by one time point (by more where there are very many)."""
    ends = []
    for o in data.of_experiment:
        if o.at_rest:
            ends.append([])
            continue
        times = o.times[o.times > o.t0]
        indices = np.unique(np.linspace(0, times.size - 1, min(times.size, _MOST_HORIZONS)).round().astype(int))
        ends.append([*times[indices].tolist()] or [float(o.times[-1])])
    return _together(ends)


def user_horizons(data: Observations, horizons: Sequence[float]) -> list[Horizon]:
    """Return the horizons that were given, the same for all experiments, and the whole of the data."""
    if not horizons:
        return []
    last = tuple(float(o.times[-1]) for o in data.of_experiment)
    first = min((float(o.times[0]) for o in data.of_experiment), default=math.inf)
    end = max((end for end in last if math.isfinite(end)), default=-math.inf)
    inside = [h for h in horizons if first <= h < end]
    if not inside:
        text = ", ".join(f"{h:g}" for h in horizons)
        raise ProblemError(
            f"horizons = [{text}]: none of them lies between the first datum at {first:g} and the last at "
            f"{end:g}; leave them out to have 1, 2, 4, ... data."
        )
    return [*(tuple(min(h, end) for end in last) for h in inside), last]


def _together(ends: list[list[float]]) -> list[Horizon]:
    """Let all experiments grow together; those with fewer horizons are complete earlier.

    Steady states, without any, are fitted on the last one.
    """
    n = max(1, *map(len, ends)) if ends else 0

    def end(times: list[float], i: int) -> float:
        if not times:
            return math.inf if i + 1 == n else -math.inf
        return times[min(i, len(times) - 1)]

    rows = [tuple(end(times, i) for times in ends) for i in range(n)]
    return [row for i, row in enumerate(rows) if i + 1 == n or row != rows[i + 1]]


def _reach(horizon: Horizon) -> float:
    """Return where the last experiment ends; steady states do not count."""
    return max((end for end in horizon if math.isfinite(end)), default=0.0)


class _Incremental:
    """State of one fit."""

    def __init__(
        self,
        problem: Problem,
        solver: Solver,
        stop: StopFlag | None,
        callback: Callback | None,
        method: str,
        *,
        confined: bool,
    ) -> None:
        self.problem = problem
        self.method = method
        self.confined = confined
        self.trace: list[TraceRow] = []
        self.callback = callback
        self.search = Search(problem, solver, stop, self.record)
        self.data = observations(problem)
        self.attempts: list[Attempt] = []
        self.evaluations = self.refreshes = 0
        self.integrators: dict[str, str] = {}

    def record(self, row: TraceRow) -> None:
        """Keep a row, numbered through all horizons."""
        self.trace.append(row._replace(iteration=len(self.trace) + 1))
        if self.callback is not None:
            self.callback(self.trace[-1])

    def run(self, horizons: list[Horizon]) -> FitResult:
        """Fit on one horizon after the other."""
        whole = self.search.objective()
        compiled = whole.compiled
        user = (compiled.theta_lower, compiled.theta_upper)
        x, bounds = compiled.theta_start, user
        waiting, reached, inserted = horizons[::-1], None, 0
        while True:
            horizon = waiting[-1]
            is_last = len(waiting) == 1
            objective = whole if is_last else self.search.objective(horizon)
            solution, relaxations = self.fit_within(objective, x, bounds, user, is_last)
            self.log(objective, solution, horizon, relaxations)
            if solution.status == SolverStatus.FAILED and solution.iterations == 0 and inserted < _MOST_HORIZONS:
                between = self.between(reached, horizon)
                if between is not None:
                    waiting.append(between)
                    inserted += 1
                    continue
            if is_last or solution.status in (SolverStatus.FAILED, SolverStatus.INTERRUPTED):
                break
            waiting.pop()
            x, reached = np.where(idle_unknowns(solution, self.search.rates(whole)), x, solution.x), horizon
            bounds = confidence_bounds(self.search, objective, solution, user) if self.confined else user
        self.integrators = whole.methods
        if not is_last:
            solution = self.on_all_data(whole, solution, horizon)
        if solution.status != SolverStatus.INTERRUPTED:
            solution = self.no_worse_than_the_start(whole, solution, horizons[-1])
        solution = dataclasses.replace(
            solution,
            iterations=len(self.trace),
            evaluations=self.evaluations,
            refreshes=self.refreshes,
            trace=tuple(self.trace),
        )
        return FitResult(
            self.problem,
            solution,
            self.integrators,
            self.method,
            self.search.solver.name,
            attempts=tuple(self.attempts),
            rules=self.search.rules,
            placed=self.search.placed,
        )

    def fit_within(
        self, objective: Objective, x: Array, bounds: tuple[Array, Array], user: tuple[Array, Array], is_last: bool
    ) -> tuple[SolverResult, int]:
        """Fit on one horizon; bounds of our own that turn out active are relaxed and the fit goes on."""
        tol = 0.0 if self.confined or is_last else _COARSE
        relaxations = 0
        while True:  # at most _MOST_RELAXATIONS times: then no bound is of our own
            solution = self.search.minimise(objective, x, bounds, tol=tol, returning=is_last)
            self.evaluations += solution.evaluations
            self.refreshes += solution.refreshes
            if solution.status in (SolverStatus.FAILED, SolverStatus.INTERRUPTED):
                return solution, relaxations
            if solution.status == SolverStatus.INFEASIBLE and bounds is not user:  # our own may exclude what must hold
                x, bounds, relaxations = solution.x, user, relaxations + 1
                continue
            wider = relaxed(solution.x, bounds, user, self.problem.settings.relaxation)
            if wider is None:
                return solution, relaxations
            x = solution.x
            relaxations += 1
            bounds = wider if relaxations < _MOST_RELAXATIONS else user

    def between(self, reached: Horizon | None, horizon: Horizon) -> Horizon | None:
        """Return a horizon half as far ahead; None if there is no datum in between."""
        ends, differs = [], False
        for i, o in enumerate(self.data.of_experiment):
            start = o.t0 if reached is None else reached[i]
            inner = o.times[(o.times > start) & (o.times < horizon[i])]
            ends.append(float(inner[(inner.size - 1) // 2]) if inner.size else start)
            differs |= bool(inner.size)
        return tuple(ends) if differs else None

    def on_all_data(self, whole: Objective, solution: SolverResult, horizon: Horizon) -> SolverResult:
        """Return the account of a fit that ended before its last horizon, at the point that it reached."""
        whole.refresh(solution.x)
        evaluation = whole.evaluate(solution.x, 1)
        self.integrators = whole.methods
        where = f"on the horizon {_reach(horizon):g}"
        message = (
            f"{where}: {solution.message}"
            if solution.status == SolverStatus.FAILED
            else f"{solution.message} ({where})"
        )
        return dataclasses.replace(solution, evaluation=evaluation, message=message)

    def no_worse_than_the_start(self, whole: Objective, solution: SolverResult, last: Horizon) -> SolverResult:
        """Return `solution`, or a fit of all data from the start if that point is better already."""
        start = whole.compiled.theta_start
        whole.refresh(start)
        at_start = whole.evaluate(start, 0)
        self.evaluations += 1
        reached = solution.value if math.isfinite(solution.value) else math.inf
        if isinstance(at_start, Failed) or not at_start.value < reached:
            return solution
        if isinstance(whole, RuledShooting) and not whole.obeys(start):
            return solution
        direct = self.search.minimise(whole, start)
        self.integrators = whole.methods
        self.evaluations += direct.evaluations
        self.refreshes += direct.refreshes
        self.log(whole, direct, last, 0, "single")
        return dataclasses.replace(direct, note=direct.note or _LED_AWAY)

    def log(
        self,
        objective: Objective,
        solution: SolverResult,
        horizon: Horizon,
        relaxations: int,
        method: str = "",
    ) -> None:
        done = sum(attempt.iterations for attempt in self.attempts)
        integrated = [(o, end) for o, end in zip(self.data.of_experiment, horizon, strict=True) if not o.at_rest]
        length = sum(end - o.t0 for o, end in integrated)
        total = sum(float(o.times[-1]) - o.t0 for o, _ in integrated)
        compiled = objective.compiled
        natural = compiled.to_natural(solution.x)[0]
        self.attempts.append(
            Attempt(
                method or self.method,
                solution.status,
                objective.plan.in_units(solution.value),
                len(self.trace) - done,
                horizon=_reach(horizon),
                share=length / total if total > 0 else 1.0,
                n_data=objective.n_data,
                relaxations=relaxations,
                estimates=dict(zip(compiled.theta_names, natural.tolist(), strict=True)),
            )
        )


def confidence_bounds(
    search: Search, objective: Objective, solution: SolverResult, user: tuple[Array, Array]
) -> tuple[Array, Array]:
    """Return the confidence interval of each unknown within the user's bounds, (9)."""
    problem = search.problem
    absolute = objective.plan.absolute
    errors = _standard_errors(objective, solution)
    dof = objective.n_data - solution.rank
    with np.errstate(invalid="ignore"):  # what rules fix has no error, however uncertain the others are
        reach = _quantile(problem.settings.confidence, math.inf if absolute else dof) * errors
    reach = np.where(np.isfinite(reach), reach, np.inf)
    scaling = search.scaling(objective, solution.x)
    if not isinstance(solution.evaluation, Failed) and solution.linear is not None:
        scaling.learn(solution.evaluation)  # an unknown that ended at zero does not tell its size
    size = scaling.of(solution.x)
    reach = np.maximum(reach, 0.5 * _LEAST_WIDTH * size)
    return np.maximum(solution.x - reach, user[0]), np.minimum(solution.x + reach, user[1])


def relaxed(
    x: Array, bounds: tuple[Array, Array], user: tuple[Array, Array], factor: float
) -> tuple[Array, Array] | None:
    """Return bounds of which the active ones that are not the user's are relaxed, (10), (11); None if none is."""
    lower, upper = bounds
    width = upper - lower
    near = np.where(np.isfinite(width), _ACTIVE * width, 0.0)
    at_lower = (lower > user[0]) & (x - lower <= near)
    at_upper = (upper < user[1]) & (upper - x <= near)
    if not (at_lower.any() or at_upper.any()):
        return None
    return (
        np.where(at_lower, np.maximum(lower - factor * width, user[0]), lower),
        np.where(at_upper, np.minimum(upper + factor * width, user[1]), upper),
    )


def _standard_errors(objective: Objective, solution: SolverResult) -> Array:
    """Return linearised standard errors on the solver's scale, NaN where there are none."""
    if solution.linear is None:
        return np.full(solution.x.size, np.nan)
    with np.errstate(over="ignore", invalid="ignore"):  # what has next to no influence has an error beyond all numbers
        return Uncertainty(objective.plan, solution, floored=False).independent.standard_error


def _quantile(level: float, dof: float) -> float:
    """Return the half width of an interval in standard errors; infinity without a degree of freedom."""
    from scipy.special import ndtri, stdtrit  # slow to import

    probability = 0.5 * (1.0 + level)
    if math.isinf(dof):
        return float(ndtri(probability))
    return float(stdtrit(dof, probability)) if dof > 0 else math.inf
