"""Helpers of kernels count no references, so none of them may hand an array on to its caller."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# in a process of its own with an empty cache: kernels from the cache have not compiled their helpers
SCRIPT = """
import importlib, pkgutil
import odefit
from numba import types
from numba.core.dispatcher import Dispatcher
from odefit.gallery import load
from odefit.native import kernel

for name in ("barnes", "robertson", "barnes/c", "ecoli_batches"):
    odefit.fit(load(name))
for integrator in ("rk32", "bdf3"):
    odefit.fit(load("barnes").with_settings(integrator=integrator))

def holds_arrays(kind):
    return isinstance(kind, types.Array) or (isinstance(kind, types.BaseTuple) and any(map(holds_arrays, kind)))

helpers = {}
for module in pkgutil.walk_packages(odefit.__path__, "odefit."):
    if not module.name.endswith("__main__"):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, Dispatcher) and value.py_func.__name__.startswith("_"):
                helpers[value.py_func] = value
compiled = 0
for function, dispatcher in helpers.items():
    for overload in dispatcher.overloads.values():
        compiled += 1
        if function not in kernel._allocating and holds_arrays(overload.signature.return_type):
            print("returns an array without counting references:", function.__module__, function.__name__)
print("checked" if compiled > 80 else f"too few helpers were compiled: {compiled}")
"""


@pytest.mark.slow
def test_no_helper_returns_an_array_unless_it_counts_references(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=os.environ | {"ODEFIT_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.stdout == "checked\n", done.stderr[-2000:]
