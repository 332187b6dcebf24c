"""Make the data of the epidemic: ``python _simulate.py`` in its folder writes infected.csv, always the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.integrate import solve_ivp

HERE = Path(__file__).parent
POPULATION, DURATION, BETA, LATER, DAY, INFECTED = 1e5, 5.0, 0.62, 0.15, 24.3, 12.0
TIMES = np.arange(2.0, 61.0, 2.0)  # days
SIGMA = 30.0
SEED = 2020


def run(y0: np.ndarray, begin: float, end: float, beta: float) -> np.ndarray:
    """Return susceptible and infected people at the times between `begin` and `end`, and at the end."""

    def rates(_: float, y: np.ndarray) -> list[float]:
        new = beta * y[0] * y[1] / POPULATION
        return [-new, new - y[1] / DURATION]

    times = np.append(TIMES[(begin < TIMES) & (end > TIMES)], end)
    return solve_ivp(rates, (begin, end), y0, t_eval=times, rtol=1e-10, atol=1e-8).y


def simulated() -> pd.DataFrame:
    """Return the rows of infected.csv."""
    before = run(np.array([POPULATION - INFECTED, INFECTED]), 0.0, DAY, BETA)
    behind = run(before[:, -1], DAY, float(TIMES[-1]), LATER)
    infected = np.concatenate([before[1, :-1], behind[1]])
    noisy = infected + np.random.default_rng(SEED).normal(0, SIGMA, TIMES.size)
    return pd.DataFrame({"time": TIMES, "I": noisy.round(1)})


if __name__ == "__main__":
    simulated().to_csv(HERE / "infected.csv", index=False)
