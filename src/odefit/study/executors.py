"""Doing many independent fits on several cores, with the same results in the same order however many there are.

Kernels release the GIL, but the Python around the kernels of small models does not: threads bring little there
(measured on two cores: 1.7 times as fast for pyridine, 1.3 times for FitzHugh-Nagumo).  So the
work is done by forked processes, which share the compiled code, where the system has them and no foreign thread
runs in this process (a fork would not take it along); else by threads.  The threads of a notebook's kernel are
known: they wait for messages, and what they own is of no use to a child.  The workers share the cores: one that has
a core to itself uses no threads for its experiments, and none for its linear algebra.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import math
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from odefit.native.stop import StopFlag
from odefit.native.threads import allow_threads, limit_blas, usable_cores
from odefit.study.workers import run_in_processes

logger = logging.getLogger("odefit.study")

Work = Callable[[int], Any]

_LEAST_LIMIT = 16
_WORKERS_PER_CORE = 2  # more of them only wait for each other
_BLOCKS_PER_WORKER = 8  # so that a block of slow fits does not keep the others waiting
_LARGEST_BLOCK = 25
_PATIENCE = 0.1  # seconds between looks at the stop flag
_NOTEBOOK_THREADS = ("IOPub", "Heartbeat", "Control", "Shell channel", "_watch_pipe_fd")  # of class Thread, by name


def run_all(work: Work, n: int, workers: int, stop: StopFlag | None = None) -> Iterator[tuple[int, Any]]:
    """Yield ``(i, work(i))`` for ``i < n`` as they are done, in no order; ends early if a stop is asked for.

    Worker processes hear of the stop at once if the flag is a shared one, else after what they are at.  Where such
    a process is lost twice at the same work, the result is a `LostWork`.
    """
    workers = _sensible(workers, n)
    if workers <= 1 or n <= 1:
        for i in range(n):
            if stop is not None and stop.is_set():
                return
            yield i, work(i)
        return
    threads = max(1, usable_cores() // workers)
    if can_fork():

        def prepare() -> None:
            allow_threads(threads)
            limit_blas(threads)

        with _kept_from_collection():
            yield from run_in_processes(work, n, workers, prepare, stop)
        return
    size = max(1, min(_LARGEST_BLOCK, math.ceil(n / (workers * _BLOCKS_PER_WORKER))))
    blocks = [range(first, min(first + size, n)) for first in range(0, n, size)]
    with ThreadPoolExecutor(workers, "odefit-fit", initializer=allow_threads, initargs=(threads,)) as pool:
        yield from _collected([pool.submit(_done, work, block, stop) for block in blocks], stop)


def _sensible(workers: int, n: int) -> int:
    """Return how many workers there shall be: no more than pieces of work, nor than are of any use."""
    limit = max(_LEAST_LIMIT, _WORKERS_PER_CORE * usable_cores())
    if workers > limit:
        logger.warning("%d workers are more than %d cores have use for; there will be %d", workers, usable_cores(),
                       min(limit, n))  # fmt: skip
    return min(workers, limit, n)


@contextlib.contextmanager
def _kept_from_collection() -> Iterator[None]:
    """Let processes that are forked now leave the objects of this one alone.

    Their garbage collectors would write to each of them, and so copy all memory; it costs a small study a fifth.
    """
    if gc.get_freeze_count():
        yield  # somebody has done so already
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def can_fork() -> bool:
    """Tell whether forked processes are safe here: on Linux, with no Python thread but known idle ones."""
    others = (t for t in threading.enumerate() if t is not threading.main_thread())
    return sys.platform.startswith("linux") and all(map(_is_idle, others))


def _is_idle(thread: threading.Thread) -> bool:
    """Tell whether a thread is odefit's own or a notebook's.

    Our own hold no lock while they wait, and a child starts them anew if it needs them.
    """
    is_notebook = type(thread).__module__.partition(".")[0] in ("ipykernel", "IPython")
    return is_notebook or thread.name.startswith("odefit") or any(name in thread.name for name in _NOTEBOOK_THREADS)


def _done(work: Work, block: Sequence[int], stop: StopFlag | None) -> list[tuple[int, Any]]:
    done = []
    for i in block:
        if stop is not None and stop.is_set():
            break
        done.append((i, work(i)))
    return done


def _collected(futures: list[Future[list[tuple[int, Any]]]], stop: StopFlag | None) -> Iterator[tuple[int, Any]]:
    waiting = set(futures)
    while waiting:
        done, waiting = wait(waiting, timeout=_PATIENCE, return_when="FIRST_COMPLETED")
        for future in done:
            if not future.cancelled():
                yield from future.result()
        if stop is not None and stop.is_set():
            for future in waiting:
                future.cancel()
