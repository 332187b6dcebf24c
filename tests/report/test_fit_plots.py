"""result.plot(): what is drawn is the data and the model, and a figure stays legible."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

import odefit as of
from odefit.gallery import load
from odefit.report.plots import style
from odefit.report.plots.files import png
from odefit.report.plots.fit import plot_fit
from odefit.report.plots.series import curves_of, first_decade, series_of


def fitted(name: str):
    return of.fit(load(name))


def curves(ax: Axes) -> list[np.ndarray]:
    """The model's lines of a panel, (m, 2) each."""
    return [line.get_xydata() for line in ax.lines if line.get_linestyle() != "None"]


def points(ax: Axes, kind: str = "data") -> np.ndarray:
    """The drawn measurements of one kind, (m, 2)."""
    found = [c.lines[0].get_xydata() for c in ax.containers if c.get_label() == f"_{kind}"]
    return np.concatenate(found) if found else np.empty((0, 2))


def legend_texts(figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def decays(n: int, title: str = "") -> of.Problem:
    """`n` experiments with two observables."""
    t = np.linspace(0.0, 3.0, 5)
    dose = np.linspace(1.0, 2.0, n)
    x = dose[:, None] * np.exp(-0.5 * t)
    names = [f"s{i}" for i in range(n)]
    return of.Problem(
        model=of.Model.from_text("x' = -k*x\ny = d - x\nx(0) = d\nd = 1"),
        parameters=[of.Parameter("k", 1.0)],
        experiments=[of.Experiment(s, (of.Period(0.0, {"d": float(v)}),)) for s, v in zip(names, dose, strict=True)],
        measurements=of.Measurements.from_columns(
            np.tile(t, n),
            {"x": (x + 0.01 * np.cos(9.0 * t)).ravel(), "y": (dose[:, None] - x + 0.01 * np.sin(9.0 * t)).ravel()},
            experiment=np.repeat(names, t.size),
        ),
        title=title,
    )


def spectra(n: int) -> of.Problem:
    """One decay seen at `n` wavelengths, each with an absorptivity of its own."""
    t = np.tile(np.linspace(0.0, 4.0, 9), n)
    wave = np.repeat([str(350 + 10 * i) for i in range(n)], 9)
    size = 1.0 + np.repeat(np.arange(n), 9) / n
    return of.Problem(
        model=of.Model.from_text("A' = -k*A\nA(0) = 1\nabsorbance = e*A"),
        parameters=[of.Parameter("k", 1.0), of.Parameter("e", 1.0, per="wavelength", scale="log")],
        measurements=of.Measurements(
            experiment=["main"] * t.size, time=t, observable=["absorbance"] * t.size,
            value=size * np.exp(-0.7 * t) + 0.02 * np.cos(7.0 * t * size), groups={"wavelength": wave},
        ),
    )  # fmt: skip


class TestContents:
    def test_points_are_the_data_and_the_curve_is_the_simulation(self):
        result = fitted("barnes")
        axes = result.plot()
        assert [ax.get_ylabel() for ax in axes] == ["y1", "y2"]
        data = result.problem.measurements
        for ax, name in zip(axes, ("y1", "y2"), strict=True):
            own = data.observable == name
            np.testing.assert_array_equal(points(ax), np.column_stack((data.time[own], data.value[own])))
            [curve] = curves(ax)
            assert len(curve) >= 200
            expected = of.simulate(result.problem, result.estimates, curve[:, 0])[name]
            np.testing.assert_allclose(curve[:, 1], expected, rtol=1e-6, atol=1e-8)

    def test_band_is_that_of_predict(self):
        result = fitted("barnes")
        ax = result.plot(observable="y2")
        [band] = [c for c in ax.collections if isinstance(c, PolyCollection)]
        corners = band.get_paths()[0].vertices
        times = curves(ax)[0][:, 0]
        expected = result.predict(times)
        for column, extreme in (("y2.lower", np.min), ("y2.upper", np.max)):
            drawn = [extreme(corners[corners[:, 0] == t, 1]) for t in times]
            np.testing.assert_allclose(drawn, expected[column], rtol=1e-9, atol=1e-12)

    def test_band_can_be_left_out(self):
        ax = fitted("barnes").plot(observable="y1", band=False)
        assert not ax.collections
        assert legend_texts(ax.figure) == ["data", "model"]

    def test_error_bars_where_sigma_is_given(self):
        result = fitted("herbert")
        ax = result.plot()[0]
        [container] = ax.containers
        segments = container.lines[2][0].get_segments()
        data = result.problem.measurements
        own = data.observable == "X"
        lengths = [0.5 * (s[1, 1] - s[0, 1]) for s in segments]
        np.testing.assert_allclose(lengths, result.problem.sigma[own])
        assert "data \N{PLUS-MINUS SIGN} sigma" in legend_texts(ax.figure)

    def test_no_error_bars_without_sigma(self):
        ax = fitted("barnes").plot(observable="y1")
        assert not ax.containers[0].lines[2]

    def test_values_that_are_left_out_or_exact_have_marks_of_their_own(self):
        problem = load("barnes")
        data = problem.measurements
        weight = np.full(len(data), np.nan)
        first, last = np.argmin(data.time), np.argmax(data.time)
        weight[first], weight[last] = 0.0, np.inf
        changed = of.Measurements(data.experiment, data.time, data.observable, data.value, row=data.row, weight=weight)
        result = of.fit(problem.with_measurements(changed))
        ax = result.plot(observable=data.observable[first])
        assert points(ax, "left out (weight 0)").tolist() == [[data.time[first], data.value[first]]]
        assert points(ax, "met exactly").tolist() == [[data.time[last], data.value[last]]]
        assert len(points(ax)) == 9
        assert legend_texts(ax.figure)[:3] == ["data", "left out (weight 0)", "met exactly"]

    def test_missing_values_are_not_drawn(self):
        problem = load("barnes")
        data = problem.measurements
        value = data.value.copy()
        value[[0, 1, 2, 3]] = np.nan
        changed = of.Measurements(data.experiment, data.time, data.observable, value, row=data.row)
        axes = of.fit(problem.with_measurements(changed)).plot()
        assert sum(len(points(ax)) for ax in axes) == len(data) - 4

    def test_experiments_have_colours_and_their_use(self):
        result = fitted("arrhenius")
        axes = result.plot()
        assert [ax.get_ylabel() for ax in axes] == ["A", "B", "C"]
        assert legend_texts(axes[0].figure)[:5] == [
            "b330", "b345", "b360", "b370 (validation)", "plant (prediction)",
        ]  # fmt: skip
        data = result.problem.measurements
        for ax in axes:
            assert len(curves(ax)) == 5
            styles = [line.get_linestyle() for line in ax.lines if line.get_linestyle() != "None"]
            assert styles == ["-", "-", "-", "--", "-"]
            assert len({line.get_color() for line in ax.lines if line.get_linestyle() != "None"}) == 5
            own = (data.experiment == "b370") & (data.observable == ax.get_ylabel()) & np.isfinite(data.value)
            np.testing.assert_array_equal(points(ax, "not fitted")[:, 1], data.value[own])

    def test_units_and_the_name_of_time(self):
        problem = of.Problem(
            model=of.Model.from_text("effect = c/(c + K)", time="c"),
            parameters=[of.Parameter("K", 1.0)],
            measurements=of.Measurements.from_columns([1.0, 2.0, 4.0], {"effect": [0.3, 0.55, 0.6]}),
            units={"c": "uM", "effect": "$"},
        )
        ax = of.fit(problem).plot()
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("c [uM]", r"effect [\$]")
        png(plot_fit, of.fit(problem))  # a dollar sign is no formula

    @pytest.mark.parametrize("key", ["time", "t"])
    def test_unit_of_time(self, key):
        result = of.fit(dataclasses.replace(decays(2), units={key: "min", "x": "M"}))
        axes = result.plot()
        assert [(ax.get_xlabel(), ax.get_ylabel()) for ax in axes] == [("time [min]", "x [M]"), ("time [min]", "y")]
        assert result.plot(plt.figure().subplots(), observable="x").get_xlabel() == "time [min]"

    def test_a_quantity_that_is_called_time_keeps_its_unit_to_itself(self):
        problem = of.Problem(
            model=of.Model.from_text("time = a*s", time="s"),
            parameters=[of.Parameter("a", 1.0)],
            measurements=of.Measurements.from_columns([1.0, 2.0, 4.0], {"time": [0.3, 0.55, 0.6]}),
            units={"time": "h"},
        )
        ax = of.fit(problem).plot()
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("s", "time [h]")

    def test_title_and_status(self):
        result = fitted("ecoli_batches")
        figure = result.plot()[0].figure
        assert figure.get_suptitle() == f"{result.problem.title}\nnot converged: flat-valley"
        assert legend_texts(figure)[0] == "experiment 1"

    def test_an_unmeasured_state_may_be_asked_for(self):
        ax = fitted("barnes/d_y1").plot(observable="y2")
        assert ax.get_ylabel() == "y2"
        assert len(curves(ax)) == 1
        assert not ax.containers


class TestCurves:
    def test_groups_of_single_measurements_have_curves_of_their_own(self):
        """Absorbance e exp(-k t), whose gradient by (k, e) is (-t, 1/e) times itself."""
        result = of.fit(spectra(3))
        ax = result.plot()
        assert legend_texts(ax.figure)[:3] == ["wavelength 350", "wavelength 360", "wavelength 370"]
        covariance = result.covariance()
        listed = series_of(result, [0], ["absorbance"])
        found = curves_of(result, listed, 0.0)
        for curve, drawn, wave in zip(found, curves(ax), ("350", "360", "370"), strict=True):
            k, e = result.estimates["k"], result.estimates[f"e[{wave}]"]
            expected = e * np.exp(-k * curve.times)
            np.testing.assert_allclose(curve.value, expected, rtol=1e-6)
            np.testing.assert_array_equal(drawn, np.column_stack((curve.times, curve.value)))
            gradient = np.stack((-curve.times * expected, expected / e), axis=1)
            own = covariance.loc[["k", f"e[{wave}]"], ["k", f"e[{wave}]"]].to_numpy()
            error = np.sqrt(np.einsum("mi,ij,mj->m", gradient, own, gradient))
            np.testing.assert_allclose(curve.upper - curve.value, result.statistics.quantile * error, rtol=1e-5)

    def test_sharp_peaks_are_resolved(self):
        """A peak a thousandth as wide as the axis: no straight piece may cut it off."""
        problem = of.Problem(
            model=of.Model.from_text("y = h*exp(-((t - 0.5)/0.001)^2)"),
            parameters=[of.Parameter("h", 1.0)],
            measurements=of.Measurements.from_columns([0.0, 0.5, 1.0], {"y": [0.0, 2.0, 0.1]}),
        )
        [curve] = curves(of.fit(problem).plot())
        assert curve[:, 1].max() == pytest.approx(2.0, rel=1e-6)
        inside = curve[np.abs(curve[:, 0] - 0.5) < 0.003]
        turned = np.interp(np.linspace(0.498, 0.502, 101), inside[:, 0], inside[:, 1])
        exact = 2.0 * np.exp(-(((np.linspace(0.498, 0.502, 101) - 0.5) / 0.001) ** 2))
        np.testing.assert_allclose(turned, exact, atol=0.1)

    def test_times_over_decades_are_spread(self):
        axes = fitted("robertson").plot()
        assert {ax.get_xscale() for ax in axes} == {"symlog"}  # there are data at zero
        assert all(ax.get_xlim()[0] < 0 for ax in axes)
        t = np.geomspace(1e-3, 1e2, 12)
        problem = of.Problem(
            model=of.Model.from_text("y = exp(-k*t)"),
            parameters=[of.Parameter("k", 1.0)],
            measurements=of.Measurements.from_columns(t, {"y": np.exp(-t) + 0.01 * np.cos(9 * t)}),
        )
        ax = of.fit(problem).plot()
        assert ax.get_xscale() == "log"
        drawn = curves(ax)[0][:, 0]
        assert (drawn < 1e-2).sum() > 10

    @pytest.mark.parametrize(
        ("times", "expected"),
        [
            ([0.0, 1.0, 2.0], 0.0),
            ([1e-4, 1.0, 2.0, 3.0], 0.0),  # one early value is no reason
            ([-1.0, 1e-3, 1e-2, 1e2], 0.0),
            ([1e-3, 1e-2, 1e-1, 1e2], 1e-3),
            ([0.0, 0.0], 0.0),
            ([], 0.0),
        ],
    )
    def test_when_times_are_spread(self, times, expected):
        assert first_decade(np.array(times)) == expected

    def test_data_at_the_start_only(self):
        problem = of.Problem(
            model=of.Model.from_text("x' = -x\nx(0) = a"),
            parameters=[of.Parameter("a", 1.0)],
            measurements=of.Measurements.from_columns([0.0, 0.0, 0.0], {"x": [1.0, 1.2, 0.8]}),
        )
        ax = of.fit(problem).plot()
        assert len(points(ax)) == 3
        np.testing.assert_allclose(curves(ax), [[[0.0, 1.0]]], rtol=1e-6)

    def test_wide_bands_do_not_squeeze_the_data(self):
        t = np.linspace(0.0, 1.0, 4)
        problem = of.Problem(
            model=of.Model.from_text("y = a + b*t + c*t^2"),
            parameters=[of.Parameter(name, 1.0) for name in "abc"],
            measurements=of.Measurements.from_columns(t, {"y": [0.0, 1.0, 0.0, 1.0]}),
        )
        result = of.fit(problem)
        low, high = result.plot().get_ylim()
        assert (result.predict()["y.upper"]).max() > 3.0
        assert -1.0 < low < high < 2.5


class TestFailures:
    FAILING = of.Problem(
        model=of.Model.from_text("x' = k*x^2\nx(0) = 1"),
        parameters=[of.Parameter("k", 1.0, lower=0.9)],
        measurements=of.Measurements.from_columns([0.0, 0.5, 1.0, 2.0], {"x": [1.0, 1.2, 1.4, 1.6]}),
    )

    def test_a_model_that_cannot_be_computed_is_drawn_as_far_as_it_goes(self):
        result = of.fit(self.FAILING)
        assert result.status == "failed"
        ax = result.plot()
        assert len(points(ax)) == 4
        [curve] = curves(ax)
        computed = curve[np.isfinite(curve[:, 1])]
        assert 0.99 < computed[:, 0].max() <= 1.0
        before = computed[computed[:, 0] < 0.99]
        np.testing.assert_allclose(before[:, 1], 1.0 / (1.0 - before[:, 0]), rtol=1e-4)
        assert ax.get_ylim()[1] < 10.0  # the pole does not squeeze the data
        assert ax.figure.get_suptitle() == "not converged: failed"

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"observable": "y11"}, r"no state or definition 'y11' to plot; did you mean 'y1'\?"),
            ({"experiment": "mian"}, r"no experiment 'mian' to plot; did you mean 'main'\?"),
            ({"observable": []}, "nothing to plot: what was chosen has neither data nor a curve"),
            ({"experiment": []}, "nothing to plot: what was chosen has neither data nor a curve"),
        ],
    )
    def test_wrong_choices(self, options, message):
        with pytest.raises(of.OdefitError, match=message):
            fitted("barnes").plot(**options)
        assert not plt.get_fignums()

    def test_one_axes_for_several_panels(self):
        with pytest.raises(of.OdefitError, match=r"this plot has 2; choose with observable= \(y1, y2\)"):
            fitted("barnes").plot(plt.figure().add_subplot())

    def test_nothing_to_draw(self):
        problem = of.Problem(
            model=of.Model.from_text("x' = -k*x\nx(0) = 1\nnone = log(-1 - x^2)"),
            parameters=[of.Parameter("k", 1.0)],
            measurements=of.Measurements.from_columns([0.0, 1.0], {"x": [1.0, 0.5]}),
        )
        with pytest.raises(of.OdefitError, match="nothing to plot: no data, and the model has no values there"):
            of.fit(problem).plot(observable="none")


class TestFigures:
    def test_given_axes_are_filled_and_returned(self):
        figure, given = plt.subplots()
        ax = fitted("arrhenius").plot(given, observable="B", experiment=["b330", "b345"])
        assert ax is given
        assert len(curves(ax)) == 2
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("time [min]", "B")
        assert [t.get_text() for t in ax.get_legend().get_texts()][:2] == ["b330", "b345"]
        assert plt.get_fignums() == [figure.number]

    def test_a_figure_of_its_own_is_known_to_pyplot(self):
        """So that a notebook shows it."""
        ax = fitted("barnes").plot(observable="y1")
        assert isinstance(ax, Axes)
        assert plt.figure(plt.get_fignums()[0]) is ax.figure

    def test_a_figure_for_a_file_is_not(self):
        figure = Figure()
        axes = plot_fit(fitted("barnes"), figure=figure)
        assert figure.axes == list(axes)
        assert not plt.get_fignums()

    @pytest.mark.parametrize(
        ("n", "panels", "titles", "note"),
        [
            (8, 2, [""] * 2, ""),
            (9, 18, [f"s{i}" for i in range(9) for _ in "xy"], ""),
            (30, 24, [f"s{i}" for i in range(12) for _ in "xy"], "12 of 30 experiments shown"),
        ],
    )
    def test_many_experiments(self, n, panels, titles, note):
        axes = of.fit(decays(n)).plot()
        assert [ax.get_title() for ax in axes] == titles
        assert len(axes) == panels
        assert {len(curves(ax)) for ax in axes} == {8 if n == 8 else 1}
        assert axes[0].figure.get_suptitle().startswith(note)
        assert bool(note) == bool(axes[0].figure.get_suptitle())

    def test_many_groups_in_one_panel(self):
        ax = of.fit(spectra(20)).plot()
        assert len(curves(ax)) == len(style.COLOURS)
        assert ax.figure.get_suptitle() == "8 of 20 curves shown in a panel"
        texts = legend_texts(ax.figure)
        assert (texts[0], texts[7]) == ("wavelength 350", "wavelength 540")

    @pytest.mark.parametrize("name", ["arrhenius", "pyridine", "ecoli_batches", "robertson", "shock_front"])
    def test_nothing_is_cut_off_or_overlaps(self, name):
        figure = Figure()
        plot_fit(fitted(name), figure=figure)
        figure.draw_without_rendering()
        whole = figure.bbox
        boxes = [ax.get_tightbbox() for ax in figure.axes]
        for box in [*boxes, figure.legends[0].get_window_extent()]:
            assert whole.x0 - 1 <= box.x0 <= box.x1 <= whole.x1 + 1
            assert whole.y0 - 1 <= box.y0 <= box.y1 <= whole.y1 + 1
        for i, one in enumerate(boxes):
            assert not any(one.overlaps(other) for other in boxes[:i])

    def test_the_same_result_gives_the_same_file(self, decoded):
        result = fitted("barnes")
        content = png(plot_fit, result)
        assert content == png(plot_fit, result)
        width, height = result.plot()[0].figure.get_size_inches()
        assert decoded(content).shape[:2] == (round(150 * height), round(150 * width))
        assert decoded(png(plot_fit, result, dpi=75.0)).shape[:2] == (round(75 * height), round(75 * width))


def test_user_style_stays(tmp_path):
    with mpl.rc_context({"lines.linewidth": 7.0, "axes.grid": True}):
        before = dict(mpl.rcParams)
        fitted("barnes").plot()
        assert dict(mpl.rcParams) == before


def test_importing_and_fitting_import_no_matplotlib():
    code = (
        "import sys, odefit as of\nfrom odefit.gallery import load\nof.fit(load('barnes')).summary()\n"
        "import odefit.cli.app\nsys.exit('matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_plotting_to_a_file_imports_no_pyplot(tmp_path):
    code = (
        "import sys, odefit as of\nfrom odefit.gallery import load\n"
        "from odefit.report.plots.files import write_plots\n"
        "print(*write_plots(of.fit(load('barnes')), sys.argv[1]), file=sys.stderr)\n"
        "sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False).returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["fit.png"]
