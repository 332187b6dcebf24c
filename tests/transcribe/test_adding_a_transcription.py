"""The smallest real example of a transcription of one's own: docs/extending.md shows it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

import odefit as of
from odefit.errors import FitError
from odefit.gallery import load
from odefit.native.calls import call_model
from odefit.native.kernel import kernel, named
from odefit.solve import (
    Failed,
    LeastSquares,
    OmegaTolerance,
    Scaling,
    SolverStatus,
    Termination,
    TrustRegion,
    TrustStep,
    solve,
)
from odefit.solve.dense import DenseLinear
from odefit.transcribe import plan_of

VERSION = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]


@kernel
@named(f"slopes_at_data_{VERSION}")
def slopes_at_data(value, jacobian, times, y, p, f, entries):
    """Set `f` to the right-hand side at the states y (m, n), and `entries` to its Jacobian's non-zeros."""
    u = np.empty(0)
    for k in range(times.size):
        call_model(value, times[k], y, k * y.shape[1], p, u, f, k * f.shape[1])
        call_model(jacobian, times[k], y, k * y.shape[1], p, u, entries, k * entries.shape[1])


class Series:
    """The measured states of one experiment."""

    def __init__(self, problem, compiled, observation):
        names, self.number, self.times = problem.model.states, observation.experiment, observation.times
        self.rhs, self.columns = compiled.model(self.number).rhs, compiled.columns[self.number]
        of_observable = np.array([names.index(name) if name in names else -1 for name in problem.observables])
        self.y = np.full((self.times.size, len(names)), np.nan)
        places = observation.at, of_observable[observation.observable]
        self.y[places] = observation.value
        if (of_observable < 0).any() or np.isnan(self.y).any():
            raise FitError("defects need every state measured at every time, and nothing else.")
        root_weight = np.empty(self.y.shape)
        root_weight[places] = observation.root_weight
        self.root_weight = root_weight[1:]

    def defects(self, seeds):
        """Return the rows (m - 1, n), and their derivatives (m - 1, n, q) by the columns of the seeds."""
        n, rhs = self.y.shape[1], self.rhs
        f, entries = np.empty(self.y.shape), np.empty((self.times.size, rhs.col.size))
        slopes_at_data(rhs.value, rhs.jacobian, self.times, self.y, seeds.p, f, entries)
        f_p = np.zeros((*f.shape, rhs.n_in))  # by (y, p), of which only p depends on the unknowns
        f_p[:, np.repeat(np.arange(n), np.diff(rhs.row_ptr)), rhs.col.astype(int)] = entries
        df = f_p[:, :, n:] @ seeds.dp
        half = 0.5 * np.diff(self.times)[:, None]
        rows = self.root_weight * (np.diff(self.y, axis=0) - half * (f[1:] + f[:-1]))
        return rows, -(self.root_weight * half)[:, :, None] * (df[1:] + df[:-1])


class TrapezoidalDefects:
    """How far the data are from solving y_(k+1) - y_k = h/2 (f_k + f_(k+1)): nothing is integrated."""

    def __init__(self, problem):
        plan = plan_of(problem)
        self.compiled, self.names = plan.compiled, plan.names
        self.series = [Series(problem, plan.compiled, observation) for observation in plan.data.of_experiment]

    def refresh(self, x):
        return 0  # there are no step grids

    def evaluate(self, x, order):
        rows, jacobian = [], []
        for series in self.series:
            with np.errstate(invalid="ignore", over="ignore"):  # looked for below
                some, slopes = series.defects(self.compiled.parameters(x, series.number, 1))
            rows.append(some.ravel())
            jacobian.append(np.zeros((some.size, x.size)))
            jacobian[-1][:, series.columns] = slopes.reshape(some.size, -1)
        residual, matrix = np.concatenate(rows), np.vstack(jacobian)
        if not (np.isfinite(residual).all() and np.isfinite(matrix).all()):
            return Failed(x, 0, "the right-hand side is not a finite number at the data")
        linear, square = DenseLinear(matrix, residual) if order else None, float(residual @ residual)
        return LeastSquares(x, 0, 0.5 * square, residual, linear, square**0.5, error_ratio=0.0)


def minimise(objective):
    compiled = objective.compiled
    return solve(
        objective,
        compiled.theta_start,
        compiled.theta_lower,
        compiled.theta_upper,
        scaling=Scaling(compiled.theta_start, compiled.logarithmic),
        step=TrustStep(),
        globalisation=TrustRegion(),
        termination=Termination(),
        freeze=OmegaTolerance(),
    )


TRUE = {"a": 0.9, "b": 2.1, "c": 1.8}


def measured(n_times: int, noise: float = 0.0) -> of.Problem:
    """Two experiments of Lotka and Volterra's model, one with other initial values."""
    model = of.Model.from_text("x' = a*x - b*x*y\ny' = b*x*y - c*y\nx(0) = 1\ny(0) = 0.3")
    times = np.tile(np.linspace(0.0, 4.0, n_times), 2)
    names = np.repeat(["first", "second"], n_times)
    data = of.Measurements.from_columns(times, {"y": np.ones(times.size), "x": np.ones(times.size)}, experiment=names)
    experiments = (of.Experiment("first"), of.Experiment("second", (of.Period(0.0, {"x(0)": 0.5, "y(0)": 0.5}),)))
    parameters = tuple(of.Parameter(name, value, scale="log") for name, value in TRUE.items())
    problem = of.with_synthetic_data(of.Problem(model, parameters, data, experiments=experiments), noise, seed=1)
    return problem.with_start(a=2.0, b=1.0, c=3.0)


def estimates(problem) -> np.ndarray:
    objective = TrapezoidalDefects(problem)
    found = minimise(objective)
    assert found.status == SolverStatus.CONVERGED
    natural = objective.compiled.natural(found.x)
    return np.array([natural[name] for name in TRUE])


def test_derivatives():
    objective = TrapezoidalDefects(measured(21))
    x = objective.compiled.theta_start
    found = objective.evaluate(x, 1)
    step = 1e-4
    numeric = [
        (objective.evaluate(x + d, 0).residual - objective.evaluate(x - d, 0).residual) / (2 * step)
        for d in step * np.eye(x.size)
    ]
    assert found.residual.size == 2 * 2 * 20
    np.testing.assert_allclose(found.linear.jacobian, np.transpose(numeric), rtol=1e-6, atol=1e-8)
    assert objective.evaluate(x, 0).linear is None


def test_estimates_are_off_by_the_error_of_the_trapezoidal_rule():
    true = np.array(list(TRUE.values()))
    coarse, fine = (np.abs(estimates(measured(n)) - true).max() for n in (41, 81))
    assert coarse < 0.01
    assert fine == pytest.approx(coarse / 4, rel=0.1)


def test_estimates_are_near_those_of_a_fit():
    problem = measured(81, noise=1e-3)
    usual = of.fit(problem).estimates
    np.testing.assert_allclose(estimates(problem), [usual[name] for name in TRUE], rtol=0.02)


def test_states_that_are_not_measured_are_refused():
    problem = load("barnes")
    data = of.Measurements.from_columns([0.0, 1.0], {"y1": [1.0, 1.1]})
    with pytest.raises(FitError, match="every state measured"):
        TrapezoidalDefects(problem.with_measurements(data))


def test_a_failure_is_a_value():
    objective = TrapezoidalDefects(measured(5))
    point = objective.evaluate(np.array([800.0, 0.0, 0.0]), 1)  # its exponential is too large for a number
    assert isinstance(point, Failed)
