"""How a minimisation ended: a word for programs, a sentence and a remedy for people."""

from __future__ import annotations

from enum import StrEnum


class SolverStatus(StrEnum):
    """How a minimisation ended; the word is what result files hold."""

    CONVERGED = "converged"
    FLAT = "flat-valley"
    SLOW = "slow-progress"
    INFEASIBLE = "infeasible"
    STALLED = "stalled"
    SENSITIVE = "too-sensitive"
    LIMIT = "iteration-limit"
    NO_INFLUENCE = "no-influence"
    INTERRUPTED = "interrupted"
    FAILED = "failed"

    @property
    def sentence(self) -> str:
        """What the word means, whatever the fit."""
        return _MEANINGS[self][0]

    @property
    def remedy(self) -> str:
        """What helps, as a sentence; empty if nothing is to be done."""
        return _MEANINGS[self][1]


_OTHER_STARTS = 'Try other start values: start = "auto", or starts = 20.'

_MEANINGS = {
    SolverStatus.CONVERGED: ("a test of convergence was met", ""),
    SolverStatus.FLAT: (
        "the objective hardly changes any more, but an unknown keeps moving",
        "Fix that parameter, give it bounds or a prior, or try other start values.",
    ),
    SolverStatus.SLOW: (
        "no further progress could be made where the model is strongly curved",
        _OTHER_STARTS,
    ),
    SolverStatus.INFEASIBLE: (
        "rules, or data of infinite weight, could not be met",
        "Look for rules that contradict each other, the bounds or the data; free more parameters, or try other starts.",
    ),
    SolverStatus.STALLED: (
        "no step, however short, reduces the objective further",
        "Try a smaller rtol in [integrator], or other start values.",
    ),
    SolverStatus.SENSITIVE: (
        "rounding of the parameters decides the misfit, and nothing tells a minimum",
        'Try method = "incremental" or start = "auto", or leave out late data: there the model depends too strongly on '
        "its parameters.",
    ),
    SolverStatus.LIMIT: (
        "the limit on the number of iterations was reached",
        "Raise max_iterations in [fit], or start from the estimates (--from).",
    ),
    SolverStatus.NO_INFLUENCE: (
        "the data do not depend on any free parameter",
        _OTHER_STARTS,
    ),
    SolverStatus.INTERRUPTED: ("the fit was stopped", ""),
    SolverStatus.FAILED: (
        "the model could not be computed",
        'Try other start values (start = "auto"), or bounds that keep the model computable.',
    ),
}
