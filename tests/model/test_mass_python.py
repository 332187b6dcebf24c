"""Equations in several derivatives from Python functions: mass and residual."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from odefit.errors import ModelError
from odefit.model import Model
from odefit.model.functions_for_tracing import table


def rhs(t, y, p):
    return {"one": -p.k * y.x, "two": y.x - y.y * y.z, "balance": y.z - y.x * t}


def mass(t, y, p):
    return {"one": {"x": p.a, "y": 1}, "two": {"y": y.x + y.z, "x": 0}}


def residuals(t, y, ydot, p):
    return {
        "one": p.a * ydot.x + ydot.y + p.k * y.x,
        "two": -(y.x - y.y * y.z - (y.x + y.z) * ydot.y),
        "balance": y.x * t - y.z,
    }


GIVEN = {"states": ["x", "y"], "parameters": ["k", "a"], "initial": {"x": 1, "y": "2*k"}, "algebraic": {"z": "k"}}


def by_mass(right=rhs, **changed):
    return Model.from_function(right, **{**GIVEN, "mass": mass, **changed})


def by_residual(**changed):
    return Model.from_function(None, **{**GIVEN, "residual": residuals, **changed})


@pytest.mark.parametrize("model", [by_mass(), by_residual()], ids=["mass", "residual"])
def test_rows_are_those_of_the_functions(model, residual, numbers):
    assert model.states == ("x", "y", "z")
    assert model.algebraic_states == ("z",)
    assert {name: str(model.initial[name]) for name in model.states} == {"x": "1", "y": "(2.*k)", "z": "k"}
    assert dict(model.written) == {"x": "'one'", "y": "'two'", "z": "'balance'"}
    assert {row: list(one) for row, one in model.mass.items()} == {"x": ["x", "y"], "y": ["y"], "z": []}
    for seed in range(3):
        v, s = numbers("t", "x", "y", "z", "k", "a", seed=seed), numbers("x", "y", seed=seed + 10)
        found = residual(model, v, s)
        assert found["x"] == pytest.approx(v["a"] * s["x"] + s["y"] + v["k"] * v["x"])
        assert found["y"] == pytest.approx((v["x"] + v["z"]) * s["y"] - v["x"] + v["y"] * v["z"])
        assert abs(found["z"]) == pytest.approx(abs(v["z"] - v["x"] * v["t"]))


@pytest.mark.parametrize("model", [by_mass(), by_residual()], ids=["mass", "residual"])
def test_such_models_go_through_a_pickle(model):
    again = pickle.loads(pickle.dumps(model))
    assert [str(one) for one in again.coefficients] == [str(one) for one in model.coefficients]
    assert again.written == model.written


def test_a_row_that_mass_lacks_is_explicit_if_it_has_the_name_of_a_state():
    model = by_mass(
        lambda t, y, p: {"x": -y.x, "two": y.y, "z": y.z - y.y}, mass=lambda t, y, p: {"two": {"x": p.a, "y": p.k}}
    )
    assert list(model.mass) == ["y", "z"]
    assert str(model.rhs["x"]) == "(-x)"


def test_algebraic_equations_may_have_a_function_of_their_own(residual, numbers):
    model = Model.from_function(
        None, **GIVEN, equations=lambda t, y, p: {"third": y.z**2 - y.x},
        residual=lambda t, y, ydot, p: {"a": ydot.x * p.a - 2 * ydot.y, "b": (ydot.x + y.x) / p.k - t},
    )  # fmt: skip
    v = numbers("t", "x", "y", "z", "k", "a")
    found = residual(model, v, {"x": 0.4, "y": 0.9})
    assert found["z"] == pytest.approx(-(v["z"] ** 2 - v["x"]))
    assert found["y"] == pytest.approx(v["a"] * 0.4 - 1.8)
    assert found["x"] == pytest.approx((0.4 + v["x"]) / v["k"] - v["t"])


def test_dependent_rows_and_tables_are_treated_as_in_text(evaluate):
    model = Model.from_function(
        None, states=["x", "y"], parameters=[], initial={"x": 0, "y": 0},
        residual=lambda t, y, ydot, p: {
            "up": table("U")(t) * (ydot.x - ydot.y) - y.x, "down": 3 * table("U")(t) * (ydot.y - ydot.x) - y.y,
        },
    )  # fmt: skip
    assert list(model.tables) == ["U"]
    [row] = [name for name, one in model.mass.items() if not one]
    assert evaluate(model.rhs[row], x=0.3, y=0.5) == pytest.approx(3 * 0.3 + 0.5)
    assert model.written[row] == "what is left of 'up' and 'down' when their derivatives cancel"


@pytest.mark.parametrize(
    "bad",
    [
        lambda t, y, ydot, p: ydot.x**2,
        lambda t, y, ydot, p: ydot.x * ydot.y,
        lambda t, y, ydot, p: np.sin(ydot.x),
        lambda t, y, ydot, p: 1 / ydot.x,
        lambda t, y, ydot, p: table("U")(ydot.x),
        lambda t, y, ydot, p: y.x * abs(ydot.x),
    ],
)
def test_residuals_that_are_not_linear_are_refused(bad):
    def changed(t, y, ydot, p):
        return {**residuals(t, y, ydot, p), "two": bad(t, y, ydot, p) - y.x}

    with pytest.raises(ModelError, match="residual 'two' is not linear in ydot; introduce an unknown: algebraic="):
        by_residual(residual=changed)


def test_what_cancels_in_a_residual_is_linear(residual, numbers):
    model = Model.from_function(
        None, states=["x"], parameters=["a"], initial={"x": 1},
        residual=lambda t, y, ydot, p: {"one": 2 * (ydot.x + ydot.x) - (-ydot.x) / p.a + 0 * ydot.x - y.x},
    )  # fmt: skip
    v = numbers("x", "a")
    assert residual(model, v, {"x": 0.7})["x"] == pytest.approx(0.7 * (4 + 1 / v["a"]) - v["x"])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Model.from_function(rhs, **GIVEN, residual=residuals), "residual says all that rhs and mass do"),
        (lambda: Model.from_function(None, **GIVEN, mass=mass), "rhs is None; give the right sides, or a residual"),
        (lambda: by_mass(mass=lambda t, y, p: {"none": {"x": 1}}), "a row 'none', for which rhs gives no right side"),
        (lambda: by_mass(mass=lambda t, y, p: {"one": {"z": 1}}), "a derivative of 'z' in row 'one', which is not a"),
        (lambda: by_mass(mass=lambda t, y, p: {"one": 3}), "mass of row 'one' has to be a dict from state to coeffic"),
        (lambda: by_mass(mass=lambda t, y, p: {"one": {"x": "a"}}), "mass of row 'one', 'x' has to be an expression"),
        (lambda: by_mass(mass=lambda t, y, p: {"one": {"x": float("nan")}}), "mass of row 'one', 'x' is nan"),
        (
            lambda: by_mass(lambda t, y, p: {"one": y.x, "two": y.y}),
            r"there are 2 equations \('one' and 'two'\) for 3 unknowns \(x, y and z\)",
        ),
        (lambda: by_mass(initial={"x": 1, "y": "z"}), "the initial value of 'y' depends on 'z', which varies in time"),
        (
            lambda: by_mass(
                lambda t, y, p: {"one": y.z, "two": y.y, "balance": y.x - 1},
                mass=lambda t, y, p: {"one": {"x": p.a}, "two": {"y": y.x}},
            ),
            "the index is higher than 1: 'balance' does not determine z; differentiate the constraint",
        ),
        (
            lambda: by_mass(
                lambda t, y, p: {"one": y.x, "two": y.y, "balance": y.x - 1},
                mass=lambda t, y, p: {"one": {"x": p.a}, "two": {"y": y.x}},
            ),
            "the 2 equations 'one' and 'balance' hold only x: one too many, and there are too few for z",
        ),
        (lambda: by_residual(residual=lambda t, y, ydot, p: {"one": ydot.q}), "no derivative of a state 'q'"),
    ],
)  # fmt: skip
def test_faults_are_named(make, message):
    with pytest.raises(ModelError, match=message):
        make()


def test_derivatives_of_another_model_are_refused():
    kept = []
    by_residual(residual=lambda t, y, ydot, p: (kept.append(ydot.x), residuals(t, y, ydot, p))[1])
    with pytest.raises(ModelError, match="'one' uses an expression that was kept from another model"):
        by_residual(residual=lambda t, y, ydot, p: {**residuals(t, y, ydot, p), "one": kept[0]})
