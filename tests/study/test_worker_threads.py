"""Worker processes share the cores: neither experiments nor BLAS open threads for all of them in each worker."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from odefit.native.threads import _loaded_libraries, allowed_threads, limit_blas, usable_cores
from odefit.study.executors import can_fork, run_all

GETTERS = ("scipy_openblas_get_num_threads64_", "scipy_openblas_get_num_threads", "openblas_get_num_threads")


def blas_threads() -> list[int]:
    """How many threads each OpenBLAS of this process may use."""
    np.linalg.svd(np.eye(3))
    libraries = [ctypes.CDLL(path) for path in sorted(_loaded_libraries("blas"))]
    return [getattr(lib, name)() for lib in libraries for name in GETTERS if hasattr(lib, name)]


needs_openblas = pytest.mark.skipif(not blas_threads(), reason="numpy has no OpenBLAS here that can be asked")


@needs_openblas
@pytest.mark.skipif(not can_fork(), reason="there are no worker processes here")
def test_every_worker_has_its_share_of_the_cores():
    before = blas_threads()
    share = max(1, usable_cores() // 2)
    found = [row for _, row in run_all(lambda i: (allowed_threads(), *blas_threads()), 4, workers=2)]
    assert found == [(share,) * (1 + len(before))] * 4
    assert blas_threads() == before  # this process is the user's own


@needs_openblas
def test_a_number_is_told_to_every_library():
    before = blas_threads()
    try:
        assert limit_blas(1) == len(before)
        assert blas_threads() == [1] * len(before)
    finally:
        limit_blas(max(before))
    assert blas_threads() == before
