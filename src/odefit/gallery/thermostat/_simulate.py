"""Make the data of the room: ``python _simulate.py`` in its folder writes room.csv, always the same."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
LOSS, OUTSIDE, POWER, LOW, HIGH, T0 = 0.3, 5.0, 12.0, 19.0, 22.0, 20.5
TIMES = np.arange(0.1, 6.05, 0.1)
SIGMA = 0.1
SEED = 4


def temperature(times: np.ndarray) -> np.ndarray:
    """Return the temperature: exponentials towards what the room would come to, with heating and without."""
    begin, start, heated, found = 0.0, T0, False, np.empty(times.size)
    while begin < times[-1]:
        limit = OUTSIDE + (POWER / LOSS if heated else 0.0)
        end = begin + math.log((start - limit) / ((HIGH if heated else LOW) - limit)) / LOSS
        here = (times >= begin) & (times <= end)
        found[here] = limit + (start - limit) * np.exp(-LOSS * (times[here] - begin))
        begin, start, heated = end, HIGH if heated else LOW, not heated
    return found


def simulated() -> pd.DataFrame:
    """Return the rows of room.csv."""
    noisy = temperature(TIMES) + np.random.default_rng(SEED).normal(0, SIGMA, TIMES.size)
    return pd.DataFrame({"time": TIMES.round(3), "T": noisy.round(2)})


if __name__ == "__main__":
    simulated().to_csv(HERE / "room.csv", index=False)
