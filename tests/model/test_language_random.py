"""Random expressions agree with Python; random text never escapes the family of errors."""

from __future__ import annotations

import math

import casadi as ca
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from odefit.errors import OdefitError
from odefit.model import Model

POINT = {"a": 1.3, "b": 0.4, "c": 2.1}


def _leaf() -> st.SearchStrategy[tuple[str, float]]:
    numbers = st.floats(0.1, 9.0).map(lambda value: (repr(value), value))
    return numbers | st.sampled_from(sorted(POINT)).map(lambda name: (name, POINT[name]))


def _combine(parts: st.SearchStrategy[tuple[str, float]]) -> st.SearchStrategy[tuple[str, float]]:
    def binary(operator: str, left: tuple[str, float], right: tuple[str, float]) -> tuple[str, float]:
        x, y = left[1], right[1]
        value = {"+": x + y, "-": x - y, "*": x * y, "<": float(x < y), ">=": float(x >= y)}[operator]
        return f"({left[0]} {operator} {right[0]})", value

    def unary(name: str, part: tuple[str, float]) -> tuple[str, float]:
        value = {"sin": math.sin, "tanh": math.tanh, "abs": abs, "atan": math.atan}[name](part[1])
        return f"{name}({part[0]})", value

    def branch(test: tuple[str, float], yes: tuple[str, float], no: tuple[str, float]) -> tuple[str, float]:
        return f"if({test[0]} > 0, {yes[0]}, {no[0]})", yes[1] if test[1] > 0 else no[1]

    def raised(part: tuple[str, float], exponent: int) -> tuple[str, float]:
        return f"-sin({part[0]})^{exponent}", -(math.sin(part[1]) ** exponent)

    return (
        st.builds(binary, st.sampled_from(["+", "-", "*", "<", ">="]), parts, parts)
        | st.builds(unary, st.sampled_from(["sin", "tanh", "abs", "atan"]), parts)
        | st.builds(branch, parts, parts, parts)
        | st.builds(raised, parts, st.integers(0, 5)).map(lambda pair: (f"({pair[0]})", pair[1]))
    )


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.recursive(_leaf(), _combine, max_leaves=25))
def test_agrees_with_python(pair):
    text, expected = pair
    assume(abs(expected) < 1e6)
    model = Model.from_text(f"y = {text}\nz = a + b + c")
    symbols = [model.symbols[name] for name in POINT]
    value = float(ca.Function("f", symbols, [model.definitions["y"]])(*POINT.values()))
    assert value == pytest.approx(expected, rel=1e-9, abs=1e-9)


_PIECES = [
    "x",
    "x'",
    "x(0)",
    "=",
    "==",
    "<",
    "+",
    "-",
    "*",
    "/",
    "^",
    "**",
    "(",
    ")",
    ",",
    "1",
    ".5",
    "1e",
    "if(",
]
_PIECES += [
    "exp(",
    "max(",
    "u(",
    "over",
    "t",
    "pi",
    "and",
    "not",
    "at",
    "field",
    "0",
    "'",
    '"',
    ":",
    "\n",
    " ",
    "#",
]
_PIECES += ["dx/dt", "np.exp", "\t", "\r\n", "é", "²", "٣", "\u2028", "\x00", "d(", "%", "1e999", "["]


@settings(max_examples=600, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(_PIECES), max_size=25).map("".join) | st.text(max_size=40))
def test_random_text_raises_only_own_errors(text):
    for candidate in (text, f"y = {text}", f"x' = {text}\nx(0) = 1"):
        try:
            model = Model.from_text(candidate)
        except OdefitError:
            continue
        assert len(model.resolve(list(model.rhs.values()))) == len(model.states)
