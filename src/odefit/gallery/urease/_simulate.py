"""Make the data of the urease runs: ``python _simulate.py`` in its folder writes ph.csv, always the same.

Made without odefit: the pH by bisection, since the charge falls with it; the urea by SciPy.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.integrate import solve_ivp

HERE = Path(__file__).parent
V_MAX, K_M, PKE1, PKE2 = 0.12, 3.2, 6.1, 8.9
UREA = {"dilute": 4.0, "medium": 12.0, "strong": 40.0}
TIMES = np.array([2.0, 5, 10, 15, 20, 30, 40, 50, 60, 75, 90, 120, 150, 180, 240, 300])
P, PH0, SIGMA, SEED = 10.0, 6.2, 0.02, 1926
KW, KN, KC1, KC2, KP = 1e-14, 10**-9.25, 10**-6.35, 10**-10.33, 10**-7.2


def charge(ph: float, split: float) -> float:
    """Return the charge of all ions but sodium, in mmol/L."""
    h = 10.0**-ph
    ammonium = 2 * split * h / (h + KN)
    carbonate = split * (KC1 * h + 2 * KC1 * KC2) / (h * h + KC1 * h + KC1 * KC2)
    return 1e3 * (h - KW / h) + ammonium - carbonate - P * (1 + KP / (h + KP))


def ph_of(split: float) -> float:
    """Return the pH at which the charges balance when so much urea is split."""
    sodium, low, high = -charge(PH0, 0.0), 0.0, 14.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if charge(middle, split) + sodium > 0.0:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def rate(urea: float, split: float) -> float:
    """Return how fast urea is split."""
    h = 10.0 ** -ph_of(split)
    return V_MAX * urea / (K_M + urea) / (1 + h / 10**-PKE1 + 10**-PKE2 / h)


def simulated() -> pd.DataFrame:
    """Return the rows of ph.csv."""
    random = np.random.default_rng(SEED)
    runs: list[pd.DataFrame] = []
    for name, start in UREA.items():
        solution = solve_ivp(
            lambda _, u, start=start: [-rate(u[0], start - u[0])],
            (0, TIMES[-1]), [start], t_eval=TIMES, rtol=1e-9, atol=1e-9, method="LSODA",
        )  # fmt: skip
        exact = np.array([ph_of(start - urea) for urea in solution.y[0]])
        noisy = exact + SIGMA * random.standard_normal(TIMES.size)
        runs.append(pd.DataFrame({"experiment": name, "time": TIMES, "pH": noisy.round(3)}))
    return pd.concat(runs, ignore_index=True)


if __name__ == "__main__":
    simulated().to_csv(HERE / "ph.csv", index=False)
