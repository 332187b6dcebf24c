"""Mutated problem files through load, check and fit: ``python -m benchmarks.fuzz --cases 25000 --seed 1``.

A case is a problem of the gallery, or a small one with many sections, of which text, tokens or bytes were changed:
cut out, doubled, exchanged, replaced by numbers, words and characters that programs stumble over.  Case `i` of a seed
depends on nothing else, so that ``--only i`` repeats it.

Nothing but an `OdefitError` may come out, no warning, no crash; no case may take longer than 10 s or 2 GB.  The cases
are run by processes that do several and report each when it is done: one that ends or hangs is known by its case.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

SECONDS, GIGABYTES = 10.0, 2.0
_HANGING = 300.0  # seconds by the clock, on a busy machine and with kernels to be compiled
FITTED = 2  # iterations of the fits
NUMBERS = (
    "0", "-1", "1e308", "-1e308", "1e-308", "5e-324", "1e400", "nan", "inf", "-inf", "1e999999999", "9" * 400, "0x1F",
    "1_000", "1.", ".5", "1e", "2**63", "-0.0", "9223372036854775807", "1e15", "1e-15", "true", "[]", "{}", '""',
)  # fmt: skip
WORDS = (
    "x", "t", "pi", "inf", "if(t > 1, 1, 2)", "exp(1e5)", "log(-1)", "1/0", "0/0", "x^x^x^x", "sqrt(-1)", "(" * 60,
    ")" * 60, "((((1))))", "k'", "x(0)", "a = b", "abs(", "min(1,2)", "max(", "not", "and", "x' = 1", "2^1000^2",
    "sin(1e300)", "1e300*1e300", "and and", "lambda", "__import__('os')", "+" * 80 + "1", "-" * 300 + "1", "tan(x)^-9",
)  # fmt: skip
TOKENS = (
    "[", "]", "{", "}", "=", ",", ";", '"', "'", '"""', "\n", "#", "\t", ".", "\\", "(0)", "*", "?", "%", "~", "[[",
    "]]", "[data]", "[noise]", "[experiments]", "[parameters]", "[fit]", "[derived]", "[integrator]", "start = ",
    "lower = ", "upper = ", 'scale = "log"', 'scale = "logit"', "fixed = true", 'per = "experiment"',
    'prior = "normal(0, 1)"', 'method = "incremental"', 'start = "auto"', 'sigma = "5 %"', "starts = 3",
    "rtol = 1e-14", "until = 1e9",
    'file = "*.csv"', 'file = "**"', 'base = "p.toml"', "weight", "sigma", "experiment", "time",
)  # fmt: skip
CHARACTERS = (
    "\x00",
    "\x1b[2J",
    "\x7f",
    "\x85",
    "\u202e",
    "\ufeff",
    "\r",
    "é",
    "\u0660",
    "α",
    "𝒳",
    "\ud7ff",
    "´",
    "\u200b",
)
SMALL = '''title = "small"
[model]
equations = """
rate = k*A/(1 + A/K)
A' = -rate
B' = rate - k2*B
A(0) = A0
B(0) = 0
total = A + B
"""
[parameters]
k = { start = 1, lower = 0, upper = 9, scale = "log", unit = "1/h" }
k2 = { start = 0.5, prior = "lognormal(1, 0.3)" }
K = 2
A0 = { start = 1, per = "experiment" }
[data]
file = "p.csv"
[noise]
A = 0.1
B = 0.1
[experiments]
b1 = { K = 2, until = 6 }
b2 = { "B(0)" = "2*k2" }
[constraints]
rules = ["log(k/k2) ~ normal(0, 1)"]
[derived]
half = "log(2)/k"
[integrator]
rtol = 1e-6
[fit]
tol = 1e-5
'''
SMALL_DATA = "experiment,time,A,B,A.sigma\nb1,0,1,0,0.1\nb1,1,0.6,0.3,0.1\nb2,1,0.5,,0.1\nb2,2,0.4,0.3,0.2\n"


@dataclass(frozen=True)
class Files:
    """A problem as text: the problem file, and the data file that it names "p.csv"."""

    toml: bytes
    csv: bytes


def sources() -> list[Files]:
    """Return the problems that are changed."""
    from odefit.gallery import names, path_of

    found = [Files(SMALL.encode(), SMALL_DATA.encode())] * 6
    for name in names():
        path = path_of(name)
        text = path.read_text() if path.suffix == ".toml" else ""
        data = sorted(path.parent.glob("*.csv"))
        named = [one for one in data if f'"{one.name}"' in text]
        if len(named) == 1 and "base" not in text and len(text) < 5000:
            content = named[0].read_bytes()
            found.append(Files(text.replace(f'"{named[0].name}"', '"p.csv"').encode(), content[:20_000]))
    return found


def mutated(files: Files, draw: random.Random) -> Files:
    """Return files of which one was changed, mostly."""
    toml, csv = files.toml, files.csv
    for _ in range(draw.choice((1, 1, 1, 2, 3, 6))):
        if draw.random() < 0.65:
            toml = _changed(toml, draw)
        else:
            csv = _changed(csv, draw)
    return Files(toml, csv)


def _changed(content: bytes, draw: random.Random) -> bytes:
    if draw.random() < 0.15:
        return _changed_bytes(content, draw)
    return _changed_text(content.decode("utf-8", "replace"), draw).encode("utf-8", "surrogatepass")


def _changed_bytes(content: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(content) + 1)
    kind = draw.randrange(4)
    if kind == 0:
        return content[:place]
    if kind == 1:
        return content[:place] + bytes([draw.randrange(256)]) + content[place + 1 :]
    if kind == 2:
        return content[:place] + draw.randbytes(draw.randrange(1, 9)) + content[place:]
    return b"\xff\xfe" + content.decode("utf-8", "replace").encode("utf-16-le")


def _changed_text(text: str, draw: random.Random) -> str:
    kind = draw.randrange(8)
    if kind == 0:  # a number becomes another
        return _replaced(text, draw, str.isdigit, NUMBERS)
    if kind == 1:  # a word becomes another, or a formula
        return _replaced(text, draw, str.isalpha, (*WORDS, *NUMBERS, *text.split()[:40]))
    if kind == 2:  # lines: exchanged, doubled, cut out
        lines = text.split("\n")
        one, other = draw.randrange(len(lines)), draw.randrange(len(lines))
        lines[one] = draw.choice((lines[other], "", lines[one] + lines[other], lines[one] + "\n" + lines[one]))
        return "\n".join(lines)
    place = draw.randrange(len(text) + 1)
    end = min(len(text), place + draw.choice((0, 1, 1, 3, 10, 40)))
    piece = {
        3: "", 4: text[place:end] * draw.choice((2, 2, 50)), 5: draw.choice(TOKENS), 6: draw.choice((*WORDS, *NUMBERS)),
        7: draw.choice(CHARACTERS),
    }[kind]  # fmt: skip
    return text[:place] + piece + text[end:]


def _replaced(text: str, draw: random.Random, is_part: Any, others: tuple[str, ...]) -> str:
    places = [i for i, letter in enumerate(text) if is_part(letter) and (i == 0 or not is_part(text[i - 1]))]
    if not places:
        return text
    start = end = draw.choice(places)
    while end < len(text) and (is_part(text[end]) or (is_part is str.isdigit and text[end] == ".")):
        end += 1
    return text[:start] + draw.choice(others) + text[end:]


def case(number: int, seed: int, problems: list[Files]) -> Files:
    """Return case `number` of a seed."""
    draw = random.Random(f"{seed}-{number}")
    return mutated(draw.choice(problems), draw)


def run(files: Files, folder: Path, *, fitting: bool = True) -> str:
    """Take a case through load, check and fit; return how far it came. What is wrong is raised."""
    import odefit as of
    from odefit.errors import plain
    from odefit.report.check import check

    (folder / "p.toml").write_bytes(files.toml)
    (folder / "p.csv").write_bytes(files.csv)
    reached = "load"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            problem = of.load(folder / "p.toml")
            settings = problem.settings
            problem = problem.with_settings(
                max_iterations=FITTED, max_steps=min(settings.max_steps, 2000), starts=min(settings.starts, 2)
            )
            reached = "check"
            if not fitting:
                return reached
            check(problem)
            reached = "fit"
            result = of.fit(problem, workers=1)
            reached = "report"
            result.to_dict()
            result.summary()
            reached = "all"
        except of.OdefitError as error:
            text = str(error)
            assert text == plain(text), repr(text)
    return reached


# ------------------------------------------------------------------------------------------------- in processes


def _work(connection: Any, seed: int, fitting: bool) -> None:
    """Run the cases whose numbers come through the pipe."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 2)  # LLVM and others print there before they end a process
    problems = sources()
    with tempfile.TemporaryDirectory() as name:
        while (number := connection.recv()) is not None:
            begun = time.process_time()  # what others do on this machine does not count
            try:
                outcome, fault = run(case(number, seed, problems), Path(name), fitting=fitting), ""
            except BaseException as error:
                outcome, fault = "fault", "".join(traceback.format_exception(error)[-2:])
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
            connection.send((number, outcome, fault, time.process_time() - begun, memory))


class _Process:
    def __init__(self, seed: int, fitting: bool) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, seed, fitting), daemon=True)
        self.process.start()
        theirs.close()
        self.number, self.since, self.done, self.memory = -1, 0.0, 0, 0.0

    def give(self, number: int) -> None:
        self.number, self.since = number, time.monotonic()
        self.connection.send(number)

    def end(self) -> None:
        self.process.kill()
        self.process.join()


def faults_of(numbers: list[int], seed: int, processes: int, fitting: bool, patience: float) -> Counter[str]:
    """Run cases; print those that are wrong, and count how far the others came."""
    outcomes: Counter[str] = Counter()
    waiting = list(reversed(numbers))
    staff: list[_Process] = []

    def report(number: int, words: str) -> None:
        outcomes["fault"] += 1
        print(f"case {number} of seed {seed}: {words}", flush=True)

    while waiting or staff:
        while waiting and len(staff) < processes:
            staff.append(_Process(seed, fitting))
            staff[-1].give(waiting.pop())
        ready = wait([one.connection for one in staff], timeout=0.5)
        for one in list(staff):
            if one.connection in ready:
                try:
                    number, outcome, fault, seconds, memory = one.connection.recv()
                except EOFError:
                    report(one.number, "the process ended")
                    staff.remove(one)
                    one.end()
                    continue
                if fault:
                    report(number, fault)
                elif one.done and seconds > patience:
                    report(number, f"{seconds:.0f} s")
                elif memory - one.memory > GIGABYTES and one.memory > 0:
                    report(number, f"{memory:.1f} GB")
                else:
                    outcomes[outcome] += 1
                one.done, one.memory = one.done + 1, memory
                if waiting and one.done < 500:  # a process holds the code of all its models
                    one.give(waiting.pop())
                else:
                    staff.remove(one)
                    one.end()
            elif time.monotonic() - one.since > _HANGING:
                report(one.number, f"it did not end in {_HANGING:g} s")
                staff.remove(one)
                one.end()
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=25_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--patience", type=float, default=SECONDS, help="seconds of computing for a case")
    parser.add_argument("--only", type=int, help="repeat one case here, and print it")
    parser.add_argument("--reading", action="store_true", help="load only")
    options = parser.parse_args()
    if options.only is not None:
        files = case(options.only, options.seed, sources())
        print(
            files.toml.decode("utf-8", "backslashreplace"), files.csv.decode("utf-8", "backslashreplace"), sep="\n---\n"
        )
        with tempfile.TemporaryDirectory() as name:
            print("came to:", run(files, Path(name), fitting=not options.reading))
        return
    numbers = list(range(options.first, options.first + options.cases))
    outcomes = faults_of(numbers, options.seed, options.processes, not options.reading, options.patience)
    print(
        f"{len(numbers)} cases from {options.first} (seed {options.seed}), {outcomes['fault']} with a fault;", end=" "
    )
    print("last stage: " + ", ".join(f"{name} {count}" for name, count in sorted(outcomes.items()) if name != "fault"))
    sys.exit(bool(outcomes["fault"]))


if __name__ == "__main__":
    main()
