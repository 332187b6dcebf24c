"""``odefit simulate FILE``."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer

from odefit.cli.changes import Atol, From, Integrator, MaxStep, Rtol, Set, changed, integrated_by
from odefit.cli.output import NOT_CONVERGED, announce_compilation, write_text
from odefit.errors import OdefitError, plain
from odefit.formats import load_problem
from odefit.problem import Problem
from odefit.problem.noise import fraction_of

MOST_TIMES = 1_000_000


def simulate(
    file: Annotated[Path, typer.Argument(help="Problem file (TOML).")],
    values: Set = None,
    source: From = None,
    integrator: Integrator = None,
    rtol: Rtol = None,
    atol: Atol = None,
    max_step: MaxStep = None,
    times: Annotated[
        str | None, typer.Option(help="first:last:number or a comma-separated list; those of the data by default.")
    ] = None,
    noise: Annotated[
        str | None, typer.Option(help="Make synthetic data: a standard deviation, or '5 %' of each value.")
    ] = None,
    orthogonal: Annotated[
        bool, typer.Option("--orthogonal", help="Noise that leaves the parameters the best estimates.")
    ] = False,
    seed: Annotated[int | None, typer.Option(min=0, help="For noise that can be made again.")] = None,
    out: Annotated[Path | None, typer.Option(help="File to write (CSV); standard output by default.")] = None,
) -> None:
    """Solve the model in FILE, or make synthetic data, and print a CSV table.

    Without --noise: states and definitions.  With --noise: the measured quantities at the times of the data, in
    the format of a data file.

    Exit code 0: done, 2: bad input, 3: the integration could not go on to the end (the table is empty from there on).

    Examples: odefit simulate barnes.toml --set k1=0.9 --times 0:5:101

    odefit simulate barnes.toml --from results --noise 0.01 --seed 1 --out data.csv
    """
    announce_compilation()
    problem = changed(load_problem(file), values, None, None, source)
    problem = integrated_by(problem, integrator, rtol, atol, max_step)
    failures: list[str] = []
    if noise is None:
        if orthogonal or seed is not None:
            raise OdefitError("--orthogonal and --seed belong to --noise; give a standard deviation with it.")
        text, failures = _solved(problem, _times(times))
    else:
        if times is not None:
            raise OdefitError("synthetic data are made at the times of the data; leave out --times or --noise.")
        from odefit.formats.data_saving import data_csv
        from odefit.strategy.synthetic import with_synthetic_data

        size, relative = _noise(noise)
        text = data_csv(with_synthetic_data(problem, size, relative=relative, orthogonal=orthogonal, seed=seed))
    if out is None:
        print(text, end="")
    else:
        write_text(out, text)
        print(f"odefit: wrote {out}", file=sys.stderr)
    for failure in failures:
        print(plain(f"odefit: {failure}"), file=sys.stderr)
    if failures:
        raise typer.Exit(NOT_CONVERGED)


def _solved(problem: Problem, times: list[float] | None) -> tuple[str, list[str]]:
    """Return the table as CSV, and for each experiment that could not be solved to its end the reason."""
    from odefit.api import SimulationWarning
    from odefit.api import simulate as solve

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SimulationWarning)
        frame = solve(problem, times=times)
    for other in (one for one in caught if not issubclass(one.category, SimulationWarning)):
        warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)
    failures = [str(one.message) for one in caught if issubclass(one.category, SimulationWarning)]
    return frame.to_csv(index=False, lineterminator="\n"), failures


def _times(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        if ":" in text:
            first, last, number = text.split(":")
            count = int(number)
            if count < 2:
                raise ValueError
            if count > MOST_TIMES:
                raise OdefitError(f"--times '{text}' asks for {count} times; at most {MOST_TIMES} are possible.")
            step = (float(last) - float(first)) / (count - 1)
            return [float(first) + step * i for i in range(count - 1)] + [float(last)]
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise OdefitError(f"--times '{text}' is neither first:last:number (0:10:101) nor a list (0,1,2.5).") from None


def _noise(text: str) -> tuple[float, bool]:
    try:
        fraction = fraction_of(text)
        return (float(text), False) if fraction is None else (fraction, True)
    except ValueError:
        raise OdefitError(f"--noise '{text}' is neither a number (0.01) nor a percentage ('5 %').") from None
