"""Calls from kernels to compiled model functions, by address.

A compiled function has the C signature ``void fn(double t, double* a_1, ..., double* a_k, double* out)``.
It reads as many numbers from each array as its model has, writes all of `out`, allocates nothing,
and never fails: a value that does not exist is NaN.  The code of an elimination has signatures of its own, see
`odefit.compile.straight_line`.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core.errors import TypingError
from numba.extending import intrinsic


def _check_order(name: str, *arrays: Any) -> None:
    """Refuse arrays that are not float64 in C order: their elements would be misread."""
    for array in arrays:
        if not (isinstance(array, types.Array) and array.dtype == types.float64 and array.layout == "C"):
            raise TypingError(f"{name} needs float64 arrays in C order, got {array}")


def _make_call(n_inputs: int, arguments: tuple[Any, ...]) -> Any:
    """Make an intrinsic for `n_inputs` float64 arrays and an output.

    The first array (states) and the output may begin at an offset, counted in elements: a slice
    instead would cost numba a pair of atomic reference counts, more than a small model function
    itself.  They may have any number of dimensions, in C order.
    """
    first, out = arguments[2], arguments[3 + n_inputs]
    _check_order("call_model and its kin", first, out)
    vector = types.Array(types.float64, 1, "C")
    signature = types.void(types.int64, types.float64, first, types.int64, *[vector] * (n_inputs - 1), out, types.int64)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        double = ir.DoubleType()
        pointer = ir.PointerType(double)
        function_type = ir.FunctionType(ir.VoidType(), [double] + [pointer] * (n_inputs + 1))

        def data(position: int) -> Any:
            return context.make_array(sig.args[position])(context, builder, args[position]).data

        def shifted(position: int) -> Any:
            return builder.gep(data(position), [args[position + 1]])

        inputs = [shifted(2), *(data(i) for i in range(4, 3 + n_inputs))]
        target = builder.inttoptr(args[0], ir.PointerType(function_type))
        builder.call(target, [args[1], *inputs, shifted(3 + n_inputs)])
        return context.get_dummy_value()

    return signature, codegen


def _call_model(typingctx: Any, address: Any, t: Any, y: Any, y_at: Any, p: Any, u: Any, out: Any, at: Any) -> Any:
    """``fn(t, y + y_at, p, u, out + at)``: right-hand side, Jacobian values, parameter maps."""
    return _make_call(3, (address, t, y, y_at, p, u, out, at))


def _call_observe(
    typingctx: Any, address: Any, t: Any, y: Any, y_at: Any, p: Any, u: Any, a: Any, out: Any, at: Any
) -> Any:
    """``fn(t, y + y_at, p, u, a, out + at)``: observables with the arguments `a` of one measurement."""
    return _make_call(4, (address, t, y, y_at, p, u, a, out, at))


def _call_second(
    typingctx: Any, address: Any, t: Any, y: Any, y_at: Any, p: Any, u: Any, v: Any, w: Any, out: Any, at: Any
) -> Any:
    """``fn(t, y + y_at, p, u, v, w, out + at)``: the second derivative in directions `v` and `w`."""
    return _make_call(5, (address, t, y, y_at, p, u, v, w, out, at))


def _call_observe_second(
    typingctx: Any,
    address: Any,
    t: Any,
    y: Any,
    y_at: Any,
    p: Any,
    u: Any,
    a: Any,
    v: Any,
    w: Any,
    out: Any,
    at: Any,
) -> Any:
    """``fn(t, y + y_at, p, u, a, v, w, out + at)``: the same for observables."""
    return _make_call(6, (address, t, y, y_at, p, u, a, v, w, out, at))


def _call_directions(
    typingctx: Any, address: Any, t: Any, y: Any, y_at: Any, p: Any, u: Any,
    v: Any, v_at: Any, w: Any, w_at: Any, out: Any, at: Any,
) -> Any:  # fmt: skip
    """``fn(t, y + y_at, p, u, v + v_at, w + w_at, out + at)``: derivatives in directions (v, w) with lanes."""
    _check_order("call_directions", y, v, w, out)
    vector = types.Array(types.float64, 1, "C")
    offset = types.int64
    signature = types.void(types.int64, types.float64, y, offset, vector, vector, v, offset, w, offset, out, offset)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        double = ir.DoubleType()
        pointer = ir.PointerType(double)
        function_type = ir.FunctionType(ir.VoidType(), [double] + [pointer] * 6)
        data = {i: context.make_array(sig.args[i])(context, builder, args[i]).data for i in (2, 4, 5, 6, 8, 10)}
        for i in (2, 6, 8, 10):
            data[i] = builder.gep(data[i], [args[i + 1]])
        target = builder.inttoptr(args[0], ir.PointerType(function_type))
        builder.call(target, [args[1], *data.values()])
        return context.get_dummy_value()

    return signature, codegen


def _make_plain_call(name: str, result: Any, kinds: tuple[Any, ...], shifted: tuple[int, ...] = ()) -> Any:
    """Make an intrinsic whose arguments behind the address are passed as they are; of an array, where it begins.

    Arrays at the positions `shifted` begin at an offset, which follows them.
    """
    _check_order(name, *(kind for kind in kinds if isinstance(kind, types.Array)))
    signature = result(types.int64, *kinds)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        passed: list[Any] = []
        for i, kind in enumerate(kinds):
            if isinstance(kind, types.Array):
                data = context.make_array(kind)(context, builder, args[i + 1]).data
                passed.append(builder.gep(data, [args[i + 2]]) if i in shifted else data)
            elif i - 1 not in shifted:
                passed.append(args[i + 1])
        back = ir.VoidType() if result == types.void else ir.IntType(64)
        function_type = ir.FunctionType(back, [value.type for value in passed])
        found = builder.call(builder.inttoptr(args[0], ir.PointerType(function_type)), passed)
        return context.get_dummy_value() if result == types.void else found

    return signature, codegen


def _call_factorise(typingctx: Any, address: Any, jac: Any, shift: Any, a: Any, limit: Any) -> Any:
    """``fn(jac, shift, a, limit)``: factorise; returns how it went."""
    return _make_plain_call("call_factorise", types.int64, (jac, types.float64, a, types.float64))


def _call_solve(typingctx: Any, address: Any, a: Any, x: Any) -> Any:
    """``fn(a, x)``: solve for one right-hand side, in place."""
    return _make_plain_call("call_solve", types.void, (a, x))


def _call_solve_blocks(typingctx: Any, address: Any, a: Any, x: Any, at: Any, blocks: Any) -> Any:
    """``fn(a, x + at, blocks)``: solve for blocks of four right-hand sides, in place; returns 0 if all are finite."""
    return _make_plain_call("call_solve_blocks", types.int64, (a, x, types.int64, types.int64), shifted=(1,))


def _call_foreign(typingctx: Any, address: Any, t: Any, y: Any, y_at: Any, p: Any, p_at: Any, out: Any, at: Any) -> Any:
    """``fn(t, y + y_at, p + p_at, out + at)``: a right-hand side that somebody else has compiled."""
    kinds = (types.float64, y, types.int64, p, types.int64, out, types.int64)
    return _make_plain_call("call_foreign", types.void, kinds, shifted=(1, 3, 5))


# numba supplies the typing context, which type checkers do not know
call_model: Any = intrinsic(_call_model)
call_observe: Any = intrinsic(_call_observe)
call_second: Any = intrinsic(_call_second)
call_directions: Any = intrinsic(_call_directions)
call_observe_second: Any = intrinsic(_call_observe_second)
call_factorise: Any = intrinsic(_call_factorise)
call_solve: Any = intrinsic(_call_solve)
call_foreign: Any = intrinsic(_call_foreign)
call_solve_blocks: Any = intrinsic(_call_solve_blocks)
