"""Records: what kernels are given by address, in rows of a table of integers.

Handing an array from Python to a kernel takes about a tenth of a microsecond, and a kernel that works for ten of
them may need thirty arrays.  They are packed once into a *record*, two words a field: an array's address and size, or
a number and 0.

A record is declared once, as a named tuple whose annotations say what each field is: ``int``, ``float``, `Floats`,
`Integers` or `Unsigned`.  A row of a table may hold several such parts, one behind the other: a `Layout`.  A kernel
reads a part with the reader that the layout makes, and has it as that named tuple again.

A record does not keep its arrays alive: whoever owns it must.  A kernel that notes arrays of its own says
`odefit.native.pool.keep_alive` behind the calls that use the record.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, NamedTuple, cast, get_type_hints

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

Words = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Unsigned = npt.NDArray[np.uint64]

_KINDS: tuple[tuple[Any, Any], ...] = (
    (int, types.int64),
    (float, types.float64),
    (Floats, types.Array(types.float64, 1, "C")),
    (Integers, types.Array(types.int64, 1, "C")),
    (Unsigned, types.Array(types.uint64, 1, "C")),
)
_TABLE = types.Array(types.int64, 2, "C")


def _kinds_of(part: type[NamedTuple]) -> list[Any]:
    """Return the native types of a record's fields."""
    hints = get_type_hints(part)
    return [next(native for hint, native in _KINDS if hint == hints[name]) for name in part._fields]


def _words_of(value: int | float | npt.NDArray[Any]) -> tuple[int, int]:
    """Return the two words of a field."""
    if isinstance(value, np.ndarray):
        assert value.flags.c_contiguous
        assert value.itemsize == 8
        return value.__array_interface__["data"][0], value.size
    if isinstance(value, float):
        return struct.unpack("<q", struct.pack("<d", value))[0], 0
    return int(value), 0


def packed(fields: Iterable[int | float | npt.NDArray[Any]]) -> Words:
    """Return the words of these numbers and arrays (in C order, of eight bytes an element)."""
    return np.array([word for field in fields for word in _words_of(field)], dtype=np.int64)


class Layout:
    """Which records stand in a row of a table, and where."""

    def __init__(self, *parts: type[NamedTuple]) -> None:
        self._first: dict[type[NamedTuple], int] = {}
        at = 0
        for part in parts:
            self._first[part] = at
            at += len(part._fields)
        self.width = 2 * at

    def place(self, part: type[NamedTuple], field: str) -> int:
        """Return the number of the first word of a field."""
        return 2 * (self._first[part] + part._fields.index(field))

    def put(self, row: Words, record: NamedTuple) -> None:
        """Write a record into a row of a table."""
        at = 2 * self._first[cast("type[NamedTuple]", type(record))]
        row[at : at + 2 * len(record)] = packed(record)

    def set(self, row: Words, part: type[NamedTuple], field: str, value: int | float | npt.NDArray[Any]) -> None:
        """Write one field of a record."""
        at = self.place(part, field)
        row[at], row[at + 1] = _words_of(value)

    def reader(self, part: type[NamedTuple]) -> Any:
        """Return ``read(table, i)`` for kernels: the record `part` of row `i`."""
        return _reader(part, self._first[part])

    def writer(self, part: type[NamedTuple], *fields: str) -> Any:
        """Return ``write(table, i, values)`` for kernels, with a tuple of values for these fields, or for all.

        Arrays must stay alive as long as the record is used.
        """
        names = fields or part._fields
        kinds = dict(zip(part._fields, _kinds_of(part), strict=True))
        return _writer([kinds[name] for name in names], [self.place(part, name) for name in names])


def _reader(part: type[NamedTuple], first: int) -> Any:
    kinds = _kinds_of(part)
    result = types.NamedTuple(kinds, part)

    def read(typingctx: Any, table: Any, i: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            words = context.make_array(signature.args[0])(context, builder, arguments[0])
            width = builder.extract_value(words.shape, 1)
            row = builder.gep(words.data, [builder.mul(arguments[1], width)])

            def word(number: int) -> Any:
                return builder.load(builder.gep(row, [ir.Constant(ir.IntType(64), number)]))

            values = []
            for k, kind in enumerate(kinds, first):
                if isinstance(kind, types.Array):
                    values.append(_array(context, builder, kind, word(2 * k), word(2 * k + 1)))
                else:
                    value = word(2 * k)
                    values.append(builder.bitcast(value, ir.DoubleType()) if kind == types.float64 else value)
            return context.make_tuple(builder, signature.return_type, values)

        return result(_TABLE, types.int64), codegen

    return intrinsic(read)


def _writable(kind: Any) -> Any:
    """Return the type of an array, whether or not it may be written."""
    return kind.copy(readonly=False) if isinstance(kind, types.Array) else kind


def _writer(kinds: list[Any], places: list[int]) -> Any:
    def write(typingctx: Any, table: Any, i: Any, values: Any) -> Any:
        if [_writable(kind) for kind in values.types] != kinds:
            raise TypingError(f"a record of {kinds} cannot be written from {values}")

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            words = context.make_array(signature.args[0])(context, builder, arguments[0])
            width = builder.extract_value(words.shape, 1)
            row = builder.gep(words.data, [builder.mul(arguments[1], width)])
            integer = ir.IntType(64)

            def put(number: int, value: Any) -> None:
                builder.store(value, builder.gep(row, [ir.Constant(integer, number)]))

            for k, (kind, place) in enumerate(zip(signature.args[2], places, strict=True)):
                value = builder.extract_value(arguments[2], k)
                if isinstance(kind, types.Array):
                    array = context.make_array(kind)(context, builder, value)
                    put(place, builder.ptrtoint(array.data, integer))
                    put(place + 1, array.nitems)
                else:
                    put(place, builder.bitcast(value, integer) if kind == types.float64 else value)
            return context.get_dummy_value()

        return types.void(_TABLE, types.int64, values), codegen

    return intrinsic(write)


def _array(context: Any, builder: Any, kind: Any, address: Any, size: Any) -> Any:
    """Return an array that owns nothing."""
    array = context.make_array(kind)(context, builder)
    eight = ir.Constant(ir.IntType(64), 8)
    populate_array(
        array,
        data=builder.inttoptr(address, array.data.type),
        shape=cgutils.pack_array(builder, [size]),
        strides=cgutils.pack_array(builder, [eight]),
        itemsize=eight,
        meminfo=None,
    )
    return array._getvalue()


def _floats_at(typingctx: Any, address: Any, size: Any) -> Any:
    """``floats_at(address, size)``: the numbers at an address, as an array that owns nothing."""
    kind = types.Array(types.float64, 1, "C")

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _array(context, builder, kind, arguments[0], arguments[1])

    return kind(types.int64, types.int64), codegen


floats_at: Any = intrinsic(_floats_at)
