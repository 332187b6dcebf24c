from __future__ import annotations

import casadi as ca
import pytest

from odefit.errors import LanguageError, ModelError
from odefit.model import Model

BARNES = """
y1' = k1*y1 - k2*y1*y2     # prey
y2' = k2*y1*y2 - k3*y2
y1(0) = 1
y2(0) = 0.3
"""


def test_barnes(evaluate):
    model = Model.from_text(BARNES)
    assert model.states == ("y1", "y2")
    assert model.parameters == ("k1", "k2", "k3")
    assert model.time == "t"
    assert model.source == BARNES
    assert set(model.symbols) == {"t", "y1", "y2", "y1(0)", "y2(0)", "k1", "k2", "k3"}
    assert evaluate(model.rhs["y1"], k1=2.0, k2=3.0, y1=5.0, y2=7.0) == 10.0 - 105.0
    assert evaluate(model.rhs["y2"], k2=3.0, k3=4.0, y1=5.0, y2=7.0) == 105.0 - 28.0
    assert [float(model.initial[name]) for name in model.states] == [1.0, 0.3]


@pytest.mark.parametrize("field", ["rhs", "initial", "definitions", "symbols", "mass"])
def test_mappings_are_read_only(field):
    with pytest.raises(TypeError, match="does not support item assignment"):
        getattr(Model.from_text(BARNES), field)["y1"] = 1


def test_contract_fields_are_empty():
    model = Model.from_text(BARNES)
    assert (model.algebraic, dict(model.tables), dict(model.mass), model.implicit, model.events) == (
        (),
        {},
        {},
        (),
        (),
    )


def test_parameters_in_order_of_first_appearance():
    model = Model.from_text("x' = -k*x + r\nx(0) = z0\nr = b*a\n")
    assert model.parameters == ("k", "z0", "b", "a")


def test_a_name_that_vanishes_is_still_a_parameter():
    assert Model.from_text("y = 0*k").parameters == ("k",)


def test_explicit_model_without_states(evaluate):
    model = Model.from_text("y = a*exp(-b*t)")
    assert model.states == ()
    assert evaluate(model.definitions["y"], a=2.0, b=0.0, t=1.0) == 2.0


def test_definitions_are_not_inlined():
    model = Model.from_text("x' = r\nx(0) = 0\nr = k*x")
    assert [symbol.name() for symbol in ca.symvar(model.rhs["x"])] == ["r"]


def test_initial_values_may_use_definitions_of_parameters(evaluate):
    model = Model.from_text("x' = 1\nx(0) = m/V\nV = 2*h\nh = k")
    assert evaluate(model.resolve([model.initial["x"]])[0], m=8.0, k=2.0) == 2.0


def test_resolve_replaces(evaluate):
    model = Model.from_text("x' = r*x\nx(0) = 1\nr = k*f\nf = T/2\nT = 300\ng = 2*r")
    replacing = {"T": model.expression("k + g"), "r": model.expression("7")}
    [value] = model.resolve([model.expression("f*r*x")], replacing)
    assert {symbol.name() for symbol in ca.symvar(value)} == {"k", "x"}
    assert evaluate(value, k=2.0, x=3.0) == (2.0 + 14.0) / 2 * 7.0 * 3.0
    assert evaluate(model.resolve([model.rhs["x"]])[0], k=2.0, x=3.0) == 2.0 * 150.0 * 3.0


def test_resolve_without_definitions():
    model = Model.from_text(BARNES)
    assert len(model.resolve(list(model.rhs.values()))) == 2


@pytest.mark.parametrize(
    ("replacing", "message"),
    [
        ({"f": "r"}, r"the definitions r -> f -> r need each other"),
        ({"r": "r + 1"}, r"the definitions r -> r need each other"),
        ({"ff": "1"}, r"'ff' is not a definition or parameter of the model; did you mean 'f'\?"),
        ({"x": "1"}, r"'x' is not a definition or parameter of the model"),
    ],
)
def test_resolve_refuses(replacing, message):
    model = Model.from_text("x' = r*x\nx(0) = 1\nr = k*f\nf = 2")
    with pytest.raises(ModelError, match=message):
        model.resolve([model.rhs["x"]], {name: model.expression(text) for name, text in replacing.items()})


def test_resolve_replaces_parameters_and_admits_foreign_symbols(evaluate):
    model = Model.from_text("x' = r*x\nx(0) = 1\nr = k*f\nf = 2")
    constant = ca.SX.sym("c")
    [value] = model.resolve([model.symbols["r"]], {"k": constant + model.symbols["f"]})
    assert evaluate(value, c=3.0) == 10.0


def test_resolve_keeps_definitions_as_symbols(evaluate):
    model = Model.from_text("x' = r*x\nx(0) = 1\nr = k*f\nf = 2")
    [value] = model.resolve([model.rhs["x"]], keeping=("f",))
    assert evaluate(value, k=2.0, f=5.0, x=3.0) == 30.0


def test_many_definitions_in_reverse_order(evaluate):
    count, n_states = 400, 1000
    lines = [f"d{i} = d{i - 1} + k" for i in range(count, 0, -1)] + ["d0 = k"]
    lines += [f"x{i}' = d{i % count}*x{(i + 1) % n_states}\nx{i}(0) = 1" for i in range(n_states)]
    model = Model.from_text("\n".join(lines))
    resolved = model.resolve([model.rhs[name] for name in model.states])
    replaced = model.resolve([model.rhs[name] for name in model.states], {"d0": model.expression("0")})
    assert evaluate(resolved[399], k=1.0, x400=2.0) == 800.0
    assert evaluate(replaced[399], k=1.0, x400=2.0) == 798.0


def test_expression_has_the_namespace_of_the_model(evaluate):
    model = Model.from_text(BARNES)
    assert evaluate(model.expression("k1*y1 +\n t"), k1=2.0, y1=3.0, t=1.0) == 7.0


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("k1 + yy1", 1, 6, "unknown name 'yy1'; did you mean 'y1'?"),
        ("k1 +\n  zzz", 2, 3, "unknown name 'zzz'; known names: t, y1"),
        ("y1 = 2", 1, 4, "to compare, use '=='"),
        ("k1 k2", 1, 4, "an operator is missing: for a product write 'k1*k2'"),
        ("k1 +", 1, 5, "the expression ends after '+'"),
    ],
)
def test_expression_errors(text, line, column, message):
    with pytest.raises(LanguageError, match="line") as caught:
        Model.from_text(BARNES).expression(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert message in str(caught.value)


def test_empty_expression():
    with pytest.raises(LanguageError, match="the text is empty"):
        Model.from_text(BARNES).expression(" # nothing")
