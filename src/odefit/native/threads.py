"""How many threads a computation may use, and where it finds them.

By default as many as there are cores, from a pool that all computations of the process share.  Workers that share
the cores among themselves (processes or threads, see `odefit.study.executors`) are told how many each of them may use:
if every one of them opened threads for all cores, these would only wait for each other.

The same holds for the threads of BLAS, which OpenBLAS opens from matrices of about 100 x 100.  Singular values of
400 x 100 in two worker processes on two busy cores took fifty times the CPU time of one thread each.  In the process
of the user their number is the user's own choice.
"""

from __future__ import annotations

import ctypes
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

_NAME = "odefit-experiments"
_MAPS = Path("/proc/self/maps")  # Linux only; so are worker processes
_SETTERS = (
    "scipy_openblas_set_num_threads64_",
    "scipy_openblas_set_num_threads",
    "openblas_set_num_threads64_",
    "openblas_set_num_threads",
    "MKL_Set_Num_Threads",
)


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


def limit_blas(number: int) -> int:
    """Let the BLAS libraries of this process use so many threads; return how many libraries were told.

    For worker processes of our own: it is the whole process that is limited.
    """
    told = 0
    for path in _loaded_libraries("blas") | _loaded_libraries("mkl_rt"):
        library = ctypes.CDLL(path)  # is there already: nothing is loaded
        for setter in [getattr(library, name) for name in _SETTERS if hasattr(library, name)]:
            setter(ctypes.c_int(number))
            told += 1
    return told


def _loaded_libraries(name: str) -> set[str]:
    """Return the files of the libraries in this process that have this in their names, where the system tells."""
    if not _MAPS.exists():
        return set()
    files = {line.split(maxsplit=5)[-1] for line in _MAPS.read_text().splitlines() if ".so" in line}
    return {file for file in files if name in Path(file).name}


def thread_pool() -> ThreadPoolExecutor:
    """Return the threads that may be used; they begin when they first get work."""
    return _share.pool or _common_pool()


@cache
def _common_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(usable_cores(), thread_name_prefix=_NAME)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_common_pool.cache_clear)  # threads do not survive a fork
