"""Indices that are never negative.

Numba lets an array be indexed from its end by negative numbers: where it cannot see the sign of an index, it asks at
every access.  An index that was read from an array is such a one, and loops over sparse matrices are full of them: a
sparse factorisation took half as long again.  Unsigned indices are not asked.  Do not mix them with signed numbers,
which makes floating-point ones; `ZERO` to `FOUR` are numbers of their kind.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.core.errors import TypingError
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

ZERO, ONE, TWO, THREE, FOUR = (np.uint64(number) for number in range(5))
_SIGNED, _UNSIGNED = types.Array(types.int64, 1, "C"), types.Array(types.uint64, 1, "C")


def _unsigned(typingctx: Any, array: Any) -> Any:
    """``unsigned(array)``: the same integers as unsigned ones, in the same memory, which `array` must keep alive."""
    if array != _SIGNED:
        raise TypingError(f"unsigned needs a vector of int64, got {array}")

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        given = context.make_array(_SIGNED)(context, builder, arguments[0])
        same = context.make_array(_UNSIGNED)(context, builder)
        populate_array(
            same,
            data=builder.bitcast(given.data, same.data.type),
            shape=given.shape,
            strides=given.strides,
            itemsize=given.itemsize,
            meminfo=None,
        )
        return same._getvalue()

    return _UNSIGNED(_SIGNED), codegen


unsigned: Any = intrinsic(_unsigned)
