"""Events and doses in words and in pictures."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

import odefit as of
from odefit.report.events import words_for_events

TEXT = "x' = -k*x\nx(0) = 1\n"
TIMES = np.linspace(0.0, 4.0, 9)


def problem(*doses: of.Dose, text: str = TEXT, names: tuple[str, ...] = ("main",), **options) -> of.Problem:
    data = of.Measurements.from_columns(
        np.tile(TIMES, len(names)),
        {"x": np.tile(np.exp(-TIMES), len(names)) + 0.01 * np.cos(9 * np.arange(TIMES.size * len(names)))},
        experiment=np.repeat(names, TIMES.size).tolist(),
    )
    parameters = [of.Parameter("k", 0.8), *options.pop("parameters", ())]
    experiments = tuple(of.Experiment(name, events=doses) for name in names)
    return of.Problem(of.Model.from_text(text), parameters, data, experiments, **options)


def test_words_for_doses():
    made = problem(
        of.Dose(0.0, "x", 100.0, every=12.0, count=6),
        of.Dose("t1", "x", "2*k", "set"),
        of.Dose(1.0, "x", 3.0, duration=0.5),
        lag={"x": "tlag"},
        fraction={"x": 0.8},
        parameters=[of.Parameter("t1", 1.0), of.Parameter("tlag", 0.5)],
    )
    assert words_for_events(made) == [
        "Events",
        "  main: 100 to x at 0, 6 times, every 12; x is set to 2*k at t1; 3 to x at 1 over 0.5",
        "  of what is given to x, the fraction 0.8 arrives, tlag later",
    ]


def test_words_for_events_of_the_equations_and_for_doses_of_all_experiments():
    made = problem(of.Dose(0.0, "x", 1.0), text=TEXT + "at t=5: x = 0,\n  k = 2", names=("a", "b"))
    assert words_for_events(made) == ["Events", "  at t=5: x = 0, k = 2", "  all experiments: 1 to x at 0"]


@pytest.mark.parametrize(
    ("arrival", "words"),
    [
        ({"lag": {"x": 0.5}}, "  what is given to x arrives 0.5 later"),
        ({"fraction": {"x": 0.5}}, "  of what is given to x, the fraction 0.5 arrives"),
    ],
)
def test_words_for_lags_and_fractions(arrival, words):
    assert words_for_events(problem(of.Dose(0.0, "x", 1.0), **arrival))[-1] == words


def test_many_doses_are_counted():
    made = problem(*(of.Dose(float(i), "x", 1.0) for i in range(9)))
    assert words_for_events(made)[-1].endswith("3 more doses")


def test_no_words_without_events():
    assert words_for_events(problem()) == []


def marks(ax: Axes) -> list[float]:
    """Times at which there are lines."""
    lines = [one for one in ax.collections if isinstance(one, LineCollection) and one.get_label() == "_events"]
    return [float(path.vertices[0, 0]) for one in lines for path in one.get_paths()]


def test_plots_mark_doses():
    made = problem(of.Dose(1.0, "x", 0.01, every=1.0, count=2), of.Dose(100.0, "x", 1.0), lag={"x": 0.25})
    ax = of.fit(made).plot()
    assert marks(ax) == [1.25, 2.25]
    assert "dose" in [text.get_text() for text in ax.figure.legends[0].get_texts()]
    low, high = ax.get_ylim()
    assert low > -0.5
    assert high < 2.0


def test_plots_without_events_have_no_marks():
    ax = of.fit(problem()).plot()
    assert marks(ax) == []
    assert "dose" not in [text.get_text() for text in ax.figure.legends[0].get_texts()]


@pytest.mark.parametrize("count", [40, 41])
def test_very_many_doses_are_ticks(count):
    ax = of.fit(problem(of.Dose(0.05, "x", 1e-6, every=0.05, count=count))).plot()
    (lines,) = [one for one in ax.collections if one.get_label() == "_events"]
    heights = {float(path.vertices[1, 1]) for path in lines.get_paths()}
    assert heights == ({1.0} if count <= 40 else {0.03})


def test_start_values_from_data_need_a_model_without_events():
    with pytest.raises(of.UnsupportedError, match="for a model with events or doses"):
        of.fit(problem(of.Dose(1.0, "x", 0.1)), start="auto")
