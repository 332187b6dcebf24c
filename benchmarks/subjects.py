"""Many experiments with parameters of their own: what an iteration costs beside its integrations.

    python -m benchmarks.subjects [number of subjects]

A dose is absorbed, distributed and eliminated in 60 subjects: absorption, volume and elimination are each
subject's own, four constants are common to all (184 unknowns).  The subjects' own unknowns are eliminated block by
block.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numba
import numpy as np
import numpy.typing as npt

import odefit as of
from benchmarks.timing import best_cpu_seconds
from odefit.integrate.task import SINK, Task
from odefit.native.kernel_calls import kernel_address
from odefit.problem import Problem
from odefit.solve import Scaling
from odefit.solve.bordered import BorderedLinear
from odefit.solve.scaled_step import ScaledSteps
from odefit.transcribe import SingleShooting
from odefit.transcribe.evaluation import evaluate_tasks
from odefit.transcribe.record import FITTING

Array = npt.NDArray[np.float64]

MODEL = """
G' = -ka*G
C' = ka*G/V - ke*C - k12*C + k21*P
P' = k12*C - k21*P + s*C/(1 + C/c0)
G(0) = 1
C(0) = 0
P(0) = 0
"""
OWN = {"ka": 1.2, "V": 2.0, "ke": 0.25}
COMMON = {"k12": 0.3, "k21": 0.2, "s": 0.05, "c0": 0.1}
TIMES = np.array([0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24])


def subjects(number: int) -> Problem:
    """Return the problem with simulated data."""
    rng = np.random.default_rng(1)
    model = of.Model.from_text(MODEL)
    names = [f"s{i}" for i in range(number)]
    free = [of.Parameter(name, start=value, scale="log", per="experiment") for name, value in OWN.items()]
    free += [of.Parameter(name, start=value, scale="log") for name, value in COMMON.items()]
    rows = {"experiment": [], "time": [], "observable": [], "value": []}
    for name in names:
        for t in TIMES:
            for observable in ("C", "P"):
                rows["experiment"].append(name)
                rows["time"].append(t)
                rows["observable"].append(observable)
                rows["value"].append(0.0)
    columns = {key: np.array(values) for key, values in rows.items()}
    problem = of.Problem(
        model=model,
        parameters=free,
        experiments=[of.Experiment(name) for name in names],
        measurements=of.Measurements(**columns),
    )
    truth = {f"{k}[{name}]": v * np.exp(0.3 * rng.normal()) for name in names for k, v in OWN.items()}
    frame = of.simulate(problem, truth, times=TIMES)
    values = frame[["C", "P"]].to_numpy().ravel()
    columns["value"] = values + 0.002 * rng.normal(size=values.size)
    poor = {name: 1.4 * value for name, value in COMMON.items()}
    return problem.with_measurements(of.Measurements(**columns)).with_start(**poor)


@numba.njit
def observe_nothing(table, i, index, y, s, s2):
    """Take an output and leave it: a sink."""
    return index


def integrations_alone(objective: SingleShooting, x: Array) -> Callable[[], object]:
    """Return a call that replays all tasks natively, as an evaluation does, and observes nothing."""
    shooter = objective._shooter
    table = shooter._table.copy()
    table[:, FITTING.place(Task, "sink")] = kernel_address(observe_nothing, SINK)
    residual, blur = np.zeros(objective.n_residuals), np.zeros(objective.n_data)
    jacobian, nowhere = np.zeros((objective.n_residuals, objective.plan.n_columns)), np.empty(0, np.int64)
    n = table.shape[0]
    return lambda: evaluate_tasks(table, shooter._shared, 0, n, x, 1, True, residual, blur, jacobian, nowhere)


def main() -> None:
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    problem = subjects(number)
    for integrator in ("auto", "ddm"):
        iteration(problem.with_settings(integrator=integrator), number)


def iteration(problem: Problem, number: int) -> None:
    """Fit, and print what an iteration consists of."""
    result = of.fit(problem)
    made_by = " and ".join(sorted(set(result.integrators.values())))
    print(f"{number} subjects, {len(result.plan.names)} unknowns, {result.n_data} data, by {made_by}")
    print(f"{result.status}: {result.iterations} iterations, {result.evaluations} evaluations")
    for name, value in COMMON.items():
        row = result.parameters[name]
        print(f"  {name:4} {row.estimate:9.5f} +- {row.standard_error:.5f}   true {value}")

    objective = SingleShooting(problem)
    x = result.solution.x
    objective.refresh(x)
    linear = result.solution.linear
    layout = objective.plan.layout
    assert linear is not None
    assert layout is not None
    scaling = Scaling(x, np.ones(x.size, dtype=bool))
    unbounded = np.full(x.size, np.inf)
    steps = ScaledSteps(scaling, -unbounded, unbounded, np.empty(0))

    def algebra() -> None:
        fresh = BorderedLinear(linear.compact, linear.residual, layout)
        steps.move(fresh, x)
        steps.step(0.01)

    best = best_cpu_seconds(
        {
            "integrations, one by one": lambda: [
                objective.trajectory(x, one, 1, grid)
                for one, grid in zip(objective.observations, objective.grids or (), strict=True)
            ],
            "integrations, in one native call": integrations_alone(objective, x),
            "evaluation (integrations, residuals, Jacobian)": lambda: objective.evaluate(x.copy(), 1),
            "linear algebra (reduction, damped step)": algebra,
        }
    )
    for name, seconds in best.items():
        print(f"  {name:50} {seconds * 1e3:8.2f} ms")
    one_by_one, natively, evaluation, linear_algebra = best.values()
    cost = evaluation + linear_algebra
    print(f"  one iteration: {cost / one_by_one:.2f} and {cost / natively:.2f} times these integrations")


if __name__ == "__main__":
    main()
