"""Runge-Kutta methods that the package does without: each is a file with coefficients."""
