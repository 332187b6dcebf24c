"""Whether a trial point is worth its derivatives before it is known that it is taken.

A point that is taken needs its linearisation.  Asked for at once it costs one evaluation of order 1; asked for
afterwards one of order 0 more.  A point that is given up has had its derivatives for nothing.  What is better depends
on how many points are taken, which differs between problems, and on the way: where full steps overshoot, the first
point of every iteration is given up and the second one taken.  So the share of points that were taken is followed for
the two kinds apart.  While grids change, derivatives on the old ones are wasted: a point behind one that could not be
judged on them is evaluated without.

Values do not depend on the order that was asked for: iterates do not depend on this rule, but where a trial point has a
value and no derivatives.
"""

from __future__ import annotations

_MEMORY = 1.0 / 3.0  # weight of the last point in the share
_WORTHWHILE = (
    0.6  # share from which derivatives are asked for at once: with them an evaluation takes 2 to 4 times as long
)


class Foresight:
    """Expects that as many trial points are taken as lately."""

    __slots__ = ("_share", "_steady")

    def __init__(self) -> None:
        self._share = [1.0, 0.5]  # of the first points of iterations, and of those after a failure
        self._steady = True

    def order(self, attempt: int) -> int:
        """Return the order to be asked for at trial point number `attempt` of an iteration, counted from 0."""
        return 1 if self._steady and self._share[attempt > 0] > _WORTHWHILE else 0

    def learn(self, attempt: int, judged: bool, taken: bool) -> None:
        """Learn whether a trial point could be judged on the grids it was evaluated on, and was taken as it was."""
        share = self._share
        share[attempt > 0] += _MEMORY * (taken - share[attempt > 0])
        self._steady = judged
