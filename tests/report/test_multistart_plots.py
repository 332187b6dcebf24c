"""The pictures of a multistart: sorted objectives, and estimates in the colours of their minima."""

from __future__ import annotations

import math

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

import odefit as of
from odefit.gallery import load
from odefit.report.plots import style
from odefit.report.plots.files import png, write_plots
from odefit.report.plots.multistart import plot_parameters, plot_waterfall
from odefit.study.record import Multistart, StartRun


def run(number: int, objective: float, status: str = "converged", **estimates: float) -> StartRun:
    values = estimates or {"a": 1.0 + 0.1 * objective if math.isfinite(objective) else 1.0, "b": 2.0}
    return StartRun(number, dict.fromkeys(values, 1.5), status, "", objective, values, 3, 4)


def multistart(*runs: StartRun, best: int = 0, **options) -> Multistart:
    return Multistart(tuple(runs), seed=7, asked=len(runs), best=best, **options)


MIXED = multistart(
    run(0, 1.0), run(1, 50.0, "stalled"), run(2, 1.0), run(3, 4.0), run(4, math.nan, "failed"), run(5, 1.0),
    run(6, 60.0, "stalled"), run(7, 30.0, "iteration-limit"), run(8, math.inf, "failed"),
)  # fmt: skip


def texts(figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def marked(ax) -> dict[str, np.ndarray]:
    """Marks of the waterfall by label."""
    return {line.get_label(): line.get_xydata() for line in ax.lines if line.get_linestyle() == "None"}


class TestWaterfall:
    def test_sorted_objectives_by_minimum_and_status(self):
        ax = MIXED.plot_waterfall()
        shown = marked(ax)
        assert list(shown) == [
            "objective 1: 3 runs", "objective 4: 1 run", "iteration-limit: 1 run", "stalled: 2 runs",
        ]  # fmt: skip
        assert shown["objective 1: 3 runs"].tolist() == [[1, 1.0], [2, 1.0], [3, 1.0]]
        assert shown["objective 4: 1 run"].tolist() == [[4, 4.0]]
        assert shown["stalled: 2 runs"].tolist() == [[6, 50.0], [7, 60.0]]
        assert texts(ax.figure) == [*shown, "failed, no objective: 2 runs"]
        assert ax.get_yscale() == "log"
        assert [t.get_text() for t in ax.texts] == ["3\N{MULTIPLICATION SIGN}"]
        marks = {line.get_label(): line.get_marker() for line in ax.lines}
        assert len({marks[label] for label in shown}) == 3  # both minima are circles

    def test_many_minima_share_a_colour(self):
        ax = multistart(*(run(i, 2.0**i) for i in range(9))).plot_waterfall()
        assert list(marked(ax))[-1] == "4 higher minima: 4 runs"
        assert len(marked(ax)) == 6

    @pytest.mark.parametrize(
        ("objectives", "scale", "heights"),
        [
            ([0.0, 1e-25, 3.0], "log", [1e-12, 1e-12, 3.0]),
            ([0.0, 0.0], "linear", [0.0, 0.0]),
            ([1e-20, 1e-18], "linear", [1e-20, 1e-18]),
            ([5.0, 6.0], "linear", [5.0, 6.0]),
            ([2.0, 2.0], "linear", [2.0, 2.0]),
        ],
    )
    def test_objectives_that_are_zero_tiny_or_alike(self, objectives, scale, heights):
        ax = multistart(*(run(i, value) for i, value in enumerate(objectives))).plot_waterfall()
        assert ax.get_yscale() == scale
        np.testing.assert_array_equal(np.concatenate(list(marked(ax).values()))[:, 1], heights)
        assert ("smaller ones" in ax.get_ylabel()) == (heights[0] > objectives[0])

    def test_rounding_is_not_blown_up(self):
        ax = multistart(*(run(i, 35.87 + 1e-7 * i) for i in range(5))).plot_waterfall()
        assert np.ptp(ax.get_ylim()) > 3.0

    def test_runaway_objectives_do_not_squeeze_the_others(self):
        ax = multistart(run(0, 1.0), run(1, 20.0), run(2, 1e200, "stalled")).plot_waterfall()
        assert ax.get_ylim()[1] < 1e19
        assert "up to 1e+200" in [text.get_text() for text in ax.texts]

    def test_nothing_to_plot(self):
        lost = multistart(run(0, math.nan, "failed"), run(1, math.nan, "failed"))
        for draw in (lost.plot_waterfall, lost.plot_parameters):
            with pytest.raises(of.OdefitError, match=r"nothing to plot: no run has an objective \(failed 2\)\."):
                draw()


class TestParameters:
    def test_lines_are_the_estimates(self):
        ax = MIXED.plot_parameters()
        assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]
        assert ax.get_ylim() == (1.5, -0.5)  # the first on top
        drawn = [line.get_xydata().tolist() for line in ax.lines]
        assert len(drawn) == 7  # those with an objective
        assert drawn[-1] == [[1.1, 0], [2.0, 1]]  # the best in front
        front = ax.lines[-1]
        assert front.get_zorder() == max(line.get_zorder() for line in ax.lines)
        colours = [line.get_color() for line in ax.lines]
        assert [colours.count(c) for c in style.COLOURS[:2]] == [3, 1]
        assert colours.count(style.GREY) == 3

    def test_the_best_stands_out_if_none_converged(self):
        ax = multistart(run(0, 3.0, "stalled"), run(1, 2.0, "stalled"), best=1).plot_parameters()
        assert ax.lines[-1].get_color() == style.INK
        assert ax.lines[-1].get_xdata()[0] == pytest.approx(1.2)

    @pytest.mark.parametrize(
        ("estimates", "scales", "expected"),
        [
            ({"a": 1.0, "b": 5.0}, {}, "linear"),
            ({"a": 1.0, "b": 50.0}, {}, "linear"),
            ({"a": 1.0, "b": 50.0}, {"b": "log"}, "log"),
            ({"a": 1.0, "b": 500.0}, {}, "log"),
            ({"a": -1.0, "b": 500.0}, {"b": "log"}, "linear"),
            ({"a": -1e-3, "b": 500.0}, {}, "symlog"),
            ({"a": 0.0, "b": 0.0}, {}, "linear"),
        ],
    )
    def test_scale_of_the_axis(self, estimates, scales, expected):
        ax = multistart(run(0, 1.0, **estimates), scales=scales).plot_parameters()
        assert ax.get_xscale() == expected
        low, high = ax.get_xlim()
        assert low < min(estimates.values()) <= max(estimates.values()) < high

    def test_bounds_that_are_near_are_marked(self):
        bounds = {"a": (0.9, 1e6), "b": (-math.inf, 2.2)}
        ax = multistart(run(0, 1.0), bounds=bounds).plot_parameters()
        marks = [line.get_xydata()[0].tolist() for line in ax.lines if line.get_marker() == "|"]
        assert marks == [[0.9, 0], [2.2, 1]]
        assert texts(ax.figure)[-1] == "bound"
        assert ax.get_xlim()[1] < 10

    def test_runs_that_ran_away_do_not_squeeze_the_others(self):
        ax = multistart(
            run(0, 1.0, a=1.0, b=300.0), run(1, 2.0, a=1e-250, b=1.0), run(2, 3.0, "flat-valley", a=1e200, b=1.0)
        ).plot_parameters()
        assert ax.get_xscale() == "log"
        assert 1e-2 < ax.get_xlim()[0] < ax.get_xlim()[1] < 1e4

    def test_starts_are_drawn_if_asked_for(self):
        ax = MIXED.plot_parameters(starts=True)
        assert [line.get_xdata().tolist() for line in ax.lines[:7]] == [[1.5, 1.5]] * 7
        assert texts(ax.figure)[-1] == "start"

    def test_many_parameters(self):
        many = multistart(run(0, 1.0, **{f"parameter_with_a_long_name_number_{i}": 1.0 + i for i in range(80)}))
        ax = many.plot_parameters()
        labels = ax.get_yticklabels()
        assert len(labels) == 60
        assert all(len(label.get_text()) <= 28 for label in labels)
        assert "60 of 80 parameters shown" in ax.figure.get_suptitle()
        ax.figure.draw_without_rendering()
        boxes = [label.get_window_extent() for label in labels]
        assert not any(one.overlaps(other) for one, other in zip(boxes, boxes[1:], strict=False))

    def test_chosen_parameters(self):
        ax = MIXED.plot_parameters(parameters="b")
        assert [label.get_text() for label in ax.get_yticklabels()] == ["b"]
        with pytest.raises(of.OdefitError, match="no estimated parameter 'c' to plot"):
            MIXED.plot_parameters(parameters=["b", "c"])


@pytest.fixture(scope="module")
def barnes():
    return of.fit(load("barnes"), starts=12, seed=1, workers=1)


def test_of_a_real_fit(barnes):
    found = barnes.multistart
    ax = found.plot_waterfall()
    labels = [label for label in marked(ax) if label.startswith("objective")]
    assert len(labels) == min(5, len(found.minima))
    assert sum(len(data) for data in marked(ax).values()) == 12
    ax = found.plot_parameters()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["k1", "k2", "k3"]
    np.testing.assert_array_equal(ax.lines[-1].get_xdata(), [barnes.estimates[name] for name in ("k1", "k2", "k3")])


def test_bounds_and_scales_are_those_of_the_problem():
    found = of.fit(load("arrhenius"), starts=2, workers=1).multistart
    assert found.bounds["E1"] == (1e4, 2e5)
    assert found.bounds["k1ref"] == (-math.inf, math.inf)
    assert (found.scales["E1"], found.scales["k1ref"]) == ("linear", "log")
    assert list(found.bounds) == list(found.runs[0].estimates)


@pytest.mark.parametrize("draw", ["plot_waterfall", "plot_parameters"])
def test_given_axes_are_filled_and_returned(draw):
    figure, given = plt.subplots()
    assert getattr(MIXED, draw)(given) is given
    assert given.get_legend() is not None
    assert plt.get_fignums() == [figure.number]


@pytest.mark.parametrize("draw", [plot_waterfall, plot_parameters])
def test_legend_lies_inside_the_figure(draw):
    figure = Figure()
    draw(MIXED, figure=figure)
    figure.draw_without_rendering()
    box = figure.legends[0].get_window_extent()
    assert figure.bbox.x0 - 1 <= box.x0 <= box.x1 <= figure.bbox.x1 + 1
    assert not plt.get_fignums()


def test_files_of_several_starts(barnes, tmp_path):
    told = write_plots(barnes, tmp_path / "new")
    names = ["fit.png", "waterfall.png", "parameters.png"]
    assert told == [f"wrote {tmp_path / 'new' / name}" for name in names]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted(names)
    assert (tmp_path / "new" / "waterfall.png").read_bytes() == png(plot_waterfall, barnes.multistart)


def test_what_cannot_be_drawn_is_told(tmp_path):
    """A fit of which no run has an objective still gets the picture of its data."""
    problem = of.Problem(
        model=of.Model.from_text("x' = k*x^2\nx(0) = 1"),
        parameters=[of.Parameter("k", 1.0, lower=0.9, upper=1.1)],
        measurements=of.Measurements.from_columns([0.0, 0.5, 2.0], {"x": [1.0, 1.2, 1.6]}),
    )
    told = write_plots(of.fit(problem, starts=2, workers=1), tmp_path)
    assert told[0] == f"wrote {tmp_path / 'fit.png'}"
    assert [line.split(" (")[0] for line in told[1:]] == [
        f"no {name}: there is nothing to plot: no run has an objective" for name in ("waterfall.png", "parameters.png")
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["fit.png"]


def test_folder_that_cannot_be_made(barnes, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(of.OdefitError, match=r"the plot cannot be written to '.*fit\.png'"):
        write_plots(barnes, tmp_path / "file")
