"""What the statistics of a fit with a hundred parameters cost beside one Gauss-Newton iteration.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.statistics

A reversible chain of 51 substances, A0 <-> A1 <-> ... <-> A50, all measured 40 times: 100 rate constants, 2040 data.
Statistics are everything that the report needs: directions, covariance, residual tests, verdicts, warnings; also for
autocorrelated errors, where the correlation has to be estimated.
"""

from __future__ import annotations

import numpy as np

import odefit as of
from benchmarks.timing import best_cpu_seconds
from odefit.problem import Problem
from odefit.strategy import FitResult
from odefit.transcribe import SingleShooting

LINKS = 50
TIMES = np.linspace(0.5, 20.0, 40)


def chain(rho: float) -> Problem:
    """Return the problem with simulated data whose errors have the correlation `rho`."""
    rng = np.random.default_rng(1)
    flows = [f"r{i} = f{i}*A{i} - b{i}*A{i + 1}" for i in range(LINKS)]
    rates = [f"A{i}' = {f'r{i - 1}' if i else '0'} - {f'r{i}' if i < LINKS else '0'}" for i in range(LINKS + 1)]
    starts = [f"A{i}(0) = {1 + i % 3}" for i in range(LINKS + 1)]
    truth = {f"{kind}{i}": np.exp(0.3 * rng.normal()) for kind in "fb" for i in range(LINKS)}
    states = [f"A{i}" for i in range(LINKS + 1)]
    problem = of.Problem(
        of.Model.from_text("\n".join([*flows, *rates, *starts])),
        [of.Parameter(name, value, scale="log") for name, value in truth.items()],
        of.Measurements.from_columns(TIMES, {name: 0 * TIMES for name in states}),
    )
    frame = of.simulate(problem, truth, times=TIMES)
    errors = rng.normal(size=(TIMES.size, len(states)))
    for k in range(1, TIMES.size):
        errors[k] = rho * errors[k - 1] + np.sqrt(1 - rho**2) * errors[k]
    noisy = {name: frame[name].to_numpy() + 0.01 * errors[:, i] for i, name in enumerate(states)}
    return problem.with_measurements(of.Measurements.from_columns(TIMES, noisy))


def main() -> None:
    """Print the comparison."""
    for rho in (0.0, 0.8):
        problem = chain(rho)
        result = of.fit(problem)
        objective, x = SingleShooting(problem), result.solution.x
        objective.refresh(x)

        def iteration(objective: SingleShooting = objective, x: np.ndarray = x) -> None:
            linear = objective.evaluate(x.copy(), 1).linear
            assert linear is not None
            linear.triangle()

        def statistics(result: FitResult = result) -> None:
            fresh = FitResult(result.problem, result.solution, result.integrators)
            fresh.parameters, fresh.warnings, fresh.tests, fresh.criteria, fresh.r2  # noqa: B018

        best = best_cpu_seconds({"iteration": iteration, "statistics": statistics}, rounds=5)
        kind = result.uncertainty.kind if result.uncertainty else "-"
        print(f"{len(result.estimates)} parameters, {result.n_data} data, {result.status}, errors {kind}")
        print(f"  one iteration (without its step) {1e3 * best['iteration']:8.1f} ms")
        print(f"  all statistics                   {1e3 * best['statistics']:8.1f} ms")
        print(f"  ratio                            {best['statistics'] / best['iteration']:8.2f}")


if __name__ == "__main__":
    main()
