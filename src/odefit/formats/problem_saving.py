"""Problems as files: TOML with the equations as text, and the data beside it.

`load_problem` reads back an equal problem.  What a file cannot say is refused before anything is written.
"""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

from odefit.errors import OdefitError, ProblemError, UnsupportedError
from odefit.formats.data_saving import argument_columns, data_csv, unused_group
from odefit.formats.event_saving import events_text
from odefit.formats.experiment_section import OPTIONS, PERIODS, STEADY
from odefit.formats.problem_file import checked_units
from odefit.formats.settings_section import settings_tables
from odefit.formats.table_saving import TableFiles
from odefit.formats.toml_writing import toml_block, toml_section, toml_value
from odefit.model.implicit import AUTO
from odefit.native.places import write_atomically
from odefit.problem import Experiment, Parameter, Period, Problem


def save_problem(problem: Problem, path: str | Path) -> Path:
    """Write `problem` to `path`, its data beside it as ``<stem>.csv`` and long tables as ``<stem>.<table>.csv``.

    Each file is replaced as a whole or not at all; the problem file comes last.  Returns its path.

    Raises
    ------
    OdefitError
        If the problem cannot be said in a file (a model from a Python function, say), or the files cannot
        be written.
    """
    path = Path(path)
    data = path.with_name(f"{path.stem}.csv")
    if path.suffix.lower() == ".csv":
        raise ProblemError(f"the problem cannot be written to '{path.name}', where its data go; end the name in .toml.")
    table = data_csv(problem) if len(problem.measurements) else None
    files = TableFiles(path)
    document = _document(problem, data.name, files)
    try:
        contents = [(data, table.encode())] if table is not None else []
        contents += [(place, content.encode()) for place, content in files.contents]
        contents.append((path, document.encode()))
    except UnicodeEncodeError as error:
        raise ProblemError(f"the problem has text that is not Unicode ({error.object[error.start]!r}).") from error
    try:
        for place, content in contents:
            write_atomically(place, content)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise OdefitError(f"the problem cannot be written to '{path}': {reason}.") from error
    return path


def _document(problem: Problem, data: str, files: TableFiles) -> str:
    model = problem.model
    if model.source is None:
        raise ProblemError(
            "the model comes from a Python function and has no text, so it cannot be written to a file; "
            "write its equations as text (Model.from_text)."
        )
    head = ""
    if problem.title:
        head += f"title = {toml_value(problem.title)}\n"
    if model.time != "t":
        head += f"time = {toml_value(model.time)}\n"
    start = _start(problem)
    opening = f"[model]\nt0 = {toml_value(start)}\n" if repr(start) != "0.0" else "[model]\n"
    opening += f"unknowns = {toml_value(model.unknowns)}\n" if model.unknowns != AUTO else ""
    sections = [f"{opening}equations = {toml_block(model.source)}\n"]
    entries = {p.name: _parameter(p) for p in problem.parameters} | dict(problem.starts)
    units = checked_units(problem.units, model, problem.parameters, problem.derived)
    tables: dict[str, Any] = {
        "parameters": entries,
        "data": _data(problem, data),
        "noise": {name: noise.sigma for name, noise in problem.noise.items()},
        "tables": {name: files.entry(name, one) for name, one in problem.tables.items()},
        "experiments": {one.name: _experiment(one, files) for one in problem.experiments},
        "constraints": {"rules": list(problem.constraints)} if problem.constraints else {},
        "derived": problem.derived,
        "units": units,
        **settings_tables(problem.settings),
    }
    sections += [toml_section(name, entries) for name, entries in tables.items() if entries]
    sections += events_text(problem)
    return "\n".join((head, *sections) if head else sections)


def _start(problem: Problem) -> float:
    starts = {one.start for one in problem.experiments}
    if len(starts) > 1:
        raise UnsupportedError("a problem file with experiments that start at different times")
    return float(starts.pop())


def _parameter(parameter: Parameter) -> Any:
    defaults = {one.name: one.default for one in dataclasses.fields(Parameter)}
    entry = {
        key: value
        for key, default in defaults.items()
        if key != "name" and (value := getattr(parameter, key)) != default and value == value
    }
    return parameter.start if list(entry) == ["start"] else entry


def _experiment(experiment: Experiment, files: TableFiles) -> dict[str, Any]:
    overrides = experiment.overrides
    for name in (*OPTIONS, PERIODS):
        if name in overrides or name in experiment.tables:
            raise ProblemError(
                f"experiment '{experiment.name}' sets '{name}', which means something else in a problem file; "
                "rename it in the model."
            )
    entry: dict[str, Any] = {
        name: value if isinstance(value, str) else float(value) for name, value in overrides.items()
    }
    for name, table in experiment.tables.items():
        entry[name] = files.replaced(name, table)
    if not math.isnan(experiment.until):
        entry["until"] = experiment.until
    if experiment.use != "fit":
        entry["use"] = experiment.use
    if experiment.before is not None:
        entry["start"] = STEADY
        if experiment.before:
            entry["before"] = {
                name: value if isinstance(value, str) else float(value) for name, value in experiment.before.items()
            }
    if experiment.later:
        entry[PERIODS] = [_period(experiment, period) for period in experiment.later]
    return entry


def _period(experiment: Experiment, period: Period) -> dict[str, Any]:
    for name in ("from", "start", "before"):
        if name in period.overrides:
            raise ProblemError(
                f"a period of experiment '{experiment.name}' sets '{name}', which means something else in a problem "
                "file; rename it in the model."
            )
    values = {"from": period.start, **period.overrides}
    return {name: value if isinstance(value, str) else float(value) for name, value in values.items()}


def _data(problem: Problem, file: str) -> dict[str, Any]:
    if not len(problem.measurements):
        return {}
    entry: dict[str, Any] = {"file": file}
    group = unused_group(problem)
    if group is not None:
        entry["melt"] = {"into": group, "value": problem.observables[0]}
    if problem.measurements.arguments:
        entry["arguments"] = argument_columns(problem)
    return entry
