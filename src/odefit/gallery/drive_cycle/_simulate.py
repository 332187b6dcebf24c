"""Make the data of the motor: ``python _simulate.py`` in its folder writes its three files, always the same.

A drive through a town: the car waits, accelerates, keeps its speed and brakes, again and again.  The torque, and with
it the current, follows from the acceleration and from what resists.  Between two rows of a recording current and
temperature of the air are straight lines; a step of the classical Runge-Kutta method is a tenth of a second.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
R20, C_WINDING, C_HOUSING, G, H = 0.052, 950.0, 5200.0, 21.0, 14.5
COPPER = 0.00393  # 1/K, how the resistance of copper rises
SECONDS, MEASURED_EVERY, AIR_EVERY = 1800, 20, 30
PARTS = 10  # of a second
SIGMA = 0.15  # K
SEED = 1888


def speed_of_car(random: np.random.Generator) -> np.ndarray:
    """Return the speed once a second, m/s."""
    speed = [0.0]
    while len(speed) <= SECONDS:
        top = random.uniform(7, 20)
        speed += [0.0] * int(random.integers(8, 30))
        speed += list(np.linspace(0, top, int(top / random.uniform(0.7, 1.6))))
        wander = np.cumsum(random.normal(0, 0.15, random.integers(15, 70)))
        speed += list(np.clip(top + wander, 3, 22))
        speed += list(np.linspace(speed[-1], 0, int(speed[-1] / random.uniform(0.9, 1.8))))
    return np.array(speed[: SECONDS + 1])


def current_of(speed: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return the current of the motor, A; it is negative where the car brakes."""
    force = 1300 * np.gradient(speed) + np.where(speed > 0, 150 + 0.45 * speed**2, 0)  # N
    return (force / 9.0 + random.normal(0, 1.0, speed.size)).round(1)


def air(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the times at which the temperature of the air was recorded, and the temperature."""
    times = np.arange(0, SECONDS + 1, AIR_EVERY)
    return times, (19 + 3 * np.sin(times / 700) + np.cumsum(random.normal(0, 0.12, times.size))).round(2)


def temperatures(current: np.ndarray, cool: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return the temperatures of winding and housing once a second."""

    def rates(t: float, y: np.ndarray) -> np.ndarray:
        i = np.interp(t, np.arange(current.size), current)
        loss = R20 * (1 + COPPER * (y[0] - 20)) * i**2
        inside, outside = G * (y[0] - y[1]), H * (y[1] - np.interp(t, *cool))
        return np.array([(loss - inside) / C_WINDING, (inside - outside) / C_HOUSING])

    y, h, rows = np.full(2, cool[1][0]), 1 / PARTS, []
    for part in range(PARTS * SECONDS + 1):
        if part % PARTS == 0:
            rows.append(y)
        t = part * h
        k1 = rates(t, y)
        k2 = rates(t + h / 2, y + h / 2 * k1)
        k3 = rates(t + h / 2, y + h / 2 * k2)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + rates(t + h, y + h * k3))
    return np.array(rows)


def simulated() -> dict[str, pd.DataFrame]:
    """Return the rows of each file."""
    random = np.random.default_rng(SEED)
    current = current_of(speed_of_car(random), random)
    cool = air(random)
    at = np.arange(MEASURED_EVERY, SECONDS + 1, MEASURED_EVERY)
    measured = temperatures(current, cool)[at] + random.normal(0, SIGMA, (at.size, 2))
    return {
        "drive.csv": pd.DataFrame({"time": np.arange(SECONDS + 1), "current": current}),
        "air.csv": pd.DataFrame({"time": cool[0], "air": cool[1]}),
        "temperatures.csv": pd.DataFrame(
            {"time": at, "winding": measured[:, 0].round(2), "housing": measured[:, 1].round(2)}
        ),
    }


if __name__ == "__main__":
    for file, rows in simulated().items():
        rows.to_csv(HERE / file, index=False)
