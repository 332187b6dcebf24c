"""Calls from one kernel to another by its address.

A kernel that calls another by name is compiled together with it: a large one would be optimised a second time, and
once more for every kernel it could be replaced by.  Called by address it is compiled once, and chosen at run time.
"""

from __future__ import annotations

from typing import Any

from numba.core import cgutils
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from odefit.native.kernel import kernel_overload


def kernel_address(function: Any, signature: Signature) -> int:
    """Return the address of `function`, a kernel, compiled for `signature`."""
    overload = kernel_overload(function, signature)
    if overload.signature.return_type != signature.return_type:
        raise TypeError(f"the kernel {function.__name__} returns {overload.signature.return_type}, not {signature}")
    return overload.library.get_pointer_to_function(overload.fndesc.llvm_func_name)


def kernel_call(signature: Signature) -> Any:
    """Return ``call(address, arguments)`` for kernels: calls the one there with a tuple of arguments."""
    result, types = signature.return_type, tuple(signature.args)

    def call(typingctx: Any, address: Any, arguments: Any) -> Any:
        if tuple(arguments.types) != types:
            raise TypeError(f"a kernel of the signature {signature} cannot be called with {arguments}")

        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            convention = context.call_conv
            function = builder.inttoptr(args[0], convention.get_function_type(result, types).as_pointer())
            values = [builder.extract_value(args[1], i) for i in range(len(types))]
            status, value = convention.call_function(builder, function, result, types, values)
            with cgutils.if_unlikely(builder, status.is_error):  # out of memory: kernels raise nothing themselves
                convention.return_status_propagate(builder, status)
            return value

        return result(address, arguments), codegen

    return intrinsic(call)
