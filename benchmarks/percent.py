"""What "12 %" of the measured value does to estimates: bias and coverage, over simulated data sets.

    python -m benchmarks.percent

A drug is given at once and disappears, C = 100/V exp(-CL/V t), with CL = 4 and V = 40; 12 concentrations have errors
of 12 % of their true values.  Where the standard deviation is a percentage of what was *measured*, values that came out
low count more: with y = f (1 + s e) the condition sum (y - f) f'/y^2 = 0 has the mean -2 s^2 f'/f, so that the model is
pulled down by the fraction 2 s^2 (2.9 % for 12 %), and the clearance up.
"""

from __future__ import annotations

import sys

import numpy as np

import odefit as of
from benchmarks.tables import print_rows

CLEARANCE, VOLUME, FRACTION = 4.0, 40.0, 0.12
TIMES = np.array([0.5, 1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24], dtype=float)
MODEL = "C' = -CL/V*C\nC(0) = 100/V\nlogC = log(C)"


def problem(column: str, sigma: float | str) -> of.Problem:
    """Return the problem in which `column` is measured with this noise."""
    parameters = [of.Parameter(name, 10.0, scale="log") for name in ("CL", "V")]
    data = of.Measurements.from_columns(TIMES, {column: np.ones_like(TIMES)})
    return of.Problem(of.Model.from_text(MODEL), parameters, data, noise={column: sigma})


def estimates(kind: of.Problem, column: str, n: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return the clearance that `n` data sets give, and whether its interval contains the true one."""
    rng = np.random.default_rng(seed)
    truth = 100.0 / VOLUME * np.exp(-CLEARANCE / VOLUME * TIMES)
    found, covered = np.empty(n), np.empty(n, dtype=bool)
    for i in range(n):
        measured = truth * (1.0 + FRACTION * rng.normal(size=TIMES.size))
        values = measured if column == "C" else np.log(measured)
        row = of.fit(kind.with_measurements(of.Measurements.from_columns(TIMES, {column: values}))).parameters["CL"]
        found[i] = row.estimate
        covered[i] = row.interval is not None and row.interval[0] <= CLEARANCE <= row.interval[1]
    return found, covered


def rows(n: int) -> list[list[str]]:
    """Return the rows of the table over `n` data sets."""
    result = []
    for words, column, sigma in (
        ('`C = "12 %"`, of the measured value', "C", "12 %"),
        ("the logarithm, `logC = 0.12`", "logC", FRACTION),
    ):
        found, covered = estimates(problem(column, sigma), column, n)
        spread = found.std(ddof=1)
        result.append(
            [words, f"{found.mean():.3f}", f"{spread / np.sqrt(n):.3f}", f"{spread:.3f}", f"{100 * covered.mean():.1f}"]
        )
    return result


def main() -> None:
    """Print the table."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    title = f"true clearance {CLEARANCE:g}, {n} data sets of {TIMES.size} values"
    print_rows(title, ["noise", "mean estimate", "its error", "spread", "coverage of the 95 % interval, %"], rows(n))


if __name__ == "__main__":
    main()
