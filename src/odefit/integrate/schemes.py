"""From a `Tableau` to the `Scheme` that the loop over steps is compiled with.

The kernels of a method are straight-line loops over its coefficients.  Their source text is put together here, from the
templates below and the numbers of the tableau alone, and becomes functions by `exec`; numba compiles the functions
and never asks for their text.  A loop over a matrix of coefficients would be shorter, but several times slower:
as text the coefficients are constants, those that are zero cost nothing, and each stage is one pass over
memory with rows that are known at compile time.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from odefit.integrate.contract import Array
from odefit.integrate.directions import slopes_of
from odefit.integrate.explicit import Scheme
from odefit.integrate.stepping import tolerance
from odefit.integrate.tableau import Tableau
from odefit.native.calls import call_model
from odefit.native.kernel import kernel

# Each stage is a function of its own: one with all of them would be inlined as a whole at every stage, which takes
# long to compile.
_STAGE = """
@kernel(inline=True)
def stage_{s}(y, h, k, n, out, row):
    for i in range(n):
        out[row, i] = y[0, i] + h * ({sum})
"""

_STATES = """
@kernel(inline=True)
def {name}(system, t, h, y, k, states):
    n = system.n
{body}
"""
_STATE = """\
    stage_{s}(y, h, k, n, states, {s})
    call_model(system.value, {time}, states, {s} * n, system.p, system.u, k, {s} * n)"""

_DIRECTIONS = """
@kernel(inline=True)
def {name}(system, t, h, states, c, z, seeds, k):
    size = c.shape[1]
{body}
"""
_DIRECTION = """\
    stage_{s}(c, h, k, size, z, 0)
    slopes_of(system, {time}, states, {s} * system.n, z, seeds, k, {s})"""

# The maximum over the states, not the mean: in a large model a mean lets single states miss the tolerance by far.  An
# infinite new value would pass, because its tolerance is infinite too; so would a slope there that no estimate uses.
_ERROR = """
@kernel(inline=True)
def error(y, states, h, k, n, rtol, atol):
    ratio = -1.0
    cause = 0
    for i in range(n):
        e = {sum}
        part = abs(h * e / tolerance(atol[i], rtol, y[0, i], states[{last}, i]))
{damping}
        if math.isnan(part) or not ({finite}):
            return np.inf, i
        if part > ratio:
            ratio = part
            cause = i
    return ratio, cause
"""
# e^2/sqrt(e^2 + 0.01 low^2) over the tolerance; squares of the estimates themselves might overflow
_DAMPING = """\
        if e != 0.0:
            low = 0.1 * ({sum}) / e
            part /= math.sqrt(1.0 + low * low)"""

_WEIGHTS = """
@kernel(inline=True)
def weights(x, w):
    r = 1.0 - x
    for i in range({n}):
        w[i] = {polynomial}
"""

# the same from the inside out: w = x (d_0 + r (d_1 + x ..)), with the derivatives of each product
_WEIGHT_SLOPES = """
@kernel(inline=True)
def weight_slopes(x, derivative, h, w):
    for i in range({n}):
        value, slope, bend = 0.0, 0.0, 0.0
        for j in range({degree} - 1, -1, -1):
            factor, sign = (1.0 - x, -1.0) if j % 2 else (x, 1.0)
            inner = dense[j, i] + value
            bend = 2.0 * sign * slope + factor * bend
            slope = sign * inner + factor * slope
            value = factor * inner
        w[i] = slope if derivative == 1 else bend / h
"""

_INTERPOLATE = """
@kernel(inline=True)
def interpolate(y, h, k, n, w, out, row):
    for i in range(n):
        out[row, i] = y[0, i] + h * ({sum})
"""


def _sum(row: Array) -> str:
    """Return the sum of slopes with these weights; those that are zero are left out."""
    terms = [
        f"k[{j}, i]" if weight == 1.0 else f"{float(weight)!r} * k[{j}, i]" for j, weight in enumerate(row) if weight
    ]
    return " + ".join(terms)


def _chosen_stage(n_all: int) -> str:
    """Return the kernel that takes the number of the stage at run time."""
    lines = ["@kernel(inline=True)", "def stage(s, y, h, k, n, out, row):"]
    for s in range(1, n_all):
        lines += [
            f"    {'if' if s == 1 else 'elif'} s == {s}:" if s < n_all - 1 else "    else:",
            f"        stage_{s}(y, h, k, n, out, row)",
        ]
    return "\n".join(lines) + "\n"


def _polynomial(degree: int, i: int = 0) -> str:
    """Return the weight of a stage from its coefficient `i` on, factors x and 1 - x in turn."""
    factor = "r" if i % 2 else "x"
    coefficient = f"dense[{i}, i]"
    if i == degree - 1:
        return f"{factor} * {coefficient}"
    return f"{factor} * ({coefficient} + {_polynomial(degree, i + 1)})"


def source_of(tableau: Tableau) -> str:
    """Return the source text of the kernels of a method."""
    n_all, last = tableau.c.size, tableau.n_stages - 1
    times = ["t + h" if c == 1.0 else f"t + {float(c)!r} * h" for c in tableau.c]

    def all_of(template: str, first: int, end: int) -> str:
        return "\n".join(template.format(s=s, time=times[s]) for s in range(first, end))

    finite = f"math.isfinite(states[{last}, i])"
    if tableau.error[last] == 0.0:
        finite += f" and math.isfinite(k[{last}, i])"
    damping = "" if tableau.error_low is None else _DAMPING.format(sum=_sum(tableau.error_low))
    used = [s for s in range(n_all) if tableau.dense[:, s].any()]
    parts = [_STAGE.format(s=s, sum=_sum(tableau.A[s])) for s in range(1, n_all)]
    parts += [
        _chosen_stage(n_all),
        _STATES.format(name="state_stages", body=all_of(_STATE, 1, last + 1)),
        _DIRECTIONS.format(name="direction_stages", body=all_of(_DIRECTION, 1, last + 1)),
        _ERROR.format(sum=_sum(tableau.error), last=last, damping=damping, finite=finite),
        _WEIGHTS.format(n=n_all, polynomial=_polynomial(tableau.dense.shape[0])),
        _WEIGHT_SLOPES.format(n=n_all, degree=tableau.dense.shape[0]),
        _INTERPOLATE.format(sum=" + ".join(f"w[{s}] * k[{s}, i]" for s in used)),
    ]
    if n_all > tableau.n_stages:
        new_values = f"\n    stage_{last}(c, h, k, size, z, 0)"  # stand in `z` again, as behind the stages of a step
        body = all_of(_DIRECTION, last + 1, n_all) + new_values
        parts += [
            _STATES.format(name="extension_stages", body=all_of(_STATE, last + 1, n_all)),
            _DIRECTIONS.format(name="extension_direction_stages", body=body),
        ]
    return "\n".join(parts)


def scheme_of(tableau: Tableau) -> Scheme:
    """Return the kernels of a method."""
    made: dict[str, Any] = {
        "__name__": __name__, "kernel": kernel, "call_model": call_model, "slopes_of": slopes_of, "math": math,
        "np": np, "tolerance": tolerance, "dense": np.ascontiguousarray(tableau.dense),
    }  # fmt: skip
    exec(compile(source_of(tableau), f"<kernels of {tableau.name}>", "exec"), made)
    return Scheme(
        nodes=tableau.c,
        n_stages=tableau.n_stages,
        error_order=tableau.error_order,
        beta=tableau.beta,
        grow_most=tableau.grow_most,
        smallest_ratio=tableau.smallest_ratio,
        stiff_from=tableau.stiff_from,
        stage=made["stage"],
        state_stages=made["state_stages"],
        direction_stages=made["direction_stages"],
        error=made["error"],
        weights=made["weights"],
        weight_slopes=made["weight_slopes"],
        interpolate=made["interpolate"],
        extension_stages=made.get("extension_stages"),
        extension_direction_stages=made.get("extension_direction_stages"),
    )
