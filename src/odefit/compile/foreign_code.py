"""Calls of a right-hand side that cannot be traced, in native code.

The kernel (`odefit.native.foreign_differences`) is called by its address, and handed that of the function; both stand
in the slot.  So native code does not depend on the function, and is found on disk again.  The kernel leaves its outputs
in the memory behind the slots.
"""

from __future__ import annotations

from typing import Any

from odefit.compile.table_inputs import PlacedBlock
from odefit.model.foreign import Foreign
from odefit.native.foreign_differences import AUTONOMOUS, BY_ALL, BY_TIME, outputs_of
from odefit.native.table_slots import ADDRESS, FUNCTION

FOREIGN_CODE = f"""
define internal void @odefit_foreign(
    ptr %slot, ptr %memory, i64 %n, i64 %k, i64 %flags, ptr %given, i64 %lanes, ptr %directions, ptr %out) nounwind {{
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
  %d = ptrtoint ptr %directions to i64
  %o = ptrtoint ptr %out to i64
  %status = call i32 %kernel(ptr %result, ptr %exception, i64 %f, i64 %n, i64 %k, i64 %flags, i64 %s, i64 %u, i64 %a,
    i64 %lanes, i64 %d, i64 %o)
  ret void
}}
"""
"""The call of the kernel."""


def key_of(foreign: Foreign) -> str:
    """Return all of a function that native code depends on."""
    return f"foreign:{len(foreign.states)}:{len(foreign.parameters)}:{foreign.autonomous}"


def stored(writer: Any, operands: tuple[int, ...], *, wide: bool = False) -> str:
    """Print an array of values, each in all lanes if it is `wide`; return its name."""
    lanes, kind = (writer.lanes, f"<{writer.lanes} x double>") if wide else (1, "double")
    array = writer.emit(f"alloca double, i64 {lanes * len(operands)}, align 8")
    for i, k in enumerate(operands):
        at = writer.emit(f"getelementptr double, ptr {array}, i64 {lanes * i}")
        writer.lines.append(f"  store {kind} {writer.as_wide(k, wide)}, ptr {at}, align 8")
    return array


class ForeignCalls:
    """Prints calls of the kernel in one native function; outputs at the same arguments share them."""

    def __init__(self) -> None:
        self._given: dict[tuple[Any, ...], tuple[str, set[int]]] = {}
        self._along: dict[tuple[Any, ...], str] = {}

    def printed(
        self,
        writer: Any,
        placed: PlacedBlock,
        foreign: Foreign,
        output: int,
        place: tuple[str, int],
        operands: tuple[int, ...],
        *,
        wide: bool,
    ) -> str:
        """Print what is needed to have an output, and return its name.

        Parameters
        ----------
        writer
            Prints the instructions of the tape.
        place
            The array u, and where in it the slot begins.
        operands
            Numbers of the values that are the arguments, and those of the directions behind them, if any.
        wide
            Whether directions have lanes.
        """
        n, k, m = len(foreign.states), len(foreign.parameters), foreign.n_arguments
        pointer, slot = place
        memory = writer.emit(f"getelementptr double, ptr {pointer}, i64 {placed.memory}")
        slot_at = writer.emit(f"getelementptr double, ptr {pointer}, i64 {slot}")
        known = (slot, *writer.identities(operands[:m]))
        given, done = self._given.setdefault(known, ("", set()))
        if not given:
            given = stored(writer, operands[:m])
            self._given[known] = given, done
        common = f"ptr {slot_at}, ptr {memory}, i64 {n}, i64 {k}"
        always = AUTONOMOUS if foreign.autonomous else 0
        if len(operands) > m:
            lanes, kind = (writer.lanes, f"<{writer.lanes} x double>") if wide else (1, "double")
            key = (slot, *writer.identities(operands))
            if key not in self._along:
                directions = stored(writer, operands[m:], wide=wide)
                self._along[key] = found = writer.emit(f"alloca double, i64 {lanes * n}, align 8")
                further = f"i64 {lanes}, ptr {directions}, ptr {found}"
                writer.lines.append(f"  call void @odefit_foreign({common}, i64 {always}, ptr {given}, {further})")
            at = writer.emit(f"getelementptr double, ptr {self._along[key]}, i64 {lanes * output}")
            return writer.emit(f"load {kind}, ptr {at}, align 8")
        asked = 0 if output < n else BY_TIME if (output - n) % m == 0 else BY_ALL
        if asked not in done and not (asked == 0 and done):
            none = f"i64 0, ptr {given}, ptr {given}"
            writer.lines.append(f"  call void @odefit_foreign({common}, i64 {always + asked}, ptr {given}, {none})")
            done.add(asked)
        at = writer.emit(f"getelementptr double, ptr {memory}, i64 {outputs_of(n, k) + output}")
        return writer.emit(f"load double, ptr {at}, align 8")
