"""Rules and nodes in the summary, in `odefit check`, in result.json and in pictures."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from matplotlib import pyplot as plt

import odefit as of
from odefit.gallery import load
from odefit.report.check import check
from odefit.report.plots.files import write_plots
from odefit.report.plots.style import NothingToPlot


@pytest.fixture(scope="module")
def orbit():
    return of.fit(load("closed_orbit"))


def with_rules(*rules: str, **settings) -> of.Problem:
    return dataclasses.replace(load("barnes"), constraints=rules).with_settings(**settings)


def test_the_summary_has_a_row_for_each_rule(orbit):
    lines = orbit.summary().splitlines()
    [head] = [k for k, line in enumerate(lines) if line.startswith("rule ")]
    rows = [line.split() for line in lines[head + 2 : head + 4]]
    assert [row[:3] for row in rows] == [["x(0)", "=", "x(t=T)"], ["0", "=", "y(t=T)"]]
    assert [row[-1] for row in rows] == ["holds", "holds"]
    assert float(rows[0][4]) == pytest.approx(orbit.rules[0].multiplier, rel=1e-4)
    n_nodes = len(orbit.placed.nodes[0])
    assert f"multiple shooting with {n_nodes} nodes" in lines


def test_active_places_of_a_path_are_rows_and_the_others_one():
    result = of.fit(with_rules("y1 <= 1.1"))
    active = [rule for rule in result.rules if rule.state == "active"]
    assert active
    assert result.converged
    text = result.summary()
    for rule in active:
        assert f"t = {rule.time:g}" in text
    assert text.count("inactive") == 1
    assert "of 21 times from 0 to 5" in text


def test_result_files_have_rules(orbit):
    content = json.loads(json.dumps(orbit.to_dict()))
    assert [row["rule"] for row in content["rules"]] == ["x(0) = x(t=T)", "0 = y(t=T)"]
    assert {row["state"] for row in content["rules"]} == {"holds"}
    assert all(isinstance(row["multiplier"], float) for row in content["rules"])
    assert of.fit(load("barnes")).to_dict()["rules"] == []


def test_check_names_the_grid_of_a_path():
    assert "rule: 0 <= y1 (at all times: held at the data and 20 equal parts" in check(with_rules("0 <= y1")).text
    given = check(with_rules("0 <= y1", path_times=(1.0, 2.0))).text
    assert "held at 2 given times" in given
    assert "rule: k1 <= 3\n" in check(with_rules("k1 <= 3")).text + "\n"


def test_a_rule_that_is_missed_between_its_times_is_named():
    result = of.fit(with_rules("y1 <= 1.1", path_times=(0.1, 3.0, 5.0)))
    [notice] = [one for one in result.warnings if one.code == "rule.between"]
    assert "held at 3 times from 0.1 to 5 and missed between them" in notice.text
    assert not [one for one in of.fit(with_rules("y1 <= 9")).warnings if one.code.startswith("rule")]


def test_a_rule_behind_the_data_is_named():
    result = of.fit(with_rules("y1(t=8) >= 0"))
    [notice] = [one for one in result.warnings if one.code == "rule.beyond"]
    assert "looks behind the last datum at t = 5" in notice.text


def test_ties_of_rules_are_no_news():
    result = of.fit(with_rules("k1 = 0.4*k2"))
    assert not [one for one in result.warnings if one.code in ("parameter.correlation", "parameter.combination")]


def test_pictures_of_nodes(orbit, tmp_path):
    plt.switch_backend("agg")
    axes = orbit.plot_nodes()
    assert axes.shape == (1, 3)
    pieces = len(orbit.placed.nodes[0]) + 1
    for ax in axes[0]:
        curves = [line for line in ax.lines if line.get_linestyle() == "-" and len(line.get_xdata()) > 1]
        assert len(curves) == pieces
    ends = [(line.get_ydata()[0], line.get_ydata()[-1]) for line in axes[0, 2].lines if line.get_linestyle() == "-"]
    gaps = [abs(a[1] - b[0]) for a, b in zip(ends, ends[1:], strict=False)]
    assert max(gaps) < 1e-4
    assert axes[0, 0].get_title() == "start"
    plt.close("all")
    names = [line.split("/")[-1] for line in write_plots(orbit, tmp_path)]
    assert names == ["fit.png", "nodes.png"]


def test_there_is_no_picture_without_nodes():
    with pytest.raises(NothingToPlot, match='use method = "multiple"'):
        of.fit(load("barnes")).plot_nodes()


def test_pictures_of_a_failed_fit_say_so(tmp_path):
    """The first state is no number: nothing can be drawn, and nothing is."""
    data = of.Measurements.from_columns(np.array([1.0, 2.0, 3.0]), {"x": np.array([1.0, 2.0, 3.0])})
    model = of.Model.from_text("x' = log(-k)\nx(0) = 1")
    result = of.fit(of.Problem(model, [of.Parameter("k", 1.0)], data), method="multiple")
    assert result.status == "failed"
    lines = write_plots(result, tmp_path)
    assert len(lines) == 2
