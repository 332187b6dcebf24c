"""Make the data of the tablets: ``python _simulate.py`` in its folder writes plasma.csv, always the same.

Every concentration is a sum over doses, each of which has a closed form.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
KA, V, LAG, FRACTION = 1.3, 32.0, 0.4, 0.75
CLEARANCE = {"anna": 3.1, "ben": 4.6, "cleo": 3.8, "dora": 5.5, "emil": 4.2, "finn": 2.7}
TIMES = np.array([0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 12.75, 13.5, 16, 24, 24.5, 25, 26, 28, 32, 36, 48])  # hours
SIGMA = 0.05
SEED = 1970


def tablet(t: np.ndarray, amount: float, k: float) -> np.ndarray:
    """Return the concentration at the time `t` after a tablet was taken."""
    since = np.maximum(t - LAG, 0.0)
    return FRACTION * amount * KA / V / (KA - k) * (np.exp(-k * since) - np.exp(-KA * since))


def infusion(t: np.ndarray, amount: float, duration: float, k: float) -> np.ndarray:
    """Return the concentration at the time `t` after an infusion began."""
    given = np.clip(t, 0.0, duration)
    return amount / duration / V / k * (1 - np.exp(-k * given)) * np.exp(-k * np.maximum(t - duration, 0.0))


def simulated() -> pd.DataFrame:
    """Return the rows of plasma.csv."""
    random = np.random.default_rng(SEED)
    runs: list[pd.DataFrame] = []
    for name, doses in pd.read_csv(HERE / "doses.csv").groupby("experiment"):
        k = CLEARANCE[str(name)] / V
        c = np.zeros(TIMES.size)
        columns = ("time", "target", "add", "duration", "every", "count")
        for begin, target, amount, duration, every, count in zip(*(doses[one] for one in columns), strict=True):
            for number in range(int(count)):
                t = TIMES - begin - (number * every if number else 0.0)
                c += tablet(t, amount, k) if target == "depot" else infusion(t, amount, duration, k)
        noisy = (c + random.normal(0, SIGMA, TIMES.size)).round(4)
        runs.append(pd.DataFrame({"experiment": name, "time": TIMES, "c": noisy}))
    return pd.concat(runs, ignore_index=True)


if __name__ == "__main__":
    simulated().to_csv(HERE / "plasma.csv", index=False)
