"""Which equation belongs to which unknown, and whether the equations determine the unknowns: the index.

With differential rows B y' = f (of full row rank, see `odefit.model.row_elimination`) and algebraic rows 0 = g, the
derivative of the latter in time is g_y y' + g_t = 0.  All derivatives are determined, which is what index 1 means (0 if
there is no algebraic row), if and only if

    M = [ B   ]
        [ g_y ]

is regular.  Whatever the numbers are, M must have a perfect matching: an entry in each row and column that no other row
or column uses.  Each row then is named by its column: a differential row has the derivative of that state, an algebraic
one the state itself; ``x' = expr`` has only x' and keeps its name.  M is tested at random points, too
(`odefit.model.residues`): entries may cancel.  Where no point serves nothing is said: the numbers of a run will tell.

Where there is no matching, the rows and columns that alternating paths reach from an unmatched one are the part to
blame (Dulmage and Mendelsohn): the rows hold fewer unknowns than they are, the columns stand in fewer equations.  If
there is no matching either when each row may have the states beside derivatives as well, the equations are singular
whatever is differentiated; otherwise the index is higher than 1.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import casadi as ca
import numpy as np
from casadi import SX

from odefit.model.dependencies import symbols_in
from odefit.model.generic_values import generic
from odefit.model.residues import Values, echelon, residues
from odefit.model.row_elimination import Row, listed


class MassFault(Exception):
    """Equations that do not determine the unknowns; `row` is the number of that to blame, if it is one."""

    def __init__(self, message: str, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


def matched_states(rows: Sequence[Row], sides: Sequence[SX], states: Sequence[str], symbols: list[SX]) -> list[str]:
    """Return for each row the state by which it is named.

    Parameters
    ----------
    rows
        As many as states; dependent ones are algebraic already.
    sides
        Their right sides with definitions put in.
    states, symbols
        Names and symbols of the states.
    """
    number = {symbol.element_hash(): k for k, symbol in enumerate(symbols)}
    place = {name: k for k, name in enumerate(states)}

    def inside(side: SX) -> list[int]:
        return [number[one.element_hash()] for one in symbols_in(side) if one.element_hash() in number]

    primed = [[place[name] for name in row.coefficients] for row in rows]
    strict = [own or inside(side) for own, side in zip(primed, sides, strict=True)]
    column_of = _matching(strict, len(states))
    if min(column_of, default=0) < 0:
        loose = [[*own, *inside(side)] for own, side in zip(primed, sides, strict=True)]
        if min(of := _matching(loose, len(states))) < 0:
            _refuse_singular(rows, loose, of, states)
        _refuse_index(rows, strict, column_of, states)
    return [states[column] for column in column_of]


def check_index(
    rows: Sequence[Row],
    coefficients: Sequence[Mapping[str, SX]],
    sides: Sequence[SX],
    states: Sequence[str],
    symbols: list[SX],
) -> None:
    """Refuse rows whose matrix M is singular at random points; see the top of the module.

    Parameters
    ----------
    rows, states, symbols
        As in `matched_states`.
    coefficients, sides
        Of the rows, with definitions put in.
    """
    if all(row.coefficients for row in rows):
        return  # independent they are already
    own = {next(iter(row.coefficients)) for row in rows if row.explicit}  # a unit row takes its column with it
    columns = [k for k, name in enumerate(states) if name not in own]
    place = {states[k]: i for i, k in enumerate(columns)}
    implicit = [k for k, row in enumerate(rows) if not row.explicit]
    entries: list[dict[int, Values]] = [{} for _ in implicit]
    inner = [(i, name) for i, k in enumerate(implicit) for name in coefficients[k] if name in place]
    algebraic = [i for i, k in enumerate(implicit) if not rows[k].coefficients]
    factors = [coefficients[implicit[i]][name] for i, name in inner]
    written = generic(ca.vertcat(*factors, *(sides[implicit[i]] for i in algebraic)))
    slopes = ca.jacobian(written[len(inner) :], ca.vertcat(SX(0, 1), *(symbols[k] for k in columns)))
    where = [(i, place[name]) for i, name in inner]
    where += [(algebraic[row], column) for row, column in zip(*slopes.sparsity().get_triplet(), strict=True)]
    values = residues(ca.vertcat(*(written[k] for k in range(len(inner))), ca.vec(slopes.nz[:])))
    if values is None:
        return
    for (i, j), one in zip(where, values, strict=True):
        entries[i][j] = one
    found = echelon(entries)
    dependent = [i for i, left in enumerate(found.reduced) if not left]
    if dependent:
        free = next(j for j in range(len(columns)) if j not in found.pivots)
        blamed = [implicit[i] for i in found.rows_of_zero(dependent[0])]
        raise _index_fault(rows, sorted(blamed), [states[columns[j]] for j in sorted(found.null_columns(free))])


def _matching(found: Sequence[Collection[int]], n: int) -> list[int]:
    """Return a column for each row, -1 where a largest matching has none; `found` are the columns of each row."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    distinct = [sorted(set(one)) for one in found]
    rows = np.repeat(np.arange(len(distinct)), [len(one) for one in distinct])
    columns = np.array([column for one in distinct for column in one], dtype=int)
    incidence = csr_array((np.ones(rows.size), (rows, columns)), shape=(len(distinct), n))
    return maximum_bipartite_matching(incidence, perm_type="column").tolist()


def _reached_rows(found: Sequence[Collection[int]], column_of: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return rows with fewer columns than they are, from one that is not matched, and these columns."""
    row_of = {column: row for row, column in enumerate(column_of) if column >= 0}
    rows, columns = [column_of.index(-1)], dict[int, None]()
    for row in rows:
        for column in found[row]:
            if column not in columns:
                columns[column] = None
                rows.append(row_of[column])
    return sorted(rows), sorted(columns)


def _reached_columns(found: Sequence[Collection[int]], column_of: Sequence[int], n: int) -> tuple[list[int], list[int]]:
    """Return columns that stand in fewer rows than they are, from all that are not matched, and these rows."""
    taken = set(column_of)
    columns = [column for column in range(n) if column not in taken]
    seen, rows = set(columns), dict[int, None]()
    for column in columns:
        for row, inside in enumerate(found):
            if column in inside and row not in rows:
                rows[row] = None
                if column_of[row] not in seen:
                    seen.add(column_of[row])
                    columns.append(column_of[row])
    return sorted(columns), sorted(rows)


def _refuse_singular(
    rows: Sequence[Row], found: Sequence[Collection[int]], column_of: Sequence[int], states: Sequence[str]
) -> None:
    many, few = _reached_rows(found, column_of)
    lacking, _ = _reached_columns(found, column_of, len(states))
    words, what = listed([rows[k].words for k in many]), listed([states[k] for k in few])
    held = f"the {len(many)} equations {words} hold" if len(many) > 1 else f"{words} holds"
    raise MassFault(
        f"{held} {f'only {what}' if few else 'no unknown'}: one too many, and there are too few for "
        f"{listed([states[k] for k in lacking])}; change which unknowns stand in them",
        many[-1],
    )


def _refuse_index(
    rows: Sequence[Row], found: Sequence[Collection[int]], column_of: Sequence[int], states: Sequence[str]
) -> None:
    many, _ = _reached_rows(found, column_of)
    lacking, _ = _reached_columns(found, column_of, len(states))
    raise _index_fault(rows, many, [states[k] for k in lacking])


def _index_fault(rows: Sequence[Row], involved: Sequence[int], unknowns: Sequence[str]) -> MassFault:
    algebraic = [k for k in involved if not rows[k].coefficients]
    blamed = algebraic or list(involved)
    verb = "do" if len(blamed) > 1 else "does"
    return MassFault(
        f"the index is higher than 1: {listed([rows[k].words for k in blamed])} {verb} not determine "
        f"{listed(unknowns)}; differentiate the constraint in time until it does, and keep the constraint itself as an "
        "invariant: a definition that the initial values make zero",
        blamed[-1] if blamed else None,
    )
