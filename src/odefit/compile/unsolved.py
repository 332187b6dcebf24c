"""Words for equations of algebraic unknowns that could not be solved."""

from __future__ import annotations

from odefit.model.implicit import Block
from odefit.native.implicit_solve import NOT_FINITE, NOT_FOUND, SINGULAR

_REASONS = {
    NOT_FINITE: "it has no finite value where the search led",
    SINGULAR: "its derivative by the unknown vanishes where the search led, as where two solutions meet",
    NOT_FOUND: "Newton's method does not converge on the way from the last solution, or from the guess",
}


def words_for_unsolved(block: Block, why: int, where: int) -> str:
    """Say which equation has no solution, why, and what to do; `why` and `where` come from the kernel."""
    names = ", ".join(f"'{name}'" for name in block.unknowns)
    equation = block.equations[where]
    together = "" if len(block.equations) == 1 else f", one of {len(block.equations)} that are solved together,"
    return (
        f"no solution for {names} was found of the equation '{equation}'{together} ({_REASONS[why]}); give another "
        "guess, bounds that keep the parameters where a solution exists, or another form of the equation"
    )
