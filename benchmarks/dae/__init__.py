"""Differential-algebraic equations: accuracy, work and precision, and forms of unknowns; see `__main__`."""
