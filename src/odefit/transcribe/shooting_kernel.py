"""Experiments in one native call: parameters, integration by an explicit method, residuals.

A small problem would spend as long between kernels as in them.  Therefore an evaluation is one kernel, which calls
that of the integrator by its address.  What it needs of each experiment stands in a record (see
`odefit.native.records`), packed once per plan; when steps are chosen, the kernel notes them there itself.
"""

from __future__ import annotations

import numpy as np

from odefit.compile.parameter_map import fill_slots, map_slots
from odefit.integrate import Counters
from odefit.integrate.native import EXPLICIT_SIGNATURE
from odefit.native.kernel import kernel
from odefit.native.kernel_calls import kernel_call
from odefit.native.records import floats_at, integers_at, number_at, set_array_at, unsigned_at
from odefit.transcribe.observation import observe_residuals
from odefit.transcribe.record import (
    AT,
    COLUMN_OF_INPUT,
    COLUMN_OF_SLOT,
    COLUMNS,
    CONSTANTS,
    COUNTS,
    ENDS,
    FIRST_ROW,
    FREE,
    GATHER,
    INTEGRATOR,
    LOWER,
    MAP,
    MAP_COL,
    MAP_JACOBIAN,
    MAP_ROW_PTR,
    N_ARGUMENTS,
    N_PARAMETERS,
    N_STATES,
    OBSERVABLE,
    OBSERVE,
    OBSERVE_COL,
    OBSERVE_JACOBIAN,
    OBSERVE_ROW_PTR,
    RHS,
    RHS_DIRECTIONS,
    ROOT_WEIGHT,
    ROW_SLOTS,
    SCALE_CODES,
    SLOT_VALUES,
    START,
    STEPS,
    TIMES,
    UPPER,
    VALUE,
)

_call_explicit = kernel_call(EXPLICIT_SIGNATURE)
_COUNTERS = len(Counters._fields)


@kernel
def shoot_experiments(
    table, x, first, last, adapt, detect, rtol, atol, max_steps, order, stop, residual, jacobian
):  # fmt: skip
    """Integrate the experiments `first` to `last` - 1 and fill their rows.

    With `adapt` new steps are chosen, of which the table then holds the address: whoever calls must keep them.  Only
    those of one experiment are returned, so that only one can be adapted in a call.  Else the steps noted there are
    taken again.

    Returns
    -------
    failed, status, t, cause, ratio, half_square, bad
        See `Shot`.
    steps, counts
        Those of the experiment, if they were chosen.
    """
    if adapt and last != first + 1:
        raise ValueError("steps are chosen for one experiment a call: the table would outlive those of the others")
    n_slots = floats_at(table, first, SLOT_VALUES).size
    slots, slopes, bends, u = np.empty(n_slots), np.empty(n_slots), np.empty(n_slots), np.empty(0)
    fill_slots(
        x, integers_at(table, first, SCALE_CODES), floats_at(table, first, LOWER), floats_at(table, first, UPPER),
        integers_at(table, first, FREE), floats_at(table, first, SLOT_VALUES), slots, slopes, bends,
    )  # fmt: skip
    ratio_most, total, bad_row, no_function = 0.0, 0.0, -1, first - first
    steps, counts = np.empty(0), np.empty(0, np.int64)
    for i in range(first, last):
        n, n_p = number_at(table, i, N_STATES), number_at(table, i, N_PARAMETERS)
        times, columns, at = floats_at(table, i, TIMES), integers_at(table, i, COLUMNS), integers_at(table, i, AT)
        start = floats_at(table, i, START)[0]
        q = columns.size if order >= 1 else 0
        p, y0, dp, dy0 = np.empty(n_p), np.empty(n), np.empty((n_p, q)), np.empty((n, q))
        map_slots(
            (number_at(table, i, MAP), number_at(table, i, MAP_JACOBIAN), no_function),
            integers_at(table, i, MAP_ROW_PTR), unsigned_at(table, i, MAP_COL), start, slots, slopes, bends,
            integers_at(table, i, GATHER), floats_at(table, i, CONSTANTS), integers_at(table, i, COLUMN_OF_INPUT),
            order, p, y0, dp, dy0, dp[:0], dy0[:0],
        )  # fmt: skip
        y, s = np.empty((times.size, n)), np.empty((times.size, n, q))
        ends = floats_at(table, i, ENDS)
        counts = np.zeros(_COUNTERS + ends.size, np.int64) if adapt else integers_at(table, i, COUNTS).copy()
        status, t, cause, ratio, steps = _call_explicit(
            number_at(table, i, INTEGRATOR),
            (
                (number_at(table, i, RHS), number_at(table, i, RHS_DIRECTIONS), no_function), start, ends,
                y0, p, u, dy0, dp, dy0[:0], dp[:0], times, y, s, np.empty((times.size, n, 0)),
                u if adapt else floats_at(table, i, STEPS), counts, not adapt, rtol, atol, max_steps, order, detect,
                stop,
            ),
        )  # fmt: skip
        if status != 0:
            return i, status, t, cause, np.inf, np.nan, -1, None, None
        if adapt:
            set_array_at(table, i, STEPS, steps)
            set_array_at(table, i, COUNTS, counts)
        half_square, bad = observe_residuals(
            (number_at(table, i, OBSERVE), number_at(table, i, OBSERVE_JACOBIAN)),
            integers_at(table, i, OBSERVE_ROW_PTR), unsigned_at(table, i, OBSERVE_COL), times, y, s, p, u, dp, at,
            integers_at(table, i, OBSERVABLE), floats_at(table, i, VALUE), floats_at(table, i, ROOT_WEIGHT), columns,
            integers_at(table, i, ROW_SLOTS).reshape(at.size, number_at(table, i, N_ARGUMENTS)), slots, slopes,
            integers_at(table, i, COLUMN_OF_SLOT), number_at(table, i, FIRST_ROW), order, residual, jacobian,
        )  # fmt: skip
        ratio_most, total, bad_row = max(ratio_most, ratio), total + half_square, max(bad_row, bad)
    if adapt:
        return -1, 0, 0.0, -1, ratio_most, total, bad_row, steps, counts
    return -1, 0, 0.0, -1, ratio_most, total, bad_row, None, None
