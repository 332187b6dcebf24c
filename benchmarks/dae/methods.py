"""The programs that are compared: each is made for a problem, and for a tolerance returns a call to be timed.

A call returns states (m, n) and sensitivities (m, n, q) at the times, of the states that all forms have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import casadi as ca
import numpy as np

from benchmarks.dae.problems import DaeProblem, Form
from benchmarks.peers.problems import Array
from odefit.integrate import METHODS, Status

Solution = tuple[Array, Array]
Call = Callable[[], Solution]
NATIVE = tuple(name for name, method in METHODS.items() if getattr(method, "equations_kernel", None) is not None)
"""Integrators of equations in several derivatives."""
MOST_STEPS = 10**6
FIRST_TIME = 1e-6
"""Of the whole interval, for IDAS."""


def by_odefit(
    form: Form, names: tuple[str, ...], integrator: str, rtol: float, scale: float, *, order: int = 1
) -> Call:
    """Return the call of an integrator; it raises where the integration fails."""
    method, model, run, rows = METHODS[integrator], form.model, form.run, form.rows_of(names)

    def call() -> Solution:
        found = method.solve(model, run, rtol=rtol, atol=rtol * scale, order=order, max_steps=MOST_STEPS)
        if found.status is not Status.OK:
            raise RuntimeError(found.sentence(model))
        return found.y[:, rows], found.S[:, rows]

    return call


def by_idas(problem: DaeProblem, rtol: float) -> Call:
    """Return that of IDAS through CasADi, with forward sensitivities; it begins with consistent values.

    The function of sensitivities returns no states: these come from the integrator itself, whose time is not counted.
    """
    form, native, q, m = problem.semi_explicit, problem.native, problem.q, problem.times.size
    dae = {"t": form.t, "x": form.x, "z": form.z, "p": form.p, "ode": form.ode, "alg": form.alg}
    # consistent values are looked for in a first step, which must be short beside the way to t = 1e11
    options = {"reltol": rtol, "abstol": rtol * (problem.idas_scale or problem.scale)}
    options |= {"max_num_steps": MOST_STEPS, "first_time": FIRST_TIME}
    states = ca.integrator("states", "idas", dae, native.run.t0, problem.times, options)
    both = states.forward(q)
    y0, dy0 = consistent_start(native)
    given: dict[str, Any] = {"x0": form.to_x @ y0, "z0": form.to_z @ y0, "p": native.seeds.p}
    values = states(**given)
    rows = native.rows_of(problem.compared)
    y = (form.of_x @ np.array(values["xf"]) + form.of_z @ np.array(values["zf"])).T[:, rows]
    directions = given | {"fwd_x0": form.to_x @ dy0, "fwd_z0": form.to_z @ dy0, "fwd_p": native.seeds.dp}

    def call() -> Solution:
        found = both(**directions)
        s = form.of_x @ np.array(found["fwd_xf"]) + form.of_z @ np.array(found["fwd_zf"])
        return y, s.reshape(-1, q, m).transpose(2, 0, 1)[:, rows]

    return call


def by_cvodes(problem: DaeProblem, rtol: float) -> Call:
    """Return that of CVODES through CasADi, where unknowns can be put in; see `by_idas`."""
    form, native, q, m = problem.semi_explicit, problem.native, problem.q, problem.times.size
    assert form.eliminated is not None
    ode, z = form.eliminated
    unknowns = ca.Function("unknowns", [form.t, form.x, form.p], [z])
    options = {"reltol": rtol, "abstol": rtol * problem.scale, "max_num_steps": MOST_STEPS}
    dae = {"t": form.t, "x": form.x, "p": form.p, "ode": ode}
    states = ca.integrator("states", "cvodes", dae, native.run.t0, problem.times, options)
    both = states.forward(q)
    y0, dy0 = consistent_start(native)
    given: dict[str, Any] = {"x0": form.to_x @ y0, "p": native.seeds.p}
    xf = np.array(states(**given)["xf"])
    columns = [np.array(unknowns(t, xf[:, k], native.seeds.p)) for k, t in enumerate(problem.times)]
    rows = native.rows_of(problem.compared)
    y = (form.of_x @ xf + form.of_z @ np.hstack(columns)).T[:, rows]
    directions = given | {"fwd_x0": form.to_x @ dy0, "fwd_p": native.seeds.dp}
    slope = ca.Function("slope", [form.t, form.x, form.p], [ca.jacobian(z, form.x), ca.jacobian(z, form.p)])
    slopes = [[np.array(part) for part in slope(t, xf[:, k], native.seeds.p)] for k, t in enumerate(problem.times)]

    def call() -> Solution:
        sx = np.array(both(**directions)["fwd_xf"]).reshape(-1, q, m).transpose(2, 0, 1)
        s = [
            form.of_x @ one + form.of_z @ (zx @ one + zp @ native.seeds.dp)
            for one, (zx, zp) in zip(sx, slopes, strict=True)
        ]
        return y, np.array(s)[:, rows]

    return call


def consistent_start(form: Form) -> Solution:
    """Return consistent states and their sensitivities at the start."""
    run = form.run._replace(times=np.array([form.run.t0]), ends=np.empty(0))
    found = METHODS["ddm"].solve(form.model, run, rtol=1e-10, order=1)
    if found.status is not Status.OK:
        raise RuntimeError(found.sentence(form.model))
    return found.y[0], found.S[0]
