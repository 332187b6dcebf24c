"""What a problem holds, in words, and whether its derivatives agree with finite differences."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from odefit.compile import compile_problem
from odefit.criteria.least_squares import has_absolute_sigma
from odefit.integrate.initial_changes import words_for_initial_values
from odefit.integrate.state_conditions import words_for_state_conditions
from odefit.native.stop import StopFlag, raise_on_interrupt
from odefit.problem import Problem, Table
from odefit.problem.cells import names_of_cells, numbers_in
from odefit.problem.constraints import PATH, constraints_from, is_prior, read_constraints
from odefit.report.events import words_for_events
from odefit.report.labels import with_unit
from odefit.solve import Failed, LeastSquares
from odefit.strategy.influence import values_with_influence
from odefit.transcribe import SingleShooting

_WIDTH = 100
_AGREEMENT = 1e-4  # of a column of the Jacobian, relative to its largest entry


@dataclass(frozen=True)
class CheckReport:
    """The text for people, and whether everything is in order."""

    text: str
    ok: bool


def check(problem: Problem) -> CheckReport:
    """Describe `problem`, evaluate it at the start values and test its Jacobian."""
    lines = [problem.title] if problem.title else []
    model = problem.model
    kind = "implicit" if model.algebraic else "explicit"
    lines += _paragraph("States", model.shown or [f"none: an {kind} model"])
    lines += _rows(problem)
    lines += _paragraph("Definitions", [name for name in model.definitions if name not in model.algebraic] or ["none"])
    lines += _unknowns(problem)
    for one in model.foreign:
        names = ", ".join([*([] if one.autonomous else [model.time]), *one.states, *one.parameters])
        lines += _paragraph(
            "Right-hand side", [f"the function '{one.name}' of {names}; its derivatives are differences"]
        )
    lines += _parameters(problem)
    lines += _tables(problem)
    lines += _experiments(problem)
    lines += words_for_events(problem)
    lines += _arguments(problem)
    lines += _noise(problem)
    lines += _warnings(problem)
    derivative_lines, ok = _derivatives(problem)
    return CheckReport("\n".join([*lines, *derivative_lines]), ok)


def _paragraph(title: str, words: Iterable[str]) -> list[str]:
    return textwrap.wrap(f"{title}: {', '.join(words)}", _WIDTH, subsequent_indent="  ")


def _rows(problem: Problem) -> list[str]:
    """Say which equations are not explicit, and which state each is taken for."""
    model, lines = problem.model, []
    for title, algebraic in (("Equations in several derivatives", False), ("Algebraic equations", True)):
        rows = [f"  {row}: {model.written[row]}" for row, one in model.mass.items() if (not one) == algebraic]
        lines += [title] * bool(rows)
        lines += [line for words in rows for line in textwrap.wrap(words, _WIDTH, subsequent_indent="    ")]
    return lines


def _unknowns(problem: Problem) -> list[str]:
    """Say which algebraic unknowns are solved for together, from which equations."""
    title = "Algebraic unknowns; of several solutions the one that continues the guess"
    lines = [title] if problem.model.algebraic else []
    for block in problem.model.implicit:
        words = f"  {', '.join(block.unknowns)}: {'; '.join(block.equations)}"
        lines += textwrap.wrap(words, _WIDTH, subsequent_indent="    ")
    return lines


def _parameters(problem: Problem) -> list[str]:
    lines = []
    for parameter in problem.parameters:
        name = with_unit(parameter.name, parameter.unit or problem.units.get(parameter.name, ""))
        if parameter.expression is not None:
            lines.append(f"  {name} = {parameter.expression}")
            continue
        words = [f"fixed at {parameter.start:g}" if parameter.fixed else f"estimated from {parameter.start:g}"]
        if np.isfinite(parameter.lower) or np.isfinite(parameter.upper):
            words.append(f"between {parameter.lower:g} and {parameter.upper:g}")
        if parameter.scale != "linear":
            words.append(f"{parameter.scale} scale")
        if parameter.prior is not None:
            words.append(f"prior {parameter.prior}")
        if parameter.per is not None:
            n = sum(problem.slots.slots[i].parameter.name == parameter.name for i in problem.slots.fitted)
            words.append(f"one value per {parameter.per} ({n} with data)")
        lines.append(f"  {name}: {', '.join(words)}")
    for rule in problem.constraints:
        lines.append(f"  rule: {rule}{_grid(problem, rule)}")
    return ["Parameters", *lines]


def _grid(problem: Problem, rule: str) -> str:
    """Say on how many times a rule for all times is held."""
    if is_prior(rule) or not any(
        one.kind == PATH and one.constraint in constraints_from(rule) for one in read_constraints(problem).constraints
    ):
        return ""
    wanted = problem.settings.path_times
    grid = f"{len(wanted)} given times" if isinstance(wanted, tuple) else f"the data and {wanted} equal parts"
    return f" (at all times: held at {grid} of each experiment)"


def _tables(problem: Problem) -> list[str]:
    names = dict.fromkeys((*problem.tables, *(name for e in problem.experiments for name in e.tables)))
    lines = ["Tables"] if names else []
    for name in names:
        own = [e.name for e in problem.experiments if name in e.tables]
        one = problem.tables.get(name)
        words = [] if one is None else [_table(one)]
        words += [f"of its own in {', '.join(own)}"] if own else []
        lines += textwrap.wrap(f"  {name}: {'; '.join(words)}", _WIDTH, subsequent_indent="    ")
    compiled = compile_problem(problem)
    corners: dict[str, None] = {}
    for e, experiment in enumerate(problem.experiments):
        for text, name in compiled.model(e).moving_calls:
            kind = problem.table(name, experiment).kind
            if kind == "linear":  # one with steps is named among the conditions on states
                corners[f"Warning: {text} is of kind 'linear': where it has corners no step ends"] = None
    return [*lines, *corners]


def _table(table: Table) -> str:
    axes = table.x if isinstance(table.x, tuple) else (table.x,)
    reach = " and ".join(f"from {axis[0]:g} to {axis[-1]:g}" for axis in axes)
    size = " x ".join(str(axis.size) for axis in axes)
    values = f", with {', '.join(table.names)}" if table.names else ""
    return f"{table.kind}, {size} values {reach}, outside: {table.outside}{values}"


def _experiments(problem: Problem) -> list[str]:
    data = problem.measurements
    used = data.used
    lines = ["Experiments"]
    for experiment in problem.experiments:
        mine = data.experiment == experiment.name
        counts = []
        for name in problem.observables:
            n = int(np.sum(mine & used & (data.observable == name)))
            if n:
                counts.append(f"{n} of {name}")
        words = [", ".join(counts) if counts else "no data: a prediction"]
        if experiment.use == "validate":
            words.append("scored, not fitted")
        at_rest = int(np.sum(mine & used & np.isinf(data.time)))
        if at_rest:
            words.append(f"{at_rest} of them of the steady state" if at_rest < np.sum(mine & used) else "steady states")
        if experiment.overrides:
            words.append(f"with {_replaced(experiment.overrides)}")
        if experiment.before is not None:
            before = _replaced(experiment.before)
            words.append(f"from the steady state{' of ' if before else ' of these conditions'}{before}")
        for period in experiment.later:
            words.append(f"from {_shown(period.start)} on {_replaced(period.overrides) or 'as at the start'}")
        lines += textwrap.wrap(
            f"  {experiment.name}: {'; '.join(words)}", _WIDTH, subsequent_indent="    ", drop_whitespace=True
        )
    ignored = int(np.sum(~used))
    if ignored:
        lines.append(f"  {ignored} values are missing or have weight 0")
    return lines


def _replaced(overrides: Mapping[str, float | str]) -> str:
    return ", ".join(f"{name} = {_shown(value)}" for name, value in overrides.items())


def _shown(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _arguments(problem: Problem) -> list[str]:
    """Say what symbols stand for in single measurements."""
    data = problem.measurements
    lines = ["Arguments of the rows"] if data.arguments else []
    for symbol, cells in data.arguments.items():
        names = dict.fromkeys(name for name in names_of_cells(cells)[data.used].tolist() if name)
        words = [*names, *_counted(numbers_in(cells)[data.used])]
        lines += textwrap.wrap(f"  {symbol}: {', '.join(words)}", _WIDTH, subsequent_indent="    ")
    return lines


def _counted(numbers: npt.NDArray[np.float64]) -> list[str]:
    distinct = np.unique(numbers[np.isfinite(numbers)])
    return [f"{distinct.size} different numbers"] if distinct.size > 3 else [f"{number:g}" for number in distinct]


def _noise(problem: Problem) -> list[str]:
    if has_absolute_sigma(problem):
        names = dict.fromkeys(name for name in problem.measurements.sigma_names.tolist() if name)
        words = f"; some are parameters ({', '.join(names)})" if names else ""
        return [f"Noise: standard deviations are given and taken as absolute{words}"]
    if np.isfinite(problem.measurements.weight).any():
        return ["Noise: weights are given; a common variance is estimated"]
    return ["Noise: none given; one common standard deviation is estimated"]


def _warnings(problem: Problem) -> list[str]:
    """Name conditions on states that steps may miss, and initial values that are not used as they are given."""
    compiled = compile_problem(problem)
    texts = (
        words_for_state_conditions(compiled),
        words_for_initial_values(problem, compiled, compiled.theta_start),
    )
    wrapped = (
        textwrap.wrap(f"Warning: {words[0].lower()}{words[1:]}", _WIDTH, subsequent_indent="  ") if words else []
        for words in texts
    )
    return [line for lines in wrapped for line in lines]


def _derivatives(problem: Problem) -> tuple[list[str], bool]:
    stop = StopFlag()
    objective = SingleShooting(problem, stop)
    with raise_on_interrupt(stop):
        return _compared(problem, objective)


def _compared(problem: Problem, objective: SingleShooting) -> tuple[list[str], bool]:
    """Compare the derivatives at the start values with finite differences."""
    x = objective.compiled.theta_start
    objective.refresh(x)
    start = objective.evaluate(x, 1)
    if isinstance(start, Failed):
        return [f"At the start values the model cannot be computed: {start.failure}"], False
    lines = [f"At the start values the objective is {start.value:.6g} ({objective.n_data} data)"]
    if objective.n_data < len(objective.names):
        lines.append(f"Warning: only {objective.n_data} data for {len(objective.names)} free parameters")
    if not isinstance(start, LeastSquares) or start.linear is None or not objective.names:
        return lines, True
    bad, silent = [], []
    elsewhere: dict[int, float] = {}
    for i, name in enumerate(objective.names):
        exact = start.linear.jacobian[:, i]
        largest = float(np.abs(exact).max())
        if largest == 0.0:
            silent.append(i)
        difference = float(np.abs(central_difference(objective, x, i) - exact).max())
        if not difference <= _AGREEMENT * largest + 1e-7 and has_moving_conditions(objective):
            difference = one_sided_difference(objective, x, i, start.residual, exact)
        if not difference <= _AGREEMENT * largest + 1e-7:
            bad.append(f"{name} ({difference / max(largest, 1e-300):.1e})")
    if silent:
        elsewhere = values_with_influence(problem, x, silent)
    if len(silent) > len(elsewhere):
        none = [objective.names[i] for i in silent if i not in elsewhere]
        lines += _paragraph("Warning: at the start the data do not depend on", none)
    for i, value in elsewhere.items():
        name = objective.names[i]
        lines.append(
            f"Warning: small changes of {name} do not change the data at the start, but {name} = {value:.4g} does"
        )
    if bad:
        lines += _paragraph("Derivatives DISAGREE with finite differences for", bad)
    else:
        lines.append("Derivatives agree with finite differences for all free parameters")
    return lines, not bad


def central_difference(objective: SingleShooting, x: np.ndarray, i: int) -> np.ndarray:
    """Differentiate the residuals on the frozen grid (fourth order)."""
    h = 1e-3 * max(abs(x[i]), 1e-3)
    parts, missing = [], np.full(objective.n_residuals, np.nan)
    for step, weight in ((-2, 1.0), (-1, -8.0), (1, 8.0), (2, -1.0)):
        moved = x.copy()
        moved[i] += step * h
        point = objective.evaluate(moved, 0)
        parts.append(weight * point.residual if isinstance(point, LeastSquares) else missing)
    return np.sum(parts, axis=0) / (12.0 * h)


def has_moving_conditions(objective: SingleShooting) -> bool:
    """Tell whether times of conditions depend on parameters."""
    models = (objective.compiled.model(o.experiment) for o in objective.observations)
    return any(model.switches is not None and model.switches.moving for model in models)


def one_sided_difference(
    objective: SingleShooting, x: np.ndarray, i: int, residual: np.ndarray, exact: np.ndarray
) -> float:
    """Return by how much derivatives miss the nearer one of the differences (second order) to both sides.

    A measurement at the very time of a condition that depends on the parameter has two derivatives.
    """
    nearest = np.full(exact.size, np.inf)
    for sign in (-1.0, 1.0):
        h = sign * 1e-3 * max(abs(x[i]), 1e-3)
        points = []
        for step in (1.0, 2.0):
            moved = x.copy()
            moved[i] += step * h
            points.append(objective.evaluate(moved, 0))
        one, two = points
        if isinstance(one, LeastSquares) and isinstance(two, LeastSquares):
            slope = (4.0 * one.residual - 3.0 * residual - two.residual) / (2.0 * h)
            nearest = np.fmin(nearest, np.abs(slope - exact))
    return float(nearest.max())
