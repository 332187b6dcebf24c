"""What large problems cost: load, fit, report, result.json, in seconds of CPU time, and how long that file is.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.size [name ...]

* ``400``, ``2000``: so many experiments A exp(-k t), six data each; each has a parameter A of its own, k is shared.
* ``shared``: 500 rate constants of a reversible chain of 251 substances, all of them measured 12 times.
* ``sums``: 500 decay rates of which 250 sums of two exponentials are measured: what is determined is half of them.

All are read from files, as a user's would be.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import odefit as of
from odefit.formats import write_result

MARKS = {"400": 5.0, "2000": 20.0, "shared": 60.0, "sums": 60.0}
"""Seconds of CPU time that all of it may take."""


def experiments(number: int, folder: Path) -> Path:
    """Write a problem with so many experiments, each with a parameter of its own; return its path."""
    rng = np.random.default_rng(1)
    times = np.linspace(0.3, 3.0, 6)
    rows = ["experiment,time,x"]
    for e in range(number):
        x = np.exp(0.3 * rng.normal()) * np.exp(-0.7 * times) + 0.01 * rng.normal(size=times.size)
        rows += [f"e{e},{t:.6g},{v:.8g}" for t, v in zip(times, x, strict=True)]
    text = '[model]\nequations = """\nx\' = -k*x\nx(0) = A\n"""\n'
    text += '[parameters]\nk = 1.0\nA = {start = 1.0, scale = "log", per = "experiment"}\n[data]\nfile = "data.csv"\n'
    return _written(folder, text, rows)


def chain(folder: Path, links: int = 250) -> Path:
    """Write a reversible chain whose substances are all measured; return its path."""
    rng = np.random.default_rng(2)
    names = [f"A{i}" for i in range(links + 1)]
    flows = [f"r{i} = f{i}*A{i} - b{i}*A{i + 1}" for i in range(links)]
    rates = [f"A{i}' = {f'r{i - 1}' if i else '0'} - {f'r{i}' if i < links else '0'}" for i in range(links + 1)]
    starts = [f"A{i}(0) = {1 + i % 3}" for i in range(links + 1)]
    truth = {f"{kind}{i}": float(np.exp(0.3 * rng.normal())) for i in range(links) for kind in "fb"}
    model = "\n".join([*flows, *rates, *starts])
    times = np.linspace(0.2, 3.0, 12)
    free = [of.Parameter(name, value) for name, value in truth.items()]
    problem = of.Problem(of.Model.from_text(model), free, of.Measurements.from_columns(times, {"A0": 0.0 * times}))
    frame = of.simulate(problem)
    rows = [",".join(["time", *names])]
    for t, values in zip(times, frame[names].to_numpy(), strict=True):
        rows.append(",".join([f"{t:.6g}", *(f"{v + 0.005 * rng.normal():.8g}" for v in values)]))
    parameters = "\n".join(f'{name} = {{start = {value:.6g}, scale = "log"}}' for name, value in truth.items())
    text = f'[model]\nequations = """\n{model}\n"""\n[parameters]\n{parameters}\n[data]\nfile = "data.csv"\n'
    return _written(folder, text, rows)


def sums(folder: Path, number: int = 250) -> Path:
    """Write pairs of decays of which only the sum is seen, and hardly tells them apart; return its path."""
    rng = np.random.default_rng(3)
    times = np.linspace(0.1, 4.0, 8)
    equations = [f"y{j} = exp(-k{2 * j}*t) + exp(-k{2 * j + 1}*t)" for j in range(number)]
    rates = 0.5 + 0.3 * rng.random(2 * number)
    rows = [",".join(["time", *(f"y{j}" for j in range(number))])]
    for t in times:
        values = np.exp(-rates * t).reshape(number, 2).sum(axis=1) + 0.01 * rng.normal(size=number)
        rows.append(",".join([f"{t:.6g}", *(f"{v:.8g}" for v in values)]))
    parameters = "\n".join(f"k{i} = {rate:.6g}" for i, rate in enumerate(rates * np.tile([0.9, 1.1], number)))
    model = "\n".join(equations)
    text = f'[model]\nequations = """\n{model}\n"""\n[parameters]\n{parameters}\n[data]\nfile = "data.csv"\n'
    return _written(folder, text, rows)


def _written(folder: Path, text: str, rows: list[str]) -> Path:
    (folder / "data.csv").write_text("\n".join(rows) + "\n")
    path = folder / "problem.toml"
    path.write_text(text)
    return path


PROBLEMS: dict[str, Callable[[Path], Path]] = {
    "400": lambda folder: experiments(400, folder),
    "2000": lambda folder: experiments(2000, folder),
    "shared": chain,
    "sums": sums,
}


def measure(name: str) -> None:
    """Print what one problem costs."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        path = PROBLEMS[name](folder)
        clock = [time.process_time()]
        problem = of.load(path)
        clock.append(time.process_time())
        result = of.fit(problem)
        clock.append(time.process_time())
        lines = result.summary().count("\n") + 1
        clock.append(time.process_time())
        size = write_result(result, folder).stat().st_size
        clock.append(time.process_time())
    load, fit, report, file = np.diff(clock)
    print(
        f"{name:7} {len(result.plan.names):5} parameters {result.n_data:6} data  {result.status:12} load {load:6.2f}  "
        f"fit {fit:6.2f}  report {report:6.2f} ({lines} lines)  result.json {file:6.2f} ({size / 1e6:.2f} MB)  "
        f"all {clock[-1] - clock[0]:6.2f} s, mark {MARKS[name]:g}",
        flush=True,
    )


def main() -> None:
    """Measure the problems that are named, all of them by default."""
    for name in sys.argv[1:] or PROBLEMS:
        measure(name)


if __name__ == "__main__":
    main()
