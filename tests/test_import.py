"""What `import odefit` leaves for later: most programs need only some of it."""

from __future__ import annotations

import subprocess
import sys

HEAVY = {
    "lark", "matplotlib", "pandas", "rich", "scipy.integrate", "scipy.interpolate", "scipy.linalg", "scipy.optimize",
    "scipy.sparse", "scipy.special", "scipy.stats", "typer",
}  # fmt: skip


def test_heavy_modules_are_imported_where_they_are_used():
    script = "import sys, odefit; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=True)
    loaded = set(done.stdout.split())
    assert {"odefit.api", "numba", "casadi"} <= loaded
    assert loaded & HEAVY == set()
