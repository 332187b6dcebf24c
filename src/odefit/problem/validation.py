"""The checks of a problem: every name exists, everything has a value, data fit the experiments."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import casadi as ca
import numpy as np

from odefit.errors import OdefitError, ProblemError, UnsupportedError, suggestion
from odefit.model import Model
from odefit.model.events import name_of_held
from odefit.model.names import initial_name, state_of_initial
from odefit.problem.arguments import check_arguments, check_cells, check_names
from odefit.problem.constrained import check_constraints, names_in_constraints
from odefit.problem.derived import check_quantities, quantities_by_text, quantities_of
from odefit.problem.event_validation import check_doses, check_events, refuse_tables, texts_of_doses
from odefit.problem.intervals import check_intervals
from odefit.problem.noise import check_expressions, check_measured, standard_deviations
from odefit.problem.resolution import unknowns_in
from odefit.problem.table_validation import check_tables

if TYPE_CHECKING:
    from odefit.problem.experiments import Experiment
    from odefit.problem.problem import Problem


def validate(problem: Problem) -> None:
    """Check `problem`; raise an `OdefitError` that names the first thing that is wrong."""
    for name, noise in problem.noise.items():
        noise.check(f"[noise] {name}")
    _check_unique("parameter", (p.name for p in problem.parameters))
    _check_unique("experiment", (e.name for e in problem.experiments))
    if not problem.experiments:
        raise ProblemError("the problem has no experiment; give at least one.")
    _check_values(problem)
    _check_overrides(problem)
    check_events(problem)
    check_doses(problem)
    used = _check_expressions(problem) | check_tables(problem) | names_in_constraints(problem)
    refuse_tables(problem)
    check_arguments(problem, used)
    check_names(problem)
    _check_parameters(problem, used | problem.measurements.named)


def validate_data(problem: Problem) -> None:
    """Check what `problem` holds of data, conditions left out; raise as `validate` does."""
    check_measurements(problem)
    check_cells(problem)
    _check_noise(problem)
    check_starts(problem, [p.name for p in problem.parameters])


def _check_unique(what: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ProblemError(f"the {what} '{name}' is given twice; keep one.")
        seen.add(name)


def _check_values(problem: Problem) -> None:
    """Every name without an equation has a value in every experiment."""
    known = {p.name for p in problem.parameters}
    for name in problem.model.parameters:
        if name in problem.measurements.arguments:
            continue  # its values stand in the rows
        lacking = [e.name for e in problem.experiments if name not in e.overrides]
        if name not in known and lacking:
            raise ProblemError(
                f"'{name}' is used in the equations but has no value{suggestion(name, known)} "
                f"Add it to the parameters or define it in the equations."
            )


def _check_parameters(problem: Problem, used: set[str]) -> None:
    """No parameter is left over or defined twice; `used` are the names in expressions."""
    model = problem.model
    for parameter in problem.parameters:
        name = parameter.name
        if name in model.parameters or name in used:
            continue
        if name in model.symbols:
            raise ProblemError(
                f"'{name}' is both a parameter and a name with an equation of its own in the model; remove one."
            )
        cells = " or in cells of the data" if problem.measurements.named else ""
        hint = suggestion(name, model.parameters)
        raise ProblemError(f"parameter '{name}' does not occur in the equations{cells}{hint}")


def _check_overrides(problem: Problem) -> None:
    model = problem.model
    for experiment in problem.experiments:
        for name in experiment.overrides:
            state = state_of_initial(name)
            if state is not None and state not in model.shown:
                raise ProblemError(
                    f"experiment '{experiment.name}' sets '{name}', but '{state}' is not a state"
                    f"{suggestion(state, model.shown)}"
                )
            if state is None and name in model.shown:
                raise ProblemError(
                    f"experiment '{experiment.name}' sets the state '{name}'; "
                    f'write "{initial_name(name)}" for its initial value.'
                )
            if state is None and (name not in model.names or name == model.time):
                raise ProblemError(
                    f"experiment '{experiment.name}' sets '{name}', which the model does not have"
                    f"{suggestion(name, model.names)}"
                )
            fault = model.fault_of_replacing(name)
            if fault is not None:
                raise UnsupportedError(f"experiment '{experiment.name}' sets '{name}': {fault}")
            _refuse_held_definition(model, experiment, name)
        for name in experiment.before or ():
            fault = model.fault_of_replacing(name)
            if fault is not None:
                raise UnsupportedError(f"experiment '{experiment.name}' sets '{name}' before its start: {fault}")
            _refuse_held_definition(model, experiment, name)


def _refuse_held_definition(model: Model, experiment: Experiment, name: str) -> None:
    if name in model.definitions and name in model.changed_by_events:
        raise UnsupportedError(
            f"experiment '{experiment.name}' sets '{name}', a definition that an event changes too; make it a "
            "parameter: remove its equation, and give its value in [parameters]"
        )


def _check_expressions(problem: Problem) -> set[str]:
    """Parse every expression of the problem; return the names of its own parameters that they use."""
    used: set[str] = set()

    def look(
        text: str, where: str, forbidden: Mapping[str, str], *, at_start: bool = False, read: Any = problem.expression
    ) -> None:
        try:
            expression = read(text)
        except OdefitError as error:
            error.args = (f"{where}: {error.args[0]}",)
            raise
        names = {symbol.name() for symbol in ca.symvar(problem.model.resolve([expression], at_start=at_start)[0])}
        used.update(names)
        for name in sorted(names & forbidden.keys()):
            raise ProblemError(f"{where} uses {forbidden[name].format(name=name)}.")

    model = problem.model
    only = "; only parameters may stand there"
    moving = {name: f"the state '{{name}}'{only}" for name in model.shown}
    moving[model.time] = f"the independent variable '{{name}}'{only}"
    by_events = _words_for_events(problem)
    moving |= {name: by_events[name] for name in model.held}
    by_row = problem.structure.slots.by_row
    by_column = {p.name: p.per for p in problem.parameters if p.per not in (None, "experiment")}
    by_experiment = {p.name: "experiment" for p in problem.parameters if p.per == "experiment"}
    single = moving | {name: f"'{{name}}', which has one value per {per}" for name, per in by_column.items()}
    arguments = problem.measurements.arguments
    single |= dict.fromkeys(arguments, "'{name}', an argument of the data, which has a value in each of their rows")
    shared = single | {name: f"'{{name}}', which has one value per {per}" for name, per in by_experiment.items()}
    for parameter in problem.parameters:
        if parameter.expression is not None:
            look(parameter.expression, f"the expression of '{parameter.name}'", moving | by_events)
    for experiment in problem.experiments:
        before = {f"'{name}' in 'before' of": (name, value) for name, value in (experiment.before or {}).items()}
        values = {f"'{name}' in": (name, value) for name, value in experiment.overrides.items()}
        for what, (name, value) in {**values, **before}.items():
            if isinstance(value, str):
                where = f"{what} experiment '{experiment.name}'"
                if state_of_initial(name) is not None:
                    look(value, where, moving, at_start=True)
                else:  # what an event changes is a number before
                    look(value, where, moving | by_events if name in model.changed_by_events else by_events)
        for number, period in enumerate(experiment.later, start=2):
            place = f"period {number} of experiment '{experiment.name}'"
            values = {f"'{name}' in {place}": value for name, value in period.overrides.items()}
            for where, value in {f"the start of {place}": period.start, **values}.items():
                if isinstance(value, str):
                    look(value, where, moving | by_events | {name: single[name] for name in by_row}, at_start=True)
    for text, where in texts_of_doses(problem):
        look(text, where, moving | {name: single[name] for name in by_row})
    for name, noise in problem.noise.items():
        if noise.expression is not None:
            along = {one: words for one, words in by_events.items() if one not in model.gathered}
            look(noise.expression, f"[noise] {name}", along)
    for rule in problem.rules:
        for name in sorted(unknowns_in(problem.model.resolve([problem.expression(rule.expression)])[0])):
            raise UnsupportedError(f"the algebraic unknown '{name}' in a rule (\"{rule.expression}\")")
        look(rule.expression, f'the rule "{rule.expression} ~ ..."', shared)
    derived = quantities_by_text(problem)
    used.update(quantities_of(problem).model.parameters if derived else ())
    at_a_time = {
        name: f"the state '{{name}}'; write {name}({model.time}=...) for its value at a time" for name in model.shown
    }
    for name, text in problem.derived.items():
        if name in model.symbols or name in {p.name for p in problem.parameters}:
            raise ProblemError(f"the derived quantity '{name}' has the name of something else; choose another one.")
        look(text, f"the derived quantity '{name}'", single | at_a_time, read=derived.__getitem__)
    return used


def _words_for_events(problem: Problem) -> dict[str, str]:
    """Return what to say about expressions that use a name which events change, or that name's held states.

    Outside the equations such a parameter would stand for its value at the start, and not follow the events.
    """
    model = problem.model
    advice = "; write a definition of it in the equations, and use the name of that"
    words = {name: f"'{{name}}', which an event changes{advice}" for name in model.changed_by_events}
    held = {name: f"'{name_of_held(name)}', which an event changes, through a definition" for name in model.held}
    for name, one in model.gathered.items():
        kind = "the interval of a measurement" if one.interval else "time"
        held[name] = f"'{name}', an aggregate over {kind}, through a definition"
    return {**{name: words[name] for name in words if name in model.parameters}, **held}


def check_measurements(problem: Problem) -> None:
    """Check that the data fit the model and the experiments, and that their columns tell the slots apart."""
    data, model = problem.measurements, problem.model
    observable = {*model.shown, *model.definitions}
    for name in problem.observables:
        if name not in observable:
            raise ProblemError(
                f"the data have a column '{name}', which is no state and no definition of the model"
                f"{suggestion(name, observable)}"
            )
    experiments = {e.name: e for e in problem.experiments}
    for name in dict.fromkeys(data.experiment.tolist()):
        if name not in experiments:
            raise ProblemError(
                f"the data have an experiment '{name}', which is not described{suggestion(name, experiments)}"
            )
        start = experiments[name].start
        early = (data.experiment == name) & (data.time < start)
        if np.any(early):
            raise ProblemError(
                f"experiment '{name}' has a measurement at {model.time} = {data.time[early].min():g}, "
                f"before its start at {start:g}; move the start (t0) or remove the row."
            )
        if experiments[name].use == "predict":
            raise ProblemError(f'experiment \'{name}\' has data but use = "predict"; write "fit" or "validate".')
    _check_at_rest(problem)
    check_intervals(problem)
    check_quantities(problem)
    if problem.structure.restrictions:
        check_constraints(problem)
    _ = problem.structure.slots  # refuses columns that do not


def _check_at_rest(problem: Problem) -> None:
    """Refuse what has no value in a steady state, which data at an infinite time are of."""
    data, model = problem.measurements, problem.model
    at_rest = np.isinf(data.time)
    for name in dict.fromkeys(data.observable[at_rest].tolist()) if model.gathered else ():
        if problem.depends_on(model.symbols[name], tuple(model.gathered)):
            data.refuse(
                at_rest & (data.observable == name),
                lambda i: (
                    f"a steady state has no '{data.observable[i]}', an aggregate over {model.time}; give a finite time."
                ),
            )


def _check_noise(problem: Problem) -> None:
    """Every entry belongs to something measured, and gives each of its values a standard deviation."""
    check_measured(problem.noise, problem.observables)
    standard_deviations(problem.measurements, problem.noise)
    check_expressions(problem)


def check_starts(problem: Problem, parameters: Collection[str]) -> None:
    """Check that start values of single slots of these parameters are finite and inside their bounds."""
    layout = problem.structure.slots
    for name, value in problem.starts.items():
        if name not in layout.index:
            raise ProblemError(f"there is no parameter '{name}'{suggestion(name, layout.names)}")
        parameter = problem.parameters[layout.parameter[layout.index[name]]]
        if parameter.name not in parameters:
            continue
        if not np.isfinite(value) or (not parameter.fixed and not parameter.lower <= value <= parameter.upper):
            raise ProblemError(
                f"'{name}' has start value {value:g} outside its bounds [{parameter.lower:g}, {parameter.upper:g}]."
            )
