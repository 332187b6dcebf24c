"""One-step extrapolation beside the multistep method: a sparse chain, and many restarts.

Diffusion along a chain of 2000 states, closed by an algebraic equation; and Robertson's reactions with an inflow that
jumps at 100 times, at each of which a multistep method begins anew at order 1.  The methods are those that the package
has for equations in several derivatives.
"""

from __future__ import annotations

import numpy as np

import odefit as of
from benchmarks.dae.methods import NATIVE, by_odefit
from benchmarks.dae.problems import Form
from benchmarks.stiff.__main__ import errors
from benchmarks.tables import print_rows
from benchmarks.timing import best_cpu_seconds
from odefit.model.unknowns_as_states import with_unknowns_as_states

TOLERANCES = (1e-4, 1e-6, 1e-8)
STATES, JUMPS = 2000, 100
_SCALE = 1e-4


def chain(n: int = STATES) -> Form:
    """Return diffusion along a chain of `n` states, whose begin touches an unknown that its end determines."""
    lines = ["algebraic back ~ 1", f"0 = back + contact*back^2 - x{n - 1}"]
    for i in range(n):
        left, right = (f"x{i - 1}" if i else "back"), (f"x{i + 1}" if i < n - 1 else f"x{n - 1}")
        lines += [f"x{i}' = diffusion*({left} - 2*x{i} + {right}) - loss*x{i}^2"]
        lines += [f"x{i}(0) = {1.0 + np.sin(2 * np.pi * i / n):.6f}"]
    values = {"diffusion": (n / 50.0) ** 2, "loss": 0.1, "contact": 0.2}
    return _as_states("\n".join(lines), values, np.array([1.0, 10.0, 100.0]))


def jumping(n: int = JUMPS) -> Form:
    """Return Robertson's reactions with an inflow that is held between `n` times."""
    text = """
    y1' = -k1*y1 + k2*y2*y3 + inflow(t)
    y2' = k1*y1 - k2*y2*y3 - k3*y2^2
    algebraic y3 ~ 0
    0 = y1 + y2 + y3 - total
    total' = inflow(t)
    y1(0) = 1
    y2(0) = 0
    total(0) = 1
    """
    knots = np.linspace(0.0, 100.0, n + 1)
    inflow = of.Table(knots, np.where(np.arange(n + 1) % 2, 0.0, 0.02), kind="hold")
    return _as_states(text, {"k1": 0.04, "k2": 1e4, "k3": 3e7}, np.array([50.0, 99.5]), {"inflow": inflow})


def _as_states(
    text: str, values: dict[str, float], times: np.ndarray, tables: dict[str, of.Table] | None = None
) -> Form:
    model = with_unknowns_as_states(of.Model.from_text(text, tables=tables or {}))
    parameters = tuple(of.Parameter(name, value, scale="log") for name, value in values.items())
    data = of.Measurements.from_columns(times, {model.states[0]: np.zeros(times.size)})
    return Form(of.Problem(model, parameters, data, tables=tables or {}), times)


def show() -> None:
    """Print the table."""
    rows: list[list[str]] = []
    for name, form in ((f"chain of {STATES} states", chain()), (f"{JUMPS} jumps", jumping())):
        states = tuple(state for state in form.model.states if state != "total")
        true = by_odefit(form, states, "ddm", 1e-10, _SCALE)()
        keys = [(method, rtol) for method in NATIVE for rtol in TOLERANCES]
        calls = {f"{method} {rtol:g}": by_odefit(form, states, method, rtol, _SCALE) for method, rtol in keys}
        reached = {key: errors(call(), true) for key, call in calls.items()}
        seconds = best_cpu_seconds(calls, rounds=3)
        for method, rtol in keys:
            y, s = reached[f"{method} {rtol:g}"]
            one = seconds[f"{method} {rtol:g}"]
            ratio = one / seconds[f"ddm {rtol:g}"]
            rows.append([name, method, f"{rtol:.0e}", f"{y:.1e}", f"{s:.1e}", f"{one * 1e3:.2f}", f"{ratio:.2f}"])
    header = ["problem", "integrator", "rtol", "error of y", "error of S", "CPU ms", "ratio to ddm"]
    print_rows("Many states, and many restarts, with sensitivities", header, rows, text=2)
