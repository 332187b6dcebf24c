"""How many threads a computation may use, and where it finds them.

By default as many as there are cores, from a pool that all computations of the process share.  Workers that share
the cores among themselves (processes or threads, see `odefit.study.executors`) are told how many each of them may use:
if every one of them opened threads for all cores, these would only wait for each other.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache

_NAME = "odefit-experiments"


class _Share(threading.local):
    """What the present thread was told: 0 for nothing."""

    threads = 0
    pool: ThreadPoolExecutor | None = None


_share = _Share()


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def allow_threads(number: int) -> None:
    """Tell the present thread (in a worker process: the main one) how many threads its computations may use."""
    _share.threads = number
    _share.pool = ThreadPoolExecutor(number, thread_name_prefix=_NAME) if number > 1 else None


def allowed_threads() -> int:
    """Return how many threads the computations of the present thread may use."""
    return _share.threads or usable_cores()


def thread_pool() -> ThreadPoolExecutor:
    """Return the threads that may be used; they begin when they first get work."""
    return _share.pool or _common_pool()


@cache
def _common_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(usable_cores(), thread_name_prefix=_NAME)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_common_pool.cache_clear)  # threads do not survive a fork
