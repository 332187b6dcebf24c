"""Make the data of the oscillator: ``python _simulate.py`` in its folder writes orbit.csv, always the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.integrate import solve_ivp

HERE = Path(__file__).parent
MU = 1.3
TIMES = np.arange(0.25, 7.0, 0.25)
NOISE = 0.1
SEED = 3


def simulated() -> pd.DataFrame:
    """Return the rows of orbit.csv: time runs from a maximum of x, when all else has died out."""

    def rhs(_: float, v: np.ndarray) -> list[float]:
        return [v[1], MU * (1.0 - v[0] ** 2) * v[1] - v[0]]

    def turns(_: float, v: np.ndarray) -> float:
        return v[1]

    way = solve_ivp(rhs, (0.0, 100.0), (2.0, 0.0), method="DOP853", rtol=1e-12, atol=1e-12, events=turns)
    start = way.y_events[0][way.y_events[0][:, 0] > 0.0][-2]
    found = solve_ivp(rhs, (0.0, TIMES[-1]), start, t_eval=TIMES, method="DOP853", rtol=1e-12, atol=1e-12).y[0]
    noisy = found + np.random.default_rng(SEED).normal(0, NOISE, TIMES.size)
    return pd.DataFrame({"time": TIMES.round(3), "x": noisy.round(3)})


if __name__ == "__main__":
    simulated().to_csv(HERE / "orbit.csv", index=False)
