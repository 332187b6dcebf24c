"""Cases in processes: they do several each, and report each when it is done."""

from __future__ import annotations

import multiprocessing
import os
import resource
import sys
import tempfile
import time
import traceback
from collections import Counter
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from benchmarks.fuzz.cases import STAGES, case, run
from benchmarks.fuzz.sources import Files, sources

SECONDS, GIGABYTES = 10.0, 2.0
_HANGING = 120.0  # seconds of computing, with kernels to be compiled
_WAITING = 1200.0  # seconds by the clock, on a busy machine
_CASES_OF_A_PROCESS = 500  # it holds the code of all its models
_ADDRESSES = 12 * 2**30  # bytes: a case that wants more must not take the machine with it


def _work(connection: Any, seed: int, fitting: bool) -> None:
    """Run the cases whose numbers come through the pipe."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 2)  # LLVM and others print there before they end a process
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES, _ADDRESSES))
    problems = sources()
    with tempfile.TemporaryDirectory() as name:
        while (number := connection.recv()) is not None:
            report = _timed(number, seed, problems, Path(name), fitting)
            if report[3] > SECONDS:  # what was compiled the first time does not count
                report = _timed(number, seed, problems, Path(name), fitting)
            connection.send(report)


def _timed(
    number: int, seed: int, problems: list[Files], folder: Path, fitting: bool
) -> tuple[int, str, str, float, float]:
    """Run a case; return its number, the stage it came to, what was wrong, seconds of computing and gigabytes."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak of memory begins anew
    begun = time.process_time()  # what others do on this machine does not count
    try:
        outcome, fault = run(case(number, seed, problems), folder, fitting=fitting), ""
    except BaseException as error:
        outcome, fault = "fault", "".join(traceback.format_exception(error)[-3:])
    seconds = time.process_time() - begun
    lines = Path("/proc/self/status").read_text().splitlines()
    memory = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**20
    return number, outcome, fault, seconds, memory


class _Process:
    def __init__(self, seed: int, fitting: bool) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, seed, fitting), daemon=True)
        self.process.start()
        theirs.close()
        self.number, self.since, self.computed, self.done = -1, 0.0, 0.0, 0

    def give(self, number: int) -> None:
        self.number, self.since, self.computed = number, time.monotonic(), self.seconds()
        self.connection.send(number)

    def seconds(self) -> float:
        """Return the seconds of computing so far, 0 of a process that has ended."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def hangs(self) -> bool:
        return self.seconds() - self.computed > _HANGING or time.monotonic() - self.since > _WAITING

    def end(self) -> None:
        self.process.kill()
        self.process.join()


class Tally:
    """How far cases came, what was wrong with them, and the most that one took."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.stages: Counter[str] = Counter()
        self.faults = 0
        self.seconds = self.gigabytes = 0.0

    def fault(self, number: int, words: str) -> None:
        self.faults += 1
        print(f"case {number} of seed {self.seed}: {words}", flush=True)

    def add(self, number: int, stage: str, fault: str, seconds: float, gigabytes: float) -> None:
        self.seconds, self.gigabytes = max(self.seconds, seconds), max(self.gigabytes, gigabytes)
        if fault:
            self.fault(number, fault)
        elif seconds > SECONDS:
            self.fault(number, f"{seconds:.0f} s")
        elif gigabytes > GIGABYTES:
            self.fault(number, f"{gigabytes:.1f} GB")
        else:
            self.stages[stage] += 1
        if not (self.stages.total() + self.faults) % _CASES_OF_A_PROCESS:
            print(f"... {self}", file=sys.stderr, flush=True)

    def __str__(self) -> str:
        total = self.stages.total() + self.faults
        passed = [sum(self.stages[one] for one in STAGES[i + 1 :]) for i in range(len(STAGES) - 1)]
        shares = ", ".join(f"{name} {n / max(total, 1):.0%}" for name, n in zip(STAGES[:-1], passed, strict=True))
        return (
            f"{total} cases (seed {self.seed}), {self.faults} with a fault; passed {shares}; "
            f"at most {self.seconds:.1f} s and {self.gigabytes:.2f} GB"
        )


def run_all(numbers: list[int], seed: int, processes: int, fitting: bool) -> Tally:
    """Run cases; print those that are wrong, and count how far the others came."""
    tally = Tally(seed)
    waiting = list(reversed(numbers))
    staff: list[_Process] = []

    def dismiss(one: _Process) -> None:
        staff.remove(one)
        one.end()

    while waiting or staff:
        while waiting and len(staff) < processes:
            staff.append(_Process(seed, fitting))
            staff[-1].give(waiting.pop())
        ready = wait([one.connection for one in staff], timeout=0.5)
        for one in list(staff):
            if one.connection in ready:
                try:
                    tally.add(*one.connection.recv())
                except (EOFError, ConnectionError):
                    tally.fault(one.number, "the process ended")
                    dismiss(one)
                    continue
                one.done += 1
                if waiting and one.done < _CASES_OF_A_PROCESS:
                    one.give(waiting.pop())
                else:
                    dismiss(one)
            elif one.hangs():
                tally.fault(one.number, "it did not end")
                dismiss(one)
    return tally
