"""What integral matching needs of a model, symbolically: one record for each experiment, made once.

The right-hand side f(t, y, q) and the initial state y0(q) in the formal parameters q of an experiment, their
derivatives by q, which pairs of parameters occur together (f is affine in a set of parameters if no pair of the
set does), observables that are affine in the states, and relations w'y = const that hold whatever the parameters are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import casadi as ca
import numpy as np
import numpy.typing as npt

from odefit.compile.conditions import formal_parameters, stack
from odefit.errors import UnsupportedError
from odefit.model.aggregates import EXTREMES
from odefit.problem import Experiment, Problem, state_of_initial
from odefit.problem.resolution import resolve_in_experiment, symbol_of
from odefit.strategy.matching_tables import with_tables_written_out

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_SAMPLES = 100  # random points at which relations between the rates are looked for, at least
_SAMPLES_PER_STATE = 3
_DECADES = 3.0  # that they reach up and down


@dataclass(frozen=True, eq=False)
class MatchingModel:
    """One experiment's model.

    Attributes
    ----------
    formal
        Names of q.
    rates, initial
        ``(t, y, q) -> f, df/dq`` and ``q -> y0, dy0/dq``.
    pairs
        (n_q, n_q): a second derivative of f by this pair is not structurally zero.
    coupled
        (n, n): which rates depend on which states.
    in_rates, in_initial
        (n, n_q): which parameters f and y0 depend on.
    observed
        ``(t, q) -> C, c`` of the observables C y + c.
    usable, steady
        Whether an observable has this form, and whether C and c are constant in time.
    observed_by
        (n_observables, n_q): parameters that C or c depend on.
    """

    formal: tuple[str, ...]
    symbols: tuple[Any, Any, Any]
    right: Any
    rates: Any
    initial: Any
    pairs: Flags
    coupled: Flags
    in_rates: Flags
    in_initial: Flags
    observed: Any
    usable: Flags
    steady: Flags
    observed_by: Flags

    def conserved(self, t0: float, end: float) -> Array:
        """Return rows w with w'f = 0 from `t0` to `end`, (k, n): found at random points, so to rounding.

        The points are spread over the time and over decades of states and parameters, and each has the
        same weight: a term that is switched on somewhere, or small, breaks a relation all the same.
        """
        n = self.symbols[1].numel()
        rng = np.random.default_rng(0)
        m = _SAMPLES_PER_STATE * n + _SAMPLES
        y, q = (10.0 ** rng.uniform(-_DECADES, _DECADES, (k, m)) for k in (n, len(self.formal)))
        with np.errstate(all="ignore"):
            f = np.array(self._mapped(m)(np.linspace(t0, end, m)[None, :], y, q)[0]).T
            size = np.linalg.norm(f, axis=1)
        f = f[np.isfinite(size) & (size > 0)] / size[np.isfinite(size) & (size > 0), None]
        if f.shape[0] < _SAMPLES_PER_STATE * n:
            return np.empty((0, n))
        _, w, vt = np.linalg.svd(f)
        rank = int(np.sum(w > 1e-10 * max(w[0], 1e-300)))
        return vt[rank:]

    def needed_for(self, measured: Flags, unseen: Flags) -> Flags:
        """Return the states whose rates count: the measured ones, and unseen ones that these depend on."""
        needed = measured.copy()
        for _ in range(measured.size):
            needed |= self.coupled[needed].any(axis=0) & unseen
        return needed

    def along(self, times: Array, states: Array, q: Array) -> tuple[Array, Array]:
        """Return f (m, n) and df/dq (m, n, n_q) at times (m,) with states (m, n)."""
        m, n, n_q = times.size, states.shape[1], q.size
        f, slopes = self._mapped(m)(times[None, :], states.T, np.repeat(q[:, None], m, axis=1))
        # CasADi lays matrices out by columns: one (n, n_q) block beside the other
        return np.array(f).T, np.array(slopes).T.reshape(m, n_q, n).transpose(0, 2, 1)

    def _mapped(self, m: int) -> Any:
        if m not in self._maps:
            self._maps[m] = self.rates.map(m)
        return self._maps[m]

    def integrated(self, hidden: npt.NDArray[np.int64], n_steps: int) -> Any:
        """Return Runge-Kutta 4 over `n_steps` steps with the states that are not `hidden` inserted.

        ``(x, u, q) -> X``: x holds the hidden states and the integrals of all rates; a column of u for each step
        the time, the step size, and the states at its begin, middle and end.
        """
        key = (hidden.tobytes(), n_steps)
        if key not in self._accumulated:
            self._accumulated[key] = self._step(hidden).mapaccum(n_steps)
        return self._accumulated[key]

    def _step(self, hidden: npt.NDArray[np.int64]) -> Any:
        t, y, q = self.symbols
        n, k = y.numel(), hidden.size
        rates = ca.Function("f", [t, y, q], [self.right])
        x, u = ca.SX.sym("x", k + n), ca.SX.sym("u", 2 + 3 * n)
        h = u[1]

        def at(stage: int, slope: Any, reach: float) -> Any:
            full = u[2 + stage * n : 2 + (stage + 1) * n]
            for i, place in enumerate(hidden.tolist()):
                full[place] = x[i] + (reach * h * slope[place] if reach else 0)
            return rates(u[0] + 0.5 * stage * h, full, q)

        k1 = at(0, None, 0.0)
        k2 = at(1, k1, 0.5)
        k3 = at(1, k2, 0.5)
        k4 = at(2, k3, 1.0)
        mean = h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return ca.Function("step", [x, u, q], [x + ca.vertcat(mean[hidden.tolist()], mean)])

    @cached_property
    def _accumulated(self) -> dict[Any, Any]:
        return {}

    @cached_property
    def _maps(self) -> dict[int, Any]:
        return {}


def matching_models(problem: Problem) -> tuple[MatchingModel, ...]:
    """Return the records of all experiments; they are made once for a model."""
    model = problem.model
    if model.mass:
        raise UnsupportedError('start values from the data (start = "auto") for equations in several derivatives')
    if (
        model.events
        or model.state_events
        or any(experiment.events or experiment.later for experiment in problem.experiments)
    ):
        raise UnsupportedError('start values from the data (start = "auto") for a model with events or doses')
    if any(experiment.before is not None for experiment in problem.experiments):
        raise UnsupportedError(
            'start values from the data (start = "auto") where an experiment starts from a steady state'
        )
    if np.isinf(problem.measurements.time).any():
        raise UnsupportedError(
            'start values from the data (start = "auto") where some are of a steady state (time = inf)'
        )
    names = tuple((p.name, p.expression, p.per) for p in problem.parameters)
    tables = tuple(problem.tables.items())
    key = ("matching", problem.experiments, tables, names, problem.observables, problem.structure.slots.by_row)
    return problem.model.kept.get(key, lambda: tuple(_matching_model(problem, e) for e in problem.experiments))


def _matching_model(problem: Problem, experiment: Experiment) -> MatchingModel:
    model = problem.model
    formal = formal_parameters(problem)
    t = model.symbols[model.time]
    y = stack(model.symbols[name] for name in model.states)
    q = stack(symbol_of(problem, name) for name in formal)

    def column(expressions: Iterable[Any]) -> Any:
        out = stack(resolve_in_experiment(problem, one, experiment) for one in expressions)
        return with_tables_written_out(problem, out, experiment)

    f = column(model.rhs[name] for name in model.states)
    y0 = column(_initial(problem, name, experiment) for name in model.states)
    slopes = ca.jacobian(f, q)
    n, n_q = y.numel(), q.numel()
    second = np.any(_pattern(ca.jacobian(ca.vec(slopes), q)).reshape(n_q, n, n_q), axis=1)
    g = column(model.symbols[name] for name in problem.observables)
    rows = ca.jacobian(g, y)
    curved = np.any(_pattern(ca.jacobian(ca.vec(rows), y)).reshape(n, g.numel(), n), axis=(0, 2))
    offset = ca.substitute(g, y, ca.SX.zeros(n))
    rows_by = np.any(_pattern(ca.jacobian(ca.vec(rows), q)).reshape(n, g.numel(), n_q), axis=0)
    known = {symbol.name() for symbol in ca.symvar(ca.vertcat(t, y, q))}
    # a parameter that depends on the single measurement has no one value
    # and what is gathered in an interval, or an extreme, is not the value of a state
    known -= {name for name, one in model.gathered.items() if one.interval or one.kind in EXTREMES}
    has_known_symbols = [{symbol.name() for symbol in ca.symvar(g[i])} <= known for i in range(g.numel())]
    usable = np.array(has_known_symbols, dtype=bool) & ~np.asarray(curved)
    shown, shown_offset = (ca.densify(rows), ca.densify(offset)) if usable.all() else _only(rows, offset, usable)
    return MatchingModel(
        formal=formal,
        symbols=(t, y, q),
        right=f,
        rates=ca.Function("rates", [t, y, q], [ca.densify(f), ca.densify(slopes)]),
        initial=ca.Function("initial", [q], [ca.densify(y0), ca.densify(ca.jacobian(y0, q))]),
        pairs=np.asarray(second | second.T),
        coupled=_pattern(ca.jacobian(f, y)),
        in_rates=_pattern(slopes),
        in_initial=_pattern(ca.jacobian(y0, q)),
        observed=ca.Function("observed", [t, q], [shown, shown_offset]),
        usable=usable,
        steady=np.array(
            [not ca.depends_on(ca.horzcat(rows[i, :], offset[i]), t) for i in range(g.numel())], dtype=bool
        ),
        observed_by=np.asarray(rows_by | _pattern(ca.jacobian(offset, q))),
    )


def _only(rows: Any, offset: Any, usable: Flags) -> tuple[Any, Any]:
    """Put zeros in place of observables that cannot be used (they may hold symbols that are not given)."""
    zero = ca.SX.zeros(1, rows.size2())
    masked = [rows[i, :] if ok else zero for i, ok in enumerate(usable)]
    return ca.densify(ca.vertcat(*masked)), ca.densify(
        ca.vertcat(*(offset[i] if ok else ca.SX(0) for i, ok in enumerate(usable)))
    )


def _initial(problem: Problem, state: str, experiment: Experiment) -> Any:
    for name, value in experiment.overrides.items():
        if state_of_initial(name) == state:
            return problem.expression(value) if isinstance(value, str) else ca.SX(float(value))
    return problem.model.initial[state]


def _pattern(matrix: Any) -> Flags:
    """Return where a matrix is not structurally zero."""
    pattern = np.zeros(matrix.shape, dtype=bool)
    rows, columns = matrix.sparsity().get_triplet()
    pattern[rows, columns] = True
    return pattern
