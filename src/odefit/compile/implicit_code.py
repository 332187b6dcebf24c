"""Algebraic unknowns in native code: the function that the kernel calls for a block, and the call of the kernel.

The kernel (`odefit.native.implicit_solve`) is called by its address, which stands in the slot of the block.  It is
handed the address of a function of G and G_x that is compiled beside the model, and leaves its outputs in the memory of
the block.  A function whose inputs are shared by many who evaluate it (the map from parameters, say) has no memory
there: it solves from the guess, with memory on its stack.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import casadi as ca

from odefit.compile.foreign_code import ForeignCalls, stored
from odefit.compile.implicit_rounding import rounding_bounds
from odefit.compile.table_inputs import PlacedBlock, memory_size
from odefit.errors import CompileError
from odefit.model.foreign import Foreign
from odefit.model.implicit import Block
from odefit.native.implicit_solve import outputs_of
from odefit.native.table_slots import ADDRESS, REFUSED, SLOT

CODE_ARRAYS = ("x", "w", "unused")
"""Names of the arguments of the functions of a block."""

SOLVE_CODE = f"""
define internal void @odefit_solve(
    ptr %slot, ptr %memory, ptr %residual, ptr %rounding, i64 %k, i64 %m, ptr %given) nounwind {{
entry:
  %result = alloca i64, align 8
  %exception = alloca ptr, align 8
  %place = getelementptr double, ptr %slot, i64 {ADDRESS}
  %address = load i64, ptr %place, align 8
  %kernel = inttoptr i64 %address to ptr
  %f = ptrtoint ptr %residual to i64
  %e = ptrtoint ptr %rounding to i64
  %s = ptrtoint ptr %slot to i64
  %u = ptrtoint ptr %memory to i64
  %a = ptrtoint ptr %given to i64
  %status = call i32 %kernel(ptr %result, ptr %exception, i64 %f, i64 %e, i64 %k, i64 %m, i64 %s, i64 %u, i64 %a)
  ret void
}}

define internal void @odefit_solve_alone(
    ptr %slot, ptr %memory, ptr %residual, ptr %rounding, i64 %k, i64 %m, ptr %given) nounwind {{
entry:
  %own = alloca double, i64 {SLOT}, align 8
  store <{SLOT} x double> zeroinitializer, ptr %own, align 8
  %from = getelementptr double, ptr %slot, i64 {ADDRESS}
  %address = load i64, ptr %from, align 8
  %to = getelementptr double, ptr %own, i64 {ADDRESS}
  store i64 %address, ptr %to, align 8
  %note = getelementptr double, ptr %own, i64 {REFUSED}
  store double 0x7FF8000000000000, ptr %note, align 8
  call void @odefit_solve(ptr %own, ptr %memory, ptr %residual, ptr %rounding, i64 %k, i64 %m, ptr %given)
  %why = load double, ptr %note, align 8
  %failed = fcmp ord double %why, %why
  br i1 %failed, label %tell, label %done
tell:
  %where_at = getelementptr double, ptr %note, i64 1
  %where = load double, ptr %where_at, align 8
  %noted = getelementptr double, ptr %slot, i64 {REFUSED}
  %noted_where = getelementptr double, ptr %noted, i64 1
  store double %where, ptr %noted_where, align 8
  store double %why, ptr %noted, align 8
  br label %done
done:
  ret void
}}
"""
"""Calls of the kernel with memory that is kept, and with memory of the moment."""


class SolvedBlocks(NamedTuple):
    """The blocks of algebraic unknowns of a function, and whether it remembers their solutions in its inputs."""

    blocks: tuple[PlacedBlock, ...] = ()
    remembering: bool = True


def names_of_code(number: int) -> tuple[str, str]:
    """Return the names of the native functions of block `number`: of the equations, and of their rounding errors."""
    return f"odefit_residual_{number}", f"odefit_rounding_{number}"


def functions_of(block: Block, number: int) -> tuple[Any, Any]:
    """Return the functions ``(t, x, w, unused) -> (G, G_x by rows)`` and ``-> e``, bounds of rounding errors of G."""
    x, w = block.residual.sx_in()
    residual = block.residual(x, w)
    slopes = ca.jacobian(residual, x, {"helper_options": {"enable_reverse": False}})
    out = ca.densify(ca.vertcat(residual, ca.vec(ca.densify(slopes).T)))
    inputs = [ca.SX.sym("t"), x, w, ca.SX(0, 1)]
    named = zip(names_of_code(number), (out, ca.densify(rounding_bounds(block.residual, x, w))), strict=True)
    equations, errors = (ca.Function(name, inputs, [one]) for name, one in named)
    return equations, errors


class Solutions:
    """Prints calls of the kernel in the functions of one tape; outputs at the same arguments share one."""

    def __init__(self, solved: SolvedBlocks) -> None:
        self._solved = solved
        self._last: dict[int, tuple[Any, str]] = {}
        self._foreign = ForeignCalls()

    def begin_function(self) -> None:
        """Forget what an earlier function of the assembly has called: its names are not known in the next one."""
        self._last = {}
        self._foreign = ForeignCalls()

    def printed(
        self, writer: Any, number: int, output: int, pointer: str, slot: int, operands: tuple[int, ...], wide: bool
    ) -> str:
        """Print what is needed to have an output of block `number`, and return its name.

        Parameters
        ----------
        writer
            Prints the instructions of the tape.
        pointer, slot
            The array u, and where in it the slot of the block begins.
        operands
            Numbers of the values that are the arguments, guesses first.
        wide
            Whether it has lanes.
        """
        placed, key = self._solved.blocks[number], writer.identities(operands)
        block = placed.block
        if isinstance(block, Foreign):
            if not self._solved.remembering:
                raise CompileError("the right-hand side was asked for where no trajectory is")
            return self._foreign.printed(writer, placed, block, output, (pointer, slot), operands, wide=wide)
        if number not in self._last or self._last[number][0] != key:
            self._last[number] = (key, self._call(writer, number, pointer, slot, operands))
        _, memory = self._last[number]
        place = outputs_of(len(block.unknowns), block.n_arguments) + output
        at = writer.emit(f"getelementptr double, ptr {memory}, i64 {place}")
        return writer.emit(f"load double, ptr {at}, align 8")

    def _call(self, writer: Any, number: int, pointer: str, slot: int, operands: tuple[int, ...]) -> str:
        """Print a call of the kernel, and return the name of the memory."""
        placed = self._solved.blocks[number]
        block = placed.block
        assert isinstance(block, Block)
        given = stored(writer, operands)
        slot_at = writer.emit(f"getelementptr double, ptr {pointer}, i64 {slot}")
        if self._solved.remembering:
            how, memory = "odefit_solve", writer.emit(f"getelementptr double, ptr {pointer}, i64 {placed.memory}")
        else:
            size = memory_size(block)
            how, memory = "odefit_solve_alone", writer.emit(f"alloca double, i64 {size}, align 8")
        code = ", ".join(f"ptr @{name}" for name in names_of_code(number))
        sizes = f"i64 {len(block.unknowns)}, i64 {block.n_arguments}"
        writer.lines.append(f"  call void @{how}(ptr {slot_at}, ptr {memory}, {code}, {sizes}, ptr {given})")
        return memory
