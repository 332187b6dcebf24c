"""Algebraic unknowns in native code: the function that the kernel calls for a block, and the call of the kernel.

The kernel (`odefit.native.implicit_solve`) is called by its address, which stands in the slot of the block.  It is
handed the address of a function of G and G_x that is compiled beside the model, and leaves its outputs in the memory of
the block.  A function whose inputs are shared by many who evaluate it (the map from parameters, say) has no memory
there: it solves from the guess, with memory on its stack.
"""

from __future__ import annotations

from typing import Any

import casadi as ca

from odefit.model.implicit import Block
from odefit.native.implicit_solve import sizes_of
from odefit.native.table_slots import ADDRESS, REFUSED, SLOT

RESIDUAL_ARRAYS = ("x", "w", "unused")

SOLVE_CODE = f"""
define internal void @odefit_solve(ptr %slot, ptr %memory, ptr %residual, i64 %k, i64 %m, ptr %given) nounwind {{
entry:
  %result = alloca i64, align 8
  %exception = alloca ptr, align 8
  %place = getelementptr double, ptr %slot, i64 {ADDRESS}
  %address = load i64, ptr %place, align 8
  %kernel = inttoptr i64 %address to ptr
  %f = ptrtoint ptr %residual to i64
  %s = ptrtoint ptr %slot to i64
  %u = ptrtoint ptr %memory to i64
  %a = ptrtoint ptr %given to i64
  %status = call i32 %kernel(ptr %result, ptr %exception, i64 %f, i64 %k, i64 %m, i64 %s, i64 %u, i64 %a)
  ret void
}}

define internal void @odefit_solve_alone(
    ptr %slot, ptr %memory, ptr %residual, i64 %k, i64 %m, ptr %given) nounwind {{
entry:
  %own = alloca double, i64 {SLOT}, align 8
  store <{SLOT} x double> zeroinitializer, ptr %own, align 8
  %from = getelementptr double, ptr %slot, i64 {ADDRESS}
  %address = load i64, ptr %from, align 8
  %to = getelementptr double, ptr %own, i64 {ADDRESS}
  store i64 %address, ptr %to, align 8
  %note = getelementptr double, ptr %own, i64 {REFUSED}
  store double 0x7FF8000000000000, ptr %note, align 8
  call void @odefit_solve(ptr %own, ptr %memory, ptr %residual, i64 %k, i64 %m, ptr %given)
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


def residual_name(number: int) -> str:
    """Return the name of the native function of block `number`."""
    return f"odefit_residual_{number}"


def residual_function(block: Block, number: int) -> Any:
    """Return the function ``(t, x, w, unused) -> (G, G_x by rows)`` of a block."""
    x, w = block.residual.sx_in()
    residual = block.residual(x, w)
    slopes = ca.jacobian(residual, x, {"helper_options": {"enable_reverse": False}})
    out = ca.densify(ca.vertcat(residual, ca.vec(ca.densify(slopes).T)))
    return ca.Function(residual_name(number), [ca.SX.sym("t"), x, w, ca.SX(0, 1)], [out])


def place_of_output(block: Block, number: int) -> int:
    """Return where in the memory of a block an output stands."""
    return sizes_of(len(block.unknowns), block.n_arguments)[0] + number
