"""Records: what a kernel is given by address, in one array of integers.

Handing an array from Python to a kernel takes about a tenth of a microsecond, and a kernel that works for ten of
them may need thirty arrays.  Those that stay the same from call to call are packed once into a *record*, two words a
field: an array's address and size, or a number and 0.  The kernel finds field `k` of row `i` of a table of
records by `number_at`, `floats_at`, `integers_at` or `unsigned_at`.

A record does not keep its arrays alive: whoever owns it must.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np.numpy_support import carray

from odefit.native.kernel import kernel

Words = npt.NDArray[np.int64]


def packed(fields: Iterable[int | npt.NDArray[Any]]) -> Words:
    """Return the record of these numbers and arrays (in C order, of eight bytes an element)."""
    words: list[int] = []
    for field in fields:
        if isinstance(field, np.ndarray):
            assert field.flags.c_contiguous
            assert field.itemsize == 8
            words += (field.__array_interface__["data"][0], field.size)
        else:
            words += (field, 0)
    return np.array(words, dtype=np.int64)


def _pointer_to(element: Any) -> Any:
    """Make an intrinsic that takes an address for that of an array of `element`."""

    def as_pointer(typingctx: Any, address: Any) -> Any:
        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], ir.PointerType(context.get_data_type(element)))

        return types.CPointer(element)(types.int64), codegen

    return intrinsic(as_pointer)


_float_pointer, _integer_pointer, _unsigned_pointer = map(_pointer_to, (types.float64, types.int64, types.uint64))


@kernel(inline=True)
def number_at(table, i, k):
    """Return entry `k` of record `i`, an integer or address."""
    return table[i, 2 * k]


@kernel(inline=True, allocating=True)
def floats_at(table, i, k):
    """Return entry `k` of record `i`, an array of floats."""
    return carray(_float_pointer(table[i, 2 * k]), (table[i, 2 * k + 1],))


@kernel(inline=True, allocating=True)
def integers_at(table, i, k):
    """Return entry `k` of record `i`, an array of integers."""
    return carray(_integer_pointer(table[i, 2 * k]), (table[i, 2 * k + 1],))


@kernel(inline=True, allocating=True)
def unsigned_at(table, i, k):
    """Return entry `k` of record `i`, an array of unsigned integers."""
    return carray(_unsigned_pointer(table[i, 2 * k]), (table[i, 2 * k + 1],))


@kernel(inline=True)
def set_array_at(table, i, k, array):
    """Note the address of an array, which must be kept alive, as entry `k` of record `i`."""
    table[i, 2 * k] = array.ctypes.data
    table[i, 2 * k + 1] = array.size
