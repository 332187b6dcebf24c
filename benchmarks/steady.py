"""What a steady state costs beside an integration to a late time, both with derivatives.

    python -m benchmarks.steady

*Cascade*: receptor, two kinases and what they phosphorylate, with four conserved totals, before a stimulus.  *Slow
turnover*: the same with synthesis and degradation that are ten thousand times slower, which have to come to rest too.
Candidates take turns; ratios are what counts.
"""

from __future__ import annotations

import numpy as np

import odefit as of
from benchmarks.tables import print_rows
from benchmarks.timing import best_cpu_seconds

LATE = 1e6

CASCADE = """
R' = -kon*L*R + koff*RL
RL' = kon*L*R - koff*RL
A' = -(b1 + a1*RL)*A + d1*AP
AP' = (b1 + a1*RL)*A - d1*AP
B' = -(b2 + a2*AP)*B + d2*BP
BP' = (b2 + a2*AP)*B - d2*BP
C' = -(b3 + a3*BP)*C + d3*CP
CP' = (b3 + a3*BP)*C - d3*CP
R(0) = 1
RL(0) = 0
A(0) = 1
AP(0) = 0
B(0) = 1
BP(0) = 0
C(0) = 1
CP(0) = 0
"""
TURNOVER = CASCADE.replace("R' = ", "R' = syn - deg*R ").replace("RL' = ", "RL' = -deg*RL + ")
START = {
    "kon": 1.0, "koff": 0.5, "L": 0.3, "b1": 0.02, "a1": 2.0, "d1": 1.0, "b2": 0.01, "a2": 3.0, "d2": 0.7, "b3": 0.03,
    "a3": 1.0, "d3": 0.4,
}  # fmt: skip
SLOW = {"syn": 1e-4, "deg": 1e-4}


def evaluator(text: str, start: dict[str, float], time: float, method: str) -> of.Evaluator:
    """Return the residuals of the active last kinase at a time, as a function of the parameters."""
    data = of.Measurements.from_columns([time], {"CP": [0.5]})
    parameters = [of.Parameter(name, value) for name, value in start.items()]
    problem = of.Problem(of.Model.from_text(text), parameters, data)
    return of.Evaluator(problem.with_settings(integrator=method))


def row(name: str, text: str, start: dict[str, float], method: str) -> list[str]:
    """Return one line of the table."""
    rest, late = (evaluator(text, start, time, method) for time in (np.inf, LATE))
    points = [rest.start * (1.0 + 1e-6 * k) for k in range(2)]
    differ = np.abs(rest.jacobian(points[0]) - late.jacobian(points[0])).max() / np.abs(rest.jacobian(points[0])).max()

    def both(one: of.Evaluator) -> None:
        for x in points:  # in turn: where it was last, everything is known
            one.jacobian(x)

    seconds = best_cpu_seconds({"rest": lambda: both(rest), "late": lambda: both(late)}, rounds=15)
    times = {key: value / 2 * 1e6 for key, value in seconds.items()}
    ratio = times["late"] / times["rest"]
    return [name, method, f"{times['rest']:.0f}", f"{times['late']:.0f}", f"{ratio:.1f}", f"{differ:.0e}"]


def main() -> None:
    """Print the table."""
    rows = [
        row(name, text, start, method)
        for name, text, start in (("cascade", CASCADE, START), ("slow turnover", TURNOVER, {**START, **SLOW}))
        for method in ("auto", "ddm", "bdf3")
    ]
    header = ("model", "method", "steady [us]", "to 1e6 [us]", "ratio", "derivatives differ by")
    print_rows(
        "A steady state with derivatives, and an integration to t = 1e6 with sensitivities", header, rows, text=2
    )


if __name__ == "__main__":
    main()
