"""Parameters: what is known about each number that may be estimated."""

from __future__ import annotations

import math
from dataclasses import dataclass

from odefit.errors import ProblemError, UnsupportedError
from odefit.problem.priors import Prior
from odefit.problem.values import Value, one_nan

SCALES = ("linear", "log", "log10", "logit")
"""How the solver may see a parameter; the position is the code that kernels use."""

LOGARITHMIC = ("log", "log10")
"""The scales on which a value is positive."""


@dataclass(frozen=True)
class Parameter(Value):
    """One parameter in natural values; only the solver sees it through `scale`.

    Attributes
    ----------
    start
        Start value; the value itself if `fixed`.
    lower, upper
        Bounds on the natural value.
    scale
        "linear", "log", "log10" or "logit" (between finite bounds): numerical only, and the scale on
        which the linearised interval is symmetric.
    fixed
        Keep the start value.
    expression
        Text of an expression in other parameters that defines this one (then it is not estimated).
    prior
        What was known before: "normal(m, s)", "lognormal(m, s)", "laplace(m, b)" or "uniform(a, b)".
    per
        "experiment": one value per experiment; or the name of a data column: one per value of it.
    linear
        Eliminate a parameter that enters linearly; refused until that method exists.
    unit
        Label for reports.
    auto
        Let the data give the start value; `start` (1, or a value inside the bounds, if left out) serves where
        they cannot.
    """

    name: str
    start: float = math.nan
    lower: float = -math.inf
    upper: float = math.inf
    scale: str = "linear"
    fixed: bool = False
    prior: str | None = None
    expression: str | None = None
    per: str | None = None
    linear: bool = False
    unit: str = ""
    auto: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", one_nan(self.start))
        if self.linear:
            raise UnsupportedError(f"'linear' of parameter '{self.name}'")
        if self.scale not in SCALES:
            raise ProblemError(f"'{self.name}' has scale '{self.scale}'; the scales are {', '.join(SCALES)}.")
        if self.expression is not None:
            if not math.isnan(self.start):
                raise ProblemError(
                    f"'{self.name}' has both a start value and an expression; an expression is computed, "
                    "not estimated: remove one of the two."
                )
            for word in ("prior", "per"):
                if getattr(self, word) is not None:
                    raise ProblemError(
                        f"'{self.name}' has an expression and '{word}'; give '{word}' to the parameters it is made of."
                    )
            return
        self._apply_prior()
        if self.auto and math.isnan(self.start):
            object.__setattr__(self, "start", self._anywhere_inside())
        self._check_numbers()

    @property
    def is_logarithmic(self) -> bool:
        """Whether the solver sees a logarithm."""
        return self.scale in LOGARITHMIC

    @property
    def natural_lower(self) -> float:
        """The lower end of the values that bound and scale allow: 0 on a logarithmic scale without a higher bound."""
        return max(self.lower, 0.0) if self.is_logarithmic else self.lower

    def _anywhere_inside(self) -> float:
        """Return 1 if the bounds allow it, else their mean, or a point at their side."""
        lower, upper = self.natural_lower, self.upper
        if lower < 1 < upper:
            return 1.0
        if math.isfinite(lower) and math.isfinite(upper):
            return math.sqrt(lower * upper) if lower > 0 else 0.5 * (lower + upper)
        return lower + max(1.0, abs(lower)) if math.isfinite(lower) else upper - max(1.0, abs(upper))

    def _apply_prior(self) -> None:
        """Read the prior; a uniform one is bounds."""
        if self.prior is None:
            return
        if self.fixed:
            raise ProblemError(
                f"'{self.name}' is fixed and has a prior; a fixed value needs none: remove one of the two."
            )
        prior = Prior.from_text(self.prior, f"'{self.name}'")
        if prior.kind == "uniform":
            object.__setattr__(self, "lower", max(self.lower, prior.first))
            object.__setattr__(self, "upper", min(self.upper, prior.second))

    @property
    def penalty(self) -> Prior | None:
        """The prior as a penalty; None if there is none (a uniform one is bounds)."""
        if self.prior is None:
            return None
        prior = Prior.from_text(self.prior, f"'{self.name}'")
        return None if prior.kind == "uniform" else prior

    def _check_numbers(self) -> None:
        name, start, lower, upper = self.name, self.start, self.lower, self.upper
        if not math.isfinite(start):
            raise ProblemError(f"'{name}' has start value {start}; give a finite number.")
        if math.isnan(lower) or math.isnan(upper):
            raise ProblemError(f"'{name}' has a bound that is not a number; leave it out for no bound.")
        if self.fixed:
            return
        if lower >= upper:
            raise ProblemError(
                f"'{name}' has lower bound {lower:g} and upper bound {upper:g}; "
                "the lower one must be the smaller (to hold a value use fixed = true)."
            )
        if not lower <= start <= upper:
            raise ProblemError(
                f"'{name}' has start value {start:g} outside its bounds [{lower:g}, {upper:g}]; "
                "move the start or the bounds."
            )
        if self.is_logarithmic:
            if start <= 0:
                raise ProblemError(
                    f"'{name}' has start value {start:g} but scale '{self.scale}' needs a positive one; "
                    "set start > 0 or scale = 'linear'."
                )
            if upper <= 0:
                raise ProblemError(f"'{name}' has upper bound {upper:g}, which scale '{self.scale}' cannot reach.")
        if self.scale == "logit":
            if not (math.isfinite(lower) and math.isfinite(upper)):
                raise ProblemError(f"'{name}' has scale 'logit', which needs finite lower and upper bounds.")
            if not lower < start < upper:
                raise ProblemError(
                    f"'{name}' has start value {start:g} at a bound; scale 'logit' needs it strictly between."
                )
