"""What `import odefit` leaves for later: most programs need only some of it."""

from __future__ import annotations

import subprocess
import sys

import pytest

import odefit

HEAVY = {
    "lark", "matplotlib", "pandas", "rich", "scipy.integrate", "scipy.interpolate", "scipy.linalg", "scipy.optimize",
    "scipy.sparse", "scipy.special", "scipy.stats", "typer",
}  # fmt: skip


def test_heavy_modules_are_imported_where_they_are_used():
    script = "import sys, odefit; odefit.fit; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=True)
    loaded = set(done.stdout.split())
    assert {"odefit.api", "numba", "casadi"} <= loaded
    assert loaded & HEAVY == set()


def test_nothing_is_imported_before_it_is_used():
    script = "import sys, odefit; dir(odefit); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=True)
    assert {name for name in done.stdout.split() if name.startswith("odefit")} == {"odefit"}


def test_every_public_name_is_there():
    assert {name for name in odefit.__all__ if getattr(odefit, name) is None} == set()
    assert set(odefit.__all__) <= set(dir(odefit))
    with pytest.raises(AttributeError, match="has no attribute 'fitt'"):
        _ = odefit.fitt
