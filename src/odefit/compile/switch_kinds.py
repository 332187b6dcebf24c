"""What an input of a right-hand side is of its switch; see `odefit.compile.switches`."""

LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, EQUAL, UNEQUAL, SIGN, MINUS_SIGN, FLOOR, CEIL, TRUNCATE = range(11)
"""The truth of g < 0, g <= 0, .., or the value of a function of g."""

_WHOLE = frozenset({FLOOR, CEIL, TRUNCATE})


def as_it_is(kind: int) -> float:
    """Return the value of an input of a border that leaves the decision to the condition itself."""
    return 0.5 if kind in _WHOLE else 2.0
