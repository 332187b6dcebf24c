from __future__ import annotations

import math

import pytest

from odefit.model import Model

POINT = {"a": 1.7, "b": -0.6, "c": 3.2, "t": 0.9}
a, b, c, t = POINT.values()


EXPRESSIONS = {
    "1": 1.0,
    "1.": 1.0,
    ".5": 0.5,
    "1e-7": 1e-7,
    "1E+3": 1e3,
    "2.5e2": 250.0,
    "pi": math.pi,
    "inf": math.inf,
    "-inf": -math.inf,
    "a + b - c": a + b - c,
    "a - b - c": a - b - c,
    "a - (b - c)": a - (b - c),
    "a / b / c": a / b / c,
    "a / b * c": a / b * c,
    "a + b*c": a + b * c,
    "(a + b)*c": (a + b) * c,
    "-a^2": -(a**2),
    "(-a)^2": a**2,
    "-a**2": -(a**2),
    "2^-3": 0.125,
    "2^-a^2": 2 ** -(a**2),
    "2^3^2": 512.0,
    "2**3**2": 512.0,
    "(2^3)^2": 64.0,
    "a^c": a**c,
    "a*-b": a * -b,
    "a - -b": a + b,
    "--a": a,
    "+a": a,
    "-a*b": -a * b,
    "a^2*c": a**2 * c,
    "a*c^2": a * c**2,
    "b^3": b**3,
    "b^-1": 1 / b,
    "a < c": 1.0,
    "a > c": 0.0,
    "a <= 1.7": 1.0,
    "a >= 1.8": 0.0,
    "a == 1.7": 1.0,
    "a != 1.7": 0.0,
    "a + 1 < c": 1.0,
    "(a < c) + (a < c)": 2.0,
    "(a < c) < 2": 1.0,
    "a < c and b < 0": 1.0,
    "a < c and b > 0": 0.0,
    "a > c or b < 0": 1.0,
    "a > c or b > 0": 0.0,
    "not a > c": 1.0,
    "not a < c": 0.0,
    "not a > c and b < 0": 1.0,
    "not (a > c and b < 0)": 1.0,
    "not not a": 1.0,
    "1 or 0 and 0": 1.0,
    "if(a < c, a, b)": a,
    "if(a > c, a, b)": b,
    "if(2, a, b)": a,
    "if(0, a, b)": b,
    "if(b > 0, log(b), -1)": -1.0,
    "min(a, b)": b,
    "min(a, b, c, -7)": -7.0,
    "max(a, b, c)": c,
    "atan2(a, b)": math.atan2(a, b),
    "a*t": a * t,
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_value(text, evaluate):
    model = Model.from_text("d = a + b + c")
    assert evaluate(model.expression(text), **POINT) == pytest.approx(EXPRESSIONS[text], rel=1e-14)


@pytest.mark.parametrize(
    "text",
    [
        "y = a +\n b",
        "y = (a\n + b)",
        "y = (a # one ) bracket\n\n # nothing\n + b)",
        "y = a + # and then\n\n# still\nb",
        "y =\n a + b",
        "y = max(a + b,\n -100)",
        "\ty\t=\ta + b\t",
        "y = a + b\r\n",
        "\r\ny = a +\r\nb\r\n",
        "\ufeffy = a + b",
        "y = if(a > 0 and\n b > -100, a + b, 0)",
        "y = if(not\n (a < 0), a + b, 0)",
        "# only\ny = a + b # trailing",
    ],
)
def test_layout(text, evaluate):
    model = Model.from_text(text)
    assert model.parameters == ("a", "b")
    assert evaluate(model.definitions["y"], a=1.5, b=2.0) == 3.5


def test_statements_are_separate_lines():
    model = Model.from_text("x' = -k*x\nx(0) = x0\nr = k*x\n")
    assert (model.states, model.parameters, tuple(model.definitions)) == (("x",), ("k", "x0"), ("r",))


@pytest.mark.parametrize("zero", ["0", "0.0", "0.", "0e3"])
def test_initial_value_at_zero(zero, evaluate):
    assert evaluate(Model.from_text(f"x' = 1\nx({zero}) = 2").initial["x"]) == 2.0


@pytest.mark.parametrize("name", ["α", "µ_max", "λ", "gamma", "beta", "lambda", "sigma", "Größe", "x_1", "_k", "ﬁ"])
def test_names_belong_to_the_user(name):
    model = Model.from_text(f"y = 2*{name}")
    assert len(model.parameters) == 1


def test_names_are_normalised():
    model = Model.from_text("y = µ + μ + ﬁ")  # micro sign, Greek mu, ligature
    assert model.parameters == ("μ", "fi")
    assert Model.from_text("x' = 1\nx(0) = ﬁ\nfi = 2").parameters == ()


def test_another_independent_variable(evaluate):
    model = Model.from_text("c' = -r*c\nc(0) = 1", time="r")
    assert model.time == "r"
    assert model.parameters == ()
    assert evaluate(model.rhs["c"], r=2.0, c=3.0) == -6.0


def nested(depth: int) -> dict[str, str]:
    return {
        "brackets": "(" * depth + "x" + ")" * depth,
        "sin": "sin(" * depth + "x" + ")" * depth,
        "signs": "-" * depth + "x",
        "not": "not " * depth + "x",
        "if": "if(x > 2, 0, " * depth + "x" + ")" * depth,
        "sum": "+".join(["x"] * depth),
        "constant powers": "^".join(["1"] * depth),
    }


@pytest.mark.parametrize("depth", [500, 20000])
@pytest.mark.parametrize("form", nested(1))
def test_deep_nesting(form, depth, evaluate):
    expected = {"sum": 0.5 * depth, "constant powers": 1.0, "not": 1.0}.get(form, 0.5)
    if form == "sin":
        expected = 0.5
        for _ in range(depth):
            expected = math.sin(expected)
    model = Model.from_text(f"y = {nested(depth)[form]}")
    assert evaluate(model.resolve([model.symbols["y"]])[0], x=0.5) == pytest.approx(expected)


def test_deep_symbolic_power(evaluate):
    model = Model.from_text("y = " + "^".join(["x"] * 500))
    expected = 0.5
    for _ in range(499):
        expected = 0.5**expected
    assert evaluate(model.definitions["y"], x=0.5) == pytest.approx(expected)


def test_many_terms(evaluate):
    model = Model.from_text("y = " + " + ".join(["a*b"] * 100_000))
    assert evaluate(model.definitions["y"], a=0.5, b=2.0) == 100_000.0


def test_text_is_never_executed():
    model = Model.from_text("y = __import__(os)")
    assert (model.parameters, [*model.tables]) == (("os",), ["__import__"])
