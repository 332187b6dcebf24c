"""Measurements from pandas data frames, with the options of ``[data]``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from odefit.errors import ProblemError
from odefit.formats.data_columns import DataNames
from odefit.formats.data_options import DataOptions
from odefit.formats.data_section import MAIN, joined
from odefit.formats.data_values import located, values_of
from odefit.formats.noise_section import read_noise
from odefit.formats.sheet_frame import sheet_of_frame
from odefit.model import Model
from odefit.problem import Measurements
from odefit.problem.noise import check_measured, standard_deviations

if TYPE_CHECKING:
    import pandas as pd


def measurements_from_frame(
    frame: pd.DataFrame | Mapping[str, pd.DataFrame] | Sequence[pd.DataFrame],
    model: Model | None = None,
    *,
    time: str | None = None,
    origin: Any = None,
    columns: Mapping[str, str] | None = None,
    melt: Mapping[str, str] | None = None,
    arguments: Mapping[str, str] | None = None,
    sigma: float | str | None = None,
    noise: Mapping[str, Any] | None = None,
    per: Iterable[str] = (),
    experiments: Iterable[str] = (),
) -> Measurements:
    """Make measurements from data frames that look like the data files of a problem.

    Parameters
    ----------
    frame
        A wide or tidy frame; or several: experiment -> frame, or a list of frames of which each has a
        column ``experiment``.  Time and experiment may also be levels of the index.
    model
        Says which columns can be measured; without one every column that has no other meaning is.
    time, origin, columns, melt, arguments, sigma
        As in ``[data]``: the time column, the date that is time 0, new names of columns, how to melt a
        matrix (``{"into": "wavelength", "value": "absorbance"}``), symbols of the model with the columns that hold
        their numbers or parameters (``{"s": "scale"}``), the default standard deviation.
    noise
        As ``[noise]``: observable -> standard deviation, a number or text such as "5 %".  With it, and with `sigma`,
        every value gets a standard deviation of its own; ``Problem(noise=...)`` keeps it as a property of the problem.
    per
        Columns that parameters have one value per entry of; they become groups.
    experiments
        Names that the column ``experiment`` may hold; any if empty.

    Raises
    ------
    ProblemError
        With the index and the column of what is wrong.
    """
    options = DataOptions.of(
        time=time,
        origin=origin,
        columns=None if columns is None else dict(columns),
        melt=None if melt is None else dict(melt),
        arguments=None if arguments is None else dict(arguments),
    )
    names = DataNames.of(model, per, experiments)
    parts = []
    for name, one, owner in _frames(frame):
        sheet = sheet_of_frame(
            one, name=name, time=names.times(options), texts=names.texts(options), rename=options.columns
        )
        parts.append(values_of(sheet, options, names, owner))
    measurements = joined(parts, options, names)
    entries = read_noise(noise or {}, sigma)
    for name, entry in entries.items():
        if entry.expression is not None:
            raise ProblemError(
                f"the sigma \"{entry.expression}\" of '{name}' is an expression, which only a problem can evaluate; "
                "give it to Problem(noise=...)."
            )
    check_measured(entries, list(dict.fromkeys(measurements.observable.tolist())))
    with located(parts):
        sigma_of = standard_deviations(measurements, entries)
        if measurements.sigma_names.any():
            sigma_of = np.where(measurements.sigma_names != "", measurements.sigma_names, sigma_of)
        return dataclasses.replace(measurements, sigma=sigma_of)


def _frames(data: Any) -> list[tuple[str, Any, str | None]]:
    """Return name, frame, and the experiment of a frame that does not tell."""
    if isinstance(data, Mapping):
        frames: list[tuple[str, Any, str | None]] = [
            (f"the data frame of '{name}'", frame, str(name)) for name, frame in data.items()
        ]
    elif isinstance(data, list | tuple):
        owner = MAIN if len(data) == 1 else None
        frames = [(f"data frame {index}", frame, owner) for index, frame in enumerate(data)]
    else:
        return [("the data frame", data, MAIN)]
    if not frames:
        raise ProblemError("there are no data frames; give at least one.")
    return frames
