"""Events on a condition in equation text: what they say, and what is said about mistakes."""

from __future__ import annotations

import pickle

import pytest

from odefit import LanguageError, Model

DECAY = "x' = -k*x\nx(0) = 1\n"


def test_what_an_event_says(evaluate):
    model = Model.from_text(DECAY + 'when x > a and t > 2: x = b*x, k = 0\nwhen x < 0.1 initially false: stop "empty"')
    first, second = model.state_events
    assert model.parameters == ("k", "a", "b")
    assert model.held == ("k (held)",)
    assert evaluate(first.condition, x=2.0, a=1.0, t=3.0) == 1.0
    assert evaluate(first.condition, x=2.0, a=1.0, t=1.0) == 0.0
    assert evaluate(first.changes["x"], x=2.0, b=3.0) == 6.0
    assert (first.stop, first.initially, first.text) == (None, None, "when x > a and t > 2: x = b*x, k = 0")
    assert (second.stop, second.initially, dict(second.changes)) == ("empty", False, {})


def test_it_is_pickled(evaluate):
    model = pickle.loads(pickle.dumps(Model.from_text(DECAY + "when x > a: k = 2*k\nwhen x < 0: stop")))
    first, second = model.state_events
    assert evaluate(first.condition, x=2.0, a=1.0) == 1.0
    assert list(first.changes) == ["k (held)"]
    assert second.stop == ""


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("when x > 1", "':' is missing behind the condition"),
        ("when x > 1:", "nothing stands behind ':'"),
        ("when : x = 1", "the condition of the event is missing"),
        ("when x: x = 1", "this is a number, not a condition"),
        ("when x = 1: x = 2", "a condition compares"),
        ("when x > 1 initially true: x = 2", "only 'initially false' can be said"),
        ("when x > 1: stop now", "behind stop comes nothing, or why in quotation marks"),
        ("when x > 1: y = 2", "the event changes 'y', which is no state"),
        ("when x > 1: x = 2, x = 3", "the event changes 'x' twice"),
        ("when x > 1: x' = 2", "an event changes values, not derivatives"),
    ],
)
def test_mistakes_are_named(line, words):
    with pytest.raises(LanguageError) as caught:
        Model.from_text(DECAY + line)
    assert words in str(caught.value)
    assert caught.value.line == 3
