"""Where tables and algebraic unknowns stand in the inputs u of a model; see `odefit.compile.table_inputs`."""

MIDDLE = 0
"""A time within the piece that is integrated."""

SLOT = 6
"""Numbers of a slot; slots begin behind `MIDDLE`."""

ADDRESS, REMEMBERED, REFUSED = 0, 1, 3
"""What stands in a slot: where its data are; for each of two arguments the interval found last, and one refused.

Of a block of algebraic unknowns: the address of the kernel; whether a solution is remembered; why there is none, and
the equation to blame.
"""

PHASE = 5
"""In the slot of a block of algebraic unknowns: who asks, see `odefit.native.implicit_solve`."""

FUNCTION = 2
"""In the slot of a function that cannot be traced: its address; the others are those of a block of unknowns."""
