"""Forked processes that work through numbered pieces of work, and survive each other's end.

Each worker has a pipe to its parent.  The parent hands out numbers, two at a time so that nobody waits, and
collects the answers.  Of a worker that ends early (killed for its memory, say, or by a crash of a library) the piece
that it was at is given to another one, once; if that one ends as well, the piece is *lost*, and the others go on.

No worker outlives its parent: the kernel of Linux ends it at once (`PR_SET_PDEATHSIG`), and a thread that looks
for the parent twice a second does so where that is not to be had.  Signals that ask programs to end are the parent's
business, who has to collect what was found; workers hear of it by the stop flag.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import pickle
import signal
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any

from odefit.native.stop import StopFlag

Work = Callable[[int], Any]

_AHEAD = 2  # pieces that a worker has been given: the one it is at, and the next
_TRIES = 2
_PATIENCE = 0.1  # seconds between looks at the stop flag
_LAST_PATIENCE = 1.0  # seconds that workers have to end their pieces after a stop
_PARENT_LOOKS = 0.5
_PR_SET_PDEATHSIG = 1


class LostWork:
    """In place of the result of a piece of work that ended its workers: the cause, as the end of a sentence."""

    def __init__(self, cause: str) -> None:
        self.cause = cause


class _Worker:
    """A process at the other end of a pipe, and the numbers that it has not answered yet."""

    def __init__(self, work: Work, prepare: Callable[[], None]) -> None:
        context: Any = multiprocessing.get_context("fork")
        self.connection, theirs = context.Pipe()
        self.given: deque[int] = deque()
        self.process = context.Process(
            target=_serve, args=(work, prepare, theirs, self.connection, os.getpid()), name="odefit-worker", daemon=True
        )
        with warnings.catch_warnings():
            # newer Pythons warn of any thread; see `can_fork` in executors
            warnings.filterwarnings("ignore", message=".*fork.*", category=DeprecationWarning)
            self.process.start()
        theirs.close()

    def give(self, number: int) -> bool:
        """Hand over a piece of work; False if the worker has ended."""
        try:
            self.connection.send(number)
        except OSError:
            return False
        self.given.append(number)
        return True

    def answers(self) -> list[tuple[int, bool, Any]] | None:
        """Return the answers that have arrived; None if there will be no more."""
        found = []
        try:
            while self.connection.poll():
                number, done, value = pickle.loads(self.connection.recv_bytes())
                self.given.remove(number)
                found.append((number, done, value))
        except (EOFError, OSError):
            return found or None
        return found

    def end(self) -> str:
        """End the process if it has not ended; return how it did."""
        self.connection.close()
        self.process.kill()
        self.process.join()
        code = self.process.exitcode or 0
        if code >= 0:
            return f"ended with exit code {code}"
        try:
            return f"was ended by the signal {signal.Signals(-code).name}"
        except ValueError:
            return f"was ended by the signal {-code}"


def run_in_processes(
    work: Work, n: int, workers: int, prepare: Callable[[], None], stop: StopFlag | None = None
) -> Iterator[tuple[int, Any]]:
    """Yield ``(i, work(i))`` for ``i < n`` as they are done, in no order; ends early if a stop is asked for.

    A piece whose workers ended twice has a `LostWork` as its result.  What `work` raises is raised here.

    Parameters
    ----------
    prepare
        Called in each worker before it works.
    """
    waiting = deque(range(n))
    tries = [0] * n
    staff = [_Worker(work, prepare) for _ in range(min(workers, n))]
    stopped_at = None
    try:
        while staff:
            stopped = stop is not None and stop.is_set()
            stopped_at = stopped_at or (time.monotonic() if stopped else None)
            if stopped_at is not None and time.monotonic() - stopped_at > _LAST_PATIENCE:
                return
            _hand_out(staff, waiting if not stopped else deque())
            if not any(one.given for one in staff):
                return
            ready = wait([one.connection for one in staff], timeout=_PATIENCE)
            for one in [one for one in staff if one.connection in ready]:
                answers = one.answers()
                for number, done, value in answers or ():
                    if not done:
                        raise value
                    yield number, value
                if answers is None:
                    staff.remove(one)
                    yield from _left_behind(one, waiting, tries)
                    if waiting and not stopped:
                        staff.append(_Worker(work, prepare))
    finally:
        for one in staff:
            one.end()


def _hand_out(staff: list[_Worker], waiting: deque[int]) -> None:
    for one in staff:
        while waiting and len(one.given) < _AHEAD and one.give(waiting[0]):
            waiting.popleft()


def _left_behind(one: _Worker, waiting: deque[int], tries: list[int]) -> Iterator[tuple[int, LostWork]]:
    """Give what a worker had left to the others; the piece that it was at is lost after the second try."""
    how = one.end()
    for place, number in enumerate(one.given):
        tries[number] += place == 0
        if tries[number] >= _TRIES:
            yield number, LostWork(f"the process that worked on it {how}, and so did another one before")
        else:
            waiting.appendleft(number)


def _serve(work: Work, prepare: Callable[[], None], ours: Connection, theirs: Connection, parent: int) -> None:
    """Work in a child process until the parent closes the pipe."""
    _end_with(parent)
    theirs.close()
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    signal.set_wakeup_fd(-1)
    prepare()
    while True:
        try:
            number = ours.recv()
        except (EOFError, OSError):
            return
        try:
            ours.send_bytes(pickle.dumps(_answer(work, number)))
        except OSError:
            return


def _answer(work: Work, number: int) -> tuple[int, bool, Any]:
    try:
        return number, True, work(number)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            return number, False, RuntimeError(f"{type(error).__name__}: {error}")
        return number, False, error


def _end_with(parent: int) -> None:
    """Let this process end when its parent does, however that ends."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_LOOKS)
        os._exit(1)

    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    except (OSError, AttributeError):
        pass  # not Linux
    if os.getppid() != parent:  # it was faster
        os._exit(1)
    threading.Thread(target=watch, name="odefit-parent", daemon=True).start()
