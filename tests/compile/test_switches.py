"""Conditions in time are taken out of right-hand sides: what becomes an input, what a switch, and what stays."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest

import odefit as of
from odefit.compile import compile_problem
from odefit.compile.switch_kinds import (
    CEIL,
    FLOOR,
    GREATER,
    GREATER_EQUAL,
    LESS,
    LESS_EQUAL,
    MINUS_SIGN,
    SIGN,
    TRUNCATE,
)
from odefit.compile.switches import Split, split_at_conditions

T, X, C = ca.SX.sym("t"), ca.SX.sym("x"), ca.SX.sym("c")


def split(expression) -> Split:
    found = split_at_conditions(ca.SX(expression), T, X)
    assert found is not None
    return found


def test_smooth_right_hand_sides_are_left_alone():
    assert split_at_conditions(ca.exp(-C * T) * X, T, X) is None


@pytest.mark.parametrize(
    ("expression", "kind"), [(T < C, LESS), (T <= C, LESS_EQUAL), (ca.floor(T / C), FLOOR), (ca.sign(T - C), SIGN)]
)
def test_kinds_of_inputs(expression, kind):
    found = split(expression * X)
    assert found.kind == (kind,)
    assert found.level == (1,)
    assert found.affine == (True,)
    assert found.depends_on_parameters(T)
    assert found.on_states == ()


def test_comparisons_of_one_pair_share_a_switch():
    found = split(ca.if_else(T >= C, 1, 0) + ca.if_else(T < C, X, 0) + ca.if_else(T > C, 2, 3) + ca.fabs(T - C))
    assert found.switches.numel() == 1
    assert sorted(found.kind) == sorted([LESS_EQUAL, GREATER, LESS, MINUS_SIGN])
    assert set(found.switch_of) == {0}


def test_numbers_do_not_move():
    found = split(ca.if_else(ca.logic_and(T >= 12, T < 12.05), X, 0))
    assert found.switches.numel() == 2
    assert not found.depends_on_parameters(T)


def test_close_numbers_are_two_switches():
    """They print alike."""
    assert split((T < 12.00000001) + (T < 12.00000002)).switches.numel() == 2


def test_levels():
    """A comparison of what is left of a day needs the day first."""
    found = split(ca.if_else(T - 24 * ca.floor(T / 24) < 8, X, 0))
    assert found.level == (1, 2)
    assert found.affine == (True, True)
    assert found.whole == (True, False)


def test_what_depends_on_inputs_alone_stays():
    found = split(ca.if_else(ca.floor(T / 24) > 2, X, 0))
    assert found.kind == (FLOOR,)


def test_parameters_alone_are_no_conditions_in_time():
    found = split(ca.if_else(C > 2, X, T))
    assert (found.inputs.numel(), found.on_states) == (0, ())


def test_conditions_on_states_are_borders():
    found = split(ca.if_else(X > 2, 1, 0) + ca.fmax(X, C) + ca.if_else(X > T, 1, 0) + ca.floor(X))
    assert found.inputs.numel() == 0
    assert found.on_states == ()
    assert found.borders.words == ("2<x", "fmax(x,c)", "t<x", "floor(x)")
    assert found.borders.whole == (False, False, False, True)
    assert found.borders.level == (1, 1, 1, 1)


def test_borders_of_borders():
    found = split(ca.if_else(ca.fmax(X, C) > 2, X, T))
    assert found.borders.level == (1, 2)


def test_time_compared_with_what_a_border_decides_is_a_border():
    found = split(ca.if_else(T > ca.if_else(X > 1, 3, 5), X, 0))
    assert found.inputs.numel() == 0
    assert found.borders.level == (1, 2)


def test_equalities_of_states_are_named():
    found = split(ca.if_else(X == 2, 1, 0))
    assert found.on_states == ("x==2",)
    assert found.borders.kind == ()


def test_long_conditions_on_states_are_named_by_their_states():
    long = ca.sin(X) + C
    found = split(ca.if_else(long * ca.exp(long) > long**3, 1, 0))
    assert found.borders.words == ("a condition on x",)


@pytest.mark.parametrize(
    ("expression", "begin", "n"),
    [(T > 0, 0.0, 0), (T > 0, -1.0, 1), (2 * T >= 3, 1.5, 0), (2 * T >= 3, 1.4, 1), (T > C, 1e9, 1)],
)
def test_what_changes_at_no_time_behind_the_beginning_stays(expression, begin, n):
    found = split_at_conditions(ca.if_else(expression, X, 2 * X), T, X, begin)
    assert found.inputs.numel() == n


@pytest.mark.parametrize("t", [-3.7, -1.0, 0.2, 0.9, 2.6, 8.3])
@pytest.mark.parametrize(
    "expression",
    [
        ca.fabs(T - 1) * X, ca.fmin(T, C) * X, ca.fmax(C, T), ca.ceil(2 * T), ca.fmod(T, 1.5), ca.copysign(T, C - T),
        ca.if_else(ca.logic_or(T < -1, ca.logic_not(T < 2)), T, X), (T > 1) * X / (T - 1.5), ca.sign(C - T) * X,
        ca.if_else(T - 2 * ca.floor(T / 2) >= 1, X, C),
    ],
)  # fmt: skip
def test_with_its_inputs_it_is_the_same_function(expression, t):
    found = split(expression)
    numbers = {"t": t, "x": 1.7, "c": 1.9}

    def value(of, more):
        known = numbers | more
        symbols = ca.symvar(of)
        return float(ca.evalf(ca.substitute(of, ca.vertcat(*symbols), ca.vertcat(*(known[s.name()] for s in symbols)))))

    inputs: dict[str, float] = {}
    rules = {LESS: lambda g: g < 0, LESS_EQUAL: lambda g: g <= 0, GREATER: lambda g: g > 0}
    rules |= {GREATER_EQUAL: lambda g: g >= 0, SIGN: np.sign, MINUS_SIGN: lambda g: -np.sign(g)}
    rules |= {FLOOR: np.floor, CEIL: np.ceil, TRUNCATE: np.trunc}
    for level in sorted(set(found.level)):
        for j, (switch, kind) in enumerate(zip(found.switch_of, found.kind, strict=True)):
            if found.level[switch] == level:
                inputs[found.inputs[j].name()] = float(rules[kind](value(found.switches[switch], inputs)))
    assert value(found.out, inputs) == pytest.approx(value(ca.SX(expression), {}), rel=1e-14)


def test_traced_functions_are_treated_alike():
    def rhs(t, y, p):
        return {"x": of.where(t >= p.lag, 1.0, 0.0) - p.k * y.x}

    traced = of.Model.from_function(rhs, ["x"], ["k", "lag"], {"x": 0.0})
    text = of.Model.from_text("x' = if(t >= lag, 1, 0) - k*x\nx(0) = 0")
    data = of.Measurements.from_columns([1.0], {"x": [1.0]})
    parameters = [of.Parameter("k", 1.0), of.Parameter("lag", 0.5)]
    for model in (traced, text):
        compiled = compile_problem(of.Problem(model, parameters, data)).model(0)
        assert compiled.switches is not None
        assert compiled.switches.moving
        assert compiled.parameters[-2:] == ("(start of the piece)", "(length of the piece)")


def test_models_without_conditions_have_no_more_parameters():
    data = of.Measurements.from_columns([1.0], {"x": [1.0]})
    compiled = compile_problem(of.Problem(of.Model.from_text("x' = -k*x\nx(0) = 1"), [of.Parameter("k", 1.0)], data))
    assert compiled.model(0).switches is None
    assert compiled.model(0).parameters == ("k",)
