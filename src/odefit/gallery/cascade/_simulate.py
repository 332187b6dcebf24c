"""Make the data of the cascade: ``python _simulate.py`` in its folder writes blots.csv, always the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.integrate import solve_ivp

HERE = Path(__file__).parent
KON, KOFF, BASAL, ACT, DEACT, SCALE = 0.6, 0.3, 0.02, 0.8, 0.25, 1.7
STIMULI = {"low": (0.0, 0.2), "high": (0.0, 5.0), "washout": (5.0, 0.0)}  # ligand before the start, and behind it
DOSES = {"d1": 0.05, "d2": 0.2, "d3": 0.5, "d4": 1.5, "d5": 8.0}
TIMES = np.array([0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0])
SIGMA, SEED = 0.02, 16


def at_rest(ligand: float) -> np.ndarray:
    """Return bound receptor and active kinase in the steady state, parts of their totals."""
    bound = ligand / (ligand + KOFF / KON)
    rate = BASAL + ACT * bound
    return np.array([bound, rate / (rate + DEACT)])


def stimulated(before: float, ligand: float) -> np.ndarray:
    """Return the active kinase at the times, from rest at another amount of ligand."""

    def rates(_: float, y: np.ndarray) -> list[float]:
        bound, active = y
        return [
            KON * ligand * (1 - bound) - KOFF * bound,
            (BASAL + ACT * bound) * (1 - active) - DEACT * active,
        ]

    return solve_ivp(rates, (0.0, TIMES[-1]), at_rest(before), t_eval=TIMES, rtol=1e-10, atol=1e-12).y[1]


def simulated() -> pd.DataFrame:
    """Return the rows of blots.csv."""
    rows = [
        (name, time, active)
        for name, (before, ligand) in STIMULI.items()
        for time, active in zip(TIMES.tolist(), stimulated(before, ligand).tolist(), strict=True)
    ]
    rows += [(name, np.inf, float(at_rest(ligand)[1])) for name, ligand in DOSES.items()]
    frame = pd.DataFrame(rows, columns=["experiment", "time", "signal"])
    noise = np.random.default_rng(SEED).normal(0, SIGMA, len(frame))
    return frame.assign(signal=(SCALE * frame["signal"] + noise).round(3))


if __name__ == "__main__":
    simulated().to_csv(HERE / "blots.csv", index=False)
