"""Families of problems, each made of what deceives a fit; a new one is a file and a line here."""

from benchmarks.reliability.case import Family
from benchmarks.reliability.families import (
    compartments,
    conditions,
    haldane,
    insensitive,
    logarithms,
    many_starts,
    mass_action,
    plateaus,
    regression,
    relaxation,
    sizes,
    units,
)

FAMILIES: dict[str, Family] = {
    family.name: family
    for module in (
        units, insensitive, plateaus, conditions, sizes, regression, many_starts, mass_action, haldane, relaxation,
        logarithms, compartments,
    )
    for family in module.FAMILIES
}  # fmt: skip
"""By name, in the order of the table."""
