"""Records: kernels find arrays by address, and call each other by address."""

from __future__ import annotations

import numpy as np
import pytest
from numba import types

from odefit.native.kernel import kernel
from odefit.native.kernel_calls import kernel_address, kernel_call
from odefit.native.records import floats_at, integers_at, number_at, packed, set_array_at, unsigned_at

VECTOR = types.Array(types.float64, 1, "C")
SIGNATURE = types.Tuple((types.float64, VECTOR))(types.float64, VECTOR)
call = kernel_call(SIGNATURE)


@kernel
def read(table, i):
    numbers, places, columns = floats_at(table, i, 1), integers_at(table, i, 2), unsigned_at(table, i, 3)
    total = 0.0
    for k in range(numbers.size):
        total += numbers[k]
    return number_at(table, i, 0), total, places[places.size - 1], columns[0]


@kernel
def write(table, array):
    set_array_at(table, 0, 1, array)


@kernel
def scaled(factor, values):
    return values.sum(), factor * values


@kernel
def shifted(factor, values):
    return -values.sum(), factor + values


@kernel
def through(address, factor, values):
    total, made = call(address, (factor, values))
    return total, made


def table(seed):
    fields = (7 + seed, np.arange(4.0) + seed, np.array([3, -5 - seed]), np.array([2**63 + seed], dtype=np.uint64))
    return fields, packed(fields)


def test_a_kernel_finds_every_field_of_every_row():
    (one, first), (other, second) = table(0), table(1)
    records = np.stack([first, second])
    assert read(records, 0) == (7, 6.0, -5, 2**63)
    assert read(records, 1) == (8, 10.0, -6, 2**63 + 1)
    assert one[1].size == other[1].size == 4  # the arrays must outlive the calls


def test_a_kernel_puts_an_array_into_a_record():
    fields, words = table(0)
    records, array = words[None].copy(), np.array([0.25, 0.5])
    write(records, array)
    assert read(records, 0) == (7, 0.75, -5, 2**63)
    assert fields[1].sum() == 6.0


@pytest.mark.parametrize("array", [np.arange(6.0)[::2], np.arange(3, dtype=np.int32)], ids=["strided", "short"])
def test_arrays_that_would_be_misread_are_refused(array):
    with pytest.raises(AssertionError):
        packed([array])


def test_kernels_are_called_by_address():
    values = np.array([1.0, 2.0])
    for function, total, made in ((scaled, 3.0, [3.0, 6.0]), (shifted, -3.0, [4.0, 5.0])):
        found = through(kernel_address(function, SIGNATURE), 3.0, values)
        assert found[0] == total
        np.testing.assert_array_equal(found[1], made)


def test_a_kernel_with_other_results_is_refused():
    with pytest.raises(TypeError, match="returns"):
        kernel_address(scaled, types.float64(types.float64, VECTOR))
