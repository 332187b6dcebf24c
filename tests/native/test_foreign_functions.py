"""Native forms of functions from Python, numba and C: what is called, and what becomes of mistakes."""

from __future__ import annotations

import ctypes
import threading

import numba
import numpy as np
import pytest
from numba import types

from odefit.errors import ModelError
from odefit.native.foreign_function import check_form, foreign_function

POINTER = ctypes.POINTER(ctypes.c_double)
PROTOTYPE = ctypes.CFUNCTYPE(None, ctypes.c_double, POINTER, POINTER, POINTER)
NUMBERS = types.CPointer(types.float64)


def returning(t, y, p):
    return [t + y[0], p[0] * y[1]]


def writing(t, y, p, out):
    out[0] = t + y[0]
    out[1] = p[0] * y[1]


@PROTOTYPE
def in_c(t, y, p, out):
    out[0] = t + y[0]
    out[1] = p[0] * y[1]


def functions():
    compiled = numba.cfunc(types.void(types.float64, NUMBERS, NUMBERS, NUMBERS))(writing)
    address = ctypes.cast(in_c, ctypes.c_void_p).value
    return {"returning": returning, "writing": writing, "njit": numba.njit(writing), "cfunc": compiled, "ctypes": in_c,
            "address": address}  # fmt: skip


def called(foreign, t, y, p) -> np.ndarray:
    y, p, out = np.array(y, dtype=float), np.array(p, dtype=float), np.full(len(y), -7.0)
    PROTOTYPE(foreign.address)(t, *(one.ctypes.data_as(POINTER) for one in (y, p, out)))
    return out


@pytest.mark.parametrize("name", ["returning", "writing", "njit", "cfunc", "ctypes", "address"])
def test_all_forms_have_the_same_native_one(name):
    function = functions()[name]
    check_form(function)
    foreign = foreign_function(function, 2, 1)
    np.testing.assert_array_equal(called(foreign, 3.0, [1.0, 2.0], [5.0]), [4.0, 10.0])
    np.testing.assert_array_equal(foreign.call(3.0, np.array([1.0, 2.0]), np.array([5.0])), [4.0, 10.0])
    assert foreign.fault(3.0, np.array([1.0, 2.0]), np.array([5.0])) == ""


def test_functions_without_parameters():
    assert called(foreign_function(lambda t, y, p: y * p.size, 1, 0), 0.0, [3.0], [])[0] == 0.0


def fails(t, y, p):
    raise KeyError("absent")


def silent(t, y, p):
    raise RuntimeError


def changes(t, y, p):
    y[0] = 1.0
    return y


FAULTS = {
    "short": (lambda t, y, p: [1.0], "returned 1 number for 2 states"),
    "long": (lambda t, y, p: np.zeros(3), "returned 3 numbers for 2 states"),
    "matrix": (lambda t, y, p: np.zeros((2, 1)), r"returned an array of shape \(2, 1\) for 2 states"),
    "text": (lambda t, y, p: ["a", "b"], "returned a list that is no array of numbers"),
    "nothing": (lambda t, y, p: None, "returned nothing \\(is a return missing\\?\\)"),
    "exception": (fails, "raised KeyError: 'absent'"),
    "exception without words": (silent, "raised RuntimeError$"),
    "writing to y": (changes, "raised ValueError: assignment destination is read-only"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_goes_wrong_in_python_is_nan_with_words(name, capfd):
    function, words = FAULTS[name]
    foreign = foreign_function(function, 2, 1)
    assert np.isnan(called(foreign, 0.0, [1.0, 2.0], [3.0])).all()
    y = np.array([1.0, 2.0])
    y.setflags(write=False)
    fault = foreign.fault(0.0, y, np.array([3.0]))
    with pytest.raises(ValueError, match=words):
        raise ValueError(fault)
    assert capfd.readouterr() == ("", "")  # a callback that raises would print


def test_what_goes_wrong_in_numba_is_nan_with_words(capfd):
    @numba.njit
    def function(t, y, p, out):
        if t > 1.0:
            raise ValueError("too late")
        out[0] = 1.0 / y[0]

    foreign = foreign_function(function, 1, 1)
    assert called(foreign, 0.0, [2.0], [0.0])[0] == 0.5
    assert np.isnan(called(foreign, 2.0, [2.0], [0.0])[0])
    assert np.isnan(called(foreign, 0.0, [0.0], [0.0])[0])
    assert foreign.fault(2.0, np.array([2.0]), np.zeros(1)) == "raised ValueError: too late"
    assert foreign.fault(0.0, np.array([0.0]), np.zeros(1)) == "raised ZeroDivisionError: division by zero"
    assert capfd.readouterr() == ("", "")


def test_arrays_belong_to_the_call():
    kept = []
    foreign = foreign_function(lambda t, y, p: kept.append((y, p)) or y, 1, 1)
    for value in (1.0, 2.0):
        called(foreign, 0.0, [value], [10 * value])
    assert [(y[0], p[0]) for y, p in kept] == [(1.0, 10.0), (2.0, 20.0)]


def test_calls_from_several_threads():
    foreign, wrong = foreign_function(lambda t, y, p: [sum(y[0] for _ in range(20)) / 20], 1, 0), []

    def work(value: float) -> None:
        wrong.extend(value for _ in range(300) if called(foreign, 0.0, [value], [])[0] != value)

    threads = [threading.Thread(target=work, args=(float(i),)) for i in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert wrong == []


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (3.5, "has to be a function, got a float"),
        (lambda t, y: y, r"'<lambda>' has to be f\(t, y, p\), which returns the derivatives, or f\(t, y, p, out\)"),
        (lambda t, y, p, *, k: y, r"has to be f\(t, y, p\)"),
        (numba.njit(returning), r"the compiled function 'returning' has to be f\(t, y, p, out\)"),
        (0, "0 is no address of a function"),
        (numba.cfunc(types.float64(types.float64))(lambda t: t), "has the signature"),
    ],
    ids=["number", "two arguments", "keyword", "njit that returns", "null", "another cfunc"],
)
def test_forms_that_cannot_be_called_are_refused(function, words):
    with pytest.raises(ModelError, match=words):
        check_form(function)


def test_arguments_with_defaults_and_any_number_of_them():
    check_form(lambda t, y, p, scale=2.0: y)
    check_form(lambda *arguments: arguments[1])
    assert called(foreign_function(lambda t, y, p, scale=2.0: scale * y, 1, 0), 0.0, [3.0], [])[0] == 6.0


def test_what_numba_cannot_compile_says_so():
    @numba.njit
    def function(t, y, p, out):
        out[0] = "a"

    with pytest.raises(ModelError, match=r"numba cannot compile 'function' for \(t, y, p, out\).*: (?!Failed)\w+"):
        foreign_function(function, 1, 1)
