"""From LLVM assembly to addresses: code generation, object files, loading.

No C compiler is involved.  How hard LLVM works depends on the size.  Measured on a network of 1000
states (Jacobian, 53 000 instructions): code generation at level 2 takes 4.8 s for code that runs 22 us,
at level 0 it takes 0.5 s for code that runs 30 us.  Small modules, where it costs nothing, are optimised.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from odefit.errors import CompileError

OPTIMISE_BELOW = 4000  # instructions of the tape: all passes, level 2
CAREFUL_BELOW = 15000  # no passes, level 1; above it level 0

_lock = threading.Lock()


@cache
def _initialise() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@cache
def host() -> tuple[str, str, str]:
    """Return triple, CPU name and CPU features of this machine."""
    return (llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())


def _target_machine(level: int) -> Any:
    _initialise()
    triple, cpu, features = host()
    return llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, features=features, opt=level, jit=True)


def build_object(text: str, size: int, *, passes: bool = True) -> bytes:
    """Compile assembly `text` of about `size` instructions to an object file for this CPU.

    Without `passes` it is taken to be as good as it can be, and only translated.
    """
    with _lock:
        small = passes and size < OPTIMISE_BELOW
        machine = _target_machine(2 if small else 1 if size < CAREFUL_BELOW else 0)
        try:
            module = llvm.parse_assembly(text)
        except RuntimeError as error:  # pragma: no cover - a defect of ours, not of the user's model
            raise CompileError(f"generated code is not valid: {error}") from error
        module.triple = host()[0]
        module.data_layout = str(machine.target_data)
        if small:
            options = llvm.create_pipeline_tuning_options(speed_level=1)
            builder = llvm.create_pass_builder(machine, options)
            builder.getModulePassManager().run(module, builder)
        return machine.emit_object(module)


class LoadedObject:
    """Machine code in memory.  Addresses are valid as long as this object lives."""

    def __init__(self, content: bytes) -> None:
        with _lock:
            self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target_machine(1))
            self._object = llvm.ObjectFileRef.from_data(content)
            self._engine.add_object_file(self._object)
            self._engine.finalize_object()

    def address(self, name: str) -> int:
        """Return the address of function `name`."""
        address = self._engine.get_function_address(name)
        if not address:
            raise CompileError(f"compiled code has no function '{name}'")
        return address
