"""Make the data of the ball: ``python _simulate.py`` in its folder writes heights.csv, always the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.integrate import solve_ivp

HERE = Path(__file__).parent
G, DRAG, RESTITUTION, HEIGHT = 9.81, 0.05, 0.8, 1.2
TIMES = np.arange(0.04, 3.0, 0.04)
SIGMA = 0.005
SEED = 4


def flight(_: float, y: np.ndarray) -> list[float]:
    """Return the rates of height and speed in the air."""
    return [y[1], -G - DRAG * y[1]]


def floor(_: float, y: np.ndarray) -> float:
    """Return the height; the flight ends where it is zero on the way down."""
    return y[0]


floor.terminal, floor.direction = True, -1.0  # type: ignore[attr-defined]


def heights() -> np.ndarray:
    """Return the heights at all times, flight by flight."""
    found, begin, y = np.empty(TIMES.size), 0.0, np.array([HEIGHT, 0.0])
    while begin < TIMES[-1]:
        solved = solve_ivp(flight, (begin, TIMES[-1]), y, events=floor, dense_output=True, rtol=1e-11, atol=1e-12)
        here = (TIMES > begin) & (solved.t[-1] >= TIMES)
        found[here] = solved.sol(TIMES[here])[0]
        begin, y = solved.t[-1], np.array([0.0, -RESTITUTION * solved.y[1, -1]])
    return found


def simulated() -> pd.DataFrame:
    """Return the rows of heights.csv."""
    noisy = heights() + np.random.default_rng(SEED).normal(0, SIGMA, TIMES.size)
    return pd.DataFrame({"time": TIMES.round(3), "x": noisy.round(4)})


if __name__ == "__main__":
    simulated().to_csv(HERE / "heights.csv", index=False)
