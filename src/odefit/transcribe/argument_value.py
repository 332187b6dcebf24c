"""The value of one argument of a measurement, in kernels; see `odefit.transcribe.arguments`."""

from __future__ import annotations

from odefit.native.kernel import kernel


@kernel(inline=True)
def argument_value(source, number, slots, p):
    """Return the slot or the entry of p that is the source of an argument, or its number if it has none."""
    if source < 0:
        return number
    if source < slots.size:
        return slots[source]
    return p[source - slots.size]
