from __future__ import annotations

import casadi as ca
import numpy as np
import pytest

from odefit.errors import LanguageError, ModelError
from odefit.model import Model, where

TEXT = "y1' = k1*y1 - k2*y1*y2\ny2' = k2*y1*y2 - k3*y2\ny1(0) = 1\ny2(0) = 0.3"


def barnes(t, y, p):
    meeting = p.k2 * y.y1 * y["y2"]
    return {"y1": p["k1"] * y.y1 - meeting, "y2": meeting - p.k3 * y.y2}


def trace(rhs=barnes, states=("y1", "y2"), parameters=("k1", "k2", "k3"), initial=None, **options):
    initial = {"y1": 1, "y2": 0.3} if initial is None else initial
    return Model.from_function(rhs, states, parameters, initial, **options)


def values(model: Model) -> np.ndarray:
    arguments = [model.symbols[name] for name in (*model.states, *model.parameters)]
    results = [*model.rhs.values(), *model.initial.values()]
    point = 1.0 + 0.3 * np.arange(len(arguments))
    return ca.Function("f", [ca.vertcat(*arguments)], [ca.vertcat(*results)])(point).full().ravel()


def test_same_as_text():
    traced, read = trace(), Model.from_text(TEXT)
    assert (traced.states, traced.parameters, traced.source) == (read.states, read.parameters, None)
    assert values(traced) == pytest.approx(values(read), rel=1e-15)


def test_order_of_states_is_the_given_one():
    assert trace(states=("y2", "y1")).states == ("y2", "y1")
    assert tuple(trace(states=("y2", "y1")).rhs) == ("y2", "y1")


def test_numbers_time_and_where(evaluate):
    model = Model.from_function(
        lambda t, y, p: {"a": np.exp(t) * p.k, "b": 2, "c": where(y.a > 0, 1, np.float32(0.5))},
        ["a", "b", "c"],
        ["k"],
        {"a": 1, "b": np.float64(2), "c": np.array(3.0)},
    )
    assert evaluate(model.rhs["a"], t=0.0, k=3.0) == 3.0
    assert float(model.rhs["b"]) == 2.0
    assert evaluate(model.rhs["c"], a=-1.0) == 0.5


@pytest.mark.parametrize(
    "initial",
    [
        {"y1": "2*k1", "y2": "k2"},
        lambda p: {"y1": 2 * p.k1, "y2": p.k2},
        lambda p: {"y1": "2*k1", "y2": p["k2"]},
        {"y1": "twice", "y2": "k2"},
    ],
)
def test_initial_values(initial, evaluate):
    model = trace(initial=initial, observables=lambda t, y, p: {"twice": 2 * p.k1})
    start = model.resolve([model.initial["y1"], model.initial["y2"]])
    assert [evaluate(start[0], k1=3.0), evaluate(start[1], k2=5.0)] == [6.0, 5.0]


def test_observables_become_definitions(evaluate):
    model = trace(observables=lambda t, y, p: {"total": y.y1 + y.y2, "one": 1})
    assert tuple(model.definitions) == ("total", "one")
    assert evaluate(model.resolve([model.expression("2*total")])[0], y1=1.0, y2=2.0) == 6.0


def test_no_states(evaluate):
    model = Model.from_function(lambda t, y, p: {}, [], ["a"], {}, observables=lambda t, y, p: {"y": p.a * t})
    assert evaluate(model.definitions["y"], a=2.0, t=3.0) == 6.0


def test_names_are_normalised():
    model = Model.from_function(lambda t, y, p: {"ﬁ": y["ﬁ"]}, ["ﬁ"], [], {"ﬁ": 1})
    assert model.states == ("fi",)


def _raise_type_error(t, y, p):
    return {"y1": y.y1 % 2, "y2": 1}


def _assign(t, y, p):
    y.y1 += 1
    return {}


def _assign_item(t, y, p):
    y["y1"] = 1
    return {}


WRONG_RHS = {
    "unknown state": (lambda t, y, p: {"y1": y.yy1}, "the model has no state 'yy1'; did you mean 'y1'"),
    "unknown item": (lambda t, y, p: {"y1": p["kk1"]}, "the model has no parameter 'kk1'; did you mean 'k1'"),
    "by place": (lambda t, y, p: {"y1": y[0]}, "the model has no state 0; use names such as 'y1'"),
    "unpacked": (lambda t, y, p: {"y1": list(y)}, "is reached by its name"),
    "missing": (lambda t, y, p: {"y1": 1}, "rhs gives no value for 'y2'"),
    "extra": (lambda t, y, p: {"y1": 1, "y2": 1, "yy1": 1}, "'yy1', which is not a state; did you mean"),
    "odd key": (lambda t, y, p: {1: 1}, "1, which is not a state"),
    "nothing": (lambda t, y, p: None, r"got None \(is a return missing\?\)"),
    "list": (lambda t, y, p: [1, 2], "has to return a dict from name to value, got a list"),
    "NaN": (lambda t, y, p: {"y1": np.nan, "y2": 1}, "rhs of 'y1' is nan"),
    "inf": (lambda t, y, p: {"y1": 1, "y2": np.inf}, "rhs of 'y2' is inf"),
    "array": (lambda t, y, p: {"y1": np.ones(2), "y2": 1}, "rhs of 'y1' has to be an expression or a number"),
    "text": (
        lambda t, y, p: {"y1": "k1", "y2": 1},
        "rhs of 'y1' has to be an expression or a number, got a str",
    ),
    "own error": (_raise_type_error, "the rhs function raised TypeError: unsupported operand"),
    "signature": (lambda t, y: {}, "the rhs function raised TypeError"),
    "assignment": (_assign, "state 'y1' cannot be assigned to"),
    "item assignment": (_assign_item, "state 'y1' cannot be assigned to"),
}


@pytest.mark.parametrize("case", WRONG_RHS)
def test_wrong_rhs(case):
    rhs, message = WRONG_RHS[case]
    with pytest.raises(ModelError, match=message):
        trace(rhs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"states": ("y1", "y1")}, "'y1' is given twice"),
        ({"parameters": ("k1", "y1")}, "'y1' is given twice"),
        ({"states": ("y1", "exp")}, "state 'exp': 'exp' is a function of the language"),
        ({"states": ("y1", "pi")}, "'pi' is a reserved word"),
        ({"parameters": ("k 1",)}, "parameter 'k 1' is not a name"),
        ({"parameters": (1,)}, "parameter names are strings, got 1"),
        ({"parameters": "k1"}, "parameters are given as a list of names"),
        ({"states": ("t",)}, "'t' is the independent variable"),
        ({"time": "y1"}, "'y1' is the independent variable"),
        ({"initial": {"y1": 1}}, "initial gives no value for 'y2'"),
        ({"initial": {"y1": 1, "y2": 1, "y": 1}}, "'y', which is not a state"),
        ({"initial": [1, 2]}, "initial has to be a dict from state to value, got a list"),
        ({"initial": lambda p: [1, 2]}, "the initial function has to return a dict"),
        ({"initial": {"y1": np.nan, "y2": 1}}, "initial value of 'y1' is nan"),
        ({"initial": {"y1": None, "y2": 1}}, "initial value of 'y1' has to be"),
        ({"initial": {"y1": "y2", "y2": 1}}, "the initial value of 'y1' depends on 'y2', which varies"),
        ({"initial": {"y1": "t", "y2": 1}}, "the initial value of 'y1' depends on 't', which varies"),
        ({"observables": lambda t, y, p: {"y1": y.y1}}, "'y1' is given twice"),
        ({"observables": lambda t, y, p: {"a b": 1}}, "observable 'a b' is not a name"),
        ({"observables": lambda t, y, p: {"a": "y1"}}, "observable 'a' has to be an expression"),
        ({"observables": lambda t, y, p: 3}, "the observables function has to return a dict"),
    ],
)
def test_wrong_arguments(options, message):
    with pytest.raises(ModelError, match=message):
        trace(**options)


def test_initial_value_through_an_observable():
    with pytest.raises(ModelError, match="depends on 'total' -> 'y1', which varies"):
        trace(initial={"y1": "total", "y2": 1}, observables=lambda t, y, p: {"total": y.y1 + p.k1})


def test_initial_text_with_unknown_name():
    with pytest.raises(LanguageError, match="unknown name 'kk1'; did you mean 'k1'"):
        trace(initial={"y1": "kk1", "y2": 1})


def test_expression_kept_from_another_model():
    kept = []

    def keeping(t, y, p):
        kept.append(p.k1)
        return {"y1": kept[0], "y2": 1}

    trace(keeping)
    with pytest.raises(ModelError, match="'y1' uses an expression that was kept from another model"):
        trace(keeping)


def test_own_error_is_chained():
    with pytest.raises(ModelError, match="ZeroDivisionError") as caught:
        trace(lambda t, y, p: {"y1": 1 / 0})
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_interrupt_passes():
    def interrupted(t, y, p):
        raise KeyboardInterrupt("stop")

    with pytest.raises(KeyboardInterrupt, match="stop"):
        trace(interrupted)


def test_values_have_no_other_attributes():
    def curious(t, y, p):
        assert not hasattr(y, "__array_interface__")
        return {"y1": 1, "y2": 1}

    trace(curious)


def test_large_network_is_traced():
    n_states, n_reactions = 1000, 3000
    states, rates = [f"s{i}" for i in range(n_states)], [f"k{i}" for i in range(n_reactions)]
    reactions = np.random.default_rng(1).integers(n_states, size=(n_reactions, 3)).tolist()

    def network(t, y, p):
        change = dict.fromkeys(states, 0.0)
        for rate, (a, b, c) in zip(rates, reactions, strict=True):
            flux = p[rate] * y[states[a]] * y[states[b]]
            change[states[a]] -= flux
            change[states[b]] -= flux
            change[states[c]] += flux
        return change

    model = Model.from_function(network, states, rates, dict.fromkeys(states, 1.0))
    assert len(model.rhs) == n_states
