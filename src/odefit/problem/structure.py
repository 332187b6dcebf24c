"""What problems have in common that differ in numbers only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from odefit.model import Model
from odefit.model.kept import Kept
from odefit.model.names import normal_form
from odefit.problem.constraints import Constraint, constraints_from, is_prior
from odefit.problem.experiments import Experiment
from odefit.problem.expressions import Expressions
from odefit.problem.measurements import Measurements
from odefit.problem.parameters import Parameter
from odefit.problem.priors import Rule
from odefit.problem.slots import SlotLayout, slot_layout
from odefit.problem.tables import Table

if TYPE_CHECKING:
    from odefit.problem.noise import Noise

_NAME = re.compile(r"[^\W\d]\w*")


class Structure:
    """All of a problem but start values, bounds and settings; shared by the problems that differ in these only.

    What later stages work out from it (native code, rows of the data, columns of the unknowns) is kept here, so that
    a thousand starts of one fit do it once.  A pickle of several problems keeps what they share; what was worked out
    is not in it.

    Attributes
    ----------
    parameters
        Those of the first such problem; names, scales, expressions, priors and what is fixed are the same in all.
    expressions
        The texts of the problem, read.
    kept
        What later stages made.
    """

    def __init__(
        self,
        model: Model,
        parameters: tuple[Parameter, ...],
        experiments: tuple[Experiment, ...],
        measurements: Measurements,
        constraints: tuple[str, ...],
        noise: Mapping[str, Noise],
        tables: Mapping[str, Table],
        lag: Mapping[str, float | str],
        fraction: Mapping[str, float | str],
    ) -> None:
        self.model = model
        self.parameters = parameters
        self.experiments = experiments
        self.measurements = measurements
        self.constraints = constraints
        self.noise = noise
        self.tables = tables
        self.lag = lag
        self.fraction = fraction
        known = dict.fromkeys((*tables, *(name for one in experiments for name in one.tables)))
        self.expressions = Expressions(model, [*(p.name for p in parameters), *measurements.arguments], known)
        self.kept = Kept()

    @cached_property
    def observables(self) -> tuple[str, ...]:
        """Measured names, in order of first appearance."""
        return tuple(dict.fromkeys(self.measurements.observable.tolist()))

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """The constraints that are priors, read."""
        return tuple(Rule.from_text(text) for text in self.constraints if is_prior(text))

    @cached_property
    def restrictions(self) -> tuple[Constraint, ...]:
        """The other constraints, equalities and inequalities, as sides of relations."""
        return tuple(one for text in self.constraints if not is_prior(text) for one in constraints_from(text))

    @cached_property
    def slots(self) -> SlotLayout:
        """The single numbers behind the parameters, without values."""
        data = self.measurements
        in_cells = {*data.named} - {*self.model.parameters} - self._names_in_texts if data.named else ()
        return slot_layout(self.parameters, self.experiments, data, in_cells)

    @property
    def _names_in_texts(self) -> set[str]:
        """Names that may stand in expressions and tables of the problem, beside those of the equations."""
        texts: list[str] = [p.expression for p in self.parameters if p.expression is not None]
        texts += [entry.expression for entry in self.noise.values() if entry.expression is not None]
        for experiment in self.experiments:
            texts += [value for value in experiment.overrides.values() if isinstance(value, str)]
            texts += [value for value in (experiment.before or {}).values() if isinstance(value, str)]
            values = (value for dose in experiment.events for value in (dose.time, dose.amount, dose.duration))
            texts += [value for value in values if isinstance(value, str)]
        names = {name for table in self.tables.values() for name in table.names}
        names |= {name for one in self.experiments for table in one.tables.values() for name in table.names}
        texts += [text for text in self.constraints if not is_prior(text)]
        texts += [value for part in (self.lag, self.fraction) for value in part.values() if isinstance(value, str)]
        return names | {normal_form(name) for text in texts for name in _NAME.findall(text)}

    def with_parameters(self, parameters: tuple[Parameter, ...]) -> Structure:
        """Return the structure with other parameters fixed (and so without their priors), or fixed at other values."""
        other = self._copied()
        other.parameters = parameters
        return other

    def with_measurements(self, measurements: Measurements) -> Structure:
        """Return the structure with other data, of the same arguments; this one if they are equal."""
        if measurements == self.measurements:
            return self
        other = self._copied()
        other.measurements = measurements
        for name in ("observables", "slots"):
            other.__dict__.pop(name, None)
        return other

    def _copied(self) -> Structure:
        """Return a copy with what was read and nothing that later stages made."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.kept = Kept()
        return other

    def __copy__(self) -> Structure:
        return self

    def __deepcopy__(self, memo: object) -> Structure:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        parts = (self.model, self.parameters, self.experiments, self.measurements, self.constraints, self.noise)
        return type(self), (*parts, self.tables, self.lag, self.fraction)
