"""Algebraic unknowns in equation text and in traced functions: which belong together, and what is refused."""

from __future__ import annotations

import pickle

import pytest

from odefit.errors import LanguageError, ModelError, UnsupportedError
from odefit.model import Model
from odefit.model.implicit import LARGEST_BLOCK

STATE = "x' = -k*a*x\nx(0) = 1\n"


def blocks(text: str) -> list[tuple[str, ...]]:
    return [one.unknowns for one in Model.from_text(text).implicit]


def test_an_unknown_is_a_definition():
    model = Model.from_text(f"{STATE}algebraic a ~ 0.5\n0 = a^2 - b*x\ny = 2*a")
    assert model.algebraic == ("a",)
    assert list(model.definitions) == ["y", "a"]
    assert model.parameters == ("k", "b")
    [block] = model.implicit
    assert (block.unknowns, block.equations, block.inner) == (("a",), ("0 = a^2 - b*x",), ())


def test_only_what_changes_in_an_iteration_is_left_in_the_equation():
    [block] = Model.from_text("algebraic a ~ 1\n0 = exp(b*t)*a^2 + (if(t > 1, b, c) + U(t))*a - 3").implicit
    assert block.n_arguments == 2
    [block] = Model.from_text("algebraic a ~ 1\n0 = a^2 - 2").implicit
    assert block.n_arguments == 0


@pytest.mark.parametrize(
    ("equations", "expected"),
    [
        ("0 = a - 1\n0 = b - a\n0 = c - b", [("a",), ("b",), ("c",)]),
        ("0 = c - b\n0 = b - a\n0 = a - 1", [("a",), ("b",), ("c",)]),
        ("0 = a + b - 1\n0 = a - b\n0 = c - a*b", [("a", "b"), ("c",)]),
        ("0 = a + c - 1\n0 = b - a\n0 = c - b", [("a", "b", "c")]),
        ("0 = a + q\nq = b + 1\n0 = b*a - 2\n0 = c - q", [("a", "b"), ("c",)]),
        ("0 = b - 1\n0 = c*a - b\n0 = a + c - b", [("a", "c"), ("b",)]),
    ],
)
def test_the_smallest_systems_are_found(equations, expected):
    assert blocks(f"algebraic a ~ 1\nalgebraic b ~ 1\nalgebraic c ~ 1\n{equations}") == expected


def test_definitions_that_need_an_unknown_are_put_into_its_equation():
    model = Model.from_text("algebraic a ~ 1\nq = r*a\nr = s + a\ns = 3*p\nunused = a\n0 = a + q - 1")
    assert model.implicit[0].inner == ("r", "q")
    assert model.implicit[0].n_arguments == 1  # s


def test_unknowns_survive_a_pickle():
    model = Model.from_text(f"{STATE}algebraic a ~ k\nalgebraic b ~ 1\n0 = a^2 - b*x\n0 = b + U(t) - a\nc = a*b")
    again = pickle.loads(pickle.dumps(model))
    assert again.algebraic == model.algebraic
    [one], [other] = model.implicit, again.implicit
    assert one.residual.serialize() == other.residual.serialize()
    assert (one.unknowns, one.equations, one.inner) == (other.unknowns, other.equations, other.inner)
    assert {k: str(v) for k, v in model.definitions.items()} == {k: str(v) for k, v in again.definitions.items()}


A = "algebraic a ~ 1\n"
FAULTS = [
    ("0 = x + y", 1, "this equation has no algebraic unknown; declare the unknown, algebraic x ~ 0.5 say"),
    (f"{A}", 1, "there is 1 algebraic unknown (a) but no equations 0 = ...; their numbers must match: add equations"),
    (f"{A}0 = a - 1\n0 = a + b", 1, "(a) but 2 equations 0 = ...; their numbers must match: add 'algebraic"),
    (f"{A}algebraic b ~ 1\n0 = a - 1\n0 = a - 2", 2, "the algebraic unknown 'b' stands in no equation 0 = ..."),
    (f"{A}0 = p - 1", 2, "this equation holds no algebraic unknown"),
    (
        f"{A}algebraic b ~ 1\nalgebraic c ~ 1\n0 = a - 1\n0 = a*2 - p\n0 = a + b + c", 5,
        "the 2 equations '0 = a - 1', '0 = a*2 - p' hold only a: one too many for it, and one too few for b, c",
    ),
    ("algebraic a\n0 = a - 1", 1, "an algebraic unknown has a guess, from which it is found; write algebraic x ~ 0.5"),
    ("algebraic\n0 = 1", 1, "the name of an algebraic unknown is missing"),
    ("algebraic a ~ \n0 = a - 1", 1, "an algebraic unknown has a guess"),
    ("algebraic sin ~ 1\n0 = sin - 1", 1, "'sin' is a function of the language"),
    ("x' = -x\nx(0) = 1\nalgebraic a ~ 2*x\n0 = a - x", 3, "the guess of 'a' depends on 'x'; use numbers, parameters"),
    ("algebraic a ~ 2*q\nq = sin(t)\n0 = a - t", 1, "the guess of 'a' depends on 't' through q; use numbers"),
    (f"{A}algebraic b ~ a\n0 = a - 1\n0 = b - 1", 2, "the guess of 'b' depends on 'a'"),
    (f"{A}0 = a - 1\na(0) = 3", 3, "'a' is an algebraic unknown (line 1), not a state, so it takes no initial value"),
    (f"{A}0 = a - 1\na' = 3\na(0) = 1", 3, "'a' = ...' contradicts 'algebraic a ~ ...' in line 1"),
    (f"{A}0 = a - 1\na = 3", 3, "'a = ...' contradicts 'algebraic a ~ ...' in line 1; a name has one meaning"),
    (f"{A}algebraic a ~ 2\n0 = a - 1\n0 = 2*a", 2, "'algebraic a ~ ...' stands in line 1 already; keep one"),
    (f"x' = -x\nx(0) = a\n{A}0 = a - x", 2, "x(0) depends on the state 'x' through a"),
    (f"x' = -x\nx(0) = a\n{A}0 = a - x(0)", 2, "need each other"),
    (f"{STATE}{A}0 = a - x\nat t=5: a = 3", 5, "'a' is an algebraic unknown, which an event cannot change"),
    (f"{STATE}{A}0 = a - x\nat t=a: x = 3", 5, "the time of the event depends on the state 'x' through a"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "message"), FAULTS)
def test_faults_are_named_with_their_line(text, line, message):
    with pytest.raises(LanguageError, match=f"^line {line}: ") as caught:
        Model.from_text(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (f"{A}0 = a - U(a)", r"a table of an algebraic unknown, within its own equations \(line 2: `0 = a - U\(a\)`\)"),
        ("algebraic field q(z)", "fields over a grid"),
    ],
)
def test_what_is_not_built_is_refused(text, what):
    with pytest.raises(UnsupportedError, match=what):
        Model.from_text(text)


def traced(**changed):
    arguments = {
        "states": ["x"], "parameters": ["k"], "initial": {"x": 1}, "algebraic": {"a": 0.5},
        "equations": lambda t, y, p: {"balance": y.a**2 - p.k * y.x},
    }  # fmt: skip
    return Model.from_function(lambda t, y, p: {"x": -y.a * y.x}, **{**arguments, **changed})


def test_python_functions_use_unknowns_like_states():
    model = traced(observables=lambda t, y, p: {"twice": 2 * y.a})
    assert model.algebraic == ("a",)
    assert [one.equations for one in model.implicit] == [("0 = ... of 'balance'",)]
    assert list(model.definitions) == ["twice", "a"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"equations": None}, "there is 1 algebraic unknown .a. but no equations"),
        ({"equations": lambda t, y, p: {"b": p.k}}, "equation 'b': this equation holds no algebraic unknown"),
        ({"algebraic": {"a": "2*x"}}, "the guess of 'a' depends on 'x'"),
        ({"algebraic": {"x": 1}}, "the name 'x' is given twice"),
        ({"initial": {"x": "a"}}, "the initial value of 'x' depends on 'a' -> 'x'"),
        ({"algebraic": {"a": None}}, "guess of 'a' has to be an expression or a number"),
    ],
)
def test_faults_in_python_are_named(changed, message):
    with pytest.raises(ModelError, match=message):
        traced(**changed)


def test_too_many_unknowns_that_need_each_other_are_refused_inside_and_states_otherwise():
    k = LARGEST_BLOCK + 1
    lines = [f"algebraic x{i} ~ 0\n0 = x{i} + sin(x{(i + 1) % k})" for i in range(k)]
    with pytest.raises(
        LanguageError, match=r"51 algebraic unknowns need each other \(x0, x1, x2, ...\), and at most 50"
    ):
        Model.from_text("\n".join(lines), unknowns="inside")
    assert len(Model.from_text("\n".join(lines)).algebraic_states) == k
    lines[-1] = f"algebraic x{k - 1} ~ 0\n0 = x{k - 1} + p"
    assert [len(one.unknowns) for one in Model.from_text("\n".join(lines)).implicit] == [1] * k
