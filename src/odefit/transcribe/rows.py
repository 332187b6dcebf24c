"""Residuals and their derivatives: of measurements, at output times of a task, and of priors."""

from __future__ import annotations

import math

import numpy as np

from odefit.criteria.least_squares import weighted_residual
from odefit.integrate.directions import place_of
from odefit.integrate.task import task_at
from odefit.native.calls import call_model, call_observe
from odefit.native.kernel import kernel
from odefit.transcribe.argument_value import argument_value
from odefit.transcribe.record import FITTING, Handover, Measured

measured_at = FITTING.reader(Measured)
_handover_at = FITTING.reader(Handover)


@kernel(inline=True)
def scratch_size(task, measured):
    """Return how many numbers `write_rows` needs to work in."""
    return measured.row_ptr.size - 1 + measured.col.size + measured.n_arguments + task.n_columns


@kernel
def write_rows(table, i, index, y, s, s2):
    """Fill the residuals of the measurements at one output time, and their derivatives by theta: a sink."""
    task, m = task_at(table, i), measured_at(table, i)
    n_out, n_a = m.row_ptr.size - 1, m.n_arguments
    out, a = m.scratch[:n_out], m.scratch[n_out : n_out + n_a]
    nonzeros, totals = m.scratch[n_out + n_a : n_out + n_a + m.col.size], m.scratch[n_out + n_a + m.col.size :]
    time, first = task.times[index], m.at_time[index]
    for k in range(first, m.at_time[index + 1]):
        changed = k == first
        for j in range(n_a):
            at = k * n_a + j
            value = argument_value(m.argument_source[at], m.argument_number[at], m.slots, task.p)
            changed = changed or (a[j] != value and not math.isnan(value))  # it is needed by nobody then
            a[j] = value
        if changed:
            call_observe(m.observe, time, y, 0, task.p, task.u, a, out, 0)
            if m.order >= 1:
                call_observe(m.observe_jacobian, time, y, 0, task.p, task.u, a, nonzeros, 0)
        row = m.first_row + k
        m.residual[row] = weighted_residual(out[m.observable[k]], m.value[k], m.root_weight[k])
        if m.order >= 1:
            clear_rows(m.jacobian, m.width, row, row + 1)
            m.blur[row] = m.root_weight[k] * _blur(task, m, m.observable[k], nonzeros, y)
            _add_up(task, m, m.observable[k], nonzeros, s, totals)
            for c in range(task.n_columns):
                m.jacobian[row * m.width + m.columns[c]] = m.root_weight[k] * totals[c]
            if n_a > 0:
                _add_arguments(task, m, k, row, nonzeros)
    return index


@kernel
def write_interval(table, i, index, y, s, s2):
    """Fill the rows of an output time, and at the last one those that hand the state over to a node: a sink."""
    write_rows(table, i, index, y, s, s2)
    task = task_at(table, i)
    if index < task.times.size - 1:
        return index
    m, handover, n = measured_at(table, i), _handover_at(table, i), task.n
    for j in range(n):
        row, weight = handover.first_row + j, handover.weight[j]
        m.residual[row] = weight * (y[0, j] - handover.state[j])
        if m.order >= 1:
            clear_rows(m.jacobian, m.width, row, row + 1)
            m.jacobian[row * m.width + handover.weight_column] = weight
            for c in range(task.n_directions):
                m.jacobian[row * m.width + m.columns[c]] = weight * s[0, place_of(c, j, n)]
    return index


@kernel(inline=True)
def clear_rows(jacobian, width, first, last):
    """Set rows to zero: one is so in columns that it does not depend on."""
    for e in range(first * width, last * width):
        jacobian[e] = 0.0


@kernel(inline=True)
def _blur(task, m, g, nonzeros, y):
    """Return what the tolerances of the integration leave open in observable `g`: sum_j |dg/dy_j| (rtol |y_j| + atol).

    What is not integrated, an offset say, or a model without states, has none.
    """
    total = 0.0
    for e in range(m.row_ptr[g], m.row_ptr[g + 1]):
        j = np.int64(m.col[e])
        if j < task.n:
            total += abs(nonzeros[e]) * (task.rtol * abs(y[0, j]) + abs(task.atol[j]))
    return total


@kernel(inline=True)
def _add_up(task, m, g, nonzeros, s, totals):
    """Set `totals` to the derivatives of observable `g` by the columns of the seeds, through states and parameters."""
    n, n_columns = task.n, task.n_columns
    for c in range(n_columns):
        totals[c] = 0.0
    for e in range(m.row_ptr[g], m.row_ptr[g + 1]):
        j, factor = np.int64(m.col[e]), nonzeros[e]
        if j < n:
            for c in range(task.n_directions):
                totals[c] += factor * s[0, place_of(c, j, n)]
        elif j < n + task.n_parameters:
            at = (j - n) * n_columns
            for c in range(n_columns):
                totals[c] += factor * task.dp[at + c]


@kernel(inline=True)
def _add_arguments(task, m, k, row, nonzeros):
    """Add the derivatives by the arguments of measurement `k` alone."""
    g, before, n_slots = m.observable[k], task.n + task.n_parameters, m.slots.size
    for e in range(m.row_ptr[g], m.row_ptr[g + 1]):
        j = np.int64(m.col[e]) - before
        if j < 0:
            continue
        source, factor = m.argument_source[k * m.n_arguments + j], m.root_weight[k] * nonzeros[e]
        if 0 <= source < n_slots:
            column = m.column_of_slot[source]
            if column >= 0:
                m.jacobian[row * m.width + column] += factor * m.slopes[source]
        elif source >= n_slots:
            at = (source - n_slots) * task.n_columns
            for c in range(task.n_columns):
                m.jacobian[row * m.width + m.columns[c]] += factor * task.dp[at + c]


@kernel(inline=True)
def tally(residual, jacobian, width, first, last, order):
    """Return half the sum of squares of rows, and the first of them with a derivative that is not finite (-1: none)."""
    squares, bad = 0.0, -1
    for row in range(first, last):
        squares += residual[row] * residual[row]
    if order >= 1:
        for e in range(first * width, last * width):
            if not math.isfinite(jacobian[e]):
                bad = e // width
                break
    return 0.5 * squares, bad


@kernel(inline=True)
def norm_of(values, first, last):
    """Return the Euclidean norm of a stretch of `values`; their squares may be too small or too large for a number."""
    largest, squares = 0.0, 0.0
    for i in range(first, last):
        largest = max(largest, abs(values[i]))
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    for i in range(first, last):
        squares += (values[i] / largest) ** 2
    return largest * math.sqrt(squares)


@kernel(inline=True, allocating=True)
def write_priors(penalty, slots, slopes, order, residual, jacobian, width):
    """Fill the residuals of the priors, and their derivatives by theta."""
    n = penalty.row_ptr.size - 1
    out, nonzeros, nothing = np.empty(n), np.empty(penalty.col.size), np.empty(0)
    call_model(penalty.value, 0.0, slots, 0, penalty.constants, nothing, out, 0)
    for i in range(n):
        residual[penalty.first_row + i] = out[i]
    if order >= 1:
        clear_rows(jacobian, width, penalty.first_row, penalty.first_row + n)
        call_model(penalty.jacobian, 0.0, slots, 0, penalty.constants, nothing, nonzeros, 0)
        for i in range(n):
            for e in range(penalty.row_ptr[i], penalty.row_ptr[i + 1]):
                column = penalty.column_of_slot[penalty.col[e]]
                if column >= 0:
                    at = (penalty.first_row + i) * width + column
                    jacobian[at] += nonzeros[e] * slopes[penalty.col[e]]
