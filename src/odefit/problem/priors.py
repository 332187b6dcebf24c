"""Priors: what was known before the data, as penalties.

With d = theta - m the penalties, half the square of a residual each, are

==============  =====================================  ==========================================
text            penalty                                meaning
==============  =====================================  ==========================================
normal(m, s)    (d/s)^2/2
lognormal(m,s)  (log(theta/m)/s)^2/2                   log theta is normal; no Jacobian term
laplace(m, b)   |d|/b                                  rounded within 0.001 b of m (see below)
uniform(a, b)   none                                   bounds
==============  =====================================  ==========================================

|d| has no derivative at 0, and a residual sqrt(2|d|/b) none that a Gauss-Newton method can use; with
e = 0.001 b the penalty is (sqrt(d^2 + e^2) - e)/b, at most 0.001 from the exact one.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from odefit.errors import ProblemError, suggestion

KINDS = ("normal", "lognormal", "laplace", "uniform")
LAPLACE_ROUNDING = 1e-3
_CALL = re.compile(r"\s*([A-Za-z_]+)\s*\(\s*([^,()]+?)\s*,\s*([^,()]+?)\s*\)\s*")


@dataclass(frozen=True)
class Prior:
    """A prior on one number: `kind` with its two numbers."""

    kind: str
    first: float
    second: float

    @classmethod
    def from_text(cls, text: str, of: str) -> Prior:
        """Read ``normal(1, 0.1)``; `of` names what it belongs to, for messages."""
        match = _CALL.fullmatch(text)
        if match is None:
            raise ProblemError(
                f'the prior "{text}" of {of} cannot be read; write kind(number, number), normal(1, 0.1) say.'
            )
        kind, first, second = match.group(1), match.group(2), match.group(3)
        if kind not in KINDS:
            raise ProblemError(
                f"{of} has an unknown prior '{kind}'{suggestion(kind, KINDS)} The kinds are {', '.join(KINDS)}."
            )
        try:
            prior = cls(kind, float(first), float(second))
        except ValueError:
            raise ProblemError(f'the prior "{text}" of {of} needs two numbers.') from None
        prior._check(of)
        return prior

    def _check(self, of: str) -> None:
        if not (math.isfinite(self.first) and math.isfinite(self.second)):
            raise ProblemError(f"the prior of {of} has a number that is not finite.")
        if self.kind == "uniform":
            if self.first >= self.second:
                raise ProblemError(
                    f"the prior uniform({self.first:g}, {self.second:g}) of {of} is empty; swap the two."
                )
            return
        if self.second <= 0:
            raise ProblemError(f"the prior {self.kind} of {of} has width {self.second:g}; it must be positive.")
        if self.kind == "lognormal" and self.first <= 0:
            raise ProblemError(f"the prior lognormal of {of} has median {self.first:g}; it must be positive.")


@dataclass(frozen=True)
class Rule:
    """A prior on an expression of parameters: ``log(k2/k1) ~ normal(0, 1)``."""

    expression: str
    prior: Prior

    @classmethod
    def from_text(cls, text: str) -> Rule:
        """Read a rule with ``~``."""
        expression, _, prior = text.rpartition("~")
        rule = cls(expression.strip(), Prior.from_text(prior, f'the rule "{text}"'))
        if not rule.expression:
            raise ProblemError(f"the rule \"{text}\" has nothing before '~'; write an expression of parameters there.")
        if rule.prior.kind == "uniform":
            raise ProblemError(f'the rule "{text}": a uniform prior is bounds, which only parameters have.')
        return rule
