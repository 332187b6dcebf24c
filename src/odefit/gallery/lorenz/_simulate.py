"""Make the data of the convection loop: ``python _simulate.py`` in its folder writes loop.csv, always the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.integrate import solve_ivp

HERE = Path(__file__).parent
SIGMA, R, B = 10.0, 28.0, 8.0 / 3.0
START = (-8.0, 7.0, 27.0)
TIMES = np.arange(0.1, 8.05, 0.1)
NOISE = 0.5
SEED = 1


def simulated() -> pd.DataFrame:
    """Return the rows of loop.csv."""

    def rhs(_: float, v: np.ndarray) -> list[float]:
        x, y, z = v
        return [SIGMA * (y - x), x * (R - z) - y, x * y - B * z]

    found = solve_ivp(rhs, (0.0, TIMES[-1]), START, t_eval=TIMES, method="DOP853", rtol=1e-12, atol=1e-12).y
    noisy = found[[0, 2]] + np.random.default_rng(SEED).normal(0, NOISE, (2, TIMES.size))
    return pd.DataFrame({"time": TIMES.round(3), "x": noisy[0].round(2), "z": noisy[1].round(2)})


if __name__ == "__main__":
    simulated().to_csv(HERE / "loop.csv", index=False)
