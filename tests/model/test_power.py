from __future__ import annotations

import math

import casadi as ca
import numpy as np
import pytest
from casadi import SX

from odefit.model.arithmetic import power

INF, NAN = math.inf, math.nan


def derivatives(x: float, k: float) -> tuple[float, np.ndarray, np.ndarray]:
    symbols = ca.vertcat(SX.sym("x"), SX.sym("k"))
    value = power(symbols[0], symbols[1])
    gradient = ca.jacobian(value, symbols)
    everything = ca.Function("f", [symbols], [value, gradient, ca.jacobian(gradient, symbols)])
    v, g, h = everything([x, k])
    return float(v), g.full().ravel(), h.full()


# k, value, d/dx, d2/dx2 of 0^k
EDGE = [
    (3.0, 0.0, 0.0, 0.0),
    (2.5, 0.0, 0.0, 0.0),
    (2.0, 0.0, 0.0, 2.0),
    (1.5, 0.0, 0.0, INF),
    (1.0, 0.0, 1.0, 0.0),
    (0.5, 0.0, INF, -INF),
    (0.0, 1.0, 0.0, 0.0),
    (-0.5, INF, -INF, INF),
    (-1.0, INF, -INF, INF),
]


@pytest.mark.parametrize("zero", [0.0, -0.0])
@pytest.mark.parametrize(("k", "value", "slope", "curvature"), EDGE)
def test_zero_base(zero, k, value, slope, curvature):
    v, g, h = derivatives(zero, k)
    assert v == value
    assert g.tolist() == [slope, 0.0]
    assert h.ravel().tolist() == [curvature, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("x", [1e-100, 0.3, 1.0, 7.0])
@pytest.mark.parametrize("k", [-1.5, 0.0, 0.5, 1.0, 2.0, 3.7])
def test_positive_base(x, k):
    v, g, _ = derivatives(x, k)
    assert v == pytest.approx(x**k, rel=1e-14)
    assert g == pytest.approx([k * x ** (k - 1), math.log(x) * x**k], rel=1e-13)


@pytest.mark.parametrize("k", [-1.5, 0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("x", [-2.0, NAN])
def test_no_value_for_negative_base(x, k):
    v, g, _ = derivatives(x, k)
    assert math.isnan(v)
    assert np.isnan(g).all()


@pytest.mark.parametrize(("k", "expected"), [(2.0, 4.0), (3.0, -8.0), (-1.0, -0.5), (0.0, 1.0), (0.5, NAN), (1.5, NAN)])
def test_constant_exponent(k, expected):
    x = SX.sym("x")
    assert float(ca.Function("f", [x], [power(x, SX(k))])(-2.0)) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(("k", "slope"), [(2.0, 0.0), (2.5, 0.0), (1.0, 1.0), (0.5, INF), (0.0, 0.0)])
def test_constant_exponent_at_zero(k, slope):
    x = SX.sym("x")
    assert float(ca.Function("f", [x], [ca.jacobian(power(x, SX(k)), x)])(0.0)) == slope


@pytest.mark.parametrize(("base", "expected"), [(2.0, 2**0.7), (-2.0, NAN), (0.0, 0.0)])
def test_constant_base(base, expected):
    k = SX.sym("k")
    value = power(SX(base), k)
    assert float(ca.Function("f", [k], [value])(0.7)) == pytest.approx(expected, nan_ok=True)


def test_positive_constant_base_is_plain():
    k = SX.sym("k")
    assert ca.n_nodes(power(SX(2.0), k)) == 3


def test_constants_fold():
    assert float(power(SX(2.0), SX(-1.0))) == 0.5
    assert math.isnan(float(power(SX(-8.0), SX(1 / 3))))
