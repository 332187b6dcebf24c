"""Records: kernels find arrays by address, and call each other by address; pools hold many arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from numba import types
from numba.core.errors import TypingError
from tests.uncached import uncached

from odefit.native.kernel_calls import kernel_address, kernel_call
from odefit.native.pool import SLACK, cut, keep_alive
from odefit.native.records import Floats, Integers, Layout, Unsigned, packed

VECTOR = types.Array(types.float64, 1, "C")
SIGNATURE = types.Tuple((types.float64, VECTOR))(types.float64, VECTOR)
call = kernel_call(SIGNATURE)


class First(NamedTuple):
    count: int
    numbers: Floats
    places: Integers
    columns: Unsigned


class Second(NamedTuple):
    rate: float
    values: Floats


LAYOUT = Layout(First, Second)
first_at, second_at = LAYOUT.reader(First), LAYOUT.reader(Second)
write_values, write_second, write_count = (
    LAYOUT.writer(Second, "values"),
    LAYOUT.writer(Second),
    LAYOUT.writer(First, "count"),
)


@uncached
def read(table, i):
    first, second = first_at(table, i), second_at(table, i)
    total = 0.0
    for k in range(first.numbers.size):
        total += first.numbers[k]
    last = first.places[first.places.size - 1]
    return first.count, total, last, first.columns[0], second.rate, second.values.size


@uncached
def write_one(table, i, array):
    write_values(table, i, (array,))


@uncached
def write_all(table, i, rate, array, count):
    write_second(table, i, (rate, array))
    write_count(table, i, (count,))


@uncached
def write_wrong(table, i):
    write_count(table, i, (1.5,))


@uncached
def scaled(factor, values):
    return values.sum(), factor * values


@uncached
def shifted(factor, values):
    return -values.sum(), factor + values


@uncached
def through(address, factor, values):
    total, made = call(address, (factor, values))
    return total, made


def records(seed):
    first = First(7 + seed, np.arange(4.0) + seed, np.array([3, -5 - seed]), np.array([2**63 + seed], dtype=np.uint64))
    return first, Second(-0.25 * seed, np.ones(seed))


def table():
    made = [records(seed) for seed in (0, 1)]
    words = np.zeros((2, LAYOUT.width), np.int64)
    for row, parts in zip(words, made, strict=True):
        for part in parts:
            LAYOUT.put(row, part)
    return made, words


def test_a_kernel_finds_every_field_of_every_row():
    made, words = table()
    assert read(words, 0) == (7, 6.0, -5, 2**63, 0.0, 0)
    assert read(words, 1) == (8, 10.0, -6, 2**63 + 1, -0.25, 1)
    assert len(made) == 2  # the arrays must outlive the calls


def test_single_fields_are_set():
    made, words = table()
    numbers = np.array([2.5])
    LAYOUT.set(words[0], First, "count", -3)
    LAYOUT.set(words[0], First, "numbers", numbers)
    LAYOUT.set(words[0], Second, "rate", 1e-300)
    assert read(words, 0) == (-3, 2.5, -5, 2**63, 1e-300, 0)
    assert read(words, 1)[0] == 8
    assert made[0][0].numbers.size == 4


def test_a_kernel_writes_records():
    made, words = table()
    array = np.array([0.25, 0.5])
    write_one(words, 0, array)
    assert read(words, 0) == (7, 6.0, -5, 2**63, 0.0, 2)
    write_all(words, 1, 3.5, array, 11)
    assert read(words, 1) == (11, 10.0, -6, 2**63 + 1, 3.5, 2)
    assert len(made) == 2


def test_a_field_of_another_kind_is_refused():
    with pytest.raises(TypingError, match="cannot be written from"):
        write_wrong(table()[1], 0)


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


@uncached
def cut_up(n, m):
    pool = np.empty(n + n * m + 2 * n * m + 3 * SLACK)
    at, a = cut(pool, 0, (n,))
    at, b = cut(pool, at, (n, m))
    at, c = cut(pool, at, (2, n, m))
    for i in range(n):
        a[i] = i
        for j in range(m):
            b[i, j] = 100.0 + i * m + j
            c[0, i, j] = c[1, i, j] = -1.0
    total = a.sum() + b.sum() + c.sum()
    keep_alive(pool)
    return total, at, pool.size, b.shape, c.shape


@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 5), (4, 4), (7, 0), (0, 3)])
def test_parts_of_a_pool_do_not_overlap(n, m):
    total, behind, size, *shapes = cut_up(n, m)
    assert total == sum(range(n)) + sum(100.0 + k for k in range(n * m)) - 2 * n * m
    assert behind <= size
    assert behind % SLACK == 0
    assert shapes == [(n, m), (2, n, m)]
