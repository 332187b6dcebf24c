"""Explicit methods for other kernels: they are called by the address of their kernel, all with one signature."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from numba import types

from odefit.integrate import Integrator, Status, integrator
from odefit.integrate.auto import Auto
from odefit.integrate.explicit import ExplicitRungeKutta
from odefit.native.kernel_calls import kernel_address

_VECTOR, _MATRIX, _CUBE = (types.Array(types.float64, n, "C") for n in (1, 2, 3))
_COUNTS = types.Array(types.int64, 1, "C")

EXPLICIT_SIGNATURE = types.Tuple((types.int64, types.float64, types.int64, types.float64, _VECTOR))(
    types.UniTuple(types.int64, 3),  # functions
    *(types.float64, _VECTOR),  # t0, ends
    *(_VECTOR, _VECTOR, _VECTOR),  # y0, p, u
    *(_MATRIX, _MATRIX, _MATRIX, _MATRIX),  # dy0, dp, d2y0, d2p
    *(_VECTOR, _MATRIX, _CUBE, _CUBE),  # times, y_out, s1_out, s2_out
    *(_VECTOR, _COUNTS, types.boolean),  # steps, counts, replay
    *(types.float64, types.float64, types.int64),  # rtol, atol, max_steps
    *(types.int64, types.boolean, _COUNTS),  # order, detect, stop
)
"""Arguments and results of every kernel that `explicit_kernel` makes."""


class NativeMethod(NamedTuple):
    """An explicit method as other kernels see it.

    Attributes
    ----------
    name, address
        The method, and its kernel.
    detect, gives_up, instead
        Whether it looks for stiffness; the statuses with which it gives up, and who integrates then.
    """

    name: str
    address: int
    detect: bool = False
    gives_up: tuple[Status, ...] = ()
    instead: Integrator | None = None


@cache
def native_method(name: str, rtol: float) -> NativeMethod | None:
    """Return the explicit method with which integrator `name` begins at this tolerance; None if there is none."""
    method = integrator(name)
    if isinstance(method, Auto):
        explicit = method.explicit(rtol)
        address = kernel_address(explicit.kernel, EXPLICIT_SIGNATURE)
        return NativeMethod(explicit.name, address, True, method.gives_up, method.stiff)
    if isinstance(method, ExplicitRungeKutta):
        return NativeMethod(method.name, kernel_address(method.kernel, EXPLICIT_SIGNATURE))
    return None
