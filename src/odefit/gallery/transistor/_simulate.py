"""Make the data of the amplifier: ``python _simulate.py`` in its folder writes voltages.csv, always the same.

Made without odefit: SciPy integrates the voltages across the capacitors, and Newton's method finds those of the nodes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.integrate import solve_ivp

HERE = Path(__file__).parent
C1, C2, C3, C4, C5, BETA = 1.0, 2.0, 3.0, 4.0, 5.0, 1.0  # uF and uA
UB, UF, ALPHA, R0, R = 6.0, 0.026, 0.99, 1.0, 9.0  # V, V, 1, kOhm and kOhm
TIMES = np.arange(0.5, 50.1, 0.5)  # ms
SIGMA, SEED = 0.05, 1991


def diode(voltage: float) -> tuple[float, float]:
    """Return the current through a junction in mA, and its slope."""
    grown = 1e-3 * BETA * np.exp(voltage / UF)
    return grown - 1e-3 * BETA, grown / UF


def nodes(t: float, x: np.ndarray, guess: np.ndarray) -> np.ndarray:
    """Return the voltages u2, u5 and u8 behind the capacitors, whose currents balance."""
    z, source = guess.copy(), 0.1 * np.sin(0.2 * np.pi * t)
    for _ in range(200):
        g1, s1 = diode(z[0] - x[1])
        g2, s2 = diode(z[1] - x[3])
        left = np.array(
            [
                (x[0] + z[0] - source) / R0 + (2 * z[0] - UB) / R + (1 - ALPHA) * g1,
                (x[2] + z[1] - UB) / R + ALPHA * g1 + (2 * z[1] - UB) / R + (1 - ALPHA) * g2,
                (x[4] + z[2] - UB) / R + ALPHA * g2 + z[2] / R,
            ]
        )
        slope = np.array(
            [
                [1 / R0 + 2 / R + (1 - ALPHA) * s1, 0.0, 0.0],
                [ALPHA * s1, 3 / R + (1 - ALPHA) * s2, 0.0],
                [0.0, ALPHA * s2, 2 / R],
            ]
        )
        step = np.clip(np.linalg.solve(slope, left), -0.1, 0.1)  # the exponential must not run away
        z -= step
        if np.abs(step).max() < 1e-13:
            break
    return z


def simulated() -> pd.DataFrame:
    """Return the rows of voltages.csv."""
    start = np.array([-UB / 2, UB / 2, UB / 2, UB / 2, UB])
    guess = np.array([UB / 2, UB / 2, 0.0])

    def rates(t: float, x: np.ndarray) -> list[float]:
        z = nodes(t, x, guess)
        guess[:] = z
        g1, g2 = diode(z[0] - x[1])[0], diode(z[1] - x[3])[0]
        return [
            ((2 * z[0] - UB) / R + (1 - ALPHA) * g1) / C1,
            (g1 - x[1] / R) / C2,
            ((2 * z[1] - UB) / R + (1 - ALPHA) * g2) / C3,
            (g2 - x[3] / R) / C4,
            z[2] / R / C5,
        ]

    found = solve_ivp(rates, (0.0, TIMES[-1]), start, t_eval=TIMES, rtol=1e-8, atol=1e-8, method="Radau")
    assert found.success, found.message
    exact = np.array([nodes(t, x, guess) for t, x in zip(TIMES, found.y.T, strict=True)])[:, 1:]
    noisy = exact + SIGMA * np.random.default_rng(SEED).standard_normal(exact.shape)
    return pd.DataFrame({"time": TIMES, "u5": noisy[:, 0].round(3), "u8": noisy[:, 1].round(3)})


if __name__ == "__main__":
    simulated().to_csv(HERE / "voltages.csv", index=False)
