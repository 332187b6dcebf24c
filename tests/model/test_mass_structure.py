"""Rows of equations in several derivatives: dependent ones, their states, the index, and unknowns as states."""

from __future__ import annotations

import pickle
import random
from fractions import Fraction

import casadi as ca
import numpy as np
import pytest
from casadi import SX

from odefit.errors import LanguageError, ProblemError, UnsupportedError
from odefit.model import Model
from odefit.model.residues import as_fraction, echelon, residues
from odefit.model.unknowns_as_states import with_unknowns_as_states
from odefit.problem import Dose, Experiment, Measurements, Parameter, Problem

AMPLIFIER = """
Ue = 0.1*sin(200*pi*t)
g23 = 1e-6*(exp((y2 - y3)/0.026) - 1)
g56 = 1e-6*(exp((y5 - y6)/0.026) - 1)
-C1*(y1' - y2') = (y1 - Ue)/1000
C1*(y1' - y2') = y2/9000 + (y2 - Ub)/9000 + 0.01*g23
C2*y3' = g23 - y3/9000
-C3*(y4' - y5') = (y4 - Ub)/9000 + 0.99*g23
C3*(y4' - y5') = y5/9000 + (y5 - Ub)/9000 + 0.01*g56
C4*y6' = g56 - y6/9000
-C5*(y7' - y8') = (y7 - Ub)/9000 + 0.99*g56
C5*(y7' - y8') = y8/9000
""" + "".join(f"y{k}(0) = {k}\n" for k in range(1, 9))


def test_the_transistor_amplifier_has_five_differential_and_three_algebraic_rows(residual, numbers):
    model = Model.from_text(AMPLIFIER)
    assert [name for name in model.states if not model.mass[name]] == ["y2", "y5", "y8"]
    assert model.algebraic_states == ()  # the derivatives of all of them occur
    values = numbers("t", "Ub", *(f"C{k}" for k in range(1, 6))) | {f"y{k}": 0.05 * k for k in range(1, 9)}
    slopes = numbers(*(f"y{k}" for k in range(1, 9)), seed=2)
    found = residual(model, values, slopes)
    y, ub = values, values["Ub"]
    base = [1e-6 * (np.exp((y[a] - y[b]) / 0.026) - 1) for a, b in (("y2", "y3"), ("y5", "y6"))]
    f1 = (y["y1"] - 0.1 * np.sin(200 * np.pi * y["t"])) / 1000
    f2 = y["y2"] / 9000 + (y["y2"] - ub) / 9000 + 0.01 * base[0]
    f4 = (y["y4"] - ub) / 9000 + 0.99 * base[0]
    f5 = y["y5"] / 9000 + (y["y5"] - ub) / 9000 + 0.01 * base[1]
    f7 = (y["y7"] - ub) / 9000 + 0.99 * base[1]
    assert found["y1"] == pytest.approx(-values["C1"] * (slopes["y1"] - slopes["y2"]) - f1)
    assert found["y2"] == pytest.approx(-(f1 + f2))
    assert found["y3"] == pytest.approx(values["C2"] * slopes["y3"] - base[0] + y["y3"] / 9000)
    assert found["y5"] == pytest.approx(-(f4 + f5))
    assert found["y8"] == pytest.approx(-(f7 + y["y8"] / 9000))
    assert model.written["y2"] == (
        "what is left of '-C1*(y1' - y2') = (y1 - Ue)/1000' (line 5) and "
        "'C1*(y1' - y2') = y2/9000 + (y2 - Ub)/9000 + 0.01*g23' (line 6) when their derivatives cancel"
    )


def start(*names: str) -> str:
    return "".join(f"\n{name}(0) = 1" for name in names)


# rows of which the last becomes algebraic, and its right side
DEPENDENT = [
    ("a*(x' + y') = x\nb*(x' + y') = y", lambda a, b, x, y, **_: y - b / a * x),
    ("2*x' + 4*y' = x\n0.1*x' + 0.2*y' = y", lambda x, y, **_: y - 0.05 * x),
    ("a*x' + b*y' = x\na^2*x' + a*b*y' = y", lambda a, x, y, **_: y - a * x),
    ("q*x' + y' = x\n-3*q*x' - 3*y' = y", lambda x, y, **_: y + 3 * x),
    ("x*x' + t*y' = x\nx^2*t*x' + x*t^2*y' = y", lambda t, x, y, **_: y - x * t * x),
    ("x' = a*y\nb*x' = y + x", lambda a, b, x, y, **_: y + x - b * a * y),
    ("U(t)*(x' - y') = x\n2*U(t)*(y' - x') = y", lambda x, y, **_: y + 2 * x),
    ("if(t > 9, a, b)*(x' - y') = x\nif(t > 9, a, b)*(y' - x') = y", lambda x, y, **_: y + x),
    ("x^b*(x' - y') = x\n2*x^b*(y' - x') = y", lambda x, y, **_: y + 2 * x),
]


@pytest.mark.parametrize(("rows", "expected"), DEPENDENT, ids=[rows for rows, _ in DEPENDENT])
def test_dependent_rows_become_algebraic(rows, expected, evaluate, numbers):
    declared = "" if "y'" in rows else "\nalgebraic y ~ 1"
    model = Model.from_text(f"{rows}{declared}\nq = 5*x + a*0{start('x', *(() if declared else 'y'))}")
    [row] = [name for name in model.states if name in model.mass and not model.mass[name]]
    for seed in range(3):
        values = numbers("t", "x", "y", "a", "b", seed=seed)
        [side] = model.resolve([model.rhs[row]])
        assert evaluate(side, **values) == pytest.approx(expected(**values))


@pytest.mark.parametrize("rows", ["3*x' + 3*y' = x\nx' + y' = y", "3*a*x' + 3*a*y' = x\na*x' + a*y' = y"])
def test_multipliers_that_are_numbers_are_exact(rows, evaluate):
    model = Model.from_text(rows + start("x", "y"))
    [row] = [name for name in model.states if not model.mass[name]]
    assert evaluate(model.rhs[row], x=1.0, y=0.0) == -1 / 3


def test_three_rows_may_depend_on_each_other(residual, numbers):
    rows = "a*x' + b*y' = x\nb*y' + c*z' = y\na*x' - c*z' = z^2"
    model = Model.from_text(rows + start("x", "y", "z"))
    [row] = [name for name in model.states if not model.mass[name]]
    values = numbers("x", "y", "z", "a", "b", "c")
    found = residual(model, values, numbers("x", "y", "z", seed=3))
    assert found[row] == pytest.approx(-(values["z"] ** 2 - values["x"] + values["y"]))
    assert all(f"(line {k})" in model.written[row] for k in (1, 2, 3))


# what looks dependent where a sample sees one branch or one number only
INDEPENDENT = [
    "if(t > 1e6, a, b)*x' + b*y' = x\nx' + y' = y",
    "max(a, -1e9)*x' + a*y' = x\nx' + y' = y",
    "(a + 1e-7*b)*x' + a*y' = x\nx' + y' = y",
    "(1 + floor(a/1e9))*x' + y' = x\nx' + y' = y",
    "(a + 1e-15)*x' - a*y' = x\n-a*x' + a*y' = y",  # parasitic beside a parameter that may be as small
]


@pytest.mark.parametrize("rows", INDEPENDENT)
def test_only_what_always_depends_is_eliminated(rows):
    model = Model.from_text(rows + start("x", "y"))
    assert all(model.mass[name] for name in model.states)


def test_rows_that_only_definitions_make_dependent_are_refused():
    with pytest.raises(LanguageError, match="depend on each other through definitions, which an experiment may") as one:
        Model.from_text("q = a + b\nq*x' + y' = x\n(a + b)*x' + y' = y" + start("x", "y"))
    assert "'q*x' + y' = x' (line 2) and '(a + b)*x' + y' = y' (line 3)" in str(one.value)


def test_coefficients_that_cancel_are_left_out():
    model = Model.from_text("((a + b) - b - a)*x' + y' = x\nx' + y' = y" + start("x", "y"))
    assert str(model.rhs["y"]) == "x"
    assert list(model.mass) == ["x"]


@pytest.mark.parametrize("fraction", [Fraction(-1), Fraction(1, 3), Fraction(-355, 113), Fraction(200001, 7)])
def test_fractions_are_found_again(fraction):
    x = SX.sym("x")
    [value] = residues(x * fraction.numerator / (x * fraction.denominator)) or []
    assert as_fraction(value) == fraction
    for other in (x / 3, SX(0.123456789), SX(1e-15)):
        [value] = residues(other) or []
        assert as_fraction(value) is None


def test_a_singular_matrix_has_its_rows_and_columns_named():
    """The third row is the first minus twice the second; columns 1 and 2 are only seen as their sum."""
    rows = [[1, 2, 2, 0], [3, 1, 1, 0], [-5, 0, 0, 0], [0, 0, 0, 4]]
    found = echelon([{j: (one, one) for j, one in enumerate(row)} for row in rows])
    assert [number for number, left in enumerate(found.reduced) if not left] == [2]
    assert found.rows_of_zero(2) == [0, 1, 2]
    [free] = set(range(4)) - set(found.pivots)
    assert sorted(found.null_columns(free)) == [1, 2]


@pytest.mark.parametrize("seed", range(8))
def test_each_row_is_named_by_a_state_in_it(seed):
    """Independent rows in a random order: those with derivatives have that of their state, the others the state."""
    rng = random.Random(seed)
    names = [f"x{k}" for k in range(6)]
    statements = [f"p{k}*{names[k]}' + {names[(k + 1) % 4]}' = {rng.choice(names)}" for k in range(4)]
    statements += ["0 = x4^2 - x5 + x0", "0 = x4 + x5*t + x1"]
    rng.shuffle(statements)
    text = "\n".join(statements) + "\nalgebraic x4 ~ 1\nalgebraic x5 ~ 1" + start(*names[:4])
    model = Model.from_text(text)
    assert set(model.mass) == set(names)
    assert model.algebraic_states == ("x4", "x5")
    for name, row in model.mass.items():
        inside = {one.name() for one in ca.symvar(model.rhs[name])}
        assert name in row if row else name in inside


PENDULUM = """
m*vx' = -lam*x
m*vy' = -lam*y - m*g
x' = vx
y' = vy
algebraic lam ~ 1
""" + start("x", "y", "vx", "vy")


@pytest.mark.parametrize("constraint", ["0 = x^2 + y^2 - 1", "0 = x*vx + y*vy"])
def test_a_pendulum_has_a_higher_index(constraint):
    with pytest.raises(LanguageError, match="the index is higher than 1: ") as caught:
        Model.from_text(f"{PENDULUM}\n{constraint}")
    assert f"'{constraint}' (line 12) does not determine lam; differentiate the constraint in time" in str(caught.value)
    assert "keep the constraint itself as an invariant" in str(caught.value)


def test_a_pendulum_with_its_constraint_differentiated_twice_is_taken():
    model = Model.from_text(f"{PENDULUM}\n0 = vx^2 + vy^2 - lam/m*(x^2 + y^2) - g*y")
    assert model.algebraic_states == ("lam",)
    assert set(model.mass) == {"vx", "vy", "lam"}


def test_an_index_may_be_higher_though_all_unknowns_stand_in_the_right_places():
    """The pattern has a matching, but what the rows say of u and v is the same."""
    with pytest.raises(LanguageError, match="the index is higher than 1: ") as caught:
        Model.from_text(
            "a*x' = u - v\nalgebraic u ~ 1\nalgebraic v ~ 1\n0 = log(x - 7) + u - v\n0 = t + b*(v - u)" + start("x")
        )
    message = str(caught.value)
    assert "'0 = log(x - 7) + u - v' (line 4) and '0 = t + b*(v - u)' (line 5) do not determine u and v" in message


def test_the_same_function_in_two_equations_is_the_same():
    message = (
        r"the index is higher than 1: '0 = exp\(u\) - v' \(line 4\) and '0 = 2\*exp\(u\) - 2\*v' \(line 5\) do not "
    )
    with pytest.raises(LanguageError, match=message):
        Model.from_text(
            "a*x' = u - v\nalgebraic u ~ 1\nalgebraic v ~ 1\n0 = exp(u) - v\n0 = 2*exp(u) - 2*v" + start("x")
        )


STEEP = [
    "0 = exp(x/0.001) - u + 1e-9*u",  # slopes of 1e400
    "0 = log(-1e6 - u*x) + u",  # never a number at positive values
    "0 = 1e-30*u + x",
    "0 = if(t > 1e9, u, x)",
    "0 = U(u) - x",
    "0 = sqrt(-u - 1e9) - u",
]


@pytest.mark.parametrize("equation", STEEP)
def test_steep_or_undefined_functions_do_not_decide(equation):
    model = Model.from_text(f"a*x' = u\nalgebraic u ~ 1\n{equation}" + start("x"))
    assert model.algebraic_states == ("u",)


def test_nothing_is_said_where_no_sample_is_finite():
    model = Model.from_text("a*x' = u\nalgebraic u ~ 1\n0 = (u + x)/(0.5*x - x/2)" + start("x"))
    assert model.algebraic_states == ("u",)
    x = SX.sym("x")
    assert residues(x / (0.5 * x - x / 2)) is None


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (
            "a*x' + y' = 1\nx' = t\ny' = 2\nalgebraic z ~ 1" + start("x", "y"), 1,
            "what is left of 'x' = t' (line 2), 'y' = 2' (line 3) and 'a*x' + y' = 1' (line 1) when their derivatives "
            "cancel holds no unknown: one too many, and there are too few for z",
        ),
        (
            "a*x' + y' = 1\nx' = t\nalgebraic z ~ 1\nalgebraic w ~ 1\n0 = z - 1\n0 = 2*z - a" + start("x", "y"), 6,
            "the 2 equations '0 = z - 1' (line 5) and '0 = 2*z - a' (line 6) hold only z: one too many, and there are "
            "too few for w",
        ),
        (
            "a*x' + y' = z\nx' = t\nalgebraic z ~ 1\n0 = a - 1" + start("x", "y"), 4,
            "'0 = a - 1' (line 4) holds no unknown: one too many, and there are too few for ",
        ),
    ],
)  # fmt: skip
def test_equations_that_cannot_determine_the_unknowns_are_named(text, line, message):
    with pytest.raises(LanguageError, match=f"^line {line}: ") as caught:
        Model.from_text(text)
    assert message in str(caught.value)


def test_an_equation_without_unknowns_in_an_explicit_model_speaks_of_the_index():
    text = "x' = vx\nvx' = -lam*x\nalgebraic lam ~ 1\n0 = x - 1" + start("x", "vx")
    with pytest.raises(LanguageError, match="holds no algebraic unknown; if it constrains states, the index is higher"):
        Model.from_text(text)


SOLVED = """
x' = -k*H*x + g
x(0) = 2*d
d = G + 1 + q
q = 3*k
g = H + U(t)
e = 2*H
algebraic H ~ k
algebraic G ~ 1
algebraic L ~ 2
0 = H^2 + Ka*H*L - Ka*x*e
0 = L - H + x
0 = G^3 - k*q
at t=G: x += H
at t=9: c = 3
y = c*x
"""


def test_unknowns_of_blocks_become_states_with_algebraic_rows(residual, numbers):
    model = Model.from_text(SOLVED)
    assert [set(one.unknowns) for one in model.implicit] == [{"H", "L"}, {"G"}]
    turned = with_unknowns_as_states(model)
    assert with_unknowns_as_states(model) is turned
    assert with_unknowns_as_states(turned) is turned
    assert turned.states == ("x", "H", "G", "L", "c (held)")
    assert list(turned.rhs) == list(turned.initial) == list(turned.states)
    assert turned.algebraic_states == ("H", "G", "L")
    assert (turned.algebraic, turned.held, turned.shown) == ((), model.held, ("x", "H", "G", "L"))
    assert list(turned.definitions) == ["d", "q", "g", "e", "y"]
    assert [str(turned.initial[name]) for name in ("H", "G", "L")] == ["k", "1", "2"]
    values = numbers("x", "H", "G", "L", "k", "Ka")
    without_table = Model.from_text(SOLVED.replace(" + U(t)", ""))
    found = residual(with_unknowns_as_states(without_table), values, {"x": 0.5, "c (held)": 0.0})
    x, h, k = values["x"], values["H"], values["k"]
    assert found["x"] == pytest.approx(0.5 + k * h * x - h)
    rows = sorted((h**2 + values["Ka"] * h * values["L"] - values["Ka"] * x * 2 * h, values["L"] - h + x))
    assert sorted((-found["H"], -found["L"])) == pytest.approx(rows)
    assert found["G"] == pytest.approx(-(values["G"] ** 3 - k * 3 * k))
    assert {turned.written["H"], turned.written["L"]} == {"'0 = H^2 + Ka*H*L - Ka*x*e'", "'0 = L - H + x'"}


def test_unknowns_in_initial_values_and_times_stay_solved_there():
    turned = with_unknowns_as_states(Model.from_text(SOLVED))
    assert [one.unknowns for one in turned.implicit] == [("G",)]
    [block] = turned.implicit
    for expression in (turned.initial["x"], turned.events[0].time):
        inside = ca.symvar(expression)
        assert block.symbol.element_hash() in {one.element_hash() for one in inside}
        assert not {one.name() for one in inside} & {"G", "d"}
        assert "q" in {one.name() for one in inside}  # what does not need an unknown can still be replaced
    assert {one.name() for one in ca.symvar(turned.events[0].changes["x"])} == {"x", "H"}
    again = pickle.loads(pickle.dumps(turned))
    assert str(again.initial["x"]) == str(turned.initial["x"])
    assert again.algebraic_states == turned.algebraic_states


def test_a_model_without_unknowns_is_its_own():
    model = Model.from_text("x' = -x\nx(0) = 1")
    assert with_unknowns_as_states(model) is model


def problem_of(text, **changed):
    model = Model.from_text(text)
    parameters = [Parameter(name, 1.0) for name in model.parameters]
    data = Measurements.from_columns([1.0, 2.0], {"x": [0.5, 0.3]})
    return Problem(model=model, parameters=parameters, measurements=data, **changed)


MIXED = "a*x' + y' = -x\nx' - y' = H\nalgebraic H ~ 1\n0 = H - x*y" + start("x", "y")


def test_nothing_can_be_given_to_an_algebraic_state():
    with pytest.raises(ProblemError, match="'H' is an algebraic unknown, to which nothing can be given"):
        problem_of(MIXED, experiments=[Experiment("main", events=(Dose(1.0, "H", 2.0),))])


def test_a_table_in_a_coefficient_must_be_given():
    with pytest.raises(ProblemError, match="U"):
        problem_of("U(t)*x' + y' = -x\nx' - y' = 1" + start("x", "y"))
