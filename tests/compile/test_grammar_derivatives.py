"""Native first and second derivatives of every function and operator of the language.

At ordinary points they are compared with finite differences, at kinks and edges with a written table.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from odefit.model import FUNCTIONS
from odefit.model.arithmetic import BINARY, UNARY

NAN, INF, PI = np.nan, np.inf, np.pi
ANY = (-3.0, 3.0)
POSITIVE = (0.2, 4.0)


@dataclass(frozen=True)
class Case:
    """An expression, the range of each variable, and the distance to its nearest kink (none: infinite)."""

    text: str
    ranges: dict[str, tuple[float, float]]
    kink: Callable[..., float] = lambda *z: INF


def unary(name: str, interval: tuple[float, float], kink: Callable[..., float] = lambda *z: INF) -> Case:
    return Case(f"{name}(x)", {"x": interval}, kink)


def binary(text: str, x=ANY, y=ANY, kink: Callable[..., float] = lambda *z: INF) -> Case:
    return Case(text, {"x": x, "y": y}, kink)


def apart(x: float, y: float) -> float:
    return abs(x - y)


def to_integer(x: float) -> float:
    return abs(x - round(x))


CASES = [
    unary("exp", ANY),
    unary("log", POSITIVE),
    unary("log10", POSITIVE),
    unary("log2", POSITIVE),
    unary("sqrt", POSITIVE),
    unary("abs", ANY, abs),
    unary("sign", ANY, abs),
    unary("sin", ANY),
    unary("cos", ANY),
    unary("tan", (-1.2, 1.2)),
    unary("asin", (-0.8, 0.8)),
    unary("acos", (-0.8, 0.8)),
    unary("atan", ANY),
    unary("sinh", ANY),
    unary("cosh", ANY),
    unary("tanh", ANY),
    unary("floor", ANY, to_integer),
    unary("ceil", ANY, to_integer),
    unary("erf", ANY),
    binary("atan2(y, x)", kink=lambda x, y: min(np.hypot(x, y) - 0.4, np.hypot(min(x, 0.0) - x, y))),
    binary("min(x, y)", kink=apart),
    binary("max(x, y)", kink=apart),
    binary("min(x^2, sin(y), x*y)", kink=lambda x, y: closest(x**2, np.sin(y), x * y)),
    binary("max(x^2, sin(y), x*y)", kink=lambda x, y: closest(x**2, np.sin(y), x * y)),
    binary("x + y"),
    binary("x - y"),
    binary("x * y"),
    binary("x / y", y=POSITIVE),
    binary("x^y", x=POSITIVE),
    binary("x**y", x=POSITIVE),
    binary("(x + 4)^(y*x)"),
    Case("-x", {"x": ANY}),
    Case("+x", {"x": ANY}),
    *[Case(f"x^{k}", {"x": ANY}) for k in ("0", "1", "2", "3", "7")],
    *[Case(f"x^({k})", {"x": POSITIVE}) for k in ("-1", "-2", "-0.5", "0.5", "1/3", "2.5", "pi")],
    *[Case(f"{base}^x", {"x": ANY}) for base in ("2", "10", "0.3")],
    Case("x^x", {"x": POSITIVE}),
    binary("if(x < y, x^2*y, x*sin(y))", kink=apart),
    binary("if(x <= y, x^2*y, x*sin(y))", kink=apart),
    binary("if(x > y, x^2*y, x*sin(y))", kink=apart),
    binary("if(x >= y, x^2*y, x*sin(y))", kink=apart),
    binary("if(x == y, x^2*y, x*sin(y))", kink=apart),
    binary("if(x != y, x^2*y, x*sin(y))", kink=apart),
    binary("if(x > 0 and y > 0, x^2*y, x*sin(y))", kink=lambda x, y: min(abs(x), abs(y))),
    binary("if(x > 0 or y > 0, x^2*y, x*sin(y))", kink=lambda x, y: min(abs(x), abs(y))),
    binary("if(not (x > y), x^2*y, x*sin(y))", kink=apart),
    binary("if(x > 0, log(x), y^3)", kink=lambda x, y: abs(x)),
    binary("(x > y)*x^2*y", kink=apart),
    binary("if(x > y, if(x > 0, x*log(x), y), exp(y))*y", kink=lambda x, y: min(apart(x, y), abs(x))),
    # compositions, in which every rule meets the chain rule
    binary("exp(-x^2)*sin(3*y)/(1 + x^2*y^2)"),
    binary("sqrt(1 + x^2 + y^4)*atan2(y, 4 + x)"),
    binary("log(2 + sin(x*y))^2 + tanh(x - y)*erf(x*y)"),
    binary("max(x, 0)^2*y + abs(y)^3*x", kink=lambda x, y: min(abs(x), abs(y))),
    Case("a*x^n/(k^n + x^n)", {"a": POSITIVE, "x": POSITIVE, "n": (0.5, 3.0), "k": POSITIVE}),
]


def closest(*values: float) -> float:
    ordered = np.sort(values)
    return float(np.diff(ordered).min())


def difference(f: Callable[[np.ndarray], np.ndarray], z: np.ndarray, j: int, h: float = 0.02) -> np.ndarray:
    """Central differences at h, h/2, h/4, h/8, extrapolated: the error is O(h^8)."""
    unit = np.eye(len(z))[j]
    level = [(f(z + d * unit) - f(z - d * unit)) / (2 * d) for d in (h, h / 2, h / 4, h / 8)]
    for power in (4.0, 16.0, 64.0):
        level = [(power * fine - coarse) / (power - 1) for coarse, fine in zip(level, level[1:], strict=False)]
    return level[0]


def assert_close(actual, expected, size: float) -> None:
    np.testing.assert_allclose(actual, expected, rtol=2e-9, atol=2e-11 * (1.0 + size))


def test_every_function_is_covered():
    used = {name for case in CASES for name in re.findall(r"(\w+)\(", case.text)}
    assert set(FUNCTIONS) <= used


@pytest.mark.parametrize("operator", [*BINARY, *UNARY])
def test_every_operator_is_covered(operator):
    pattern = rf"(?<![-+*<>=!]){re.escape(operator)}(?![*=])" if not operator.isalpha() else rf"\b{operator}\b"
    assert any(re.search(pattern, case.text) for case in CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.text.replace(" ", ""))
@settings(max_examples=40, deadline=None, derandomize=True)
@given(data=st.data())
def test_derivatives_are_those_of_finite_differences(case, derivatives, data):
    f = derivatives(case.text, " ".join(case.ranges))
    z = np.array([data.draw(st.floats(*interval), label=name) for name, interval in case.ranges.items()])
    assume(case.kink(*z) > 0.1)
    n = len(z)
    value, gradient = f.value(z), f.gradient(z)
    assert np.isfinite(value)
    numerical = [difference(lambda at: f.value(at), z, j) for j in range(n)]
    assert_close(gradient, numerical, abs(value))

    hessian = f.hessian(z)
    numerical = np.array([difference(f.gradient, z, j) for j in range(n)])
    assert_close(hessian, numerical, abs(value) + np.abs(gradient).max())
    np.testing.assert_allclose(hessian, hessian.T, rtol=1e-12, atol=1e-13 * (1 + np.abs(hessian).max()))


@pytest.mark.parametrize("case", [case for case in CASES if len(case.ranges) > 1], ids=lambda case: case.text)
def test_second_derivative_is_bilinear(case, derivatives):
    f = derivatives(case.text, " ".join(case.ranges))
    rng = np.random.default_rng(11)
    lower, upper = np.array(list(case.ranges.values())).T
    for _ in range(5):
        z = rng.uniform(lower, upper)
        v, w = rng.normal(size=(2, len(z)))
        hessian = f.hessian(z)
        np.testing.assert_allclose(
            f.second(z, v, w), v @ hessian @ w, rtol=1e-11, atol=1e-12 * (1 + abs(hessian).max())
        )
        assert f.second(z, 0 * v, w) == 0.0


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.text.replace(" ", ""))
def test_directional_derivatives_are_the_gradient_times_directions(case, derivatives):
    f = derivatives(case.text, " ".join(case.ranges))
    rng = np.random.default_rng(12)
    lower, upper = np.array(list(case.ranges.values())).T
    for _ in range(10):
        z = rng.uniform(lower, upper)
        v = rng.normal(size=(len(z), 4))
        gradient = f.gradient(z)
        tolerance = 1e-13 * (1.0 + np.abs(gradient).max())
        np.testing.assert_allclose(f.directions(z, v), gradient @ v, rtol=1e-12, atol=tolerance)


# expression, variables, point, value, gradient, second derivatives (rows)
EDGES = [
    ("abs(x)", "x", [0.0], 0.0, [0.0], [[0.0]]),
    ("abs(x)", "x", [-0.0], 0.0, [0.0], [[0.0]]),
    ("sign(x)", "x", [0.0], 0.0, [0.0], [[0.0]]),
    ("sign(x)", "x", [-2.0], -1.0, [0.0], [[0.0]]),
    ("sqrt(x)", "x", [0.0], 0.0, [INF], [[-INF]]),
    ("sqrt(x)", "x", [-1.0], NAN, [NAN], [[NAN]]),
    ("log(x)", "x", [0.0], -INF, [INF], [[-INF]]),
    ("log10(x)", "x", [0.0], -INF, [INF], [[-INF]]),
    ("log2(x)", "x", [0.0], -INF, [INF], [[-INF]]),
    ("exp(x)", "x", [800.0], INF, [INF], [[INF]]),
    ("exp(x)", "x", [-800.0], 0.0, [0.0], [[0.0]]),
    ("floor(x)", "x", [1.0], 1.0, [0.0], [[0.0]]),
    ("floor(x)", "x", [-1.0], -1.0, [0.0], [[0.0]]),
    ("floor(x)", "x", [-0.5], -1.0, [0.0], [[0.0]]),
    ("ceil(x)", "x", [1.0], 1.0, [0.0], [[0.0]]),
    ("ceil(x)", "x", [-1.0], -1.0, [0.0], [[0.0]]),
    ("ceil(x)", "x", [0.5], 1.0, [0.0], [[0.0]]),
    ("erf(x)", "x", [0.0], 0.0, [2 / np.sqrt(PI)], [[0.0]]),
    ("erf(x)", "x", [30.0], 1.0, [0.0], [[0.0]]),
    ("tan(x)", "x", [0.0], 0.0, [1.0], [[0.0]]),
    ("tan(x)", "x", [PI / 4], 1.0, [2.0], [[4.0]]),
    ("tanh(x)", "x", [400.0], 1.0, [0.0], [[0.0]]),
    ("asin(x)", "x", [0.0], 0.0, [1.0], [[0.0]]),
    ("asin(x)", "x", [1.0], PI / 2, [INF], [[INF]]),
    ("asin(x)", "x", [-1.0], -PI / 2, [INF], [[-INF]]),
    ("asin(x)", "x", [1.5], NAN, [NAN], [[NAN]]),
    ("acos(x)", "x", [1.0], 0.0, [-INF], [[-INF]]),
    ("acos(x)", "x", [-1.0], PI, [-INF], [[INF]]),
    ("acos(x)", "x", [1.5], NAN, [NAN], [[NAN]]),
    ("atan2(y, x)", "y x", [0.0, 1.0], 0.0, [1.0, 0.0], [[0.0, -1.0], [-1.0, 0.0]]),
    ("atan2(y, x)", "y x", [0.0, -1.0], PI, [-1.0, 0.0], [[0.0, -1.0], [-1.0, 0.0]]),
    ("atan2(y, x)", "y x", [-0.0, -1.0], -PI, [-1.0, 0.0], [[0.0, -1.0], [-1.0, 0.0]]),
    ("atan2(y, x)", "y x", [1.0, 0.0], PI / 2, [0.0, -1.0], [[0.0, 1.0], [1.0, 0.0]]),
    ("atan2(y, x)", "y x", [-1.0, 0.0], -PI / 2, [0.0, 1.0], [[0.0, 1.0], [1.0, 0.0]]),
    ("atan2(y, x)", "y x", [0.0, 0.0], 0.0, [NAN, NAN], [[NAN, NAN], [NAN, NAN]]),
    # ties share the derivative, pair by pair from the left
    ("min(x, y)", "x y", [1.0, 1.0], 1.0, [0.5, 0.5], [[0.0, 0.0], [0.0, 0.0]]),
    ("max(x, y)", "x y", [1.0, 1.0], 1.0, [0.5, 0.5], [[0.0, 0.0], [0.0, 0.0]]),
    ("min(x, y)", "x y", [0.0, -0.0], 0.0, [0.5, 0.5], [[0.0, 0.0], [0.0, 0.0]]),
    ("min(x, y)", "x y", [1.0, 2.0], 1.0, [1.0, 0.0], [[0.0, 0.0], [0.0, 0.0]]),
    ("max(x, y)", "x y", [1.0, 2.0], 2.0, [0.0, 1.0], [[0.0, 0.0], [0.0, 0.0]]),
    ("min(x, y, 3)", "x y", [1.0, 1.0], 1.0, [0.5, 0.5], [[0.0, 0.0], [0.0, 0.0]]),
    ("max(x, y, 1)", "x y", [1.0, 1.0], 1.0, [0.25, 0.25], [[0.0, 0.0], [0.0, 0.0]]),
    # the argument not taken may be infinite, and so may its derivative
    ("max(log(x), -10)", "x", [0.0], -10.0, [0.0], [[0.0]]),
    ("max(-10, log(x))", "x", [0.0], -10.0, [0.0], [[0.0]]),
    ("min(1/x, 100)", "x", [0.0], 100.0, [0.0], [[0.0]]),
    ("min(100, y/x)", "x y", [0.0, 2.0], 100.0, [0.0, 0.0], [[0.0, 0.0], [0.0, 0.0]]),
    # if: the branch not taken may be NaN or infinite
    ("if(x > 0, x*log(x), 0)", "x", [0.0], 0.0, [0.0], [[0.0]]),
    ("if(x > 0, x*log(x), 0)", "x", [-1.0], 0.0, [0.0], [[0.0]]),
    ("if(x > 0, x*log(x), 0)", "x", [1.0], 0.0, [1.0], [[1.0]]),
    ("if(x > 0, 1/x, 7)", "x", [0.0], 7.0, [0.0], [[0.0]]),
    ("if(x <= 0, x, sqrt(x))", "x", [0.0], 0.0, [1.0], [[0.0]]),
    ("if(x == 0, 1, sin(x)/x)", "x", [0.0], 1.0, [0.0], [[0.0]]),
    ("if(not (x == 0), sin(x)/x, 1)", "x", [0.0], 1.0, [0.0], [[0.0]]),
    ("if(x != 0, y/x, y^2)", "x y", [0.0, 3.0], 9.0, [0.0, 6.0], [[0.0, 0.0], [0.0, 2.0]]),
    ("if(x > 0 and y > 0, x*log(y), x*y)", "x y", [2.0, 0.0], 0.0, [0.0, 2.0], [[0.0, 1.0], [1.0, 0.0]]),
    ("if(x == 0 or y == 0, 0, x^1.5/y)", "x y", [0.0, 0.0], 0.0, [0.0, 0.0], [[0.0, 0.0], [0.0, 0.0]]),
    ("y^2*if(x > 0, x*log(x), 0)", "x y", [0.0, 3.0], 0.0, [0.0, 0.0], [[0.0, 0.0], [0.0, 0.0]]),
    ("exp(if(x > 0, log(x), 0))", "x", [0.0], 1.0, [0.0], [[0.0]]),
    ("if(x > 0, if(y > 0, log(x)*log(y), 0), 0)", "x y", [0.0, 0.0], 0.0, [0.0, 0.0], [[0.0, 0.0], [0.0, 0.0]]),
    ("if(x > 0, if(y > 0, log(x)*log(y), y), 0)", "x y", [1.0, 0.0], 0.0, [0.0, 1.0], [[0.0, 0.0], [0.0, 0.0]]),
    ("if(x, y, 2*y)", "x y", [0.0, 1.0], 2.0, [0.0, 2.0], [[0.0, 0.0], [0.0, 0.0]]),
    ("(x > 0)*log(x)", "x", [0.0], 0.0, [0.0], [[0.0]]),
    # powers with a constant exponent or base
    ("x^0", "x", [0.0], 1.0, [0.0], [[0.0]]),
    ("x^1", "x", [0.0], 0.0, [1.0], [[0.0]]),
    ("x^2", "x", [0.0], 0.0, [0.0], [[2.0]]),
    ("x^3", "x", [0.0], 0.0, [0.0], [[0.0]]),
    ("x^0.5", "x", [0.0], 0.0, [INF], [[-INF]]),
    ("x^(1/3)", "x", [0.0], 0.0, [INF], [[-INF]]),
    ("x^1.5", "x", [0.0], 0.0, [0.0], [[INF]]),
    ("x^2.5", "x", [0.0], 0.0, [0.0], [[0.0]]),
    ("x^(-1)", "x", [0.0], INF, [-INF], [[INF]]),
    ("x^(-0.5)", "x", [0.0], INF, [-INF], [[INF]]),
    ("x^0", "x", [-2.0], 1.0, [0.0], [[0.0]]),
    ("x^1", "x", [-2.0], -2.0, [1.0], [[0.0]]),
    ("x^2", "x", [-2.0], 4.0, [-4.0], [[2.0]]),
    ("x^3", "x", [-2.0], -8.0, [12.0], [[-12.0]]),
    ("x^(-1)", "x", [-2.0], -0.5, [-0.25], [[-0.25]]),
    ("x^(-2)", "x", [-2.0], 0.25, [0.25], [[0.375]]),
    ("x^0.5", "x", [-2.0], NAN, [NAN], [[NAN]]),
    ("x^1.5", "x", [-2.0], NAN, [NAN], [[NAN]]),
    ("x^(-0.5)", "x", [-2.0], NAN, [NAN], [[NAN]]),
    ("x^(1/3)", "x", [-8.0], NAN, [NAN], [[NAN]]),
    ("2^x", "x", [0.0], 1.0, [np.log(2)], [[np.log(2) ** 2]]),
    ("0^x", "x", [2.0], 0.0, [0.0], [[0.0]]),
    ("0^x", "x", [0.0], 1.0, [0.0], [[0.0]]),
    ("0^x", "x", [-1.0], INF, [0.0], [[0.0]]),
    ("x^x", "x", [1.0], 1.0, [1.0], [[2.0]]),
]


def identity_of(row) -> str:
    return f"{row[0]} at {row[2]}".replace(" ", "")


@pytest.mark.parametrize("row", EDGES, ids=identity_of)
def test_edges(row, derivatives):
    text, variables, point, value, gradient, hessian = row
    f = derivatives(text, variables)
    np.testing.assert_allclose(f.value(point), value, rtol=1e-15)
    np.testing.assert_allclose(f.gradient(point), gradient, rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(f.hessian(point), hessian, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("row", [row for row in EDGES if np.isfinite(row[4]).all()], ids=identity_of)
def test_directions_at_edges(row, derivatives):
    text, variables, point, _, gradient, _ = row
    v = np.random.default_rng(3).normal(size=(len(point), 4))
    result = derivatives(text, variables).directions(point, v)
    np.testing.assert_allclose(result, np.array(gradient) @ v, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize(("text", "value"), [("0^0", 1.0), ("0^2", 0.0), ("2^(-1)", 0.5), ("(-8)^(1/3)", NAN)])
def test_powers_of_numbers(text, value, derivatives):
    f = derivatives(f"{text} + 0*x", "x")
    np.testing.assert_equal(f.value([3.0]), value)
    assert f.gradient([3.0]).tolist() == [0.0]


# x^k with both symbolic, at x = 0: k, value, d/dx, d2/dx2; every derivative that involves k is 0
ZERO_BASE = [
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
@pytest.mark.parametrize(("k", "value", "slope", "curvature"), ZERO_BASE)
def test_zero_to_a_symbolic_power(k, value, slope, curvature, zero, derivatives):
    f = derivatives("x^k", "x k")
    assert f.value([zero, k]) == value
    assert f.gradient([zero, k]).tolist() == [slope, 0.0]
    assert f.second([zero, k], [1, 0], [1, 0]) == curvature


@pytest.mark.parametrize(("v", "w"), [([1, 0], [0, 1]), ([0, 1], [1, 0]), ([0, 1], [0, 1])], ids=["xk", "kx", "kk"])
@pytest.mark.parametrize("k", [row[0] for row in ZERO_BASE])
def test_zero_to_a_symbolic_power_by_the_exponent(k, v, w, derivatives):
    assert derivatives("x^k", "x k").second([0.0, k], v, w) == 0.0


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("k", [-1.5, 0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("x", [-2.0, -1e-300, NAN])
def test_symbolic_power_of_a_negative_base(x, k, order, derivatives):
    f = derivatives("x^k", "x k")
    result = (f.value, f.gradient, f.hessian)[order]([x, k])
    assert np.isnan(result).all()


@pytest.mark.parametrize(
    ("text", "variables", "point"),
    [
        ("log(x)", "x", [-1.0]),
        ("log10(x)", "x", [-1.0]),
        ("log2(x)", "x", [-1.0]),
        ("min(x, y)", "x y", [NAN, 1.0]),
        ("min(x, y)", "x y", [1.0, NAN]),
        ("max(x, y)", "x y", [NAN, 1.0]),
        ("max(x, y)", "x y", [1.0, NAN]),
        ("sign(x)", "x", [NAN]),
        ("abs(x)", "x", [NAN]),
        ("floor(x)", "x", [NAN]),
        ("x/y", "x y", [0.0, 0.0]),
        ("sin(x)", "x", [INF]),
    ],
)
def test_no_value(text, variables, point, derivatives):
    assert np.isnan(derivatives(text, variables).value(point))


@pytest.mark.parametrize("text", ["x^(-2)", "x^(-3)", "1/x^2"])
def test_negative_integer_power_of_zero_is_not_finite(text, derivatives):
    f = derivatives(text, "x")
    assert f.value([0.0]) == INF
    assert not np.isfinite(f.gradient([0.0])).any()
    assert not np.isfinite(f.second([0.0], [1.0], [1.0]))


@pytest.mark.parametrize("n", [1, 5, 40])
def test_branch_not_taken_does_not_leak_with_many_variables(n, derivatives):
    """One output, many variables: backward differentiation would be cheaper, and would leak."""
    names = [f"x{i}" for i in range(n)]
    text = " + ".join(f"if({name} > 0, {name}*log({name}), 0)" for name in names)
    f = derivatives(text, " ".join(names))
    z = np.array([1.0 if i % 2 else 0.0 for i in range(n)])
    assert f.value(z) == 0.0
    assert f.gradient(z).tolist() == z.tolist()
    assert f.hessian(z).tolist() == np.diag(z).tolist()
