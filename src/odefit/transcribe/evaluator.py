"""A problem as a function of its free parameters, for optimisers and samplers that are not odefit's own.

An evaluation chooses its own integration steps by default, so that it is a function of the point alone: the same number
comes whatever was asked before, in whichever thread.  Its derivatives are those on these steps.  Where the point moves,
so may the steps, and the function has jumps of the size of the integration tolerance.  With *frozen* steps it has none:
all evaluations take the steps that were chosen at one point, and derivatives are exact to rounding.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from odefit.compile.scales import solver_values
from odefit.criteria import SumOfSquares
from odefit.errors import FitError, OdefitError, ProblemError, suggestion
from odefit.native.stop import StopFlag, raise_on_interrupt
from odefit.problem import Problem
from odefit.solve import Evaluation, Failed
from odefit.transcribe.plan import plan_of
from odefit.transcribe.single import SingleShooting

Array = npt.NDArray[np.float64]
T = TypeVar("T")
Values = Mapping[str, float] | npt.ArrayLike

NATURAL, SOLVER = "natural", "solver"
_SCALES = (NATURAL, SOLVER)
_LONG = 0.5  # seconds that an evaluation might take, from which Ctrl-C must be able to stop it halfway


@dataclass(frozen=True, eq=False)
class PointEvaluation:
    """An objective at one point, for other optimisers and samplers.

    Attributes
    ----------
    status, message
        "ok", or "failed" with the reason; then all numbers are NaN.
    residuals, jacobian
        Weighted residuals (N,), those of the data and then those of the priors, and their derivatives by the free
        parameters (N, n); None below order 1.
    objective
        What a fit minimises, priors included: half the sum of squares for least squares.
    loglik
        Normal log likelihood of the data, without priors.
    """

    status: str
    message: str
    residuals: Array
    jacobian: Array | None
    objective: float
    loglik: float


class _Point(NamedTuple):
    """An evaluation as it is remembered: `key` and `frozen` say where and on which steps; `failure` why not."""

    key: bytes
    frozen: Array | None
    order: int
    theta: Array
    evaluation: Any
    failure: str

    def answers(self, key: bytes, frozen: Array | None, order: int) -> bool:
        """Tell whether this is what an evaluation there would give; a derivative may fail where the value exists."""
        if key != self.key or frozen is not self.frozen:
            return False
        return order == self.order or (order < self.order and not self.failure)


def _read_only(values: Array) -> Array:
    result = values.copy()
    result.flags.writeable = False
    return result


class _Workspace(threading.local):
    """What one thread works with: its objective with the steps of `frozen`, and the last point."""

    def __init__(self) -> None:  # called in each thread that uses it
        self.stop = StopFlag()
        self.objective: SingleShooting | None = None
        self.frozen: Array | None = None
        self.point: _Point | None = None
        self.long = True  # an evaluation might take long: nothing is known yet


class Evaluator:
    """The residuals, likelihood and objective of a problem as functions of its free parameters.

    A point is an array in the order of `names`, or a mapping from names to values in which parameters that are not
    named keep their start values.  Outside the bounds, and where the model cannot be solved, residuals and derivatives
    are NaN, `loglik` is -inf and `objective` inf; ``evaluate(x).message`` says why.

    The log likelihood is the normal one of the data, *without* priors.  Where no standard deviations are given, the
    unknown common variance is replaced by its best value at each point.  The objective is what a fit minimises, with
    priors: for least squares half the sum of squares of all residuals, so that with given standard deviations
    ``-objective`` is the logarithm of the posterior density up to a constant.  All of these are the same numbers on
    both scales: no factor for the change of variables is added.

    Evaluators may be shared by threads, and go through `pickle`.

    Parameters
    ----------
    problem
        What is evaluated.  Fixed parameters stay where they are.
    scale
        "natural": values as in the problem file; "solver": logarithms and the like, as each parameter's scale says.
    freeze
        Choose the integration steps once, at the first point that can be solved or at that of `refresh`, and take them
        at all others.

    Attributes
    ----------
    names
        The free parameters.
    start, lower, upper
        Start values and bounds, (n,), on the scale.
    n_data, n_residuals
        Number of measured values, and with the priors, whose residuals come last.
    """

    def __init__(self, problem: Problem, *, scale: str = NATURAL, freeze: bool = False) -> None:
        if scale not in _SCALES:
            raise OdefitError(
                f"an evaluator has no scale '{scale}'{suggestion(scale, _SCALES)} There are: {', '.join(_SCALES)}."
            )
        self.problem = problem
        self.scale = scale
        self.freeze = freeze
        plan = self._plan = plan_of(problem)
        compiled = self._compiled = plan.compiled
        self.names = compiled.theta_names
        self.n_data, self.n_residuals = plan.n_data, plan.n_residuals
        self._natural = scale == NATURAL
        # residuals are differences of model and data whatever the criterion makes of them
        self._own = plan.criterion.name != SumOfSquares.name
        self._rows = problem.with_settings(criterion=SumOfSquares.name) if self._own else problem
        self._frozen: Array | None = None
        self._lock = threading.Lock()
        self._here = _Workspace()

    @cached_property
    def start(self) -> Array:
        """Start values, on the scale."""
        compiled = self._compiled
        return _read_only(compiled.slot_start[compiled.free] if self._natural else compiled.theta_start)

    @cached_property
    def lower(self) -> Array:
        """Lower bounds, on the scale."""
        return _read_only(self._compiled.lower if self._natural else self._compiled.theta_lower)

    @cached_property
    def upper(self) -> Array:
        """Upper bounds, on the scale."""
        return _read_only(self._compiled.upper if self._natural else self._compiled.theta_upper)

    @cached_property
    def _curved(self) -> bool:
        """Whether derivatives by the solver's values are not those by the natural ones that are asked for."""
        return self._natural and self._compiled.structure.is_curved

    def __repr__(self) -> str:
        frozen = ", freeze=True" if self.freeze else ""
        return f"Evaluator({', '.join(self.names)}; {self.n_residuals} residuals, scale='{self.scale}'{frozen})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.problem, self.scale, self.freeze, self._frozen)

    def residuals(self, x: Values) -> Array:
        """Return the weighted residuals at `x`, (N,)."""
        point = self._at(x, 0)
        return self._missing() if point.failure else point.evaluation.differences / self._plan.factor

    def jacobian(self, x: Values) -> Array:
        """Return the derivatives of the residuals by the free parameters, (N, n)."""
        return self._derivatives(self._at(x, 1))

    def residuals_and_jacobian(self, x: Values) -> tuple[Array, Array]:
        """Return both, of one evaluation."""
        point = self._at(x, 1)
        residuals = self._missing() if point.failure else point.evaluation.differences / self._plan.factor
        return residuals, self._derivatives(point)

    def loglik(self, x: Values) -> float:
        """Return the log likelihood of the data; -inf where there is none."""
        point = self._at(x, 0)
        return -math.inf if point.failure else self._log_likelihood(point)

    def gradient(self, x: Values) -> Array:
        """Return the derivatives of the log likelihood by the free parameters, (n,)."""
        point = self._at(x, 1)
        if point.failure:
            return np.full(len(self.names), np.nan)
        plan = self._plan
        differences = plan.finite(point.evaluation.differences)
        score = plan.criterion.score(differences, plan.root_weights, absolute=plan.absolute)
        rows = point.evaluation.linear.jacobian[: plan.n_data]
        if plan.data.exact.size:
            rows = np.delete(rows, plan.data.exact, axis=0)
        by_theta = score @ rows
        return by_theta / self._slopes(point) if self._curved else by_theta

    def objective(self, x: Values) -> float:
        """Return what a fit minimises, priors included; inf where it does not exist."""
        point = self._at(x, 0)
        return math.inf if point.failure else self._value(point)

    def evaluate(self, x: Values | None = None, order: int = 1) -> PointEvaluation:
        """Return everything at `x`, by default at the start values; with `order` 0 no derivatives."""
        if order not in (0, 1):
            raise OdefitError(f"evaluate was asked for order {order}; residuals have orders 0 and 1.")
        point = self._at(self.start if x is None else x, order)
        if point.failure:
            return PointEvaluation("failed", point.failure, self._missing(), None, math.nan, math.nan)
        jacobian = self._derivatives(point) if order else None
        residuals = point.evaluation.differences / self._plan.factor
        return PointEvaluation("ok", "", residuals, jacobian, self._value(point), self._log_likelihood(point))

    def refresh(self, x: Values) -> None:
        """Choose the frozen steps anew, at `x`.

        Raises
        ------
        FitError
            If the model cannot be solved there; the steps stay as they are.
        """
        if not self.freeze:
            raise OdefitError(
                "every evaluation chooses its own steps; only an Evaluator(..., freeze=True) has some to refresh."
            )
        theta, failure = self._theta(self._array(x))
        if not failure:
            failure = _failure_of(self._guarded(lambda: self._freeze_at(theta)))
        if failure:
            raise FitError(f"steps cannot be chosen at this point: {failure}")

    def _at(self, x: Values, order: int) -> _Point:
        """Return the point `x`, evaluated or remembered."""
        values, here = self._array(x), self._here
        key, point = values.tobytes(), here.point
        if point is not None and point.answers(key, self._frozen, order):
            return point
        theta, failure = self._theta(values)
        evaluation: Evaluation | None = None
        if not failure:
            evaluation = self._guarded(lambda: self._timed(theta, order)) if here.long else self._at_theta(theta, order)
            failure = _failure_of(evaluation)
        point = here.point = _Point(key, here.frozen, order, theta, evaluation, failure)
        return point

    def _guarded(self, work: Callable[[], T]) -> T:
        """Work so that Ctrl-C stops the kernels, and raise `KeyboardInterrupt` then."""
        here = self._here
        try:
            with raise_on_interrupt(here.stop):
                return work()
        except KeyboardInterrupt:
            here.stop, here.objective = StopFlag(), None  # the old one stays set
            raise

    def _timed(self, theta: Array, order: int) -> Evaluation:
        """Evaluate, and see whether further evaluations need a guard: it costs as much as a small model."""
        here, started = self._here, time.perf_counter()
        evaluation = self._at_theta(theta, order)
        seconds = time.perf_counter() - started
        steps = here.objective.n_steps if here.objective is not None else 0
        if steps:
            most = self.problem.settings.max_steps * len(self._plan.observed_names)
            here.long = seconds * most > _LONG * steps
        return evaluation

    def _at_theta(self, theta: Array, order: int) -> Evaluation:
        return self._replayed(theta, order) if self.freeze else self._adapted(theta, order)

    def _adapted(self, theta: Array, order: int) -> Evaluation:
        """Evaluate with steps of its own."""
        here = self._here
        objective = here.objective
        if objective is None:
            objective = here.objective = SingleShooting(self._rows, here.stop, readapt=True)
        objective.forget()
        return objective.evaluate(theta, order)

    def _replayed(self, theta: Array, order: int) -> Evaluation:
        """Evaluate on the frozen steps; the first point that can be solved chooses them."""
        here = self._here
        if self._frozen is None:
            with self._lock:
                if self._frozen is None:
                    failed = self._freeze_at(theta)
                    if failed is not None:
                        return failed
        frozen, objective = self._frozen, here.objective
        if objective is None or here.frozen is not frozen:
            assert frozen is not None  # it is never taken back
            objective = SingleShooting(self._rows, here.stop)
            objective.refresh(frozen)
            here.objective, here.frozen = objective, frozen
        return objective.evaluate(theta, order)

    def _freeze_at(self, theta: Array) -> Evaluation | None:
        """Choose steps at `theta` and keep the place: other threads choose the same there.  Return why it failed."""
        place, here = theta.copy(), self._here
        objective = SingleShooting(self._rows, here.stop)
        objective.refresh(place)
        if objective.grids is None:
            return objective.evaluate(place, 1)
        self._frozen = here.frozen = place
        here.objective = objective
        return None

    def _missing(self) -> Array:
        return np.full(self.n_residuals, np.nan)

    def _derivatives(self, point: _Point) -> Array:
        if point.failure:
            return np.full((self.n_residuals, len(self.names)), np.nan)
        jacobian = point.evaluation.linear.jacobian / self._plan.factor
        return jacobian / self._slopes(point) if self._curved else jacobian

    def _slopes(self, point: _Point) -> Array:
        """Return dq/dtheta of the natural values q."""
        return self._compiled.to_natural(point.theta)[1]

    def _log_likelihood(self, point: _Point) -> float:
        plan = self._plan
        differences = plan.finite(point.evaluation.differences)
        return plan.criterion.log_likelihood(differences, plan.root_weights, absolute=plan.absolute)

    def _value(self, point: _Point) -> float:
        if not self._own:
            return self._plan.in_units(point.evaluation.value)
        data, priors = np.split(point.evaluation.differences, [self.n_data])
        assessed = self._plan.criterion.assess(data, 0.5 * float(data @ data), None)
        return assessed.value + 0.5 * float(priors @ priors)

    def _array(self, x: Values) -> Array:
        """Return the values of a point in the order of `names`."""
        if type(x) is not np.ndarray and isinstance(x, Mapping):  # the second test is the dearer one
            return self._from_names(x)
        try:
            values = np.array(x, dtype=float, order="C")  # the caller's may change, and is laid out as it likes
        except (TypeError, ValueError):
            raise ProblemError(
                f"a point is {len(self.names)} numbers or a mapping of names to numbers, not {x!r}."
            ) from None
        if values.shape != self.start.shape:
            n = len(self.names)
            raise ProblemError(
                f"a point has the shape {values.shape}, but there {'is' if n == 1 else 'are'} {n} free "
                f"parameter{'s' * (n != 1)}: {', '.join(self.names)}."
            )
        return values

    def _from_names(self, values: Mapping[str, float]) -> Array:
        result = self.start.copy()
        for name, value in values.items():
            places = [i for i, known in enumerate(self.names) if name in (known, known.split("[")[0])]
            if not places:
                raise ProblemError(self._words_for_name(name))
            try:
                result[places] = float(value)
            except (TypeError, ValueError):
                raise ProblemError(f"'{name}' was given the value {value!r}; give a number.") from None
        return result

    def _words_for_name(self, name: str) -> str:
        if any(p.name == name.split("[")[0] for p in self.problem.parameters):
            return f"'{name}' is not free; make an evaluator of problem.with_start(...) to change it."
        return f"there is no free parameter '{name}'{suggestion(name, self.names)}"

    def _theta(self, values: Array) -> tuple[Array, str]:
        """Return the solver's values of a point, and what is wrong with it."""
        compiled = self._compiled
        if self._natural:
            theta = np.empty(values.size)
            wrong = solver_values(compiled.scale_codes, values, compiled.lower, compiled.upper, theta)
            return theta, self._words_for_bounds(values, wrong) if wrong >= 0 else ""
        inside = (values >= self.lower) & (values <= self.upper) & np.isfinite(values)
        return values, "" if inside.all() else self._words_for_bounds(values, int(np.argmin(inside)))

    def _words_for_bounds(self, values: Array, i: int) -> str:
        low, high = self.lower[i], self.upper[i]
        if low <= values[i] <= high:
            return (
                f"'{self.names[i]}' is {values[i]:g}, which its scale '{self._compiled.theta_scales[i]}' cannot reach"
            )
        return f"'{self.names[i]}' is {values[i]:g}, outside its bounds [{low:g}, {high:g}]"


def _failure_of(evaluation: Evaluation | None) -> str:
    return evaluation.failure if isinstance(evaluation, Failed) else ""


def _restored(problem: Problem, scale: str, freeze: bool, frozen: Array | None) -> Evaluator:
    """Return the evaluator of a pickle; steps are chosen again where they were."""
    evaluator = Evaluator(problem, scale=scale, freeze=freeze)
    evaluator._frozen = frozen
    return evaluator
