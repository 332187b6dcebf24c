"""Calls from kernels to functions by address: every argument arrives, offsets count in elements."""

from __future__ import annotations

import ctypes
import math

import numba
import numpy as np
import pytest
from tests.uncached import uncached

from odefit.native.calls import call_directions, call_model, call_observe, call_observe_second, call_second

POINTER = ctypes.POINTER(ctypes.c_double)
INPUTS = {"model": 3, "observe": 4, "second": 5, "observe_second": 6}
UNTOUCHED = -1.0


def echo(n_inputs: int):
    """A C function that writes t, two numbers of the first array and one of each other array."""

    def function(t, *arrays):
        *inputs, out = arrays
        for i, value in enumerate([t, inputs[0][0], inputs[0][1], *(one[0] for one in inputs[1:])]):
            out[i] = value

    return ctypes.CFUNCTYPE(None, ctypes.c_double, *[POINTER] * (n_inputs + 1))(function)


@uncached
def _by_model(address, t, y, y_at, others, out, at):
    call_model(address, t, y, y_at, others[0], others[1], out, at)


@uncached
def _by_observe(address, t, y, y_at, others, out, at):
    call_observe(address, t, y, y_at, others[0], others[1], others[2], out, at)


@uncached
def _by_second(address, t, y, y_at, others, out, at):
    call_second(address, t, y, y_at, others[0], others[1], others[2], others[3], out, at)


@uncached
def _by_observe_second(address, t, y, y_at, others, out, at):
    call_observe_second(address, t, y, y_at, others[0], others[1], others[2], others[3], others[4], out, at)


KERNELS = {
    "model": _by_model,
    "observe": _by_observe,
    "second": _by_second,
    "observe_second": _by_observe_second,
}


def run(form: str, y: np.ndarray, y_at: int, out: np.ndarray, at: int, t: float = 0.25) -> list[float]:
    """Call the echo; return what it should have written."""
    n = INPUTS[form]
    others = tuple(np.array([100.0 * (i + 1)]) for i in range(n - 1))
    function = echo(n)
    KERNELS[form](ctypes.cast(function, ctypes.c_void_p).value, t, y, y_at, others, out, at)
    return [t, *y.ravel()[y_at : y_at + 2], *(100.0 * (i + 1) for i in range(n - 1))]


@pytest.mark.parametrize("form", INPUTS)
def test_every_argument_arrives(form):
    out = np.full(20, UNTOUCHED)
    expected = run(form, np.array([3.0, 4.0]), 0, out, 0)
    assert out.tolist() == [*expected, *[UNTOUCHED] * (20 - len(expected))]


@pytest.mark.parametrize("form", INPUTS)
@pytest.mark.parametrize("shape", [(12,), (3, 4), (2, 3, 2)])
@pytest.mark.parametrize(("y_at", "at"), [(0, 0), (5, 0), (0, 7), (10, 3)])
def test_offsets_and_dimensions(form, shape, y_at, at):
    y = np.arange(12.0).reshape(shape)
    out = np.full((4, 6) if len(shape) == 2 else 24, UNTOUCHED)
    expected = run(form, y, y_at, out, at)
    flat = out.ravel()
    assert flat[at : at + len(expected)].tolist() == expected
    assert (np.delete(flat, range(at, at + len(expected))) == UNTOUCHED).all()


@pytest.mark.parametrize("t", [0.0, -0.0, math.inf, math.nan, 5e-324, -1e308])
def test_time_arrives_exactly(t):
    out = np.full(8, UNTOUCHED)
    run("model", np.array([1.0, 2.0]), 0, out, 0, t=t)
    np.testing.assert_array_equal(out[:1].view(np.int64), np.array([t]).view(np.int64))


def test_empty_arrays():
    def constant(t, y, p, u, out):
        out[0] = 2.0 * t

    function = ctypes.CFUNCTYPE(None, ctypes.c_double, *[POINTER] * 4)(constant)
    out, nothing = np.zeros(1), np.empty(0)
    address = ctypes.cast(function, ctypes.c_void_p).value
    _by_model(address, 1.5, nothing, 0, (nothing, nothing), out, 0)
    assert out.tolist() == [3.0]


def test_calls_write_each_into_its_own_row():
    @uncached
    def _rows(address, y, nothing, out):
        for i in range(y.shape[0]):
            call_model(address, float(i), y, 2 * i, nothing, nothing, out, 3 * i)

    def shift(t, y, p, u, out):
        out[0], out[1], out[2] = t, y[0] + t, y[1] - t

    function = ctypes.CFUNCTYPE(None, ctypes.c_double, *[POINTER] * 4)(shift)
    y, out = np.arange(8.0).reshape(4, 2), np.full((4, 3), UNTOUCHED)
    _rows(ctypes.cast(function, ctypes.c_void_p).value, y, np.empty(0), out)
    expected = [[i, y[i, 0] + i, y[i, 1] - i] for i in range(4)]
    assert out.tolist() == expected


@uncached
def _by_directions(address, t, y, y_at, p, u, v, v_at, w, w_at, out, at):
    call_directions(address, t, y, y_at, p, u, v, v_at, w, w_at, out, at)


@pytest.mark.parametrize("shape", [(24,), (4, 6), (2, 3, 4)])
@pytest.mark.parametrize(
    ("y_at", "v_at", "w_at", "at"), [(0, 0, 0, 0), (3, 0, 0, 0), (0, 5, 0, 0), (0, 0, 7, 0), (1, 2, 3, 4)]
)
def test_directions(shape, y_at, v_at, w_at, at):
    function = echo(5)  # t; two numbers of y; one of p, u, v and w
    y, v, w = (np.arange(24.0).reshape(shape) + 100 * i for i in (1, 2, 3))
    out = np.full(shape, UNTOUCHED)
    address = ctypes.cast(function, ctypes.c_void_p).value
    _by_directions(address, 0.5, y, y_at, np.array([7.0]), np.array([8.0]), v, v_at, w, w_at, out, at)
    expected = [0.5, 100.0 + y_at, 101.0 + y_at, 7.0, 8.0, 200.0 + v_at, 300.0 + w_at]
    flat = out.ravel()
    assert flat[at : at + 7].tolist() == expected
    assert (np.delete(flat, range(at, at + 7)) == UNTOUCHED).all()


def fortran() -> np.ndarray:
    return np.asfortranarray(np.ones((3, 4)))


def strided() -> np.ndarray:
    return np.ones(24)[::2]


@pytest.mark.parametrize("place", ["first", "out"])
@pytest.mark.parametrize("make", [fortran, strided], ids=lambda make: make.__name__)
def test_arrays_in_another_order_are_refused(make, place):
    arrays = {"first": np.ones(12), "out": np.ones(12)} | {place: make()}
    function = echo(3)
    address = ctypes.cast(function, ctypes.c_void_p).value
    with pytest.raises(numba.TypingError, match="call_model"):
        _by_model(address, 0.0, arrays["first"], 0, (np.ones(1), np.ones(1)), arrays["out"], 0)


@pytest.mark.parametrize("place", ["y", "v", "w", "out"])
@pytest.mark.parametrize("make", [fortran, strided], ids=lambda make: make.__name__)
def test_directions_in_another_order_are_refused(make, place):
    arrays = {name: np.ones(12) for name in ("y", "v", "w", "out")} | {place: make()}
    function = echo(5)
    address = ctypes.cast(function, ctypes.c_void_p).value
    y, v, w, out = arrays.values()
    with pytest.raises(numba.TypingError, match="call_directions"):
        _by_directions(address, 0.0, y, 0, np.ones(1), np.ones(1), v, 0, w, 0, out, 0)
