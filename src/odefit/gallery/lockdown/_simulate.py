"""Make the data of the epidemic: ``python _simulate.py`` in its folder writes weeks.csv, always the same."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.integrate import solve_ivp

HERE = Path(__file__).parent
POPULATION, DURATION, BETA, LATER, DAY, INFECTED, REPORTED = 1e5, 5.0, 0.42, 0.14, 40.3, 6.0, 0.3
ORIGIN = datetime.date(2020, 3, 1)
WEEKS = np.arange(7.0, 120.0, 7.0)  # days at which a week ends
SIGMA = 15.0
SEED = 2020


def run(y0: np.ndarray, begin: float, end: float, beta: float) -> np.ndarray:
    """Return susceptible, infected and all new cases at the ends of weeks after `begin`, and at `end`."""

    def rates(_: float, y: np.ndarray) -> list[float]:
        new = beta * y[0] * y[1] / POPULATION
        return [-new, new - y[1] / DURATION, new]

    times = np.append(WEEKS[(begin < WEEKS) & (end > WEEKS)], end)
    return solve_ivp(rates, (begin, end), y0, t_eval=times, rtol=1e-10, atol=1e-8).y


def simulated() -> pd.DataFrame:
    """Return the rows of weeks.csv."""
    before = run(np.array([POPULATION - INFECTED, INFECTED, 0.0]), 0.0, DAY, BETA)
    behind = run(before[:, -1], DAY, float(WEEKS[-1]), LATER)
    cases = REPORTED * np.diff(np.concatenate([[0.0], before[2, :-1], behind[2]]))
    noisy = cases + np.random.default_rng(SEED).normal(0, SIGMA, WEEKS.size)
    dates = [(ORIGIN + datetime.timedelta(days=day)).isoformat() for day in WEEKS]
    return pd.DataFrame({"date": dates, "cases": noisy.round().clip(0).astype(int)})


if __name__ == "__main__":
    simulated().to_csv(HERE / "weeks.csv", index=False)
