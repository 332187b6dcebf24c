"""Addresses of functions that come from elsewhere: Python, numba, C.

The native form of all of them is ``void f(double t, double *y, double *p, double *out)``: n states, k parameters, n
derivatives to write.

* A function in C, or what numba calls a *cfunc*, has that form already.
* One that numba compiles (`njit`), ``f(t, y, p, out)`` on arrays, is called by a few instructions around it.  An
  exception in it cannot leave native code: all of `out` is NaN then.
* One in plain Python is called back, ``f(t, y, p)`` which returns n numbers, or ``f(t, y, p, out)``.  Kernels run
  without the GIL, so that each call takes it.  The arrays are copies that belong to the call, and only `out` can be
  written to.

What went wrong is asked of the function itself, in Python, once somebody needs it in words: `fault`.
"""

from __future__ import annotations

import ctypes
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import cfunc, types
from numba.core.ccallback import CFunc
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError
from numba.np.numpy_support import carray

from odefit.errors import ModelError, OdefitError

Array = npt.NDArray[np.float64]

_PROTOTYPE = ctypes.CFUNCTYPE(None, ctypes.c_double, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_C_FUNCTION = ctypes.CFUNCTYPE(None).__mro__[1]  # of functions of any prototype, and of those of loaded libraries
_NUMBERS = types.CPointer(types.float64)
_NATIVE = types.void(types.float64, _NUMBERS, _NUMBERS, _NUMBERS)
_FORM = "f(t, y, p, out)"


def is_address(function: Any) -> bool:
    """Tell whether a function is nothing but a place in memory, which means nothing in another process."""
    return _address_of(function) is not None


def name_of(function: Any) -> str:
    """Return the name of a function, for messages."""
    if isinstance(function, int):
        return "at an address"
    return str(getattr(function, "__name__", type(function).__name__))


def _address_of(function: Any) -> int | None:
    """Return the address of a function in C; None if it is no such."""
    if isinstance(function, int) and not isinstance(function, bool):
        return function
    if isinstance(function, _C_FUNCTION):
        return ctypes.cast(function, ctypes.c_void_p).value
    return function.address if isinstance(function, CFunc) else None


def check_form(function: Any) -> None:
    """Refuse what cannot be called as described above."""
    address = _address_of(function)
    if address is not None:
        if address <= 0:
            raise ModelError(
                f"{address} is no address of a function; give that of "
                "void f(double t, double *y, double *p, double *out)"
            )
        given = getattr(function, "_sig", _NATIVE)
        if given != _NATIVE:
            raise ModelError(
                f"the compiled function '{name_of(function)}' has the signature {given}, and {_NATIVE} is needed"
            )
        return
    if not callable(function):
        raise ModelError(f"the right-hand side has to be a function, got a {type(function).__name__}")
    known = _n_arguments(function)
    if isinstance(function, Dispatcher) and known != {4}:
        raise ModelError(f"the compiled function '{name_of(function)}' has to be {_FORM}, which writes to out")
    if not known & {3, 4}:
        raise ModelError(
            f"the function '{name_of(function)}' has to be f(t, y, p), which returns the derivatives, or {_FORM}, "
            "which writes them to out"
        )


def _n_arguments(function: Any) -> set[int]:
    """Return with how many arguments a function can be called; 3 if nobody knows."""
    try:
        parameters = inspect.signature(getattr(function, "py_func", function)).parameters.values()
    except (TypeError, ValueError):
        return {3}
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = sum(p.default is p.empty for p in places)
    most = 4 if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(places)
    if any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters):
        return set()
    return {count for count in (3, 4) if needed <= count <= most}


class BadResult(Exception):
    """What a function returned is not what it has to return."""


@dataclass(frozen=True, eq=False)
class ForeignFunction:
    """A function with its address, which is good as long as this object lives.

    Attributes
    ----------
    address
        Of its native form.
    call
        ``call(t, y, p)`` returns the derivatives, in Python; raises what the function raises, or `BadResult`.
    owner
        What the address belongs to.
    """

    address: int
    call: Callable[[float, Array, Array], Array]
    owner: Any

    def fault(self, t: float, y: Array, p: Array) -> str:
        """Call the function once more to say what is wrong with it there; "" if it only is not finite."""
        try:
            with np.errstate(all="ignore"):
                self.call(t, y, p)
        except BadResult as error:
            return str(error)
        except Exception as error:
            text = " ".join(str(error).split())
            return f"raised {type(error).__name__}: {text}" if text else f"raised {type(error).__name__}"
        return ""


def foreign_function(function: Any, n: int, k: int) -> ForeignFunction:
    """Return the native form of a function of `n` states and `k` parameters."""
    address = _address_of(function)
    if address is not None:
        return _of_address(address, n, function)
    if isinstance(function, Dispatcher):
        return _of_numba(function, n, k)
    return _of_python(function, n, k)


def _of_address(address: int, n: int, owner: Any) -> ForeignFunction:
    native = _PROTOTYPE(address)

    def call(t: float, y: Array, p: Array) -> Array:
        y, p, out = np.array(y), np.array(p), np.full(n, np.nan)
        native(t, y.ctypes.data, p.ctypes.data, out.ctypes.data)
        return out

    return ForeignFunction(address, call, (owner, native))


def _of_numba(function: Any, n: int, k: int) -> ForeignFunction:
    def guarded(t, y, p, out):  # noqa: ANN001, ANN202 (numba's types)
        try:
            function(t, carray(y, (n,)), carray(p, (k,)), carray(out, (n,)))
        except Exception:
            for i in range(n):
                out[i] = np.nan

    try:
        compiled: Any = cfunc(_NATIVE)(guarded)
    except (NumbaError, OdefitError) as error:
        lines = [re.sub(r"\x1b\[[\d;]*m", "", line).strip() for line in str(error).splitlines()]
        reason = next((line for line in lines if line and not line.startswith("Failed in")), "it does not say why")
        raise ModelError(
            f"numba cannot compile '{name_of(function)}' for (t, y, p, out), a number and three arrays of numbers: "
            f"{reason}"
        ) from error

    def call(t: float, y: Array, p: Array) -> Array:
        out = np.full(n, np.nan)
        function(t, np.array(y), np.array(p), out)
        return out

    return ForeignFunction(compiled.address, call, compiled)


def _of_python(function: Any, n: int, k: int) -> ForeignFunction:
    returns = 3 in _n_arguments(function)

    def call(t: float, y: Array, p: Array) -> Array:
        if returns:
            return _checked(function(t, y, p), n)
        out = np.full(n, np.nan)
        function(t, y, p, out)
        return out

    nothing = np.full(n, np.nan).tobytes()
    size, further, empty = 8 * n, 8 * k, np.empty(0)

    def called_back(t: float, y: int, p: int, out: int) -> None:
        try:
            states = np.frombuffer(ctypes.string_at(y, size))  # a copy of its own, which nobody can write to
            parameters = np.frombuffer(ctypes.string_at(p, further)) if further else empty
            with np.errstate(all="ignore"):  # what is not finite is noticed, and an attempt of a step may well be so
                ctypes.memmove(out, call(t, states, parameters).tobytes(), size)
        except BaseException:  # nothing may leave a callback; `fault` finds the words
            ctypes.memmove(out, nothing, size)

    native = _PROTOTYPE(called_back)
    address = ctypes.cast(native, ctypes.c_void_p).value
    return ForeignFunction(int(address or 0), call, native)


def _checked(result: Any, n: int) -> Array:
    """Return what a function returned as an array of `n` numbers."""
    if result is None:
        raise BadResult("returned nothing (is a return missing?)")
    try:
        array = np.asarray(result, dtype=float)
    except (TypeError, ValueError):
        raise BadResult(f"returned a {type(result).__name__} that is no array of numbers") from None
    if array.shape != (n,):
        got = f"an array of shape {array.shape}"
        if array.ndim == 1:
            got = f"{array.size} number{'s' * (array.size != 1)}"
        raise BadResult(f"returned {got} for {n} state{'s' * (n != 1)}")
    return array
