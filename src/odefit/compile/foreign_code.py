"""Calls of a right-hand side that cannot be traced, in native code.

The kernel (`odefit.native.foreign_differences`) is called by its address, and handed that of the function; both stand in the slot.
So native code does not depend on the function, and is found on disk again.  The kernel leaves its outputs in the memory behind the
slots.
"""

from __future__ import annotations

from typing import Any

from odefit.compile.table_inputs import PlacedBlock
from odefit.errors import CompileError
from odefit.model.foreign import Foreign
from odefit.native.foreign_differences import AUTONOMOUS, BY_ALL, BY_TIME, outputs_of
from odefit.native.table_slots import ADDRESS, FUNCTION

FOREIGN_CODE = f"""
define internal void @odefit_foreign(ptr %slot, ptr %memory, i64 %n, i64 %k, i64 %flags, ptr %given) nounwind {{
entry:
  %result = alloca i64, align 8
  %exception = alloca ptr, align 8
  %place = getelementptr double, ptr %slot, i64 {ADDRESS}
  %address = load i64, ptr %place, align 8
  %kernel = inttoptr i64 %address to ptr
  %other = getelementptr double, ptr %slot, i64 {FUNCTION}
  %f = load i64, ptr %other, align 8
  %s = ptrtoint ptr %slot to i64
  %u = ptrtoint ptr %memory to i64
  %a = ptrtoint ptr %given to i64
  %status = call i32 %kernel(ptr %result, ptr %exception, i64 %f, i64 %n, i64 %k, i64 %flags, i64 %s, i64 %u, i64 %a)
  ret void
}}
"""
"""The call of the kernel."""


def key_of(foreign: Foreign) -> str:
    """Return all of a function that native code depends on."""
    return f"foreign:{len(foreign.states)}:{len(foreign.parameters)}:{foreign.autonomous}"


def printed_output(writer: Any, placed: PlacedBlock, output: int, pointer: str, slot: int, given: str, done: set[int]) -> str:
    """Print what is needed to have an output, and return its name.

    Parameters
    ----------
    writer
        Prints the instructions of the tape.
    pointer, slot
        The array u, and where in it the slot begins.
    given
        Name of the array of the arguments.
    done
        What was asked for at these arguments before; added to.
    """
    foreign = placed.block
    assert isinstance(foreign, Foreign)
    n, k, m = len(foreign.states), len(foreign.parameters), foreign.n_arguments
    asked = 0 if output < n else BY_TIME if (output - n) % m == 0 else BY_ALL
    memory = writer.emit(f"getelementptr double, ptr {pointer}, i64 {placed.memory}")
    if asked not in done and not (asked == 0 and done):
        slot_at = writer.emit(f"getelementptr double, ptr {pointer}, i64 {slot}")
        flags = asked + (AUTONOMOUS if foreign.autonomous else 0)
        writer.lines.append(
            f"  call void @odefit_foreign(ptr {slot_at}, ptr {memory}, i64 {n}, i64 {k}, i64 {flags}, ptr {given})"
        )
        done.add(asked)
    at = writer.emit(f"getelementptr double, ptr {memory}, i64 {outputs_of(n, k) + output}")
    return writer.emit(f"load double, ptr {at}, align 8")


def check_remembering(placed: PlacedBlock, *, remembering: bool) -> None:
    """Refuse functions whose inputs are shared by many: there is no memory for what the function returns."""
    if isinstance(placed.block, Foreign) and not remembering:
        raise CompileError("the right-hand side was asked for where no trajectory is")
