"""How far the linearisation is believed: trust regions, step lengths, and when to change between them.

A globalisation is a recipe; its `start` makes the control of one minimisation, which proposes trial steps
from the present point until the loop takes one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from odefit.solve.steps import Step, StepInfo, StepProblem

Array = npt.NDArray[np.float64]


class Control(Protocol):
    """Step control of one minimisation.

    `note` is something that the user should know, in words; empty if there is nothing.
    """

    note: str

    @property
    def radius(self) -> float:
        """Trust region, infinite where there is none; for the trace."""
        ...

    def propose(self, problem: StepProblem) -> StepInfo:
        """Return the next trial step from the present point."""
        ...

    def is_good(self, ratio: float) -> bool:
        """Tell whether a step with this ratio of real to predicted reduction is taken."""
        ...

    def taken(self, step: StepInfo, ratio: float) -> None:
        """Learn that a step was taken."""
        ...

    def rejected(self, step: StepInfo) -> None:
        """Learn that a step was no good."""
        ...

    def failed(self, step: StepInfo) -> None:
        """Learn that the objective could not be computed where a step led."""
        ...


class Globalisation(Protocol):
    """A recipe for step control; `attempts` bounds the trial steps from one point."""

    @property
    def attempts(self) -> int:
        """Most trial steps per iteration."""
        ...

    def start(self, step: Step) -> Control:
        """Return the control of a new minimisation."""
        ...


@dataclass(frozen=True)
class TrustRegion:
    """Radius control by the ratio of real to predicted reduction.

    Attributes
    ----------
    initial
        First radius in scaled unknowns: 1 means a change by 100 % (by a factor e on a log scale).
    accept
        Smallest ratio at which a step is taken.
    poor, good
        Below `poor` the radius becomes half the step, above `good` at least twice the step.
    attempts
        Most trial steps per iteration.
    """

    initial: float = 1.0
    accept: float = 0.1
    poor: float = 0.25
    good: float = 0.75
    attempts: int = 40

    def start(self, step: Step) -> Control:
        """See `Globalisation`."""
        return _InRegion(self, step, self.initial)


@dataclass
class _InRegion:
    rules: TrustRegion
    step: Step
    radius: float
    note: str = ""

    def propose(self, problem: StepProblem) -> StepInfo:
        return problem.step(self.radius, self.step.filter)

    def is_good(self, ratio: float) -> bool:
        return ratio >= self.rules.accept

    def taken(self, step: StepInfo, ratio: float) -> None:
        if ratio < self.rules.poor:
            self.radius = 0.5 * step.length
        elif ratio > self.rules.good:
            self.radius = max(self.radius, 2.0 * step.length)

    def rejected(self, step: StepInfo) -> None:
        self.radius = 0.5 * step.length

    def failed(self, step: StepInfo) -> None:
        self.radius = 0.25 * step.length


@dataclass(frozen=True)
class StepLength:
    """Full Gauss-Newton steps, halved until real refinement is `accept` times the predicted one (25), (26)."""

    accept: float = 0.1
    attempts: int = 40

    def start(self, step: Step) -> Control:
        """See `Globalisation`."""
        return _Halving(self)


@dataclass
class _Halving:
    rules: StepLength
    alpha: float = 1.0
    radius: float = math.inf
    note: str = ""

    def propose(self, problem: StepProblem) -> StepInfo:
        full = problem.step(math.inf)
        return full if self.alpha == 1.0 else problem.shortened(full, self.alpha)

    def is_good(self, ratio: float) -> bool:
        return ratio >= self.rules.accept

    def taken(self, step: StepInfo, ratio: float) -> None:
        self.alpha = 1.0

    def rejected(self, step: StepInfo) -> None:
        self.alpha *= 0.5

    def failed(self, step: StepInfo) -> None:
        self.alpha *= 0.25


@dataclass(frozen=True)
class FullSteps:
    """Undamped Gauss-Newton, whether the objective falls or not, until it is seen to oscillate.

    Where the model is so curved that the second of three steps undoes the first, full steps go round for
    ever; from there on steps are halved like those of `StepLength`.

    Attributes
    ----------
    times
        Oscillation: this many steps in a row that turn back,
    turn
        with a cosine below minus this,
    same
        and keep at least this fraction of their length.
    """

    times: int = 3
    turn: float = 0.7
    same: float = 0.5
    attempts: int = 40

    def start(self, step: Step) -> Control:
        """See `Globalisation`."""
        return _Undamped(self)


@dataclass
class _Undamped:
    rules: FullSteps
    halving: _Halving = field(default_factory=lambda: _Halving(StepLength()))
    last: Array | None = None
    turns: int = 0
    radius: float = math.inf
    note: str = ""

    def propose(self, problem: StepProblem) -> StepInfo:
        return self.halving.propose(problem)

    def is_good(self, ratio: float) -> bool:
        return self.halving.is_good(ratio) if self.note else not math.isnan(ratio)

    def taken(self, step: StepInfo, ratio: float) -> None:
        self.halving.taken(step, ratio)
        if self.note:
            return
        if self.last is not None and self._turns_back(step.v, self.last):
            self.turns += 1
        else:
            self.turns = 0
        self.last = step.v
        if self.turns >= self.rules.times:
            self.note = "full Gauss-Newton steps went to and fro; from there on they were shortened"

    def _turns_back(self, v: Array, last: Array) -> bool:
        """Tell whether `v` undoes the step before it (in relative changes, so that no unknown dominates)."""
        size = np.maximum(np.abs(v), np.abs(last))
        a, b = v / np.where(size > 0, size, 1.0), last / np.where(size > 0, size, 1.0)
        cosine = float(a @ b) / max(float(np.linalg.norm(a) * np.linalg.norm(b)), 1e-300)
        return cosine < -self.rules.turn and float(np.linalg.norm(a)) > self.rules.same * float(np.linalg.norm(b))

    def rejected(self, step: StepInfo) -> None:
        self.halving.rejected(step)

    def failed(self, step: StepInfo) -> None:
        self.halving.failed(step)


@dataclass(frozen=True)
class Switching:
    """Edsberg and Wedin, 3.1: full steps with a step length, regularised ones where these will not do.

    Their rule is not published.  Here a point calls for regularisation if the linear problem is nearly
    singular, or if a full step had to be shortened below `shortest`; regularisation ends when the trust
    region is not felt any more.

    Attributes
    ----------
    condition
        Smallest over largest diagonal element of the factor, below which a problem counts as nearly singular.
    shortest
        Fraction of the full step at which halving is given up.
    """

    condition: float = 1e-3
    shortest: float = 0.2
    region: TrustRegion = TrustRegion()
    length: StepLength = StepLength()

    @property
    def attempts(self) -> int:
        """See `Globalisation`."""
        return self.region.attempts

    def start(self, step: Step) -> Control:
        """See `Globalisation`."""
        return _Switched(self, _InRegion(self.region, step, self.region.initial), _Halving(self.length))


@dataclass
class _Switched:
    rules: Switching
    region: _InRegion
    halving: _Halving
    regularised: bool = False
    note: str = ""

    @property
    def radius(self) -> float:
        return self.region.radius if self.regularised else math.inf

    def propose(self, problem: StepProblem) -> StepInfo:
        if not self.regularised:
            full = self.halving.propose(problem)
            if full.condition >= self.rules.condition:
                return full
            self._regularise(full)
        return self.region.propose(problem)

    def _regularise(self, step: StepInfo) -> None:
        self.regularised = True
        self.region.radius = min(self.region.radius, step.length)
        self.halving.alpha = 1.0

    def is_good(self, ratio: float) -> bool:
        return self.region.is_good(ratio) if self.regularised else self.halving.is_good(ratio)

    def taken(self, step: StepInfo, ratio: float) -> None:
        if not self.regularised:
            self.halving.taken(step, ratio)
            return
        self.region.taken(step, ratio)
        if step.damping == 0.0 and step.condition >= self.rules.condition:
            self.regularised = False

    def rejected(self, step: StepInfo) -> None:
        if self.regularised:
            self.region.rejected(step)
            return
        self.halving.rejected(step)
        if self.halving.alpha < self.rules.shortest:
            self._regularise(step)

    def failed(self, step: StepInfo) -> None:
        if self.regularised:
            self.region.failed(step)
            return
        self.halving.failed(step)
        if self.halving.alpha < self.rules.shortest:
            self._regularise(step)
