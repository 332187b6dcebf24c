"""Standard deviations that expressions say, or that are parameters, at each measurement.

They depend on nothing that a fit changes (see `odefit.problem.noise`), so they are evaluated once, at the start values.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from odefit.compile import compile_problem
from odefit.native.calls import call_observe
from odefit.native.kernel import kernel
from odefit.problem import Problem
from odefit.problem.cells import SIGMA
from odefit.problem.measurements import DEVIATION, is_deviation
from odefit.problem.noise import lacking_sigma, sigma_expressions
from odefit.transcribe.argument_value import argument_value
from odefit.transcribe.arguments import arguments_of_rows, sources_of_cells

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


def fill_deviations(problem: Problem, sigma: npt.NDArray[np.float64]) -> None:
    """Write the standard deviations that expressions say, or that are parameters, into `sigma`, (N,).

    Raises
    ------
    MeasurementError
        For one that is not positive and finite.
    """
    data, texts = problem.measurements, sigma_expressions(problem)
    said = lacking_sigma(data) & np.isin(data.observable, list(texts)) & data.used
    named = (data.sigma_names != "") & data.used
    for e, experiment in enumerate(problem.experiments):
        mine = data.experiment == experiment.name
        _fill_said(problem, e, np.flatnonzero(said & mine), sigma)
        _fill_named(problem, e, np.flatnonzero(named & mine), sigma)
    wrong = ~is_deviation(sigma)
    data.refuse(
        said & wrong,
        lambda i: f'its sigma, "{texts[data.observable[i]]}" in [noise], is {sigma[i]:g}; {DEVIATION}.',
        cell=SIGMA,
    )
    data.refuse(
        named & wrong,
        lambda i: f"its sigma, the parameter '{data.sigma_names[i]}', is {sigma[i]:g}; {DEVIATION}.",
        cell=SIGMA,
    )


def _fill_said(problem: Problem, e: int, rows: Indices, sigma: Array) -> None:
    """Write the standard deviations of the measurements `rows` of experiment number `e`, which expressions say."""
    data, compiled = problem.measurements, compile_problem(problem)
    function = compiled.sigma(e)
    if not rows.size or function is None:
        return
    index = {name: i for i, name in enumerate(problem.observables)}
    observables = np.array([index[name] for name in data.observable[rows].tolist()], dtype=np.int64)
    seeds, slots = compiled.parameters(compiled.theta_start, e), compiled.slot_values(compiled.theta_start)[0]
    sigma[rows] = evaluate_deviations(
        function.value, data.time[rows], observables, seeds.y0, seeds.p, compiled.new_inputs(e),
        arguments_of_rows(problem, e, rows), slots, np.empty(function.n_out),
    )  # fmt: skip


def _fill_named(problem: Problem, e: int, rows: Indices, sigma: Array) -> None:
    """Write the standard deviations of the measurements `rows` of experiment number `e`, which are parameters."""
    if not rows.size:
        return
    compiled = compile_problem(problem)
    theta = compiled.theta_start
    values = np.concatenate((compiled.slot_values(theta)[0], compiled.parameters(theta, e).p))
    sigma[rows] = values[sources_of_cells(problem, e, rows, problem.measurements.sigma[rows]).source]


@kernel
def evaluate_deviations(function, times, observables, y, p, u, arguments, slots, out):
    """Return the standard deviations of the measurements of one experiment.

    Parameters
    ----------
    function
        Address of ``sigma(t, y, p, u, a)``.
    times, observables
        Per measurement: when, and which entry of `out`, (m,).
    arguments, slots
        Sources and numbers of the arguments a of each measurement, (m, n_a), see `RowArguments`; values of all slots.
    out
        Room for the function's result.
    """
    source, number = arguments
    sigma, a = np.empty(times.size), np.empty(source.shape[1])
    for k in range(times.size):
        for j in range(a.size):
            a[j] = argument_value(source[k, j], number[k, j], slots, p)
        call_observe(function, times[k], y, 0, p, u, a, out, 0)
        sigma[k] = out[observables[k]]
    return sigma
