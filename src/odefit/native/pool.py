"""Many arrays in one allocation.

A method works with some thirty arrays, and an integration may take ten microseconds: they are cut from one *pool*.
What `cut` returns owns nothing, and the compiler does not know that it is part of the pool: loops over two such arrays
are as fast as over separate ones.  The pool must stay alive (`keep_alive`) as long as its parts are used.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

SLACK = 4
"""Numbers to add to the size of a pool for each part: parts begin at multiples of 32 bytes."""
_VECTOR = types.Array(types.float64, 1, "C")


def _cut(typingctx: Any, pool: Any, at: Any, shape: Any) -> Any:
    """``cut(pool, at, shape)``: the place behind, and the array of this shape that begins at `at`."""
    kind = types.Array(types.float64, len(shape), "C")

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        integer = ir.IntType(64)
        eight = ir.Constant(integer, 8)
        sizes = [
            context.cast(builder, value, given, types.int64)
            for value, given in zip(cgutils.unpack_tuple(builder, arguments[2]), signature.args[2], strict=True)
        ]
        strides = [eight]
        for size in reversed(sizes):
            strides.insert(0, builder.mul(strides[0], size))
        memory = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        address = builder.add(builder.ptrtoint(memory, integer), builder.mul(arguments[1], eight))
        array = context.make_array(kind)(context, builder)
        populate_array(
            array,
            data=builder.inttoptr(address, array.data.type),
            shape=cgutils.pack_array(builder, sizes),
            strides=cgutils.pack_array(builder, strides[1:]),
            itemsize=eight,
            meminfo=None,
        )
        behind = builder.add(arguments[1], builder.sdiv(strides[0], eight))
        up = builder.add(behind, ir.Constant(integer, SLACK - 1))
        behind = builder.and_(up, ir.Constant(integer, -SLACK))
        return context.make_tuple(builder, signature.return_type, [behind, array._getvalue()])

    return types.Tuple((types.int64, kind))(_VECTOR, types.int64, shape), codegen


cut: Any = intrinsic(_cut)


def _keep_alive(typingctx: Any, array: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.get_dummy_value()

    return types.void(array), codegen


keep_alive: Any = intrinsic(_keep_alive)
"""``keep_alive(array)``: a use that does nothing.  Numba lets go of an array after its last use."""
