"""The problem file: TOML with the equations as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from odefit.errors import LanguageError, MeasurementError, OdefitError, ProblemError, UnsupportedError, suggestion
from odefit.formats.data_columns import DataNames
from odefit.formats.data_section import read_data
from odefit.formats.data_values import Values, located
from odefit.formats.event_section import EventSection
from odefit.formats.experiment_section import read_experiments
from odefit.formats.inheritance import Located, read_document
from odefit.formats.noise_section import read_noise
from odefit.formats.parameter_section import read_parameters
from odefit.formats.sections import check_keys, number, table, text, words_for
from odefit.formats.settings_section import read_settings
from odefit.formats.table_section import TableSection, names_of_tables
from odefit.model import Model
from odefit.model.implicit import AUTO
from odefit.model.names import normal_form
from odefit.problem import Experiment, Measurements, Noise, Parameter, Period, Problem
from odefit.problem.conditions import condition_names

_SECTIONS = (
    "title", "time", "base", "model", "parameters", "data", "experiments", "noise", "constraints", "derived",
    "units", "integrator", "fit", "tables", "events",
)  # fmt: skip
_PLANNED = ("grids",)
_UNREADABLE = "the problem file"


def load_problem(path: str | Path) -> Problem:
    """Read a problem file, what it inherits from, and its data.

    Raises
    ------
    OdefitError
        With the file's name and one clear sentence.
    """
    path = Path(path)
    try:
        return _problem(read_document(path), path.parent)
    except OdefitError as error:
        if not error.args[0].startswith(_UNREADABLE):
            error.args = (f"{path.name}: {error.args[0]}",)
        raise


def _problem(content: dict[str, Any], folder: Path) -> Problem:
    _check_sections(content)
    section = table("[model]", content.get("model", {}))
    check_keys("[model]", section, ("equations", "t0", "unknowns"), ("sbml", "python"))
    if "equations" not in section:
        raise ProblemError('there are no equations; add [model] with equations = """ ... """.')
    table_names = names_of_tables(content)
    model = _model(section, text("time", content.get("time", "t")), table_names)
    t0 = number("[model] t0", section.get("t0", 0.0))
    parameters, starts = read_parameters(table("[parameters]", content.get("parameters", {})), model)
    origin = table("[data]", content.get("data", {})).get("origin")
    tables = TableSection.read(table("[tables]", content.get("tables", {})), origin)
    described = read_experiments(table("[experiments]", content.get("experiments", {})), t0, model, tables, table_names)
    derived = _texts("[derived]", content.get("derived", {}))
    units = _texts("[units]", content.get("units", {}))
    further = (*condition_names(described), *map(normal_form, tables.columns.values()))
    names = DataNames.of(model, (p.per for p in parameters), (e.name for e in described), further)
    noise = _noise(content)
    everything, parts = _measurements(content, folder, names, described)
    events = EventSection.read(table("[events]", content.get("events", {})), origin, model.time)
    named = _experiments(described, everything, t0)
    events.check_experiments([one.name for one in named])
    experiments = [
        replace(one, tables={**tables.of_data(everything, one.name), **one.tables}, events=events.of(one.name))
        for one in named
    ]
    with located(parts), _without_inputs(everything, tables, model) as measurements:
        return Problem(
            model=model,
            parameters=parameters,
            measurements=measurements,
            noise=noise,
            experiments=tuple(experiments),
            tables=tables.tables,
            constraints=_rules(table("[constraints]", content.get("constraints", {}))),
            derived=derived,
            units=checked_units(units, model, parameters, derived),
            settings=read_settings(content),
            title=text("title", content.get("title", "")),
            starts=starts,
            lag=events.lag,
            fraction=events.fraction,
        )


def _check_sections(content: Mapping[str, Any]) -> None:
    for name in content:
        if name not in _SECTIONS and name not in _PLANNED:
            raise ProblemError(f"there is no section or key '{name}'{suggestion(name, (*_SECTIONS, *_PLANNED))}")
    for name in _PLANNED:
        if name in content:
            entry = content[name]
            first = f".{next(iter(entry))}" if isinstance(entry, dict) and entry else ""
            raise UnsupportedError(f"[{name}{first}]")


@contextmanager
def _without_inputs(everything: Measurements, tables: TableSection, model: Model) -> Iterator[Measurements]:
    """Give the measurements without those that are rows of tables only; an error about one counts all of them."""
    inputs = {*map(normal_form, tables.columns.values())} - {*model.shown, *model.definitions}
    kept = ~np.isin(everything.observable, sorted(inputs)) if inputs else np.ones(len(everything), bool)
    try:
        yield everything.selected(kept) if inputs else everything
    except MeasurementError as error:
        error.index = int(np.flatnonzero(kept)[error.index])
        raise


def _model(section: dict[str, Any], time: str, tables: tuple[str, ...]) -> Model:
    try:
        unknowns = text("[model] unknowns", section.get("unknowns", AUTO))
        return Model.from_text(
            text("[model] equations", section["equations"]), time=time, tables=tables, unknowns=unknowns
        )
    except LanguageError as error:
        error.args = (f"equations, {error.args[0]}",)
        raise


def _measurements(
    content: Mapping[str, Any], folder: Path, names: DataNames, described: tuple[Experiment, ...]
) -> tuple[Measurements, Sequence[Values]]:
    """Read the data; a file that describes experiments may have none, to simulate only."""
    section = dict(table("[data]", content.get("data", {})))
    if "data" not in content and described:
        nothing = np.empty(0)
        return Measurements(experiment=nothing, time=nothing, observable=nothing, value=nothing), ()
    if "data" not in content:
        raise ProblemError('there are no data; add [data] with file = "....csv".')
    file = section.get("file")
    if isinstance(file, Located):
        section["file"], folder = file.given, file.folder
    return read_data(section, folder, names, described)


def _noise(content: Mapping[str, Any]) -> dict[str, Noise]:
    return read_noise(table("[noise]", content.get("noise", {})), table("[data]", content.get("data", {})).get("sigma"))


def _experiments(described: tuple[Experiment, ...], measurements: Measurements, t0: float) -> tuple[Experiment, ...]:
    """Return the described experiments, and one for each name that occurs only in the data."""
    known = {one.name for one in described}
    named = dict.fromkeys(measurements.experiment.tolist())
    return (*(Experiment(name, (Period(t0),)) for name in named if name not in known), *described)


def _texts(where: str, section: Any) -> dict[str, str]:
    return {normal_form(key): text(f"{where} {key}", value) for key, value in table(where, section).items()}


def _rules(section: dict[str, Any]) -> tuple[str, ...]:
    check_keys("[constraints]", section, ("rules",))
    rules = section.get("rules", [])
    if not isinstance(rules, list):
        raise ProblemError(f"[constraints] rules must be a list of texts, not {words_for(rules)}.")
    return tuple(text("each of [constraints] rules", rule) for rule in rules)


def checked_units(
    units: Mapping[str, str], model: Model, parameters: Iterable[Parameter], derived: Iterable[str]
) -> dict[str, str]:
    """Return `units` if each is the unit of something: a name of the model, a parameter, a derived quantity."""
    known = dict.fromkeys(("time", *model.names, *(p.name for p in parameters), *derived))
    for name in units:
        if name not in known:
            raise ProblemError(f"[units] has '{name}', which does not occur in the problem{suggestion(name, known)}")
    return dict(units)
