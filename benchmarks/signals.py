"""Signals at random times of a multistart: ``python -m benchmarks.signals --runs 100 --seed 1``.

Each run starts ``odefit demo ... --starts N --out DIR`` and sends one signal, to the program or to one of its workers,
at a random time from its imports to its end.  Afterwards

* no process of the run may be left two seconds after the program has ended;
* nothing that was printed may be a traceback;
* the exit code must be that of a fit, or the conventional one of the signal;
* a worker's end must cost no start: the result has a run for each;
* a result that was in the folder before must still be readable; and if the program was asked to end (SIGINT, SIGTERM,
  SIGHUP) once its first starts were done, there must be a new one.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

PROBLEM = "barnes"
WORKERS = 2
PARENT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
WORKER = (signal.SIGTERM, signal.SIGKILL)
EARLIER = '{"schema": "earlier"}'


@dataclass(frozen=True)
class Case:
    """What is done to a run: which signal, to whom, and when (seconds after `since` was seen).

    `since` is "imports" (the program loads its libraries) or "workers" (it has all of its workers).
    """

    victim: str
    number: int
    since: str
    delay: float
    earlier: bool

    @property
    def title(self) -> str:
        return f"{signal.Signals(self.number).name} to the {self.victim}"


def children_of(pid: int) -> list[int]:
    """Return the processes whose parent is `pid`."""
    try:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []  # it has ended meanwhile
    return [child for child in map(int, found) if is_alive(child)]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(condition, seconds: float, pause: float = 0.01) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(pause)
    return condition()


def started(case: Case, folder: Path, starts: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "odefit", "demo", PROBLEM, "--starts", str(starts), "--workers", str(WORKERS)]
    if case.earlier:
        (folder / "result.json").write_text(EARLIER)
    with (folder / "errors").open("w") as errors:
        return subprocess.Popen(
            [*command, "--out", str(folder), "--quiet"], stdout=subprocess.DEVNULL, stderr=errors, text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored in background jobs
        )  # fmt: skip


def has_begun(process: subprocess.Popen[str], since: str) -> bool:
    if process.poll() is not None:
        return True
    if since == "workers":
        return len(children_of(process.pid)) >= WORKERS
    try:
        return "numpy" in Path(f"/proc/{process.pid}/maps").read_text()
    except OSError:
        return False


def run_case(case: Case, starts: int) -> tuple[list[str], str]:
    """Run a case; return what was wrong, and what the program was at when the signal came."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        process = started(case, folder, starts)
        seen: set[int] = set()
        try:
            wait_until(lambda: has_begun(process, case.since), 60.0)
            time.sleep(case.delay)
            workers = children_of(process.pid)
            seen.update(workers)
            victim = process.pid if case.victim == "parent" else (workers or [0])[0]
            sent = process.poll() is None and victim != 0
            if sent:
                os.kill(victim, case.number)
            while process.poll() is None:
                seen.update(children_of(process.pid))
                time.sleep(0.02)
            left = not wait_until(lambda: not any(map(is_alive, seen)), 2.0)
            faults = ["a worker was left"] if left else []
            at = "too late" if not sent else "at its starts" if workers else "before or after its starts"
            return faults + faults_of(case, folder, process.returncode, starts, sent, bool(workers)), at
        finally:
            for pid in (process.pid, *seen):
                if is_alive(pid):
                    os.kill(pid, signal.SIGKILL)


def faults_of(case: Case, folder: Path, code: int, starts: int, sent: bool, working: bool) -> list[str]:
    """Return what is wrong with the exit code, the messages and the result of a run that has ended."""
    faults = []
    if "Traceback" in (folder / "errors").read_text():
        faults.append("a traceback: " + (folder / "errors").read_text().strip().replace("\n", " | ")[-300:])
    asked = sent and case.victim == "parent"
    expected = {0, 3} | ({128 + case.number, -case.number} if asked else set())
    if code not in expected:
        faults.append(f"the exit code {code}")
    path = folder / "result.json"
    try:
        result = json.loads(path.read_text()) if path.exists() else None
    except ValueError:
        return [*faults, "half a result"]
    if case.earlier and result is None:
        faults.append("the earlier result was lost")
    is_new = result is not None and "status" in result
    if not asked and (not is_new or len(result["multistart"]["runs"]) != starts):
        faults.append("not every start has a run")
    if asked and working and case.number != signal.SIGKILL and not is_new:
        faults.append("no result was kept")
    return faults


def cases(runs: int, seed: int, longest: float) -> list[Case]:
    """Draw what is done to each run."""
    draw = random.Random(seed)
    made = []
    for _ in range(runs):
        victim = draw.choice(["parent", "parent", "worker"])
        number = draw.choice(PARENT if victim == "parent" else WORKER)
        since = draw.choice(["imports", "workers", "workers"]) if victim == "parent" else "workers"
        made.append(Case(victim, int(number), since, draw.uniform(0.0, longest), draw.random() < 0.5))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--starts", type=int, default=200)
    parser.add_argument("--longest", type=float, default=2.0, help="seconds after the imports or the workers began")
    options = parser.parse_args()
    done: Counter[str] = Counter()
    wrong = 0
    for number, case in enumerate(cases(options.runs, options.seed, options.longest)):
        faults, at = run_case(case, options.starts)
        done[f"{case.title}, {at}"] += 1
        wrong += bool(faults)
        if faults:
            print(f"run {number}: {case.title}, {case.delay:.2f} s after {case.since}: {'; '.join(faults)}", flush=True)
    for title, count in sorted(done.items()):
        print(f"{title:50s} {count:4d}")
    print(f"{options.runs} runs (seed {options.seed}), {wrong} with a fault")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
