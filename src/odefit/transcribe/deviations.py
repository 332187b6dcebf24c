"""Standard deviations that expressions say, at each measurement.

They depend on nothing that a fit changes (see `odefit.problem.noise`), so they are evaluated once, at the start values.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from odefit.compile import compile_problem
from odefit.native.calls import call_observe
from odefit.native.kernel import kernel
from odefit.problem import Problem
from odefit.problem.measurements import DEVIATION, is_deviation
from odefit.problem.noise import lacking_sigma, sigma_expressions
from odefit.transcribe.observation import slots_of_rows


def fill_deviations(problem: Problem, sigma: npt.NDArray[np.float64]) -> None:
    """Write the standard deviations that expressions say into `sigma`, (N,).

    Raises
    ------
    MeasurementError
        For one that is not positive and finite.
    """
    data, compiled = problem.measurements, compile_problem(problem)
    index = {name: i for i, name in enumerate(problem.observables)}
    said = lacking_sigma(data) & np.isin(data.observable, list(sigma_expressions(problem)))
    slots = compiled.slot_values(compiled.theta_start)[0]
    for e, experiment in enumerate(problem.experiments):
        rows = np.flatnonzero(said & data.used & (data.experiment == experiment.name))
        function = compiled.sigma(e)
        if not rows.size or function is None:
            continue
        seeds = compiled.parameters(compiled.theta_start, e)
        observables = np.array([index[name] for name in data.observable[rows].tolist()], dtype=np.int64)
        sigma[rows] = evaluate_deviations(
            function.value, data.time[rows], observables, seeds.y0, seeds.p, compiled.new_inputs(e),
            slots_of_rows(problem, rows), slots, np.empty(function.n_out),
        )  # fmt: skip
    wrong = said & data.used & ~is_deviation(sigma)
    texts = sigma_expressions(problem)
    data.refuse(
        wrong,
        lambda i: f'its sigma, "{texts[data.observable[i]]}" in [noise], is {sigma[i]:g}; {DEVIATION}.',
    )


@kernel
def evaluate_deviations(function, times, observables, y, p, u, row_slots, slots, out):
    """Return the standard deviations of the measurements of one experiment.

    Parameters
    ----------
    function
        Address of ``sigma(t, y, p, u, a)``.
    times, observables
        Per measurement: when, and which entry of `out`, (m,).
    row_slots, slots
        Which slots are the arguments a of each measurement, (m, n_a); values of all slots.
    out
        Room for the function's result.
    """
    sigma, a = np.empty(times.size), np.empty(row_slots.shape[1])
    for k in range(times.size):
        for j in range(a.size):
            a[j] = slots[row_slots[k, j]]
        call_observe(function, times[k], y, 0, p, u, a, out, 0)
        sigma[k] = out[observables[k]]
    return sigma
