"""Make the data of the isotherm: ``python _simulate.py`` in its folder writes isotherm.csv, always the same.

The coverage is found here by bisection, without odefit: theta is the only zero in (0, 1).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
K_REF, H, W, Q_MAX, R = 0.8, -24.0, 4.5, 3.2, 8.314e-3
TEMPERATURES = {"cold": 298.0, "warm": 318.0, "hot": 338.0}
CONCENTRATIONS = np.array([0.02, 0.05, 0.1, 0.2, 0.35, 0.6, 1.0, 1.6, 2.5, 4.0])
SIGMA = 0.02
SEED = 1939


def coverage(c: float, temperature: float) -> float:
    """Return theta at a concentration."""
    k = K_REF * np.exp(-H / R * (1 / temperature - 1 / 318))
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if middle < k * c * (1 - middle) * np.exp(W * middle / (R * temperature)):
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def simulated() -> pd.DataFrame:
    """Return the rows of isotherm.csv."""
    random = np.random.default_rng(SEED)
    rows = []
    for name, temperature in TEMPERATURES.items():
        for c in CONCENTRATIONS.tolist():
            q = Q_MAX * coverage(c, temperature) * (1 + SIGMA * random.standard_normal())
            rows.append({"experiment": name, "c": c, "q": round(q, 4)})
    return pd.DataFrame(rows)


if __name__ == "__main__":
    simulated().to_csv(HERE / "isotherm.csv", index=False)
