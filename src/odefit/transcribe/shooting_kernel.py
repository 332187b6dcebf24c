"""Experiments in one native call: parameters, integration by an explicit method, residuals.

A small problem would spend as long between kernels as in them.  Therefore an evaluation is one kernel, which calls
that of the integrator by its address.  What it needs of each experiment stands in a record (see
`odefit.native.records`), packed once per plan; when steps are chosen, the kernel notes them there itself.
"""

from __future__ import annotations

import numpy as np

from odefit.compile.parameter_map import _fill_slots, map_slots
from odefit.integrate import Counters
from odefit.integrate.native import EXPLICIT_SIGNATURE
from odefit.native.kernel import kernel
from odefit.native.kernel_calls import kernel_call
from odefit.native.records import _floats, _integers, _number, _set_array, _unsigned
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

    With `adapt` new steps are chosen, of which the table then holds the address: they must be kept; else the steps
    noted there are taken again.

    Returns
    -------
    failed, status, t, cause, ratio, half_square, bad
        See `Shot`.
    steps, counts
        Those of the last experiment, if they were chosen.
    """
    n_slots = _floats(table, first, SLOT_VALUES).size
    slots, slopes, bends, u = np.empty(n_slots), np.empty(n_slots), np.empty(n_slots), np.empty(0)
    _fill_slots(
        x, _integers(table, first, SCALE_CODES), _floats(table, first, LOWER), _floats(table, first, UPPER),
        _integers(table, first, FREE), _floats(table, first, SLOT_VALUES), slots, slopes, bends,
    )  # fmt: skip
    ratio_most, total, bad_row, no_function = 0.0, 0.0, -1, first - first
    steps, counts = np.empty(0), np.empty(0, np.int64)
    for i in range(first, last):
        n, n_p = _number(table, i, N_STATES), _number(table, i, N_PARAMETERS)
        times, columns, at = _floats(table, i, TIMES), _integers(table, i, COLUMNS), _integers(table, i, AT)
        start = _floats(table, i, START)[0]
        q = columns.size if order >= 1 else 0
        p, y0, dp, dy0 = np.empty(n_p), np.empty(n), np.empty((n_p, q)), np.empty((n, q))
        map_slots(
            (_number(table, i, MAP), _number(table, i, MAP_JACOBIAN), no_function),
            _integers(table, i, MAP_ROW_PTR), _unsigned(table, i, MAP_COL), start, slots, slopes, bends,
            _integers(table, i, GATHER), _floats(table, i, CONSTANTS), _integers(table, i, COLUMN_OF_INPUT), order,
            p, y0, dp, dy0, dp[:0], dy0[:0],
        )  # fmt: skip
        y, s = np.empty((times.size, n)), np.empty((times.size, n, q))
        ends = _floats(table, i, ENDS)
        counts = np.zeros(_COUNTERS + ends.size, np.int64) if adapt else _integers(table, i, COUNTS).copy()
        status, t, cause, ratio, steps = _call_explicit(
            _number(table, i, INTEGRATOR),
            (
                (_number(table, i, RHS), _number(table, i, RHS_DIRECTIONS), no_function), start, ends,
                y0, p, u, dy0, dp, dy0[:0], dp[:0], times, y, s, np.empty((times.size, n, 0)),
                u if adapt else _floats(table, i, STEPS), counts, not adapt, rtol, atol, max_steps, order, detect, stop,
            ),
        )  # fmt: skip
        if status != 0:
            return i, status, t, cause, np.inf, np.nan, -1, None, None
        if adapt:
            _set_array(table, i, STEPS, steps)
            _set_array(table, i, COUNTS, counts)
        half_square, bad = observe_residuals(
            (_number(table, i, OBSERVE), _number(table, i, OBSERVE_JACOBIAN)),
            _integers(table, i, OBSERVE_ROW_PTR), _unsigned(table, i, OBSERVE_COL), times, y, s, p, u, dp, at,
            _integers(table, i, OBSERVABLE), _floats(table, i, VALUE), _floats(table, i, ROOT_WEIGHT), columns,
            _integers(table, i, ROW_SLOTS).reshape(at.size, _number(table, i, N_ARGUMENTS)), slots, slopes,
            _integers(table, i, COLUMN_OF_SLOT), _number(table, i, FIRST_ROW), order, residual, jacobian,
        )  # fmt: skip
        ratio_most, total, bad_row = max(ratio_most, ratio), total + half_square, max(bad_row, bad)
    if adapt:
        return -1, 0, 0.0, -1, ratio_most, total, bad_row, steps, counts
    return -1, 0, 0.0, -1, ratio_most, total, bad_row, None, None
