"""Differential-algebraic equations: accuracy, work and precision, and the forms of algebraic unknowns; see `__main__`."""
