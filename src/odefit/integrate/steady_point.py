"""A steady state near a point, on the manifold of what is conserved: Newton's method, stability, derivatives.

Let W y = W y0 be the conserved totals of y' = f(y, p), see `odefit.compile.conserved`.  Gauss-Jordan elimination with
the largest states as pivots writes them as

    y_d = y0_d - sum_j L_dj (y_j - y0_j)            for as many *dependent* states d as there are laws,

j running over the other, independent ones.  The derivatives of these are f_I(y_I), whose Jacobian is the *reduced* one,

    A = J_II - J_ID L,

and the rest of f follows from them.  Large states are the dependent ones, so that none is a small difference of large
numbers.

* **Newton's method** solves A dy_I = -f_I.  It goes on until rounding errors are all that is left: the steady state is
  then a function of the parameters, whatever the steps were that led near it.
* **Stability**: all eigenvalues of A have negative real parts.  Those that are rounding errors beside the largest one
  have no sign; that the solution has come near says enough of them.
* **Derivatives**: with s0 = dy0, f(y, p) = 0 differentiated gives

      A s_I = -(f_p dp)_I - J_ID (s0_D + L s0_I),         s_D = s0_D - L (s_I - s0_I),

  and the second ones with D2f[(s_a, dp_a), (s_b, dp_b)] + f_p d2p in the place of f_p dp and d2y0 in that of s0.  Where
  weights W depend on parameters, totals move by -dW (y - y0) besides: see `odefit.integrate.steady_weights`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from odefit.native.calls import call_model, call_second
from odefit.native.dense_lu import factorise_dense, solve_dense
from odefit.native.kernel import kernel
from odefit.native.records import Floats, Integers

FOUND, FAR, SINGULAR, UNSTABLE = 0, 1, 2, 3
"""What became of a search: a steady state, none nearby, none that is isolated, or one that nothing comes to."""

CLOSE = 1e-2
"""How far from the solution, relative to each state, a steady state may be that it is said to come to."""
OF_SIZE = 1e-6
"""Part of the largest value that a state has had, below which it is as good as zero."""
_MOST_ITERATIONS = 30
_CONTRACTION = 0.25  # of the second step, that shows the equations to be nearly linear this close
_POLISHED, _EXACT = 1e-9, 1e-15
_DAMPED, _NO_SIGN = 1e-9, 1e-13


class Manifold(NamedTuple):
    """What is conserved, solved for the dependent states.

    `basis` is L on all states, (laws, n), with 1 for the dependent state of each law: `transform` times the laws.
    `place` is the number of a state among the independent ones, or minus that of its law less 1.
    """

    basis: Floats
    transform: Floats
    dependent: Integers
    independent: Integers
    place: Integers


@kernel
def manifold_of(laws, n, size):
    """Return the manifold of these laws, whose dependent states are large beside `size`."""
    n_laws = laws.size // n
    basis = np.empty((n_laws, n))
    for k in range(n_laws):
        for j in range(n):
            basis[k, j] = laws[k * n + j]
    transform, place = np.eye(n_laws), np.zeros(n, np.int64)
    dependent = np.empty(n_laws, np.int64)
    for turn in range(n_laws):
        row, column, best = turn, -1, -1.0
        for k in range(turn, n_laws):
            for j in range(n):
                if basis[k, j] != 0.0 and place[j] == 0 and abs(basis[k, j]) * size[j] > best:
                    row, column, best = k, j, abs(basis[k, j]) * size[j]
        for j in range(n):
            basis[turn, j], basis[row, j] = basis[row, j], basis[turn, j]
        for j in range(n_laws):
            transform[turn, j], transform[row, j] = transform[row, j], transform[turn, j]
        pivot = basis[turn, column]
        for j in range(n):
            basis[turn, j] /= pivot
        for j in range(n_laws):
            transform[turn, j] /= pivot
        for k in range(n_laws):
            factor = basis[k, column]
            if k != turn and factor != 0.0:
                for j in range(n):
                    basis[k, j] -= factor * basis[turn, j]
                for j in range(n_laws):
                    transform[k, j] -= factor * transform[turn, j]
                basis[k, column] = 0.0
        dependent[turn], place[column] = column, -1 - turn
    independent, count = np.empty(n - n_laws, np.int64), 0
    for j in range(n):
        if place[j] == 0:
            independent[count], place[j] = j, count
            count += 1
    return Manifold(basis, transform, dependent, independent, place)


@kernel
def keep_totals(m, y, y0):
    """Set the dependent states so that totals are those of `y0`."""
    for k in range(m.dependent.size):
        d = m.dependent[k]
        y[d] = y0[d]
        for a in range(m.independent.size):
            j = m.independent[a]
            if m.basis[k, j] != 0.0:
                y[d] -= m.basis[k, j] * (y[j] - y0[j])
    return 0


class Room(NamedTuple):
    """What a search works in: derivatives, entries of their Jacobian, the reduced one, its factors, sizes, a step."""

    f: Floats
    jac: Floats
    matrix: Floats
    factors: Floats
    pivots: Integers
    sizes: Floats
    step: Floats


@kernel
def room_for(n, n_entries, n_independent):
    """Return room to work in."""
    square = (n_independent, n_independent)
    return Room(
        np.empty(n), np.empty(n_entries), np.empty(square), np.empty(square), np.empty(n_independent, np.int64),
        np.empty(n_independent), np.empty(n_independent),
    )  # fmt: skip


@kernel
def linearise(task, e, m, y, size, room):
    """Fill derivatives, and the reduced Jacobian with its factors, at `y`; tell whether it is regular."""
    n, matrix = task.n, room.matrix
    call_model(task.value, task.start, y, 0, task.p, task.u, room.f, 0)
    call_model(task.jacobian, task.start, y, 0, task.p, task.u, room.jac, 0)
    for a in range(m.independent.size):
        i = m.independent[a]
        room.sizes[a] = abs(y[i]) + OF_SIZE * size[i]
        if room.sizes[a] == 0.0:
            room.sizes[a] = 1.0
        for b in range(m.independent.size):
            matrix[a, b] = 0.0
        for entry in range(e.row_ptr[i], e.row_ptr[i + 1]):
            j = np.int64(e.col[entry])
            if j >= n:
                continue
            place, value = m.place[j], room.jac[entry]
            if place >= 0:
                matrix[a, place] += value
            else:
                for b in range(m.independent.size):
                    matrix[a, b] -= value * m.basis[-1 - place, m.independent[b]]
    return factorise_dense(matrix, room.sizes, room.factors, room.pivots)


@kernel
def find_nearby(task, e, m, y, size, room):
    """Move `y` to the steady state next to it, if that is close; tell what became of it."""
    n, before, outcome = task.n, np.inf, FAR
    old = np.empty(n)
    keep_totals(m, y, task.y0)
    for iteration in range(_MOST_ITERATIONS):
        if not linearise(task, e, m, y, size, room):
            return SINGULAR
        for a in range(m.independent.size):
            room.step[a] = -room.f[m.independent[a]]
        solve_dense(room.factors, room.pivots, room.sizes, room.step)
        for j in range(n):
            old[j] = y[j]
        for a in range(m.independent.size):
            y[m.independent[a]] += room.step[a]
        keep_totals(m, y, task.y0)
        length = 0.0
        for j in range(n):
            if y[j] != old[j]:
                scale = max(abs(y[j]), abs(old[j])) + OF_SIZE * size[j]
                length = max(length, abs(y[j] - old[j]) / scale)
            if not math.isfinite(y[j]):
                return FAR
        if iteration == 0 and length > CLOSE:
            return FAR
        if length <= _EXACT or (length <= _POLISHED and length >= 0.5 * before):
            outcome = FOUND
            break
        if length > (_CONTRACTION if iteration == 1 else 1.0) * before:
            return SINGULAR if iteration == 1 and length < 0.9 * before else FAR  # it creeps to a multiple zero
        before = length
    if outcome == FOUND and not linearise(task, e, m, y, size, room):
        return SINGULAR
    return outcome


@kernel
def is_stable(matrix):
    """Tell whether all eigenvalues have negative real parts, as far as they have a sign."""
    m = matrix.shape[0]
    if m == 0:
        return True
    as_complex = np.empty((m, m), np.complex128)
    for i in range(m):
        for j in range(m):
            if not math.isfinite(matrix[i, j]):
                return False
            as_complex[i, j] = matrix[i, j]
    values = np.linalg.eigvals(as_complex)
    largest = 0.0
    for k in range(m):
        largest = max(largest, abs(values[k]))
    for k in range(m):
        size = abs(values[k])
        if size > _NO_SIGN * largest and not values[k].real < -_DAMPED * size:
            return False
    return True


@kernel
def differentiate_steady(task, e, m, room, motion, first):
    """Fill the first derivatives of the steady state, (n, q) row by row, by the columns of the seeds.

    `motion` is what totals change since weights do, (laws, q).
    """
    n, q = task.n, task.n_columns
    totals = np.empty(m.dependent.size)
    for c in range(q):
        for k in range(m.dependent.size):
            totals[k] = 0.0
            for j in range(n):
                totals[k] += m.basis[k, j] * task.dy0[j * q + c]
            for j in range(m.dependent.size):
                totals[k] += m.transform[k, j] * motion[j, c]
        for a in range(m.independent.size):
            i, right = m.independent[a], 0.0
            for entry in range(e.row_ptr[i], e.row_ptr[i + 1]):
                j = np.int64(e.col[entry])
                if j >= n:
                    right -= room.jac[entry] * task.dp[(j - n) * q + c]
                elif m.place[j] < 0:
                    right -= room.jac[entry] * totals[-1 - m.place[j]]
            room.step[a] = right
        _spread(m, room, totals, first, q, c)
    return 0


@kernel
def _spread(m, room, totals, out, width, column):
    """Solve for the independent states, and write these and the dependent ones to a column of `out`."""
    solve_dense(room.factors, room.pivots, room.sizes, room.step)
    for a in range(m.independent.size):
        out[m.independent[a] * width + column] = room.step[a]
    for k in range(m.dependent.size):
        total = totals[k]
        for a in range(m.independent.size):
            total -= m.basis[k, m.independent[a]] * room.step[a]
        out[m.dependent[k] * width + column] = total
    return 0


@kernel
def differentiate_twice(task, e, m, room, y, first, second):
    """Fill the second derivatives, (n, q (q + 1)/2) row by row, for the pairs a <= b of columns."""
    n, n_p, q = task.n, task.n_parameters, task.n_columns
    n_pairs, pair = q * (q + 1) // 2, 0
    v, w, bend, totals = np.empty(n + n_p), np.empty(n + n_p), np.empty(n), np.empty(m.dependent.size)
    for a in range(q):
        for b in range(a, q):
            for j in range(n + n_p):
                v[j] = first[j * q + a] if j < n else task.dp[(j - n) * q + a]
                w[j] = first[j * q + b] if j < n else task.dp[(j - n) * q + b]
            call_second(task.second, task.start, y, 0, task.p, task.u, v, w, bend, 0)
            for k in range(m.dependent.size):
                totals[k] = 0.0
                for j in range(n):
                    totals[k] += m.basis[k, j] * task.d2y0[j * n_pairs + pair]
            for row in range(m.independent.size):
                i = m.independent[row]
                right = -bend[i]
                for entry in range(e.row_ptr[i], e.row_ptr[i + 1]):
                    j = np.int64(e.col[entry])
                    if j >= n:
                        right -= room.jac[entry] * task.d2p[(j - n) * n_pairs + pair]
                    elif m.place[j] < 0:
                        right -= room.jac[entry] * totals[-1 - m.place[j]]
                room.step[row] = right
            _spread(m, room, totals, second, n_pairs, pair)
            pair += 1
    return 0
