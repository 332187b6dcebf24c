"""Make the data of the Dow problem: ``python _simulate.py`` in its folder writes runs.csv, always the same."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pandas as pd

import odefit as of

HERE = Path(__file__).parent
ESTIMATES = {  # the least-squares column of the paper's Table 7, natural logarithms
    "k1_ref": 1.1767, "k2_ref": 1.0885, "km1_ref": 4.6949, "b1": -1.9284, "b2": -2.5927,
    "E1": 8.7173, "E2": 9.1536, "Em1": 9.4095,
}  # fmt: skip
TIMES = {"40C": np.arange(4, 61, 4), "67C": np.arange(2, 31, 2), "100C": np.arange(0.5, 7.6, 0.5)}  # hours
MEASURED = ["y1", "y4"]  # those the paper fits
SIGMA = 0.0165  # 1 % of the amount charged
SEED = 1986


def simulated() -> pd.DataFrame:
    """Return the rows of runs.csv."""
    content = tomllib.loads((HERE / "dow.toml").read_text(encoding="utf-8"))
    model = of.Model.from_text(content["model"]["equations"])
    values = {name: float(np.exp(value)) for name, value in ESTIMATES.items()}
    random = np.random.default_rng(SEED)
    runs: list[pd.DataFrame] = []
    for name, times in TIMES.items():
        problem = of.Problem(
            model=model,
            parameters=tuple(of.Parameter(key, start=value) for key, value in values.items()),
            measurements=of.Measurements.from_columns(time=times, columns={m: 0.0 * times for m in MEASURED}),
            experiments=(of.Experiment("main", (of.Period(overrides={"T": content["experiments"][name]["T"]}),)),),
        ).with_settings(rtol=1e-10, atol=1e-12)
        frame = of.simulate(problem, values, times=times)
        noisy = frame[MEASURED] + random.normal(0, SIGMA, (len(times), len(MEASURED)))
        runs.append(pd.DataFrame({"experiment": name, "time": times, **noisy.round(4)}))
    return pd.concat(runs, ignore_index=True)


if __name__ == "__main__":
    simulated().to_csv(HERE / "runs.csv", index=False)
