"""Helpers are compiled once, in the kernels that use them."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from odefit.native.kernel import kernel


@kernel(inline=True)
def weighted(values, i, weight):
    if values[i] < 0.0:
        return -weight * values[i]
    return weight * values[i]


@kernel(inline=True)
def weighted_sum(values, weight):
    total = 0.0
    for i in range(values.size):
        total += weighted(values, i, weight)
    return total


@kernel(inline=True, allocating=True)
def doubled(values):
    out = np.empty(values.size)
    for i in range(values.size):
        out[i] = 2.0 * values[i]
    return out


@numba.njit(error_model="numpy")  # not `kernel`: one from the cache would compile no helpers
def sums(values, n):
    out = np.zeros(n)
    for k in range(n):
        out[k] = weighted_sum(values, float(k)) + weighted_sum(doubled(values), 1.0)
    return out


def library_of(function):
    (overload,) = function.overloads.values()
    return overload.library


@pytest.fixture(scope="module")
def values():
    values = np.random.default_rng(0).normal(size=37)
    sums(values, 1)
    return values


def test_helpers_of_helpers_compute_what_they_say(values):
    expected = (np.arange(5) + 2.0) * np.sum(np.abs(values))
    np.testing.assert_allclose(sums(values, 5), expected, rtol=1e-14)


def test_nothing_of_a_helper_is_left_in_a_kernel(values):
    """All of it is inlined, so that no call hands over arrays."""
    assert sums(values, 1).size == 1
    text = next(iter(sums.inspect_llvm().values()))
    assert "sums" in text
    for name in ("weighted", "weighted_sum", "doubled"):
        assert not any(name in line for line in text.splitlines() if " call " in line or line.startswith("define"))


@pytest.mark.parametrize("helper", [weighted, weighted_sum, doubled], ids=lambda one: one.__name__)
def test_helpers_have_no_machine_code(helper, values):
    library = library_of(helper)
    (overload,) = helper.overloads.values()
    assert library.get_pointer_to_function(overload.fndesc.llvm_func_name) == 0
    entry = library_of(sums)
    (overload,) = sums.overloads.values()
    assert entry.get_pointer_to_function(overload.fndesc.llvm_func_name) != 0


def test_helpers_are_not_for_python(values):
    with pytest.raises(TypeError, match="weighted_sum is a helper of kernels"):
        weighted_sum(values, 1.0)
