from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import casadi as ca
import numpy as np
import pytest

from odefit.compile.functions import FunctionLibrary, NativeFunction, SymbolicFunction
from odefit.compile.machine import LoadedObject, build_object
from odefit.compile.tape import LANES, assembly
from odefit.model import Model

UNWRITTEN = -7.125e77


@cache
def prototype(n_arrays: int) -> Any:
    return ctypes.CFUNCTYPE(None, ctypes.c_double, *[ctypes.c_void_p] * n_arrays)


def call_address(address: int, n_out: int, *arrays: Any, t: float = 0.0) -> np.ndarray:
    """Call ``void fn(double t, double*..., double* out)``; all of `out` is written and nothing beyond it."""
    function = prototype(len(arrays) + 1)(address)
    inputs = [np.ascontiguousarray(array, dtype=float) for array in arrays]
    before = [array.tobytes() for array in inputs]
    out = np.full(n_out + 2, UNWRITTEN)
    function(t, *(array.ctypes.data for array in inputs), out.ctypes.data + out.itemsize)
    assert out[0] == out[-1] == UNWRITTEN
    assert UNWRITTEN not in out[1:-1]
    assert [array.tobytes() for array in inputs] == before
    return out[1:-1]


@dataclass
class Compiled:
    """One CasADi function ``f(t, a_1, ..., a_k)`` as native code, without the cache on disk.

    `size` decides how hard LLVM works; the arrays named in `wide` have lanes, and then so has the result.
    """

    function: Any
    size: int = 1
    wide: tuple[str, ...] = ()
    loaded: LoadedObject = field(init=False)

    def __post_init__(self) -> None:
        names = [f"a{i}" for i in range(1, self.function.n_in())]
        self.loaded = LoadedObject(build_object(assembly([self.function], [names], self.wide), self.size))
        self.address = self.loaded.address(self.function.name())
        self.n_out = self.function.numel_out(0)

    def __call__(self, *arrays: Any, t: float = 0.0) -> np.ndarray:
        lanes = LANES if self.wide else 1
        out = call_address(self.address, self.n_out * lanes, *arrays, t=t)
        return out.reshape(-1, lanes) if self.wide else out

    def expected(self, *arrays: Any, t: float = 0.0) -> np.ndarray:
        return np.array(self.function(t, *arrays)).ravel()


@dataclass
class Derivatives:
    """Value, gradient and second derivative of one scalar expression of the language, all native."""

    native: NativeFunction

    def value(self, z: Sequence[float] | np.ndarray) -> float:
        return float(call_address(self.native.value, 1, z)[0])

    def gradient(self, z: Sequence[float] | np.ndarray) -> np.ndarray:
        result = np.zeros(self.native.n_in)
        result[self.native.col.astype(int)] = call_address(self.native.jacobian, self.native.col.size, z)
        return result

    def second(self, z: Sequence[float] | np.ndarray, v: Any, w: Any) -> float:
        return float(call_address(self.native.second, 1, z, v, w)[0])

    def directions(self, z: Sequence[float] | np.ndarray, v: np.ndarray) -> np.ndarray:
        """Derivatives along the columns of `v`, shape (variables, lanes)."""
        return call_address(self.native.directions, LANES, z, v)

    def hessian(self, z: Sequence[float] | np.ndarray) -> np.ndarray:
        unit = np.eye(self.native.n_in)
        return np.array([[self.second(z, v, w) for w in unit] for v in unit])


@pytest.fixture(scope="session")
def call() -> Callable[..., np.ndarray]:
    return call_address


@pytest.fixture(scope="session")
def compiled() -> type[Compiled]:
    return Compiled


@pytest.fixture(scope="session")
def derivatives() -> Callable[[str, str], Derivatives]:
    """Expression text and the names of its variables -> native derivatives; each is compiled once."""
    known: dict[tuple[str, str], Derivatives] = {}

    def make(text: str, variables: str) -> Derivatives:
        if (text, variables) not in known:
            model = Model.from_text(f"out = {text}")
            z = ca.vertcat(*(model.symbols[name] for name in variables.split()))
            out = model.definitions["out"]
            symbolic = SymbolicFunction("f", model.symbols["t"], (("z", z),), ("z",), out, directional=True)
            known[text, variables] = Derivatives(FunctionLibrary(f"expression {text}", [symbolic])["f"])
        return known[text, variables]

    return make
