"""Events in equation text: what they change, when, and what is said about mistakes."""

from __future__ import annotations

import pytest

from odefit import LanguageError, Model, UnsupportedError

DECAY = "x' = -k*x + r\nx(0) = x0\nr = 3*t\nx0 = 2*k\n"


def test_states_are_changed_by_expressions_of_the_values_before(evaluate):
    model = Model.from_text("x' = -k*x\nx(0) = 1\ny' = x\ny(0) = 0\nat t=t1 + 2*lag: x += 5*dose, y = x")
    (event,) = model.events
    assert model.held == ()
    assert model.parameters == ("k", "t1", "lag", "dose")
    assert evaluate(event.time, t1=1.0, lag=0.25) == 1.5
    assert list(event.changes) == ["x", "y"]
    assert evaluate(event.changes["x"], x=2.0, dose=3.0) == 17.0
    assert evaluate(event.changes["y"], x=2.0) == 2.0
    assert event.text == "at t=t1 + 2*lag: x += 5*dose, y = x"


@pytest.mark.parametrize(("operator", "expected"), [("=", 4.0), ("+=", 14.0), ("-=", 6.0), ("*=", 40.0), ("/=", 2.5)])
def test_operators(operator, expected, evaluate):
    model = Model.from_text(f"x' = 0\nx(0) = 1\nat t=1: x {operator} a + 1")
    assert evaluate(model.events[0].changes["x"], x=10.0, a=3.0) == expected


def test_events_keep_the_order_of_the_text_and_their_text_without_comments():
    model = Model.from_text("x' = 0\nx(0) = 1\nat t = 5: x = 1,  # first\n  k = 2\nk2 = k\nat t=3: x = max(1, k)")
    assert [event.text for event in model.events] == ["at t = 5: x = 1, k = 2", "at t=3: x = max(1, k)"]
    assert [float(event.time) for event in model.events] == [5.0, 3.0]


def test_another_time():
    model = Model.from_text("x' = 0\nx(0) = 1\nat s=5: x = s", time="s")
    assert str(model.events[0].changes["x"]) == "s"


def test_a_parameter_is_held_by_a_state(evaluate):
    """Equations, definitions and events use what holds it; initial values and times the parameter itself."""
    model = Model.from_text(DECAY + "at t=k: k = 2*k + x\nz = k")
    assert model.states == ("x", "k (held)")
    assert (model.held, model.shown, model.changed_by_events) == (("k (held)",), ("x",), ("k",))
    assert model.parameters == ("k",)
    assert "k (held)" not in model.names
    values = {"k (held)": 5.0, "k": 7.0, "x": 2.0, "t": 0.0, "r": 0.0}
    assert evaluate(model.rhs["x"], **values) == -10.0
    assert evaluate(model.rhs["k (held)"]) == 0.0
    assert evaluate(model.initial["k (held)"], **values) == 7.0
    assert evaluate(model.definitions["z"], **values) == 5.0
    assert evaluate(model.events[0].time, **values) == 7.0
    assert evaluate(model.events[0].changes["k (held)"], **values) == 12.0
    assert evaluate(model.expression("k"), **values) == 7.0


def test_a_definition_of_a_held_parameter_in_an_initial_value_is_that_at_the_start(evaluate):
    model = Model.from_text(DECAY + "at t=x0 + 1: k = 0")
    start, time = model.resolve([model.initial["x"], model.events[0].time], at_start=True)
    assert evaluate(start, k=3.0) == 6.0
    assert evaluate(time, k=3.0) == 7.0
    replaced = model.resolve([model.initial["x"]], {"k": model.expression("4")}, at_start=True)[0]
    assert evaluate(replaced) == 8.0


def test_a_definition_is_held_from_its_first_event_on(evaluate):
    model = Model.from_text(DECAY + "at t=5: r += x")
    assert model.states == ("x", "r (held)", "r (is set)")
    rhs = model.resolve([model.rhs["x"]])[0]
    values = {"t": 2.0, "x": 1.0, "k": 1.0, "r (held)": 100.0}
    assert evaluate(rhs, **values, **{"r (is set)": 0.0}) == 5.0
    assert evaluate(rhs, **values, **{"r (is set)": 1.0}) == 99.0
    changed = model.events[0].changes
    assert list(changed) == ["r (held)", "r (is set)"]
    assert evaluate(model.resolve([changed["r (held)"]])[0], **values, **{"r (is set)": 0.0}) == 7.0
    assert float(changed["r (is set)"]) == 1.0
    assert float(model.initial["r (is set)"]) == 0.0


def test_a_parameter_that_only_events_use():
    model = Model.from_text("x' = 0\nx(0) = 1\nat t=t1: x = a, b = 2\nat t=2: x = b")
    assert model.parameters == ("t1", "a", "b")
    assert model.held == ("b (held)",)


def test_rates_are_added_to_right_sides(evaluate):
    model = Model.from_text(DECAY + "at t=5: k = 0")
    given = model.with_rates(("x",))
    assert given.states == ("x", "k (held)", "rate into x")
    assert given.held == ("k (held)", "rate into x")
    assert given.shown == ("x",)
    values = {"k (held)": 5.0, "x": 2.0, "r": 0.0, "rate into x": 4.0}
    assert evaluate(given.rhs["x"], **values) == -6.0
    assert (float(given.rhs["rate into x"]), float(given.initial["rate into x"])) == (0.0, 0.0)
    assert given.events == model.events
    assert model.with_rates(("x",)) is given
    assert given.with_rates(("x",)) is given
    assert model.with_rates(()) is model


ERRORS = [
    ("at t=5 x=1", 10, "':' is missing behind the time of the event; an event is written at t=5: x += 1, y = 0"),
    ("at t=: x=1", 6, "the time of the event is missing"),
    ("at t=5:", 7, "nothing stands behind ':'"),
    ("at (t=3): x=1", 4, "behind 'at' the time has to come"),
    ("at t", 4, "behind 'at' the time has to come"),
    ("at t=2*x: x=1", 8, "the time of the event depends on the state 'x'"),
    ("at t=k + r: x=1", 10, "the time of the event depends on the independent variable 't' through r"),
    ("at t=5: x' = 1", 10, "an event changes values, not derivatives; write x = ..."),
    ("at t=5: x(0) = 1", 10, "an event changes a name without brackets; write x = ..."),
    ("at t=5: yyy = 1", 9, "the event changes 'yyy', which is no state and does not occur in the equations"),
    ("at t=5: xx = 1", 9, "does not occur in the equations; did you mean 'x'?"),
    ("at t=5: x = 1, x = 2", 16, "the event changes 'x' twice; keep one"),
    ("at t=5: x ^= 2", 11, "an event does one of x = ..., x += ..., x -= ..., x *= ..., x /= ..."),
    ("at t=5: x", 9, "an event does one of"),
    ("at t=5: x = 1,, k = 2", 7, "a comma stands behind ':' or another comma; remove it"),
    ("at t=5: t = 1", 9, "'t' is the independent variable"),
    ("at t=5: exp = 1", 9, "'exp' is a function of the language"),
    ("at t=5: x /= 0", 9, "division by the constant zero"),
    ("at t=5: x = 1 k = 0", 15, "an operator is missing"),
    ("at t=5: x = 2*", 14, "the text ends after '*'"),
    ('at t=5: stop "x"', 9, "an event at a time cannot stop"),
    ("at t=5: x = yyy(1, 2, 3)", 13, "there is no function 'yyy'"),
]


@pytest.mark.parametrize(("event", "column", "message"), ERRORS)
def test_mistakes_have_their_place_and_their_sentence(event, column, message):
    with pytest.raises(LanguageError, match="^line 5: ") as caught:
        Model.from_text(DECAY + event)
    assert message in str(caught.value)
    assert (caught.value.line, caught.value.column) == (5, column)


def test_another_name_of_the_time_is_asked_for():
    with pytest.raises(LanguageError, match="the independent variable is called 's' here; write at s=..."):
        Model.from_text("x' = 0\nx(0) = 1\nat t=5: x = 1", time="s")


def test_tables_in_events():
    text = "x' = 0\nx(0) = 1\n"
    model = Model.from_text(text + "at t=5: x += U(t)", tables=["U"])
    assert list(model.tables) == ["U"]
    with pytest.raises(LanguageError, match="'U' is a table, which an event cannot change"):
        Model.from_text(text + "at t=5: U = 1", tables=["U"])
    with pytest.raises(UnsupportedError, match="the table 'U' in the time of an event"):
        Model.from_text(text + "at t=U(1): x = 1", tables=["U"])


def test_held_names_are_hidden_from_expressions():
    model = Model.from_text(DECAY + "at t=5: k = 0")
    with pytest.raises(LanguageError, match="known names: t, x, k, r, x0"):
        model.expression("qqqqq")
