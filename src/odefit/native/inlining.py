"""Helpers of kernels: functions that are compiled to be inlined, and for nothing else.

Numba makes a function ready to run as soon as a caller needs it: it inlines the callees, optimises what results, and
generates machine code.  Of helpers nobody runs that.  A helper of a helper of a kernel would be optimised three times,
and its loops vectorised and unrolled as often.  Here a helper keeps the code as it was lowered, its callees
beside it, and optimisation begins when all is together in the kernel: kernels compile in about half the time.
"""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher


class _HelperLibrary(JITCodeLibrary):
    """The code of a helper, neither optimised nor handed to the machine."""

    @property
    def codegen(self) -> Any:
        """Return what numba tells where a function's Python surroundings are; that is no use without machine code."""
        return self

    def set_env(self, env_name: str, env: Any) -> None:
        """Nothing to note."""

    def _optimize_final_module(self) -> None:
        """Leave it to the kernel."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


class HelperCompiler(Compiler):
    """Numba's compiler, which puts the code into such a library."""

    def __init__(self, typingctx: Any, targetctx: Any, library: Any, *others: Any) -> None:
        super().__init__(typingctx, targetctx, _HelperLibrary(targetctx.codegen(), "helper"), *others)


class Helper(CPUDispatcher):
    """A helper has no door for Python: half of its compilation would go into one that nobody uses."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse."""
        raise TypeError(f"{self.__name__} is a helper of kernels; call it from one, or its py_func")
