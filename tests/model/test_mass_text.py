"""Equations in several derivatives in equation text: what they mean, and what is refused."""

from __future__ import annotations

import math
import pickle

import casadi as ca
import pytest

from odefit.errors import LanguageError, ModelError
from odefit.model import Model

START = "x(0) = 1\ny(0) = 2\n"


def check_pair(residual, numbers, text, first, second):
    """Compare the rows of a text in x and y with hand-written residuals."""
    model = Model.from_text(f"{text}\n{START}")
    assert model.states == ("x", "y")
    for seed in range(3):
        values = numbers("t", "x", "y", "a", "b", "c", seed=seed)
        slopes = numbers("x", "y", seed=seed + 10)
        found = residual(model, values, slopes)
        expected = [one(**values, u=slopes["x"], v=slopes["y"]) for one in (first, second)]
        assert sorted(found.values()) == pytest.approx(sorted(expected), rel=1e-12)


# left sides of the first row, and what they are with u = x', v = y'
LEFT = [
    ("a*x' + b*y'", lambda a, b, u, v, **_: a * u + b * v),
    ("x'*a + y'*b", lambda a, b, u, v, **_: a * u + b * v),
    ("-(x' - y')*a", lambda a, u, v, **_: -a * (u - v)),
    ("(x' - 2*(b*y' - x'))/a", lambda a, b, u, v, **_: (u - 2 * (b * v - u)) / a),
    ("+x'/(x + a) - y'/exp(y)", lambda a, x, y, u, v, **_: u / (x + a) - v * math.exp(-y)),
    ("x*y*(x' + y' + c) - t", lambda x, y, c, t, u, v, **_: x * y * (u + v + c) - t),
    ("q*x' + (if(t > a, q, b))*y'", lambda t, a, b, x, u, v, **_: 3 * x * u + (3 * x if t > a else b) * v),
    ("x' + x'*a + y'", lambda a, u, v, **_: (1 + a) * u + v),
]


@pytest.mark.parametrize(("left", "expected"), LEFT, ids=[left for left, _ in LEFT])
def test_left_sides_are_sums_of_terms_with_derivatives(residual, numbers, left, expected):
    text = f"{left} = a*x - y\nq = 3*x\nx'/a - b*c*y' = c"
    check_pair(
        residual, numbers, text,
        lambda a, x, y, **rest: expected(a=a, x=x, y=y, **rest) - (a * x - y),
        lambda a, b, c, u, v, **_: u / a - b * c * v - c,
    )  # fmt: skip


def test_explicit_equations_stay_explicit_among_others(residual, numbers):
    model = Model.from_text(f"a*x' + b*y' = x\ny' = -y\n{START}")
    assert list(model.mass) == ["x"]
    assert {name: str(one) for name, one in model.mass["x"].items()} == {"x": "a", "y": "b"}
    assert str(model.rhs["y"]) == "(-y)"
    assert model.written == {"x": "'a*x' + b*y' = x' (line 1)"}
    assert model.parameters == ("a", "b")


def test_states_are_in_the_order_in_which_their_derivatives_occur():
    model = Model.from_text("a*z' + y' = 1\nx' = y\ny' - z' = 2\nx(0) = 1\ny(0) = 2\nz(0) = 3")
    assert model.states == ("z", "y", "x")
    assert [float(model.initial[name]) for name in model.states] == [3.0, 2.0, 1.0]


def test_a_number_before_a_single_derivative_makes_an_explicit_equation(evaluate):
    model = Model.from_text("2*x' = a - x\nx(0) = 1")
    assert not model.mass
    assert evaluate(model.rhs["x"], a=3.0, x=1.0) == 1.0


def test_another_factor_stays_since_it_may_become_zero():
    model = Model.from_text("a*x' = -x\nx(0) = 1")
    assert str(model.mass["x"]["x"]) == "a"
    assert str(model.rhs["x"]) == "(-x)"


def test_models_without_such_equations_have_no_mass():
    model = Model.from_text("x' = -a*H\nx(0) = 1\nalgebraic H ~ 1\n0 = H - x")
    assert not model.mass
    assert not model.written
    assert model.algebraic == ("H",)
    assert model.algebraic_states == ()


def test_algebraic_unknowns_are_states_beside_equations_in_several_derivatives(residual, numbers):
    text = "a*x' + b*y' = -H\nx' - y' = H*x\nalgebraic H ~ 2*a\n0 = H^2 + y*d - x\nd = c + H\nwhen H > 5: x = 0\n"
    model = Model.from_text(text + START)
    assert model.states == ("x", "y", "H")
    assert (model.algebraic, model.implicit, model.algebraic_states) == ((), (), ("H",))
    assert str(model.initial["H"]) == "(2.*a)"
    assert list(model.definitions) == ["d"]
    assert dict(model.mass["H"]) == {}
    assert model.written["H"] == "'0 = H^2 + y*d - x' (line 4)"
    values = numbers("x", "y", "H", "a", "b", "c")
    found = residual(model, values, {"x": 0.3, "y": 0.7})
    x, y, h = values["x"], values["y"], values["H"]
    assert found["H"] == pytest.approx(-(h**2 + y * (values["c"] + h) - x))
    expected = [values["a"] * 0.3 + values["b"] * 0.7 + h, 0.3 - 0.7 - h * x]
    assert sorted([found["x"], found["y"]]) == pytest.approx(sorted(expected))


def test_coefficients_may_call_tables_and_gather():
    model = Model.from_text(f"U(t)*x' + y' = 1\nV(x)*x' - y' = integral(x, over=t, from=0)\n{START}")
    assert list(model.tables) == ["U", "V"]
    names = {one.name() for one in ca.symvar(ca.vertcat(*model.coefficients))}
    assert names == {"U()", "V()", "t", "x"}
    [gathered] = model.gathered
    assert gathered not in model.mass
    assert model.states[-1] == gathered


LINEAR = "an equation is linear in its derivatives, but "
ADVICE = "here; introduce an unknown: algebraic v ~ 0, x' = v, and 0 = ... in v"
WITH_H = "a*x' + y' = H\nx' = 1\nalgebraic H ~ 1\n0 = H - a\n"
MATCH = "for 2 unknowns (x and y); their numbers must match: "
FAULTS = [
    ("x'^2 + y' = 1", 1, 3, f"{LINEAR}x' stands under '^' {ADVICE}"),
    ("a*x'*y' = 1", 1, 5, f"{LINEAR}a product of two of them stands {ADVICE}"),
    ("x' + 2*sin(a*y') = 1", 1, 8, f"{LINEAR}y' stands under 'sin' {ADVICE}"),
    ("x'/y' = 1", 1, 3, f"{LINEAR}a division by y' stands {ADVICE}"),
    ("y' + U(x') = 1", 1, 6, f"{LINEAR}x' stands under 'U' {ADVICE}"),
    ("if(t > 1, x', y') = 1", 1, 1, f"{LINEAR}x' stands under 'if' {ADVICE}"),
    ("(x' > 1) + y' = 1", 1, 5, f"{LINEAR}x' stands under '>' {ADVICE}"),
    ("a*x' + y' = y'", 1, 14, "a derivative stands only on the left: define the rate, y' = rate, and use its name"),
    ("a = b*y'", 1, 8, "bring all terms with derivatives to the left, a*x' + b*y' = ..."),
    ("0 = x' + y'", 1, 6, "a derivative stands only on the left"),
    ("a*x'' + y' = 1", 1, 5, "only first derivatives; write two equations: x' = v and v' = ..."),
    ("x' + a*(y'') = 1", 1, 11, "only first derivatives; write two equations: y' = v and v' = ..."),
    ("a*t' + y' = 1", 1, 3, "'t' is the independent variable"),
    ("a*sin' + y' = 1", 1, 3, "'sin' is a function of the language"),
    ("a*x' + = 1", 1, 2, "'*' does not belong there"),
    ("a*x' b = 1", 1, 6, "an operator is missing"),
    ("x'/0 + y' = 1", 1, 3, "division by the constant zero"),
    ("a*x' + y'+ z' = y", 1, 12, 'z has an equation z\' = ... but no initial value; add "z(0) = ..."'),
    ("a*x' + b*y' = 1", 1, 1, f"there is 1 equation ('a*x' + b*y' = 1' (line 1)) {MATCH}add equations"),
    (
        "a*x' + y' = 1\nx' = 1\ny' = 2", 1, 1,
        "there are 3 equations ('x' = 1' (line 2), 'y' = 2' (line 3) and 'a*x' + y' = 1' (line 1)) "
        f"{MATCH}remove equations",
    ),
    ("a*x' + y' = 1\nx' = 1\nx' = 2", 3, 1, "'x' = ...' stands in line 2 already"),
    ("a*x' + y' = 1\nx = 1", 2, 1, "'x = ...' contradicts 'x' = ...' in line 1"),
    ("a*x' + y' = H\nx' = 1\nalgebraic H ~ x\n0 = H - x", 3, 15, "the guess of 'H' depends on 'x'"),
    (f"{WITH_H}H(0) = 1", 5, 1, "'H' is an algebraic unknown (line 3), not a state"),
    (f"{WITH_H}z' = 1\nz(0) = q\nq = H", 6, 1, "z(0) depends on the state 'H' through q"),
    (f"{WITH_H}at t=1: H = 2", 5, 9, "'H' is an algebraic unknown, which an event cannot change"),
    (f"{WITH_H}at t=H: x = 2", 5, 6, "the time of the event depends on the state 'H'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "column", "message"), FAULTS)
def test_faults_are_shown_with_line_and_caret(text, line, column, message):
    with pytest.raises(LanguageError, match=f"^line {line}: ") as caught:
        Model.from_text(f"{text}\n{START}")
    said, written, caret = str(caught.value).split("\n")
    assert message in said
    assert caret.index("^") - (len(written) - len(text.splitlines()[line - 1])) + 1 == column


FULL = """
C*(x' - y') = -x + U(t)
D*(x' + y') = H - k*y
algebraic H ~ k
0 = H - x*y
z' = x
z(0) = 0
at t=5: k = 2, D = 3
D = 2*C
"""


def values_of(model):
    return {name: str(one) for row in model.mass.values() for name, one in row.items()}


def test_a_pickle_keeps_coefficients_and_their_words():
    model = Model.from_text(FULL + START)
    again = pickle.loads(pickle.dumps(model))
    for name in ("rhs", "initial", "definitions"):
        assert {k: str(v) for k, v in getattr(again, name).items()} == {
            k: str(v) for k, v in getattr(model, name).items()
        }
    assert {row: list(one) for row, one in again.mass.items()} == {row: list(one) for row, one in model.mass.items()}
    assert values_of(again) == values_of(model)
    assert again.written == model.written
    known = {symbol.element_hash() for symbol in (*again.symbols.values(), *again.tables.values())}
    assert all(s.element_hash() in known for s in ca.symvar(ca.vertcat(*again.coefficients, *again.rhs.values())))


def test_rows_are_read_only():
    model = Model.from_text(FULL + START)
    with pytest.raises(TypeError, match="does not support item assignment"):
        model.mass["x"]["x"] = 1
    with pytest.raises(TypeError, match="does not support item assignment"):
        model.mass["x"] = {}


def test_what_events_hold_is_held_in_coefficients(evaluate):
    model = Model.from_text(f"k*x' + y' = 1\nx' - k*y' = 2\nat t=5: k = 2\n{START}")
    names = {one.name() for one in ca.symvar(ca.vertcat(*model.coefficients))}
    assert names == {"k (held)"}
    plain = Model.from_text(f"k*x' + y' = 1\nx' - k*y' = 2\n{START}")
    held = plain.with_held(("k",))
    assert {one.name() for one in ca.symvar(ca.vertcat(*held.coefficients))} == {"k (held)"}
    assert {one.name() for one in ca.symvar(ca.vertcat(*plain.coefficients))} == {"k"}
    assert {row: list(one) for row, one in held.mass.items()} == {row: list(one) for row, one in plain.mass.items()}


def test_what_is_given_raises_the_derivative_by_the_rate(residual, numbers):
    model = Model.from_text(f"a*x' + b*y' = x\nc*x' - t*y' = y\nz' = 1\nz(0) = 0\n{START}")
    given = model.with_rates(("x", "z"))
    values = numbers("t", "x", "y", "z", "a", "b", "c") | {"rate into x": 0.7, "rate into z": 0.2}
    zero = {"rate into x": 0.0, "rate into z": 0.0}
    before = residual(model, values, {"x": 0.3, "y": 0.4, "z": 0.1})
    after = residual(given, values, {"x": 0.3 + 0.7, "y": 0.4, "z": 0.1 + 0.2, **zero})
    assert after == pytest.approx(before | zero)
    assert after != pytest.approx(residual(given, values, {"x": 0.3, "y": 0.4, "z": 0.1, **zero}))


def test_nothing_is_given_to_an_algebraic_unknown():
    model = Model.from_text(FULL + START)
    with pytest.raises(ModelError, match="'H' is an algebraic unknown, to which nothing can be given"):
        model.with_rates(("H",))


def test_expressions_know_no_initial_value_of_an_algebraic_unknown():
    model = Model.from_text(FULL + START)
    assert str(model.expression("x(0) + H")) == "(x(0)+H)"
    with pytest.raises(LanguageError, match="H"):
        model.expression("H(0)")
