"""The problem: a model, what is known about its parameters, how it was run, and what was measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from odefit.errors import ProblemError, UnsupportedError, nearest, suggestion
from odefit.model import Model
from odefit.problem.experiments import Experiment
from odefit.problem.measurements import Measurements
from odefit.problem.parameters import Parameter


@dataclass(frozen=True)
class Settings:
    """How a problem is solved; every entry has a default that suits most problems.

    Attributes
    ----------
    integrator, rtol, atol, max_steps
        Integration method, relative and absolute local error tolerance, steps per experiment.
    method
        Strategy of the fit.
    tol, max_iterations
        The fit ends when the linearised problem promises to reduce the norm of the residuals by less
        than the fraction `tol`, or after that many iterations.
    """

    integrator: str = "dopri5"
    rtol: float = 1e-7
    atol: float = 1e-9
    max_steps: int = 100_000
    method: str = "single"
    tol: float = 1e-6
    max_iterations: int = 200

    def __post_init__(self) -> None:
        for name in ("rtol", "atol", "tol"):
            value = getattr(self, name)
            if not 0 < value < 1:
                raise ProblemError(f"'{name}' is {value:g}; it must lie between 0 and 1.")
        for name in ("max_steps", "max_iterations"):
            if getattr(self, name) < 1:
                raise ProblemError(f"'{name}' is {getattr(self, name)}; it must be at least 1.")


class Structure:
    """Token for everything that compiled code depends on.

    Problems made from one another by changes of numbers (start values, bounds, data, settings) share
    the token; the compile stage keeps native code per token.
    """

    __slots__ = ("__weakref__",)


def _initial_of(name: str) -> str | None:
    """Return ``A`` for the override name ``A(0)``."""
    return name[:-3].strip() if name.endswith("(0)") else None


@dataclass(frozen=True, eq=False)
class Problem:
    """Everything that defines an estimation problem; immutable and validated.

    Parameters, experiments and measurements refer to names of the model; all of them are checked
    here, once.  `tables`, `noise`, `constraints` and `derived` are part of the contract; a problem
    that uses them is refused until their methods exist.  Changes make new problems (`with_start`).
    """

    model: Model
    parameters: tuple[Parameter, ...]
    measurements: Measurements
    experiments: tuple[Experiment, ...] = (Experiment("main"),)
    tables: Mapping[str, Any] = field(default_factory=dict)
    noise: Mapping[str, Any] = field(default_factory=dict)
    constraints: tuple[str, ...] = ()
    derived: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)
    title: str = ""
    structure: Structure = field(default_factory=Structure, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", tuple(self.parameters))
        object.__setattr__(self, "experiments", tuple(self.experiments))
        object.__setattr__(self, "units", MappingProxyType(dict(self.units)))
        for name in ("tables", "noise", "constraints", "derived"):
            if getattr(self, name):
                raise UnsupportedError(f"'{name}' of a problem")
        _check_unique("parameter", (p.name for p in self.parameters))
        _check_unique("experiment", (e.name for e in self.experiments))
        if not self.experiments:
            raise ProblemError("the problem has no experiment; give at least one.")
        self._check_parameters()
        self._check_overrides()
        self._check_measurements()

    @property
    def observables(self) -> tuple[str, ...]:
        """Measured names, in order of first appearance."""
        return tuple(dict.fromkeys(self.measurements.observable.tolist()))

    @property
    def free(self) -> tuple[Parameter, ...]:
        """The parameters that a fit estimates, in order."""
        return tuple(p for p in self.parameters if not p.fixed and p.expression is None)

    def with_start(self, **values: float) -> Problem:
        """Return the same problem with other start values; nothing is compiled again."""
        return self._with_parameters({name: {"start": float(value)} for name, value in values.items()})

    def with_bounds(self, **bounds: tuple[float, float]) -> Problem:
        """Return the same problem with other bounds, given as ``k1=(lower, upper)``."""
        return self._with_parameters(
            {name: {"lower": float(low), "upper": float(high)} for name, (low, high) in bounds.items()}
        )

    def with_fixed(self, *names: str) -> Problem:
        """Return the same problem with the named parameters held at their start values."""
        return self._with_parameters({name: {"fixed": True} for name in names})

    def with_settings(self, **changes: Any) -> Problem:
        """Return the same problem with other settings, ``rtol=1e-9`` say."""
        known = [f.name for f in dataclasses.fields(Settings)]
        for name in changes:
            if name not in known:
                raise ProblemError(f"there is no setting '{name}'{nearest(name, known)}")
        return dataclasses.replace(self, settings=dataclasses.replace(self.settings, **changes))

    def _with_parameters(self, changes: Mapping[str, Mapping[str, Any]]) -> Problem:
        known = [p.name for p in self.parameters]
        for name in changes:
            if name not in known:
                raise ProblemError(f"there is no parameter '{name}'{nearest(name, known)}")
        changed = (dataclasses.replace(p, **changes[p.name]) if p.name in changes else p for p in self.parameters)
        return dataclasses.replace(self, parameters=tuple(changed))

    def _check_parameters(self) -> None:
        """Every name without an equation has a value in every experiment, and nothing is left over."""
        known = {p.name for p in self.parameters}
        for name in self.model.parameters:
            lacking = [e.name for e in self.experiments if name not in e.periods[0].overrides]
            if name not in known and lacking:
                raise ProblemError(
                    f"'{name}' is used in the equations but has no value{suggestion(name, known)} "
                    f"Add it to the parameters or define it in the equations."
                )
        for parameter in self.parameters:
            name = parameter.name
            if name in self.model.parameters:
                continue
            if name in self.model.symbols:
                raise ProblemError(
                    f"'{name}' is both a parameter and a name with an equation of its own in the model; remove one."
                )
            raise ProblemError(
                f"parameter '{name}' does not occur in the equations{nearest(name, self.model.parameters)}"
            )

    def _check_overrides(self) -> None:
        for experiment in self.experiments:
            for name in experiment.periods[0].overrides:
                state = _initial_of(name)
                if state is not None and state not in self.model.states:
                    raise ProblemError(
                        f"experiment '{experiment.name}' sets '{name}', but '{state}' is not a state"
                        f"{nearest(state, self.model.states)}"
                    )
                if state is None and name in self.model.states:
                    raise ProblemError(
                        f"experiment '{experiment.name}' sets the state '{name}'; "
                        f'write "{name}(0)" for its initial value.'
                    )
                if state is None and (name not in self.model.symbols or name == self.model.time):
                    raise ProblemError(
                        f"experiment '{experiment.name}' sets '{name}', which the model does not have"
                        f"{nearest(name, self.model.symbols)}"
                    )

    def _check_measurements(self) -> None:
        data = self.measurements
        observable = {*self.model.states, *self.model.definitions}
        for name in self.observables:
            if name not in observable:
                raise ProblemError(
                    f"the data have a column '{name}', which is no state and no definition of the model"
                    f"{nearest(name, observable)}"
                )
        starts = {e.name: e.start for e in self.experiments}
        for name in dict.fromkeys(data.experiment.tolist()):
            if name not in starts:
                raise ProblemError(
                    f"the data have an experiment '{name}', which is not described{nearest(name, starts)}"
                )
            early = (data.experiment == name) & (data.time < starts[name])
            if np.any(early):
                raise ProblemError(
                    f"experiment '{name}' has a measurement at {self.model.time} = {data.time[early].min():g}, "
                    f"before its start at {starts[name]:g}; move the start (t0) or remove the row."
                )


def _check_unique(what: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ProblemError(f"the {what} '{name}' is given twice; keep one.")
        seen.add(name)
