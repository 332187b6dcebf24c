"""Models are values: pickles give the same equations, copies are the model."""

from __future__ import annotations

import copy
import pickle

import casadi as ca
import numpy as np
import pytest

import odefit as of
from odefit.model import Model
from odefit.model.kept import Kept

TEXT = "x' = -r*x + if(x > c, sin(t), exp(-t))\nx(0) = 2*a\ny' = x - y^2/k\ny(0) = 0\nr = k*f\nf = 2\nz = x + y"


def traced() -> Model:
    def rhs(t, y, p):
        return {"x": -p.k * y.x + of.exp(-t), "y": of.where(y.x > 1, y.x * p.k, 0.5)}

    return Model.from_function(
        rhs, ["x", "y"], ["k", "a"], {"x": "2*a", "y": 1.0}, observables=lambda t, y, p: {"z": y.x * p.a}
    )


MODELS = {
    "text": lambda: Model.from_text(TEXT),
    "another time": lambda: Model.from_text("x' = -k*x*s\nx(0) = 1", time="s"),
    "no states": lambda: Model.from_text("y = a + b*t"),
    "other letters": lambda: Model.from_text("α' = -β*α\nα(0) = 1"),
    "functions": traced,
    "events": lambda: Model.from_text(f"{TEXT}\nat t=5 + s: x += k, k *= 2, r = x\nat t=2*f: y = 0"),
    "rates": lambda: Model.from_text(f"{TEXT}\nat t=5: k = 2").with_rates(("y",)),
}


def numbers(model: Model) -> list[float]:
    """All right sides, definitions inlined, at one point."""
    names = [name for name in model.symbols if name not in model.definitions]
    right = [*model.rhs.values(), *model.initial.values(), *model.definitions.values()]
    right += [value for event in model.events for value in (event.time, *event.changes.values())]
    function = ca.Function("f", [model.symbols[name] for name in names], model.resolve(right))
    point = np.random.default_rng(3).uniform(0.5, 2.0, len(names))
    return [float(value) for value in function.call(list(point))]


@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
@pytest.mark.parametrize("kind", MODELS)
def test_a_pickle_holds_the_same_equations(kind, protocol):
    model = MODELS[kind]()
    other = pickle.loads(pickle.dumps(model, protocol))
    for name in ("time", "states", "parameters", "algebraic", "implicit", "held", "source"):
        assert getattr(other, name) == getattr(model, name)
    assert [(list(e.changes), e.text) for e in other.events] == [(list(e.changes), e.text) for e in model.events]
    for name in ("rhs", "initial", "definitions", "symbols", "tables", "mass"):
        assert list(getattr(other, name)) == list(getattr(model, name))
        assert {key: str(value) for key, value in getattr(other, name).items()} == {
            key: str(value) for key, value in getattr(model, name).items()
        }
    assert numbers(other) == numbers(model)


def test_symbols_of_a_pickle_are_its_own():
    model = Model.from_text(TEXT)
    other = pickle.loads(pickle.dumps(model))
    assert other.symbols["x"].element_hash() != model.symbols["x"].element_hash()
    # texts are read with the symbols of the pickle's own equations
    resolved = other.resolve([other.expression("r + k")])[0]
    assert str(resolved) == str(model.resolve([model.expression("r + k")])[0])


@pytest.mark.parametrize("field", ["rhs", "initial", "definitions", "symbols", "mass"])
def test_mappings_of_a_pickle_are_read_only(field):
    other = pickle.loads(pickle.dumps(Model.from_text(TEXT)))
    with pytest.raises(TypeError, match="does not support item assignment"):
        getattr(other, field)["x"] = 1


def test_a_copy_is_the_model():
    model = Model.from_text(TEXT)
    assert copy.copy(model) is model
    assert copy.deepcopy([model, model]) == [model, model]


def test_deep_expressions():
    """Depth is limited by memory only."""
    count = 20_000
    terms = " + ".join(f"sin(k*{i})" for i in range(count))
    model = Model.from_text(f"x' = {terms}\nx(0) = 1")
    other = pickle.loads(pickle.dumps(model))
    assert numbers(other) == numbers(model)


def test_kept_things_are_made_once_and_the_oldest_dropped():
    kept, made = Kept(most=2), []

    def make(key: str) -> str:
        return kept.get(key, lambda: made.append(key) or key.upper())

    assert [make(key) for key in "abab"] == list("ABAB")
    assert made == ["a", "b"]
    make("c")  # drops a, which was used before b
    make("b")
    assert made == ["a", "b", "c"]
    make("a")
    assert made == ["a", "b", "c", "a"]


def test_what_could_not_be_made_is_not_kept():
    kept = Kept()
    with pytest.raises(ZeroDivisionError, match="division"):
        kept.get("one", lambda: 1 // 0)
    assert kept.get("one", lambda: 1) == 1
