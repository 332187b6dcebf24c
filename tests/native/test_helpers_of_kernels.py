"""Helpers of kernels count no references, so none of them may hand an array on unless it says so."""

from __future__ import annotations

import numpy as np
import pytest
from numba.core.errors import TypingError
from tests.uncached import uncached

from odefit.native.kernel import kernel


@kernel(inline=True)
def _part(a):
    return a[1:]


@kernel(inline=True)
def _same(a):
    return a


@kernel(inline=True)
def _pair(a):
    return 1.0, (a, 2)


@kernel(inline=True, allocating=True)
def _counted_part(a):
    return a[1:]


@kernel(inline=True, allocating=True)
def _new(n):
    return np.full(n, 2.0)


@kernel(inline=True)
def _uncounted_new(n):
    return np.full(n, 2.0).sum()


@kernel(inline=True)
def _total(a):
    total = 0.0
    for i in range(a[1:].size):
        total += a[1:][i]
    return total


def through(helper):
    """Return a caller of a helper; tests are not cached, so it may have any name."""

    def _caller(a):
        return helper(a)

    return uncached(_caller)


@pytest.mark.parametrize("helper", [_same, _pair])
def test_a_helper_that_returns_an_array_uncounted_does_not_compile(helper):
    with pytest.raises(
        (TypeError, TypingError), match=f"{helper.py_func.__name__} returns an array: mark it allocating=True"
    ):
        through(helper)(np.arange(5.0))


@pytest.mark.parametrize(("helper", "argument"), [(_part, np.arange(5.0)), (_uncounted_new, 3)])
def test_numba_itself_refuses_views_and_new_arrays(helper, argument):
    with pytest.raises(TypingError, match="Only accept returning of array passed into the function as argument"):
        through(helper)(argument)


def test_marked_helpers_and_those_that_return_numbers_work():
    a = np.arange(6.0)
    for _ in range(1000):  # a reference too few would be noticed sooner or later
        assert through_part(a).sum() == 15.0
    assert through(_total)(a) == 15.0
    assert through(_new)(3).tolist() == [2.0, 2.0, 2.0]


through_part = through(_counted_part)


def test_a_helper_is_not_called_from_python():
    with pytest.raises(TypeError, match="_total is a helper of kernels; call it from one, or its py_func"):
        _total(np.arange(3.0))
    assert _total.py_func(np.arange(3.0)) == 3.0
