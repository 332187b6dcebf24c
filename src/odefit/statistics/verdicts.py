"""What the data say of each parameter, in words.

Let u be the logarithms of the parameters, du_i = dtheta_i/theta_i in first order, and h_i the half width of the 95 %
interval of u_i.  A parameter on a logarithmic scale is

* **determined** if its interval lies within one decade, h_i <= log(10)/2;
* **weakly determined** if it lies within three: only its order of magnitude is known;
* **not determined** otherwise, and where the rank says so.

On a linear scale a parameter is determined if zero lies outside its interval.  Otherwise it is *not distinguishable
from zero*, unless the half width is more than ten times its size (the value or a tenth of the start value, whichever
is larger; for a start at zero that of `Unknowns`): then it is not determined.

Parameters that are not determined one by one may be so together.  Let K K' be the covariance of u (with very large
entries for directions that the rank has lost), restricted to the parameters in question, and V the left
singular vectors of K with large singular values: the weak directions.  d of the parameters, the pivots p, can be chosen
such that V_p is well conditioned; then u_i - C_i u_p with C = V_i V_p^-1 is free of weak directions for
every other i.  If the exponents C round to simple fractions and the rounded combination is determined, it is
named: k3/k2^2.  Parameters on linear scales may be fixed as a sum, dtheta_i - c dtheta_p, c = C theta_i/theta_p;
where the values do not tell a sum from a product, no formula is given.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from odefit.statistics.covariance import AT_BOUND, DETERMINED, UNDETERMINED, ParameterStatistics
from odefit.statistics.matrices import dense, is_dense

Array = npt.NDArray[np.float64]

WEAK = "weakly determined (only its order of magnitude)"
ZERO = "not distinguishable from zero"
HERE = "not determined here"
"""For `UNDETERMINED` where a fit ended on a plateau: at other values the data may well determine the parameter."""
_DOUBTFUL = (WEAK, ZERO, UNDETERMINED)
_DECADE = 0.5 * math.log(10.0)  # half widths of intervals
_THREE_DECADES = 1.5 * math.log(10.0)
_LOST = 1e4  # half width that stands for a lost direction
_BETTER = 0.1  # a combination is worth naming if its interval is shorter than its members' by this factor
_LARGEST_EXPONENT = 4
_LARGEST_DENOMINATOR = 3
_TAKES_PART = 0.05  # a smaller share in the uncertainty of a combination does not count
_NOTHING = 1e-9  # of the start value
_FEW = 60  # doubtful parameters, up to which combinations are looked for among all of them at once
_MOST = 600  # of them in a group
_APART = 0.02  # correlation below which parameters belong to different groups
_SAME = 1e-3  # exponents closer to a fraction than this are that fraction


class Unknowns(NamedTuple):
    """The free parameters: names, scales, natural values, their derivatives by the solver's unknowns, and starts.

    In the place of a start at zero, which tells no size, stands a value that would matter as much as all the data; 0 if
    there is none.
    """

    names: tuple[str, ...]
    scales: tuple[str, ...]
    value: Array
    slope: Array
    start: Array


class Combination(NamedTuple):
    """Parameters that the data fix only together.

    Attributes
    ----------
    members
        Their indices.
    formula
        What is fixed, "k3/k2^2"; empty if no simple formula was found.
    """

    members: tuple[int, ...]
    formula: str


class ParameterReport(NamedTuple):
    """One row of the table of estimates; None where a number does not exist."""

    estimate: float
    standard_error: float | None
    interval: tuple[float, float] | None
    verdict: str


class Verdicts(NamedTuple):
    """A word per parameter, and the combinations behind some of them."""

    words: tuple[str, ...]
    combinations: tuple[Combination, ...]


def verdicts(statistics: ParameterStatistics, unknowns: Unknowns) -> Verdicts:
    """Judge every parameter."""
    words = [_judge(statistics, unknowns, i) for i in range(len(unknowns.names))]
    doubtful = [i for i, word in enumerate(words) if word in _DOUBTFUL]
    groups = [doubtful] if len(doubtful) <= _FEW else _groups(statistics, doubtful)
    combinations = tuple(one for group in groups for one in _combinations(statistics, unknowns, group))
    for one in combinations:
        for i in one.members:
            if words[i] in _DOUBTFUL:
                words[i] = f"only in the combination {one.formula}" if one.formula else _together(unknowns, one, i)
    return Verdicts(tuple(words), combinations)


def said_of_a_place(found: Verdicts) -> Verdicts:
    """Return verdicts that hold only where the fit ended."""
    return found._replace(words=tuple(HERE if word == UNDETERMINED else word for word in found.words))


def _together(unknowns: Unknowns, one: Combination, i: int) -> str:
    others = [unknowns.names[j] for j in one.members if j != i]
    return f"only in combination with {joined(others)}"


def joined(names: list[str]) -> str:
    """Return "a, b and c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _judge(statistics: ParameterStatistics, unknowns: Unknowns, i: int) -> str:
    if statistics.verdict[i] in (AT_BOUND, UNDETERMINED):
        return statistics.verdict[i]
    half = statistics.quantile * float(statistics.standard_error[i])
    if not math.isfinite(half):
        return DETERMINED  # the noise is not known, the rank is
    if unknowns.scales[i] != "linear":
        half *= math.log(10.0) if unknowns.scales[i] == "log10" else 1.0
        return DETERMINED if half <= _DECADE else WEAK if half <= _THREE_DECADES else UNDETERMINED
    value, start = abs(unknowns.value[i]), abs(unknowns.start[i])
    size = max(value, 0.1 * start if start else 1.0)
    if half <= value:
        return DETERMINED
    return ZERO if half <= 10.0 * size else UNDETERMINED


def _groups(statistics: ParameterStatistics, doubtful: list[int]) -> list[list[int]]:
    """Divide very many parameters into groups that hardly know of each other.

    Members of a combination are correlated, m of them in a sum by 1/(m - 1) at least, or lost together.  Groups that
    are still too large are left out: what is not determined is said of their members one by one.
    """
    from scipy.sparse import coo_array  # slow to import, and rarely needed
    from scipy.sparse.csgraph import connected_components

    size, place = len(doubtful), np.full(statistics.standard_error.size, -1)
    place[doubtful] = np.arange(size)
    i, j, _ = statistics.correlated_pairs(_APART)
    both = (place[i] >= 0) & (place[j] >= 0)
    lost = statistics.directions.lost[doubtful]
    together = coo_array(lost if is_dense(lost) else lost.tocoo())
    # a lost direction is a vertex, too, and connects those that take part in it
    rows = np.concatenate([place[i[both]], together.row])
    columns = np.concatenate([place[j[both]], size + together.col])
    n = size + lost.shape[1]
    _, label = connected_components(coo_array((np.ones(rows.size), (rows, columns)), shape=(n, n)), directed=False)
    members: dict[int, list[int]] = {}
    for parameter, group in zip(doubtful, label[:size].tolist(), strict=True):
        members.setdefault(group, []).append(parameter)
    return [group for group in members.values() if 1 < len(group) <= _MOST]


def _combinations(statistics: ParameterStatistics, unknowns: Unknowns, doubtful: list[int]) -> tuple[Combination, ...]:
    spread = _spread_of_logarithms(statistics, unknowns, doubtful)
    if len(doubtful) < 2 or spread is None:
        return ()
    left, sizes, _ = np.linalg.svd(spread, full_matrices=False)
    weak = left[:, sizes > _DECADE]
    if not 0 < weak.shape[1] < len(doubtful):
        return ()
    pivots = _pivots(weak)
    others = [row for row in range(len(doubtful)) if row not in {*pivots}]
    combinations = []
    for row, exponents in zip(others, np.linalg.solve(weak[pivots].T, weak[others].T).T, strict=True):
        exact = _row(len(doubtful), row, pivots, -exponents)
        if not _is_fixed(exact, spread):
            continue
        members = tuple(doubtful[k] for k in np.flatnonzero(_taking_part(exact, spread)))
        if len(members) > 1:
            combinations.append(Combination(members, _formula(unknowns, doubtful, exact, spread)))
    return tuple(combinations)


def _spread_of_logarithms(statistics: ParameterStatistics, unknowns: Unknowns, doubtful: list[int]) -> Array | None:
    """Return K: half widths of the 95 % intervals of the logarithms of parameters, by direction."""
    to_logarithm = (unknowns.slope / _units(unknowns))[doubtful, None]
    lost = to_logarithm * dense(statistics.directions.lost[doubtful])
    norms = np.linalg.norm(lost, axis=0)
    parts = [_LOST * np.linalg.qr(lost[:, norms > 0])[0]] if (norms > 0).any() else []
    if statistics.spread.is_finite and math.isfinite(statistics.quantile):
        parts.append(statistics.quantile * to_logarithm * statistics.spread.of(doubtful))
    spread = np.hstack(parts) if parts else None
    return spread if spread is not None and spread.size and np.isfinite(spread).all() else None


def _is_zero(unknowns: Unknowns) -> npt.NDArray[np.bool_]:
    """Tell which linear parameters are zero for all purposes, so that they have no logarithm."""
    size = np.where(unknowns.start != 0.0, np.abs(unknowns.start), 1.0)
    linear = np.array([scale == "linear" for scale in unknowns.scales])
    return linear & (np.abs(unknowns.value) <= _NOTHING * size)


def _units(unknowns: Unknowns) -> Array:
    """Return what changes are relative to: the value, or the start where that is 0 (exp may have underflowed)."""
    start = np.where(unknowns.start != 0.0, np.abs(unknowns.start), 1.0)
    return np.where(_is_zero(unknowns) | (unknowns.value == 0.0), start, unknowns.value)


def _is_fixed(combination: Array, spread: Array) -> bool:
    """Tell whether a combination is determined, and much better so than each of its members."""
    half = float(np.linalg.norm(spread.T @ combination))
    members = (np.linalg.norm(spread, axis=1) * np.abs(combination))[_taking_part(combination, spread)]
    return members.size > 0 and half <= _DECADE and half <= _BETTER * float(members.min())


def _taking_part(combination: Array, spread: Array) -> npt.NDArray[np.bool_]:
    """Tell whose uncertainty matters in a combination; this does not depend on units."""
    members = np.linalg.norm(spread, axis=1) * np.abs(combination)
    return members > _TAKES_PART * members.max()


def _pivots(weak: Array) -> list[int]:
    """Choose rows of `weak` (m, d), d of them, by Gram-Schmidt with pivoting: the most independent ones."""
    left = weak.copy()
    pivots: list[int] = []
    for _ in range(weak.shape[1]):
        norms = np.linalg.norm(left, axis=1)
        norms[pivots] = -1.0
        # the last of nearly equal ones: formulas then begin with the first
        best = int(np.flatnonzero(norms >= 0.999 * norms.max())[-1])
        direction = left[best] / norms[best]
        left -= np.outer(left @ direction, direction)
        pivots.append(best)
    return pivots


def _row(size: int, row: int, pivots: list[int], coefficients: Array) -> Array:
    out = np.zeros(size)
    out[row] = 1.0
    out[pivots] = coefficients
    return out


def _formula(unknowns: Unknowns, doubtful: list[int], exact: Array, spread: Array) -> str:
    """Name the product or the sum that is fixed, or return nothing."""
    names = [unknowns.names[i] for i in doubtful]
    units = _units(unknowns)[doubtful]
    product, error = _rounded(exact)
    has_logarithms = not np.any(_is_zero(unknowns)[doubtful] & (exact != 0.0))
    is_product = product is not None and has_logarithms and _is_fixed(np.array(product, float), spread)
    if all(unknowns.scales[i] == "linear" for k, i in enumerate(doubtful) if exact[k] != 0.0):
        one = int(np.argmax(exact == 1.0))
        total, error_of_sum = _rounded(exact * units[one] / units)
        if total is not None and min(error_of_sum, _SAME) < max(error, _SAME):
            is_sum = _is_fixed(np.array(total, float) * units / units[one], spread)
            if is_sum and is_product and max(error_of_sum, error) < _SAME:
                return ""  # the values do not tell a sum from a product
            if is_sum and (error_of_sum < error or not is_product):
                return _sum_text(names, _integers(total))
    return _product_text(names, _integers(product)) if is_product and product is not None else ""


def _rounded(exponents: Array) -> tuple[list[Fraction] | None, float]:
    """Round to simple fractions; also return the largest change."""
    fractions = [Fraction(float(x)).limit_denominator(_LARGEST_DENOMINATOR) for x in exponents]
    error = float(max(abs(float(f) - x) for f, x in zip(fractions, exponents, strict=True)))
    integers = _integers(fractions)
    if max(abs(k) for k in integers) > _LARGEST_EXPONENT or sum(k != 0 for k in integers) < 2:
        return None, math.inf
    return fractions, error


def _integers(fractions: list[Fraction]) -> list[int]:
    factor = math.lcm(*(f.denominator for f in fractions))
    scaled = [int(f * factor) for f in fractions]
    divisor = math.gcd(*scaled)
    return [k // max(divisor, 1) for k in scaled]


def _product_text(names: list[str], powers: list[int]) -> str:
    above = [(name, k) for name, k in zip(names, powers, strict=True) if k > 0]
    below = [(name, -k) for name, k in zip(names, powers, strict=True) if k < 0]

    def size(side: list[tuple[str, int]]) -> tuple[int, int]:
        return (-len(side), sum(k for _, k in side))

    if below and size(below) < size(above):
        above, below = below, above
    return _factors(above) + (f"/{_factors(below, brackets=True)}" if below else "")


def _factors(side: list[tuple[str, int]], *, brackets: bool = False) -> str:
    text = "*".join(name if k == 1 else f"{name}^{k}" for name, k in side)
    return f"({text})" if brackets and len(side) > 1 else text


def _sum_text(names: list[str], factors: list[int]) -> str:
    terms = [(name, k) for name, k in zip(names, factors, strict=True) if k]
    if terms[0][1] < 0:
        terms = [(name, -k) for name, k in terms]
    text = ""
    for name, k in terms:
        sign = (" - " if k < 0 else " + ") if text else ""
        text += sign + (name if abs(k) == 1 else f"{abs(k)}*{name}")
    return text
