"""Worker processes: what a lost one costs, how many there are, and that none outlives its parent."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import odefit as of
from odefit.gallery import load
from odefit.native.stop import StopFlag
from odefit.study import executors, multistart
from odefit.study.executors import run_all
from odefit.study.workers import LostWork

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are forked on Linux only")


def killed_at(folder: Path, victims: dict[int, int]):
    """Work that ends its process the first so many times that it comes to a victim."""

    def work(i: int) -> int:
        earlier = len(list(folder.glob(f"{i}-*")))
        if earlier < victims.get(i, 0):
            (folder / f"{i}-{os.getpid()}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return i * i

    return work


@pytest.mark.parametrize("victims", [[0], [5], [19], [3, 4, 5], list(range(20))])
def test_a_killed_worker_costs_its_own_work_which_is_repeated(tmp_path, victims):
    done = dict(run_all(killed_at(tmp_path, dict.fromkeys(victims, 1)), 20, 2))
    assert done == {i: i * i for i in range(20)}


@pytest.mark.parametrize("workers", [2, 3])
def test_what_ends_two_workers_is_lost_and_nothing_else(tmp_path, workers):
    done = dict(run_all(killed_at(tmp_path, {4: 9, 7: 9}), 12, workers))
    lost = {i: value.cause for i, value in done.items() if isinstance(value, LostWork)}
    assert set(lost) == {4, 7}
    assert all("was ended by the signal SIGKILL" in cause for cause in lost.values())
    assert {i: done[i] for i in done if i not in lost} == {i: i * i for i in range(12) if i not in (4, 7)}
    assert len(list(tmp_path.iterdir())) == 4  # each was tried twice


def test_a_lost_start_is_a_failed_run(monkeypatch):
    def losing(work, n, workers, stop):
        return ((i, LostWork("the process ended") if i in (0, 2) else work(i)) for i in range(n))

    monkeypatch.setattr(multistart, "run_all", losing)
    result = of.fit(load("barnes"), starts=4, seed=1)
    runs = result.multistart.runs
    assert [run.status == "failed" for run in runs] == [True, False, True, False]
    assert runs[2].message == "the process ended"
    assert result.multistart.best in (1, 3)
    assert result.converged
    assert result.to_dict()["multistart"]["runs"][0]["objective"] is None


def test_errors_of_the_work_are_raised_here():
    def work(i: int) -> int:
        return 1 // (i - 5)

    with pytest.raises(ZeroDivisionError, match="division"):
        list(run_all(work, 10, 2))


def test_no_worker_is_left_after_an_error_or_an_early_end():
    pids = set()
    for _, pid in run_all(lambda i: os.getpid(), 100, 2):
        pids.add(pid)
        break
    assert not any(alive(pid) for pid in pids)


def test_work_that_does_not_hear_of_the_stop_is_ended(monkeypatch):
    monkeypatch.setattr("odefit.study.workers._LAST_PATIENCE", 0.05)
    stop = StopFlag.shared()

    def work(i: int) -> int:
        stop.set()
        time.sleep(1000)
        return i

    assert list(run_all(work, 4, 2, stop)) == []


@pytest.mark.parametrize(("asked", "n", "expected"), [(100_000, 100, 16), (100_000, 3, 3), (8, 100, 8), (8, 5, 5)])
def test_workers_are_no_more_than_are_of_use(asked, n, expected, caplog, monkeypatch):
    monkeypatch.setattr(executors, "usable_cores", lambda: 2)
    assert executors._sensible(asked, n) == expected
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert said == ([f"100000 workers are more than 2 cores have use for; there will be {expected}"] * (asked > 16))


# --- processes of their own ---


ENDLESS = """
import os, signal, sys, time
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever runs the tests may ignore it
from odefit.study.executors import run_all

def work(i):
    os.write(1, b"%d\\n" % os.getpid())  # at once: others write, too
    time.sleep(1000)

list(run_all(work, 10, 3))
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def gone_after(pids: list[int], seconds: float = 2.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not any(map(alive, pids)):
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_no_worker_outlives_its_parent(number):
    with subprocess.Popen([sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE, text=True) as process:
        try:
            pids = [int(process.stdout.readline()) for _ in range(3)]
            assert len(set(pids)) == 3
            assert all(map(alive, pids))
            process.send_signal(number)
            assert process.wait(timeout=10) == -number
            assert gone_after(pids)
        finally:
            process.kill()
