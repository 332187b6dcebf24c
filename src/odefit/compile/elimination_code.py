"""The elimination of a sparsity pattern: its order and its code, from the cache or freshly made.

Both depend on the pattern alone, so that models with the same one share them, and a cache file holds both: reading it
needs neither SuperLU nor an elimination.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np

from odefit.compile import store
from odefit.compile.elimination_order import Index, ends_of_states, order_of_pattern, products_of
from odefit.compile.machine import LoadedObject, build_object
from odefit.compile.straight_line import elimination_assembly, has_diagonal_pivots
from odefit.native.linear_systems import Elimination

logger = logging.getLogger("odefit.compile")

LONGEST = 80_000
"""Lines of assembly up to which code is made: 0.5 s.

That is 80 states with three random neighbours each, a chain of 450, or 230 on a line that act on both neighbours.
There a run, with sensitivities or without, is 1.6 to 1.9 times as fast as in loops.
"""
_STORED = ("row_of", "column_of", "place", "l_ptr", "l_col", "u_ptr", "u_col")


@dataclass(frozen=True, eq=False)
class EliminationCode:
    """An elimination, and the code it points to, which lives as long as this object (None: too long to be made)."""

    elimination: Elimination
    library: LoadedObject | None


def _length(e: Elimination) -> int:
    """Return about how many lines of assembly an elimination takes."""
    return 3 * products_of(e) + 50 * (e.l_col.size + e.u_col.size) + 75 * e.row_of.size


def _build(n: int, row_ptr: Index, col: Index) -> store.StoredObject:
    order = order_of_pattern(n, row_ptr, col)
    code = b""
    if has_diagonal_pivots(order) and _length(order) <= LONGEST:
        logger.info("compiling the elimination of %d states", n)
        text = elimination_assembly(order)
        code = build_object(text, text.count("\n"), passes=False)
    return store.StoredObject(code, {name: getattr(order, name).tolist() for name in _STORED})


def elimination_code(n: int, row_ptr: Index, col: Index) -> EliminationCode:
    """Return the elimination of ``shift I - J``, where J is the part by states of a CSR pattern by (y, p)."""
    name = store.key("elimination", str(n), str(row_ptr.tolist()), str(col.tolist()))
    stored = store.load(name)
    if stored is None:
        stored = _build(n, row_ptr, col)
        store.save(name, stored)
    arrays = {name: np.array(stored.facts[name], dtype=np.int64) for name in _STORED}
    order = Elimination(row_ptr, ends_of_states(n, row_ptr, col), col)._replace(**arrays)
    if not stored.code:
        return EliminationCode(order, None)
    library = LoadedObject(stored.code)
    addresses = {name: library.address(name) for name in ("factorise", "solve", "solve_blocks")}
    return EliminationCode(order._replace(**addresses), library)
