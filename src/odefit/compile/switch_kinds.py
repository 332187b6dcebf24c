"""What an input of a right-hand side is of its switch; see `odefit.compile.switches`."""

LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, EQUAL, UNEQUAL, SIGN, MINUS_SIGN, FLOOR, CEIL, TRUNCATE = range(11)
"""The truth of g < 0, g <= 0, .., or the value of a function of g."""
