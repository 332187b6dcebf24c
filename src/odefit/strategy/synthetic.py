"""Synthetic data: what the model says where a problem was measured, with noise.

Noise orthogonal to the Jacobian (Edsberg and Wedin, section 4): normal noise e is projected to e - Q Q'e, with
S = QR the weighted Jacobian at the true values.  The residual of such data has no component that a change of the
parameters could remove, so that the true values are a stationary point of the fit whatever the noise.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from odefit.errors import FitError, ProblemError
from odefit.native.stop import StopFlag, raise_on_interrupt
from odefit.problem import Problem
from odefit.solve import Failed
from odefit.transcribe import SingleShooting


def with_synthetic_data(
    problem: Problem, noise: float = 0.0, *, relative: bool = False, orthogonal: bool = False, seed: int | None = None
) -> Problem:
    """Return `problem` with the values of its measurements replaced by the model's at the start values.

    Parameters
    ----------
    noise
        Standard deviation; with `relative` a fraction of each value.
    orthogonal
        Project the noise onto the space that no change of the free parameters reaches.
    seed
        For numbers that can be made again; None: others each time.
    """
    if not noise >= 0:
        raise ProblemError(f"the noise is {noise:g}; a standard deviation cannot be negative.")
    if seed is not None and seed < 0:
        raise ProblemError(f"the seed is {seed}; it must not be negative.")
    stop = StopFlag()
    objective = SingleShooting(problem, stop)
    x = objective.compiled.theta_start
    with raise_on_interrupt(stop):
        objective.refresh(x)
        point = objective.evaluate(x, 1)
    if isinstance(point, Failed):
        raise FitError(f"the model cannot be computed at these values: {point.failure}.")
    n = objective.n_data
    source = np.concatenate([o.source for o in objective.observations])
    root = np.concatenate([o.root_weight for o in objective.observations])
    measured = problem.measurements.value
    exact = measured[source] + point.differences[:n] / root
    drawn = np.empty(n)
    # in the order of the measurements, so that numbers do not depend on how rows are sorted for a fit
    drawn[np.argsort(source)] = np.random.default_rng(seed).normal(size=n)
    noise_of = noise * (np.abs(exact) if relative else np.ones(n)) * drawn
    if orthogonal and point.linear is not None and objective.names:
        q, _ = np.linalg.qr(point.linear.jacobian[:n])
        weighted = root * noise_of
        noise_of = (weighted - q @ (q.T @ weighted)) / root
    value = measured.copy()
    value[source] = exact + noise_of
    return problem.with_measurements(dataclasses.replace(problem.measurements, value=value))
