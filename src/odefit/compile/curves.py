"""States and definitions along a trajectory, with derivatives: for simulations and prediction bands.

They are native functions of their own: a fit needs observables only, and a model may have hundreds of definitions.  So
they are compiled when somebody first asks for curves, and their derivatives when somebody first asks for a band; both
are kept with the code of the model, and on disk.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property

import casadi as ca
import numpy as np
import numpy.typing as npt

from odefit.compile.conditions import Variant, model_functions
from odefit.compile.functions import FunctionLibrary, NativeFunction, SymbolicFunction
from odefit.compile.problem import CompiledProblem
from odefit.native.calls import call_observe
from odefit.native.kernel import kernel
from odefit.native.table_slots import REMEMBERED
from odefit.problem import Problem

Array = npt.NDArray[np.float64]

_NOTHING = np.empty(0)


def curves_of(
    problem: Problem,
    compiled: CompiledProblem,
    e: int,
    *,
    by_row: bool = False,
    in_intervals: bool = False,
    names: tuple[str, ...] = (),
) -> Curves:
    """Return the curves of experiment number `e`; those that change the same in the model share them."""
    variant = compiled.variant(e)
    return variant.kept.get(
        ("curves", by_row, in_intervals, names),
        lambda: Curves(problem, variant.symbolic, by_row=by_row, in_intervals=in_intervals, names=names),
    )


class Curves:
    """All states and definitions of one variant of a problem's model, or those with these names.

    Definitions that use a parameter which depends on the single measurement have no curve and are left out,
    unless `by_row` asks for them: then the arguments ``a`` of one measurement must be given.  Aggregates over the
    interval of a measurement are left out, unless the times are `in_intervals`.
    """

    def __init__(
        self,
        problem: Problem,
        variant: Variant,
        *,
        by_row: bool = False,
        in_intervals: bool = False,
        names: tuple[str, ...] = (),
    ) -> None:
        everything = names or (*problem.model.shown, *problem.model.definitions)
        observe = model_functions(problem, variant, everything)["observe"]
        arguments = dict(observe.arrays)["a"]
        kept = list(range(len(everything)))
        if arguments.numel() and not by_row:
            kept = [i for i in kept if not ca.depends_on(observe.out[i], arguments)]
        if problem.model.intervals and not in_intervals:
            gathered = ca.vertcat(*(problem.model.symbols[name] for name in problem.model.intervals))
            kept = [i for i in kept if not ca.depends_on(observe.out[i], gathered)]
        self.names = tuple(everything[i] for i in kept)
        out = observe.out[kept] if kept else ca.SX(0, 1)
        self._symbolic = replace(observe, name="curves", out=out)
        self._value = _compiled(replace(self._symbolic, differentiated=False))

    @cached_property
    def _derivative(self) -> NativeFunction:
        return _compiled(self._symbolic)

    def begin(self, start: float, y0: Array, p: Array, u: Array, a: Array = _NOTHING) -> None:
        """Solve for algebraic unknowns at the start of an experiment: along its curves they are continued from there.

        Without unknowns this does nothing.  It is what a trajectory does, so that both have the same solution.
        """
        for one in self._symbolic.blocks:
            u[one.slot + REMEMBERED] = 0.0
        if self._symbolic.blocks:
            self.values(np.array([start]), y0.reshape(1, -1), p, u, a)

    def values(self, times: Array, y: Array, p: Array, u: Array, a: Array = _NOTHING) -> Array:
        """Return the curves, shape (m, len(names)), for times (m,) and states (m, n), with inputs `u`.

        Where a state is missing, everything is: max(x, 0) of a missing x is no result.
        """
        out = np.empty((times.size, len(self.names)))
        curves_along(self._value.value, times, y, p, u, a, out)
        return out

    def derivatives(
        self,
        times: Array,
        y: Array,
        s: Array,
        columns: npt.NDArray[np.int64],
        p: Array,
        dp: Array,
        u: Array,
        a: Array = _NOTHING,
        da: Array | None = None,
    ) -> Array:
        """Return the derivatives by all thetas, (m, len(names), n_theta).

        Parameters
        ----------
        s, columns
            Sensitivities (m, n, q) with respect to the thetas `columns`; the states depend on no others.
        dp, da
            Derivatives of p and of the arguments of the measurement by all thetas, (n_p, n_theta) and (n_a, n_theta).
        """
        function = self._derivative
        seeds = _by_rows(dp if da is None else np.concatenate((dp, da)))
        out = np.zeros((times.size, len(self.names), dp.shape[1]))
        slopes_along(function.jacobian, function.row_ptr, function.col, times, y, (p, u, a), s, columns, seeds, out)
        return out


def _by_rows(matrix: Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Array]:
    """Return row pointers, columns and values of what is not zero: most entries of p are one theta each."""
    rows, columns = np.nonzero(matrix)
    return np.searchsorted(rows, np.arange(matrix.shape[0] + 1)), columns, matrix[rows, columns]


def _compiled(function: SymbolicFunction) -> NativeFunction:
    k = function.out.numel()
    return FunctionLibrary(f"{k} curve{'s' * (k != 1)}", [function])[function.name]


@kernel(inline=True)
def _is_missing(y, i):
    """Tell whether a state of row `i` is not a finite number."""
    for j in range(y.shape[1]):
        if not math.isfinite(y[i, j]):
            return True
    return False


@kernel
def curves_along(function, times, y, p, u, a, out):
    """Fill `out` (m, k) with the curves at the times; see `Curves.values`.

    Parameters
    ----------
    function
        Address of ``curves(t, y, p, u, a)``.
    """
    (m, k), n = out.shape, y.shape[1]
    for i in range(m):
        if _is_missing(y, i):
            out[i] = np.nan
        else:
            call_observe(function, times[i], y, i * n, p, u, a, out, i * k)


@kernel
def slopes_along(function, row_ptr, col, times, y, arguments, s, columns, seeds, out):
    """Add the derivatives of the curves by all thetas to `out` (m, k, n_theta); see `Curves.derivatives`.

    Parameters
    ----------
    function, row_ptr, col
        Address and pattern of the derivatives by (y, p, a).
    arguments
        p, u and a.
    seeds
        Derivatives of (p, a) by all thetas: row pointers, columns, values.
    """
    ptr, thetas, values = seeds
    p, u, a = arguments
    n, nonzeros = y.shape[1], np.empty(col.size)
    for i in range(times.size):
        if _is_missing(y, i):
            out[i] = np.nan
            continue
        call_observe(function, times[i], y, i * n, p, u, a, nonzeros, 0)
        for row in range(out.shape[1]):
            for entry in range(row_ptr[row], row_ptr[row + 1]):
                j, slope = int(col[entry]), nonzeros[entry]
                if j < n:
                    for b in range(columns.size):
                        out[i, row, columns[b]] += slope * s[i, j, b]
                else:
                    for b in range(ptr[j - n], ptr[j - n + 1]):
                        out[i, row, thetas[b]] += slope * values[b]
