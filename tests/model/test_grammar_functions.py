from __future__ import annotations

import math

import casadi as ca
import pytest
from casadi import SX

from odefit.model import FUNCTIONS, Model

POINTS = {
    "exp": (math.exp, [-2.0, 0.0, 1.5]),
    "log": (math.log, [0.1, 1.0, 20.0]),
    "log10": (math.log10, [0.1, 1.0, 1000.0]),
    "log2": (math.log2, [0.1, 1.0, 8.0]),
    "sqrt": (math.sqrt, [0.0, 0.3, 9.0]),
    "abs": (abs, [-2.0, 0.0, 2.0]),
    "sign": (lambda x: (x > 0) - (x < 0), [-2.0, 0.0, 2.0]),
    "sin": (math.sin, [-2.0, 0.0, 2.0]),
    "cos": (math.cos, [-2.0, 0.0, 2.0]),
    "tan": (math.tan, [-1.0, 0.0, 1.0]),
    "asin": (math.asin, [-0.5, 0.0, 1.0]),
    "acos": (math.acos, [-0.5, 0.0, 1.0]),
    "atan": (math.atan, [-5.0, 0.0, 1.0]),
    "sinh": (math.sinh, [-2.0, 0.0, 2.0]),
    "cosh": (math.cosh, [-2.0, 0.0, 2.0]),
    "tanh": (math.tanh, [-2.0, 0.0, 2.0]),
    "floor": (math.floor, [-1.5, 0.0, 1.5]),
    "ceil": (math.ceil, [-1.5, 0.0, 1.5]),
    "erf": (math.erf, [-1.0, 0.0, 0.3]),
}


def test_every_function_is_covered():
    assert set(FUNCTIONS) == set(POINTS) | {"atan2", "min", "max", "if"}


@pytest.mark.parametrize("name", POINTS)
def test_value_in_text(name, evaluate):
    reference, points = POINTS[name]
    expression = Model.from_text(f"y = {name}(x)").definitions["y"]
    for point in points:
        assert evaluate(expression, x=point) == pytest.approx(reference(point), rel=1e-14, abs=1e-15)


@pytest.mark.parametrize(
    ("name", "x", "slope"),
    [
        ("log", 0.0, math.inf),
        ("log10", 0.0, math.inf),
        ("log2", 0.0, math.inf),
        ("sqrt", 0.0, math.inf),
        ("log10", 2.0, 1 / (2 * math.log(10))),
        ("log2", 2.0, 1 / (2 * math.log(2))),
        ("abs", 0.0, 0.0),
        ("sign", 0.0, 0.0),
        ("floor", 1.0, 0.0),
        ("erf", 0.0, 2 / math.sqrt(math.pi)),
    ],
)
def test_derivative(name, x, slope):
    symbol = SX.sym("x")
    derivative = ca.Function("d", [symbol], [ca.jacobian(FUNCTIONS[name].build(symbol), symbol)])
    assert float(derivative(x)) == pytest.approx(slope)


def test_branch_not_taken_may_be_nan():
    x = SX.sym("x")
    expression = Model.from_text("y = if(x > 0, log(x), x)")
    value = ca.substitute(expression.definitions["y"], expression.symbols["x"], x)
    both = ca.Function("f", [x], [value, ca.jacobian(value, x)])
    assert [float(one) for one in both(-2.0)] == [-2.0, 1.0]


@pytest.mark.parametrize(
    ("name", "count", "allowed"),
    [("exp", 1, True), ("exp", 2, False), ("min", 1, False), ("min", 9, True), ("if", 2, False)],
)
def test_arity(name, count, allowed):
    assert FUNCTIONS[name].takes(count) is allowed
