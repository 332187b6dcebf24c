"""The problem: a model, what is known about its parameters, how it was run, and what was measured."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import casadi as ca
import numpy as np
import numpy.typing as npt

from odefit.errors import MeasurementError, ProblemError, suggestion
from odefit.model import Model
from odefit.model.kept import Kept
from odefit.problem.arguments import check_cells
from odefit.problem.conditions import conditions_among
from odefit.problem.equilibration import check_before
from odefit.problem.event_times import event_times, with_rates_of_doses
from odefit.problem.experiments import Experiment
from odefit.problem.measurements import Measurements
from odefit.problem.noise import Noise, check_expressions, sigma_expressions, standard_deviations
from odefit.problem.parameters import Parameter
from odefit.problem.periods import check_periods, with_held_of_periods
from odefit.problem.priors import Rule
from odefit.problem.slots import Slots
from odefit.problem.structure import Structure
from odefit.problem.tables import Table
from odefit.problem.validation import check_starts, validate, validate_data
from odefit.problem.values import FrozenMapping

if TYPE_CHECKING:
    from odefit.transcribe import PointEvaluation


MOST_STARTS = 100_000
"""Records of more fits than that are nothing to hold in memory, nor to read."""


NODE_STATES = ("reset", "data", "simulated")
"""How states at nodes begin: simulated and set to what is measured at each node; as measured, hidden ones as at the
start of the experiment; simulated without a look at the data."""


@dataclass(frozen=True)
class Settings:
    """How a problem is solved; every entry has a default that suits most problems.

    Attributes
    ----------
    integrator, rtol, atol, max_step, max_steps
        Integration method, relative and absolute local error tolerance, longest step, steps per experiment.  `atol` is
        a number for all states, "auto" (it follows the size of each state), or numbers by state, the others "auto".
        None: 1e-9, and as "auto" for states that must keep their relative accuracy (see `odefit.compile.edges`).
    method, solver, criterion
        Strategy of the fit, the composition that minimises, and what is minimised.
    freeze
        When the steps of the integration, frozen during a fit, are chosen anew.
    tol, max_iterations
        The fit ends when the linearised problem promises to reduce the norm of the residuals by less
        than the fraction `tol`, or after that many iterations.
    start
        "given", or "auto": all start values come from the data where these can tell them.
    starts, seed
        Fit from that many start values, drawn with that seed, and keep the best.
    horizons, confidence, relaxation
        Incremental single shooting: times at which its horizons end (empty: 1, 2, 4, ... data), level of the
        bounds that one horizon sets the next, and how far such a bound is moved, in widths, if it is active.
    nodes, node_states
        Multiple shooting: how many nodes an experiment has at most, or the times where they stand (None: at its data);
        and how the states there begin, see `NODE_STATES`.
    path_times
        Rules that hold at all times are held at these times, or in so many equal parts of each experiment and at its
        data.
    """

    integrator: str = "auto"
    rtol: float = 1e-7
    atol: float | str | Mapping[str, float] | None = None
    max_step: float = math.inf
    max_steps: int = 100_000
    method: str = "single"
    solver: str = "trust"
    criterion: str = "least-squares"
    freeze: str = "omega"
    tol: float = 1e-6
    max_iterations: int = 200
    start: str = "given"
    starts: int = 1
    seed: int = 0
    horizons: tuple[float, ...] = ()
    confidence: float = 0.99
    relaxation: float = 2.0
    nodes: int | tuple[float, ...] | None = None
    node_states: str = "reset"
    path_times: int | tuple[float, ...] = 20

    def __post_init__(self) -> None:
        self._check_nodes()
        self._check_path_times()
        object.__setattr__(self, "horizons", tuple(float(time) for time in self.horizons))
        self._check_tolerances()
        for name in ("rtol", "tol", "confidence"):
            value = getattr(self, name)
            if not 0 < value < 1:
                raise ProblemError(f"'{name}' is {value:g}; it must lie between 0 and 1.")
        if self.seed < 0:
            raise ProblemError(f"'seed' is {self.seed}; it must not be negative.")
        for name in ("max_steps", "max_iterations", "starts"):
            if getattr(self, name) < 1:
                raise ProblemError(f"'{name}' is {getattr(self, name)}; it must be at least 1.")
        if self.starts > MOST_STARTS:
            raise ProblemError(f"'starts' is {self.starts}; it must be at most {MOST_STARTS}.")
        if self.start not in ("given", "auto"):
            raise ProblemError(f"'start' is '{self.start}'; it is \"given\" or \"auto\".")
        if not self.relaxation > 0:
            raise ProblemError(f"'relaxation' is {self.relaxation:g}; it must be above 0.")
        pairs = zip(self.horizons, self.horizons[1:], strict=False)
        if not all(map(math.isfinite, self.horizons)) or any(a >= b for a, b in pairs):
            raise ProblemError(f"'horizons' is {list(self.horizons)}; it must be a list of increasing times.")

    def _check_nodes(self) -> None:
        if isinstance(self.nodes, (list, tuple)):
            times = tuple(float(time) for time in self.nodes)
            object.__setattr__(self, "nodes", times)
            pairs = zip(times, times[1:], strict=False)
            if not times or not all(map(math.isfinite, times)) or any(a >= b for a, b in pairs):
                raise ProblemError(
                    f"'nodes' is {list(times)}; it must be a number of nodes, or a list of increasing times."
                )
        elif self.nodes is not None and self.nodes < 1:
            raise ProblemError(
                f"'nodes' is {self.nodes}; there must be at least one. For none, use method = \"single\"."
            )
        if self.node_states not in NODE_STATES:
            near = suggestion(self.node_states, NODE_STATES)
            raise ProblemError(f"'node_states' is '{self.node_states}'{near} There are: {', '.join(NODE_STATES)}.")

    def _check_path_times(self) -> None:
        if isinstance(self.path_times, (list, tuple)):
            times = tuple(float(time) for time in self.path_times)
            object.__setattr__(self, "path_times", times)
            if not times or not all(map(math.isfinite, times)):
                raise ProblemError(f"'path_times' is {list(times)}; it must be a number of parts, or a list of times.")
        elif self.path_times < 1:
            raise ProblemError(f"'path_times' is {self.path_times}; there must be at least one part.")

    def _check_tolerances(self) -> None:
        if isinstance(self.atol, Mapping):
            object.__setattr__(self, "atol", FrozenMapping(self.atol))
        given = self.atol if isinstance(self.atol, Mapping) else {"": "auto" if self.atol is None else self.atol}
        for state, value in given.items():
            if value != "auto" and (isinstance(value, str) or not 0 < value < math.inf):
                of_state = f" of '{state}'" if state else ""
                raise ProblemError(f"'atol'{of_state} is {value}; it must be \"auto\" or a number above 0.")
        if not self.max_step > 0:
            raise ProblemError(f"'max_step' is {self.max_step:g}; it must be above 0.")


@dataclass(frozen=True, eq=False)
class Problem:
    """Everything that defines an estimation problem; immutable and validated.

    Parameters, experiments and measurements refer to names of the model; all of them are checked
    here, once.  Changes make new problems (`with_start`), which check what was changed, and share the `structure`
    as far as they can.

    A problem is a value: it goes through `pickle` and fits as before, and a copy of it is the problem itself.  Problems
    are equal only to themselves, and hashed so, as models are; their other parts are compared by content.

    Attributes
    ----------
    model
        The equations; where doses are given over some time, with rates (`Model.with_rates`), and with held states
        where experiments have several periods (`Model.with_held`).
    measurements
        The data; those of names that experiments set are checked and left out (see `odefit.problem.conditions`).
    constraints
        Rules: equalities and inequalities between parameters, states and definitions at times (``"x(t=5) >= 0"``, see
        `odefit.problem.constraints`), and priors on expressions of parameters (``"log(k2/k1) ~ normal(0, 1)"``).
    derived
        Name to the text of an expression of parameters, reported with its uncertainty.
    units
        Labels for reports.
    starts
        Start values of single slots (``"A0[b1]"``) that differ from their parameter's.
    noise
        How exact values without a sigma of their own are: observable, or "default", to its `Noise` (or what it
        is short for, ``{"y": 0.1, "default": "5 %"}``).
    tables
        Name to `Table`: what equations call like functions.  An experiment may have others.
    lag, fraction
        What is given to a state (`Experiment.events`) comes so much later, and only this fraction of it arrives: state
        to a number or the text of an expression of parameters.  Missing: 0 and 1.
    structure
        What problems have in common that differ in start values, bounds and settings only.
    """

    model: Model
    parameters: tuple[Parameter, ...]
    measurements: Measurements
    experiments: tuple[Experiment, ...] = (Experiment("main"),)
    tables: Mapping[str, Table] = field(default_factory=dict)
    noise: Mapping[str, Noise] = field(default_factory=dict)
    constraints: tuple[str, ...] = ()
    derived: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)
    title: str = ""
    starts: Mapping[str, float] = field(default_factory=dict)
    lag: Mapping[str, float | str] = field(default_factory=dict)
    fraction: Mapping[str, float | str] = field(default_factory=dict)
    structure: Structure = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("parameters", "experiments", "constraints"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "noise", {name: Noise.of(entry) for name, entry in self.noise.items()})
        for name, table in self.tables.items():
            if not isinstance(table, Table):
                raise ProblemError(f"the table '{name}' is {table!r}; give an odefit.Table.")
        for name in ("tables", "noise", "derived", "units", "starts", "lag", "fraction"):
            object.__setattr__(self, name, FrozenMapping(getattr(self, name)))
        for one in self.experiments:
            check_periods(self.model, one)
            check_before(self.model, one)
        model = with_rates_of_doses(with_held_of_periods(self.model, self.experiments), self.experiments)
        object.__setattr__(self, "model", model)
        parts = (self.model, self.parameters, self.experiments, self.measurements, self.constraints, self.noise)
        object.__setattr__(self, "structure", Structure(*parts, self.tables, self.lag, self.fraction))
        validate(self)
        self._settle_data()

    def _settle_data(self) -> None:
        """Leave out values of conditions, and check the others."""
        fitted = ~conditions_among(self)
        if not fitted.all():
            object.__setattr__(self, "measurements", self.measurements.selected(fitted))
            object.__setattr__(self, "structure", self.structure.with_measurements(self.measurements))
        try:
            validate_data(self)
        except MeasurementError as error:
            error.index = int(np.flatnonzero(fitted)[error.index])
            raise

    @cached_property
    def kept(self) -> Kept:
        """What later stages made of this problem's own numbers; see `Structure.kept` for what it shares."""
        return Kept()

    @property
    def observables(self) -> tuple[str, ...]:
        """Measured names, in order of first appearance."""
        return self.structure.observables

    @property
    def sigma(self) -> npt.NDArray[np.float64]:
        """The standard deviation of each measurement, its own or that of its noise; NaN where none is given."""
        return self.structure.kept.get("sigma", self._deviations)

    def _deviations(self) -> npt.NDArray[np.float64]:
        sigma = standard_deviations(self.measurements, self.noise)
        if self._has_computed_sigma:
            from odefit.transcribe.deviations import fill_deviations

            fill_deviations(self, sigma)
        sigma.flags.writeable = False
        return sigma

    @property
    def _has_computed_sigma(self) -> bool:
        """Whether standard deviations depend on parameters."""
        return bool(sigma_expressions(self)) or bool((self.measurements.sigma_names != "").any())

    @cached_property
    def free(self) -> tuple[Parameter, ...]:
        """The parameters that a fit estimates, in order."""
        return tuple(p for p in self.parameters if not p.fixed and p.expression is None)

    @cached_property
    def slots(self) -> Slots:
        """The single numbers behind the parameters."""
        return self.structure.slots.holding(self.parameters)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The constraints that are priors, read."""
        return self.structure.rules

    def table(self, name: str, experiment: Experiment) -> Table:
        """Return the table `name` as `experiment` has it."""
        return experiment.tables[name] if name in experiment.tables else self.tables[name]

    def end_of(self, experiment: Experiment) -> float:
        """Return where an experiment ends: at `until` or the last datum, whatever is later; NaN if there is neither.

        Data of its steady state do not count.
        """
        data = self.measurements
        ends = data.time[(data.experiment == experiment.name) & np.isfinite(data.time)]
        return float(np.fmax(experiment.until, ends.max() if ends.size else np.nan))

    def event_times(self, estimates: Mapping[str, float], e: int) -> list[float]:
        """Return the times of events, doses and later periods of experiment number `e`, at these values of slots.

        Slots without an estimate are at their start values.  Times are in order, each once; a dose over some time has
        two.
        """
        return event_times(self, estimates, e)

    @property
    def own_symbols(self) -> Mapping[str, Any]:
        """Symbols of the parameters that the model does not have (expressions may use them)."""
        return self.structure.expressions.own_symbols

    def expression(self, text: str) -> Any:
        """Parse an expression of the model's names and the problem's parameters, as SX."""
        return self.structure.expressions.read(text)

    def depends_on(self, expression: Any, names: Collection[str]) -> bool:
        """Tell whether `expression` uses one of `names`, directly or through definitions and expressions."""
        seen: set[str] = set()
        waiting = [symbol.name() for symbol in ca.symvar(expression)]
        texts = {p.name: p.expression for p in self.parameters if p.expression is not None}
        while waiting:
            name = waiting.pop()
            if name in names:
                return True
            if name not in seen:
                seen.add(name)
                inner = self.model.definitions.get(name, self.model.initial_values.get(name))
                if inner is None and name in texts:
                    inner = self.expression(texts[name])
                waiting += [] if inner is None else [symbol.name() for symbol in ca.symvar(inner)]
        return False

    def evaluate(self, parameters: Mapping[str, float] | None = None, order: int = 1) -> PointEvaluation:
        """Return residuals, Jacobian and log likelihood at natural values; see `odefit.evaluate`."""
        from odefit.api import evaluate

        return evaluate(self, parameters, order)

    def save(self, path: str | Path) -> None:
        """Write a problem file, with its data beside it, that loads to the same problem."""
        from odefit.formats import save_problem

        save_problem(self, path)

    def with_start(self, **values: float) -> Problem:
        """Return the same problem with other start values; nothing is compiled, planned or read again.

        A parameter with several slots gets one start for all; ``**{"A0[b1]": 2.0}`` sets a single one.
        """
        single = {name: float(value) for name, value in values.items() if "[" in name}
        whole = {name: {"start": float(value), "auto": False} for name, value in values.items() if "[" not in name}
        kept = {name: value for name, value in self.starts.items() if name.split("[")[0] not in whole}
        changed = self._with_parameters(whole, starts=FrozenMapping({**kept, **single}))
        named = {name.split("[")[0] for name in values}
        check_starts(changed, {name.split("[")[0] for name in single})
        if any(p.fixed and p.name in named for p in self.parameters) and self._has_computed_sigma:
            # standard deviations may depend on it, and with them all weights
            return changed._changed(structure=self.structure.with_parameters(changed.parameters))
        return changed

    def with_bounds(self, **bounds: tuple[float, float]) -> Problem:
        """Return the same problem with other bounds, given as ``k1=(lower, upper)``."""
        changed = self._with_parameters(
            {name: {"lower": float(low), "upper": float(high)} for name, (low, high) in bounds.items()}
        )
        check_starts(changed, bounds)
        return changed

    def with_fixed(self, *names: str) -> Problem:
        """Return the same problem with the named parameters held at their start values, without priors."""
        return self._with_status({name: {"fixed": True, "prior": None} for name in names})

    def with_free(self, *names: str) -> Problem:
        """Return the same problem with the named parameters to be estimated."""
        return self._with_status({name: {"fixed": False} for name in names})

    def at(self, values: Mapping[str, float]) -> Problem:
        """Return the problem with the named parameters fixed at `values`, whatever their bounds."""
        fixed = self.with_fixed(*dict.fromkeys(name.split("[")[0] for name in values))
        return fixed.with_start(**values)

    def with_measurements(self, measurements: Measurements) -> Problem:
        """Return the same problem with other data; nothing is compiled again if the same names are measured."""
        if measurements.arguments.keys() != self.measurements.arguments.keys():  # other names have a meaning
            return dataclasses.replace(self, measurements=measurements)
        changed = self._changed(measurements=measurements, structure=self.structure.with_measurements(measurements))
        changed._settle_data()
        return changed

    def with_settings(self, **changes: Any) -> Problem:
        """Return the same problem with other settings, ``rtol=1e-9`` say."""
        known = [f.name for f in dataclasses.fields(Settings)]
        for name in changes:
            if name not in known:
                raise ProblemError(f"there is no setting '{name}'{suggestion(name, known)}")
        return self._changed(settings=dataclasses.replace(self.settings, **changes))

    def _with_status(self, changes: Mapping[str, Mapping[str, Any]]) -> Problem:
        """Return the problem with other parameters fixed, which is another structure."""
        changed = self._with_parameters(changes)
        check_starts(changed, changes)
        if all(new.fixed == old.fixed for new, old in zip(changed.parameters, self.parameters, strict=True)):
            return changed
        changed = changed._changed(structure=self.structure.with_parameters(changed.parameters))
        check_expressions(changed)
        check_cells(changed)
        return changed

    def _with_parameters(self, changes: Mapping[str, Mapping[str, Any]], **others: Any) -> Problem:
        known = [p.name for p in self.parameters]
        for name in changes:
            if name not in known:
                raise ProblemError(f"there is no parameter '{name}'{suggestion(name, known)}")
        changed = (dataclasses.replace(p, **changes[p.name]) if p.name in changes else p for p in self.parameters)
        return self._changed(parameters=tuple(changed), **others)

    def _changed(self, **changes: Any) -> Problem:
        """Return the problem with other fields, unchecked."""
        changed = object.__new__(type(self))
        changed.__setstate__({**self.__getstate__(), **changes})
        return changed

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in _FIELDS}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)  # it was checked when it was made

    def __copy__(self) -> Problem:
        return self

    def __deepcopy__(self, memo: object) -> Problem:
        return self


_FIELDS = tuple(one.name for one in dataclasses.fields(Problem))
