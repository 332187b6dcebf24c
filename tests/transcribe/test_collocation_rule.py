"""The coefficients of collocation: identities, and the observed order."""

from __future__ import annotations

import math

import numpy as np
import pytest

from odefit.transcribe.collocation_rule import NODES, POINTS, SLOPES, TESTS, VALUES_OF_TESTS


def test_points_are_those_of_radau():
    s = np.polynomial.Polynomial([0, 1])
    values = (s**2 * (s - 1) ** 3).deriv(2)(POINTS)
    assert np.abs(values).max() < 1e-12


@pytest.mark.parametrize("degree", range(4))
def test_slopes_and_values_are_exact_for_cubics(degree):
    derivative = degree * POINTS ** max(0, degree - 1)
    assert SLOPES @ NODES**degree == pytest.approx(derivative, abs=1e-12)
    assert VALUES_OF_TESTS @ NODES**degree == pytest.approx(TESTS**degree, abs=1e-12)


def end_of(n: int) -> float:
    """Integrate y' = cos(t) y, y(0) = 1 to t = 2 with n elements."""
    y, h = 1.0, 2.0 / n
    for k in range(n):
        rates = np.diag(np.cos(h * (k + POINTS)))
        y = float(np.linalg.solve(SLOPES[:, 1:] - h * rates, -SLOPES[:, 0] * y)[-1])
    return y


def test_order_at_the_ends_is_five():
    errors = [abs(end_of(n) - math.exp(math.sin(2.0))) for n in (4, 8, 16)]
    orders = [math.log2(a / b) for a, b in zip(errors, errors[1:], strict=False)]
    assert orders == pytest.approx([5.0, 5.0], abs=0.3)
