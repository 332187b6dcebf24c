"""The problem file: TOML with the equations as text."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from odefit.errors import LanguageError, OdefitError, ProblemError, UnsupportedError
from odefit.formats.data_file import read_measurements
from odefit.formats.sections import check_keys, flag, number, table, text, whole
from odefit.model import Model
from odefit.problem import Experiment, Parameter, Period, Problem, Settings

_SECTIONS = ("title", "time", "model", "parameters", "data", "experiments", "units", "integrator", "fit")
_PLANNED = ("base", "events", "tables", "noise", "grids", "constraints", "derived")


def load_problem(path: str | Path) -> Problem:
    """Read a problem file and its data.

    Raises
    ------
    OdefitError
        With the file's name and one clear sentence.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ProblemError(f"the problem file '{path}' cannot be read: {error.strerror}.") from error
    try:
        return _problem(_parse(content), path.parent)
    except OdefitError as error:
        error.args = (f"{path.name}: {error.args[0]}",)
        raise


def _parse(content: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ProblemError(f"the file is not UTF-8 text (byte {error.start}).") from error
    except tomllib.TOMLDecodeError as error:
        hint = ""
        if "(0)" in content.decode("utf-8-sig"):
            hint = ' A key such as A(0) needs quotes: "A(0)" = 1.'
        raise ProblemError(f"this is not valid TOML: {error}.{hint}") from error


def _problem(content: dict[str, Any], folder: Path) -> Problem:
    check_keys("the file", content, _SECTIONS, _PLANNED)
    section = table("[model]", content.get("model", {}))
    check_keys("[model]", section, ("equations", "t0"), ("sbml", "python"))
    if "equations" not in section:
        raise ProblemError('there are no equations; add [model] with equations = """ ... """.')
    model = _model(section, text("time", content.get("time", "t")))
    t0 = number("[model] t0", section.get("t0", 0.0))
    measurements = _data(table("[data]", content.get("data", {})), folder, model)
    return Problem(
        model=model,
        parameters=_parameters(table("[parameters]", content.get("parameters", {}))),
        measurements=measurements,
        experiments=_experiments(table("[experiments]", content.get("experiments", {})), t0, measurements),
        units={k: text(f"unit of '{k}'", v) for k, v in table("[units]", content.get("units", {})).items()},
        settings=_settings(content),
        title=text("title", content.get("title", "")),
    )


def _model(section: dict[str, Any], time: str) -> Model:
    try:
        return Model.from_text(text("[model] equations", section["equations"]), time=time)
    except LanguageError as error:
        error.args = (f"equations, {error.args[0]}",)
        raise


def _parameters(section: dict[str, Any]) -> tuple[Parameter, ...]:
    return tuple(_parameter(name, entry) for name, entry in section.items())


def _parameter(name: str, entry: Any) -> Parameter:
    if not isinstance(entry, dict):
        return Parameter(name, start=number(f"the start value of '{name}'", entry))
    where = f"parameter '{name}'"
    readers = {
        "start": number, "lower": number, "upper": number, "scale": text, "fixed": flag, "prior": text,
        "expression": text, "per": text, "linear": flag, "unit": text,
    }  # fmt: skip
    if any(letter in name for letter in "*?["):
        raise UnsupportedError(f"patterns of parameter names ('{name}')")
    check_keys(where, entry, readers)
    if entry.get("start") == "auto":
        raise UnsupportedError(f"start = \"auto\" of '{name}'; give a number")
    if "start" not in entry and "expression" not in entry and not entry.get("linear"):
        raise ProblemError(f"{where} has no start value; add start = ...")
    return Parameter(name, **{key: readers[key](f"'{key}' of '{name}'", value) for key, value in entry.items()})


def _data(section: dict[str, Any], folder: Path, model: Model) -> Any:
    check_keys("[data]", section, ("file", "time", "sigma"), ("columns", "origin", "melt"))
    if "file" not in section:
        raise ProblemError('there are no data; add [data] with file = "....csv".')
    if isinstance(section["file"], list):
        raise UnsupportedError("a list of data files")
    name = text("[data] file", section["file"])
    if any(letter in name for letter in "*?["):
        raise UnsupportedError(f"a pattern of data files ('{name}')")
    sigma = section.get("sigma")
    if isinstance(sigma, str):
        raise UnsupportedError(f'[data] sigma = "{sigma}"; give a number')
    return read_measurements(
        folder / name,
        text("[data] time", section.get("time", "time")),
        None if sigma is None else number("[data] sigma", sigma),
        (*model.states, *model.definitions),
    )


def _experiments(section: dict[str, Any], t0: float, measurements: Any) -> tuple[Experiment, ...]:
    if "file" in section and isinstance(section["file"], str):
        raise UnsupportedError("[experiments] file")
    if not section:
        names = dict.fromkeys(measurements.experiment.tolist())
        return tuple(Experiment(name, (Period(t0),)) for name in names)
    return tuple(_experiment(name, table(f"experiment '{name}'", entry), t0) for name, entry in section.items())


def _experiment(name: str, entry: dict[str, Any], t0: float) -> Experiment:
    where = f"experiment '{name}'"
    overrides: dict[str, float | str] = {}
    options: dict[str, Any] = {}
    for key, value in entry.items():
        if key in ("start", "before"):
            raise UnsupportedError(f"'{key}' in {where}")
        if key == "until":
            options["until"] = number(f"'until' of {where}", value)
        elif key == "use":
            options["use"] = text(f"'use' of {where}", value)
        else:
            overrides[key] = value if isinstance(value, str) else number(f"'{key}' in {where}", value)
    return Experiment(name, (Period(t0, overrides),), **options)


def _settings(content: dict[str, Any]) -> Settings:
    options: dict[str, Any] = {}
    section = table("[integrator]", content.get("integrator", {}))
    readers = {"method": text, "rtol": number, "atol": number, "max_steps": whole}
    check_keys("[integrator]", section, readers)
    for key, value in section.items():
        options["integrator" if key == "method" else key] = readers[key](f"[integrator] {key}", value)
    section = table("[fit]", content.get("fit", {}))
    readers = {"method": text, "tol": number, "max_iterations": whole}
    check_keys("[fit]", section, readers, ("criterion", "solver", "starts", "seed"))
    for key, value in section.items():
        options[key] = readers[key](f"[fit] {key}", value)
    return Settings(**options)
