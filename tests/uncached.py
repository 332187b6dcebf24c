"""Kernels of tests: they call what kernels call, and are compiled anew in every run.

The cache of kernels goes by the sources of the package; a test that changes would find its old code there.
"""

from __future__ import annotations

from typing import Any

import numba


def uncached(function: Any) -> Any:
    """Compile a function of a test."""
    return numba.njit(nogil=True, error_model="numpy")(function)
