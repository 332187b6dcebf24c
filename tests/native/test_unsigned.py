"""Indices that are not asked whether they are negative."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from numba.core.errors import TypingError

from odefit.native.unsigned import ONE, unsigned


@numba.njit
def gather(values, places):
    """Return the values at some places, and those behind."""
    found = unsigned(places)
    here, behind = np.empty(found.size), np.empty(found.size)
    for i in range(found.size):
        here[i], behind[i] = values[found[i]], values[found[i] + ONE]
    return here, behind


@numba.njit
def first_as_it_is(places):
    return unsigned(places)[0]


def test_same_integers():
    rng = np.random.default_rng(0)
    values, places = rng.normal(size=50), rng.integers(0, 49, size=200)
    here, behind = gather(values, places)
    np.testing.assert_array_equal(here, values[places])
    np.testing.assert_array_equal(behind, values[places + 1])


def test_they_have_no_sign():
    assert first_as_it_is(np.array([-1])) == 2**64 - 1
    assert first_as_it_is(np.array([7])) == 7


@pytest.mark.parametrize("wrong", [np.zeros(2), np.zeros((2, 2), np.int64), np.zeros(4, np.int64)[::2]])
def test_other_arrays_are_refused(wrong):
    with pytest.raises(TypingError, match="unsigned needs a vector of int64"):
        first_as_it_is(wrong)
