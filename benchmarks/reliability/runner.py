"""Fits in a process of their own, so that one which hangs or kills it costs no more than itself."""

from __future__ import annotations

import json
import math
import multiprocessing
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

import odefit as of
from benchmarks.reliability.case import Family
from benchmarks.reliability.ends import CRASHED, HUNG, FamilyEnd, fitted, looked_at
from benchmarks.reliability.reference import best_known
from odefit.gallery import load
from odefit.integrate import METHODS

FIT_LIMIT = 60.0
"""Seconds that a fit with its report may take."""
_OWN_LIMIT = 600.0  # for what the benchmark does itself
DONE = "done"


def run_families(families: Sequence[Family], share: float = 1.0, first: int = 0) -> Iterator[FamilyEnd]:
    """Yield the ends of a part of each family's cases, from the seed `first` on."""
    compile_kernels()
    for family in families:
        count = max(1, round(share * family.count))
        yield from run_family(family, range(first, first + count))


def compile_kernels() -> None:
    """Compile what is compiled once on a machine, so that no fit is blamed for the time."""
    problem = load("barnes")
    for integrator in METHODS:
        result = of.fit(problem.with_settings(integrator=integrator))
        result.summary()


def run_family(family: Family, seeds: Sequence[int]) -> Iterator[FamilyEnd]:
    """Yield an end for each seed; a worker that does not answer in time is killed, and another goes on."""
    left = list(seeds)
    while left:
        mine, other = multiprocessing.Pipe()
        worker = multiprocessing.get_context("spawn").Process(
            target=_work, args=(family.name, left, other), daemon=True
        )
        worker.start()
        other.close()
        try:
            while left:
                end = _answer(mine, family, left[0])
                yield end
                left.pop(0)
                if end.status == HUNG or (end.status == CRASHED and not worker.is_alive()):
                    break
        finally:
            worker.kill()
            worker.join()


def _answer(pipe: Connection, family: Family, seed: int) -> FamilyEnd:
    """Return what the worker says of a seed, or that its fit hangs or killed it."""
    reference = _received(pipe, family, seed)
    lost = FamilyEnd(family.name, seed, family.data_of(seed), HUNG, reference=reference, seconds=FIT_LIMIT)
    try:
        if not pipe.poll(FIT_LIMIT):
            return lost
        pipe.recv()
    except EOFError:
        return replace(lost, status=CRASHED, message="the process died", seconds=0.0)
    return _received(pipe, family, seed)


def _received(pipe: Connection, family: Family, seed: int) -> Any:
    """Return a message of the benchmark itself, which is expected to work."""
    try:
        if pipe.poll(_OWN_LIMIT):
            return pipe.recv()
    except EOFError:
        pass
    raise RuntimeError(f"the benchmark itself failed on {family.name}, seed {seed}")


def _work(name: str, seeds: Sequence[int], pipe: Connection) -> None:
    """Send for each seed the best known objective, a word when the fit is done, and its end."""
    from benchmarks.reliability.families import FAMILIES  # in the worker alone: families are made where they are used

    warnings.simplefilter("ignore")
    family, known = FAMILIES[name], {}
    for seed in seeds:
        case, data = family.case(seed), family.data_of(seed)
        if data not in known:
            with np.errstate(all="ignore"):
                known = {data: best_known(case)}
        pipe.send(known[data].objective)
        end, result = fitted(family, seed, case, known[data])
        pipe.send(DONE)
        with np.errstate(all="ignore"):
            pipe.send(looked_at(end, result, case, known[data]))


def write_ends(path: Path, ends: Sequence[FamilyEnd], *, first: bool = True) -> None:
    """Write one line of JSON for each end, into a new file or below what is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w" if first else "a", encoding="utf-8") as file:
        file.writelines(json.dumps(_plain(end)) + "\n" for end in ends)


def read_ends(path: Path) -> list[FamilyEnd]:
    """Read what `write_ends` wrote."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [FamilyEnd.of({k: _number(v) for k, v in json.loads(line).items()}) for line in lines if line]


def _plain(end: FamilyEnd) -> dict[str, Any]:
    entries = asdict(end) | {"seconds": round(end.seconds, 3)}
    return {k: str(v) if isinstance(v, float) and not math.isfinite(v) else v for k, v in entries.items()}


def _number(value: Any) -> Any:
    return float(value) if value in ("nan", "inf", "-inf") else value
