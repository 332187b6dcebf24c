"""What is minimised: from model values and data to the objective.  One criterion a file, one contract."""

from odefit.criteria.contract import Criterion, Quadratic, Rows
from odefit.criteria.least_squares import SumOfSquares
from odefit.errors import ProblemError, UnsupportedError, suggestion

CRITERIA: dict[str, Criterion] = {criterion.name: criterion for criterion in (SumOfSquares(),)}
"""Criteria by the names that problem files use."""
_PLANNED = ("likelihood", "determinant")


def criterion_named(name: str) -> Criterion:
    """Return the criterion `name`."""
    if name in CRITERIA:
        return CRITERIA[name]
    if name in _PLANNED:
        raise UnsupportedError(f"criterion = '{name}'; use \"least-squares\"")
    raise ProblemError(
        f"there is no criterion '{name}'{suggestion(name, (*CRITERIA, *_PLANNED))} There are: {', '.join(CRITERIA)}."
    )


__all__ = ["CRITERIA", "Criterion", "Quadratic", "Rows", "SumOfSquares", "criterion_named"]
