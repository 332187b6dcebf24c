"""What an equilibration conserves: the linear combinations of states that stay as they begin.

Let y' = f(y, p) and y(0) = y0(p), for all values that the free parameters may take.  Two things are conserved:

* **States that stay as they begin.**  A set F of states such that f_i = 0 for all i in F wherever the states of F are
  at their initial values, whatever the others are: constants, and all that is zero and cannot come into being.  The
  largest such set is found from above: begin with all states, and leave out those whose derivative is not zero.
* **Totals.**  Rows w with w'f = 0 identically in the other states, those of F being fixed: the left null space of the
  values of f at random points.

Both are decided in exact arithmetic (`odefit.compile.finite_field`), so that no slow reaction is taken for none.  The
weights w are rational numbers, and are found from their residues modulo one or several primes.

Weights may depend on free parameters: on the volumes of two compartments, or, where A reacts to B and to C, on the two
rate constants.  Such laws are those that are found with one choice of the parameters, and have other residues with
another.  Which weights are not zero is known then; their values are for kernels to find, at each point anew.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from odefit.compile.finite_field import PRIMES, Residues, evaluate, inverses, residue_of
from odefit.errors import UnsupportedError

Array = npt.NDArray[np.float64]

_MORE_POINTS = 8  # than unknowns
_SEED = 20
_NO_INDICES = np.empty(0, np.int64)


class Laws(NamedTuple):
    """What is conserved.

    Attributes
    ----------
    weights
        Of each law, (m, n); where they depend on parameters, 1 for those that are not zero.
    varying, lead
        The laws whose weights depend on parameters, and for each of these a state whose weight is 1.
    stays
        Per state: 1 for one that stays as it begins, else 0.
    """

    weights: Array
    varying: npt.NDArray[np.int64]
    lead: npt.NDArray[np.int64]
    stays: npt.NDArray[np.int64]


class _Given(NamedTuple):
    """What `conserved_totals` is given."""

    rhs: Any
    start: Any
    known: Array
    constants: Array
    aside: Sequence[int]
    behind: Sequence[float | None]
    unknown: Sequence[int]


class _System:
    """A right-hand side f(t, y, p, u) and the map (t, q, c, u) -> (p, y0), at points modulo a prime.

    `known` are the values of q, NaN for those that are free.
    """

    def __init__(self, given: _Given, prime: int) -> None:
        rhs, start, known, constants, aside, behind, self._unknown = given
        self.rhs, self.prime, self.aside = rhs, prime, list(aside)
        self.n, n_p = rhs.numel_out(0), rhs.numel_in(2)
        self.points = self.n + _MORE_POINTS
        self.random = np.random.default_rng(_SEED)
        self._start = start
        self._numbers = [self._column(known), self._column(constants)]
        self._time, self._inputs, self._start_inputs = (
            self._any(count, 1) for count in (1, rhs.numel_in(3), start.numel_in(3))
        )
        self._n_p = n_p
        self._behind = [None if one is None else self._column(np.array([one])) for one in behind]

    def _column(self, numbers: Array) -> Residues:
        """Return residues of numbers, (k, 1); -1 for those that are free."""
        found = [-1 if math.isnan(number) else residue_of(number, self.prime) for number in numbers.tolist()]
        return np.array(found, dtype=np.int64).reshape(-1, 1)

    def _any(self, count: int, points: int) -> Residues:
        return self.random.integers(1, self.prime, (count, points), dtype=np.int64)

    def begin(self, *, one: bool) -> tuple[Residues, Residues]:
        """Return p and y0 for random values of the free parameters, the same at all points or others at each."""
        free, constants = (
            np.where(column < 0, self._any(column.size, 1 if one else self.points), column) for column in self._numbers
        )
        arguments = [self._time, *(np.broadcast_to(a, (a.shape[0], self.points)) for a in (free, constants))]
        out = evaluate(self._start, [*arguments, self._start_inputs], self.prime)
        p, y0 = out[: self._n_p], out[self._n_p :]
        p[list(self._unknown)] = self._any(len(self._unknown), 1 if one else self.points)
        for state, number in enumerate(self._behind):
            if number is not None:
                y0[state] = self._any(1, 1 if one else self.points) if number[0, 0] < 0 else number
        return p, y0

    def slopes(self, p: Residues, y0: Residues, fixed: npt.NDArray[np.bool_]) -> Residues:
        """Return f where the states `fixed` are at their beginning and all others anywhere, (n, points)."""
        y = np.where(fixed[:, None], y0, self._any(self.n, self.points))
        f = evaluate(self.rhs, [self._time, y, p, self._inputs], self.prime)
        f[self.aside] = 0
        return f


def conserved_totals(
    rhs: Any,
    start: Any,
    known: Array,
    constants: Array,
    aside: Sequence[int] = (),
    behind: Sequence[float | None] = (),
    unknown: Sequence[int] = (),
) -> Laws:
    """Return what is conserved.

    Parameters
    ----------
    rhs, start
        CasADi functions ``f(t, y, p, u)`` and ``(t, q, c, u) -> (p, y0)``.
    known, constants
        Values of q, NaN for those that are free, and of c.
    aside
        States that are to stay as they begin whatever their derivatives; no other one may depend on them.
    behind
        Where it does not begin with y0, but behind events: the value of each state there, NaN for one that is not
        known, None for that of y0.
    unknown
        Entries of p that are not what the map says.
    """
    given = _Given(rhs, start, known, constants, aside, behind, unknown)
    system = _System(given, PRIMES[0])
    fixed = _staying(system)
    moving = np.flatnonzero(~fixed)
    units = np.eye(system.n)[fixed]
    stays = fixed.astype(np.int64)
    if not moving.size:
        return Laws(units, _NO_INDICES, _NO_INDICES, stays)
    free, pivots, entries = _relations(system, fixed, moving, one=True)
    again = _relations(system, fixed, moving, one=True)[2]
    same = np.flatnonzero((entries == again).all(axis=1))
    varying = np.setdiff1d(np.arange(len(free)), same)
    laws = np.zeros((len(free), system.n))
    numbers = (entries != 0).astype(float)
    if same.size:
        numbers[same] = _rational(given, fixed, moving, (free, pivots, entries), same)
    for law, column, weights in zip(laws, free, numbers, strict=True):
        law[moving[column]] = 1.0
        law[moving[pivots]] = weights
    lead = moving[np.array(free, dtype=np.int64)[varying]].astype(np.int64)
    return Laws(np.vstack((units, laws)), (varying + len(units)).astype(np.int64), lead, stays)


def _staying(system: _System) -> npt.NDArray[np.bool_]:
    """Return which states stay as they begin."""
    p, y0 = system.begin(one=False)
    fixed = np.ones(system.n, dtype=bool)
    while True:
        moves = (system.slopes(p, y0, fixed) != 0).any(axis=1)
        if not (fixed & moves).any():
            return fixed
        fixed &= ~moves


def _relations(
    system: _System, fixed: npt.NDArray[np.bool_], moving: npt.NDArray[np.int64], *, one: bool
) -> tuple[list[int], list[int], Residues]:
    """Return the left null space of f: its free rows, the other ones, and weights (free, others) of the latter."""
    p, y0 = system.begin(one=one)
    matrix, prime = system.slopes(p, y0, fixed)[moving].T.copy(), system.prime
    pivots: list[int] = []
    row = 0
    for column in range(matrix.shape[1]):
        below = np.flatnonzero(matrix[row:, column])
        if not below.size:
            continue
        matrix[[row, row + below[0]]] = matrix[[row + below[0], row]]
        matrix[row] = matrix[row] * inverses(matrix[row, column : column + 1], prime) % prime
        others = np.flatnonzero(matrix[:, column])
        others = others[others != row]
        matrix[others] = (matrix[others] - matrix[others, column, None] * matrix[row] % prime) % prime
        pivots.append(column)
        row += 1
    free = [column for column in range(matrix.shape[1]) if column not in set(pivots)]
    return free, pivots, (-matrix[:row, free].T) % prime


def _rational(
    given: _Given,
    fixed: npt.NDArray[np.bool_],
    moving: npt.NDArray[np.int64],
    first: tuple[list[int], list[int], Residues],
    rows: npt.NDArray[np.int64],
) -> Array:
    """Return the weights of laws `rows`: the simplest fractions that have these residues, modulo enough primes."""
    free, pivots, entries = first
    modulus, residues = PRIMES[0], [int(value) for value in entries[rows].ravel()]
    for prime in PRIMES[1:]:
        other = _relations(_System(given, prime), fixed, moving, one=True)
        if other[:2] != (free, pivots):
            break
        check = [int(value) for value in other[2][rows].ravel()]
        found = [_fraction(residue, modulus) for residue in residues]
        if all(
            one is not None and (one.numerator - value * one.denominator) % prime == 0
            for one, value in zip(found, check, strict=True)
        ):
            return np.array([float(one) for one in found if one is not None]).reshape(entries[rows].shape)
        lift = pow(modulus, -1, prime)
        residues = [a + modulus * ((b - a) * lift % prime) for a, b in zip(residues, check, strict=True)]
        modulus *= prime
    raise UnsupportedError("a steady state of a model whose conserved totals have weights that are no simple fractions")


def _fraction(residue: int, modulus: int) -> Fraction | None:
    """Return the fraction with numerator and denominator below sqrt(modulus/2) that has this residue, if any."""
    limit = math.isqrt(modulus // 2)
    (r0, r1), (s0, s1) = (modulus, residue), (0, 1)
    while r1 > limit:
        quotient = r0 // r1
        (r0, r1), (s0, s1) = (r1, r0 - quotient * r1), (s1, s0 - quotient * s1)
    if s1 == 0 or abs(s1) > limit:
        return None
    return Fraction(r1, s1)
