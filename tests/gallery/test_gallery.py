"""The gallery: problem files and problems built by Python, behind one name each."""

from __future__ import annotations

import dataclasses
from importlib import import_module

import numpy as np
import pandas as pd
import pytest

import odefit as of
from odefit.errors import OdefitError
from odefit.gallery import WITHOUT_MINIMUM, load, names, path_of
from odefit.report.check import check


def test_every_file_of_the_gallery_has_a_name():
    folder = path_of("barnes").parent.parent
    files = {path for kind in ("toml", "py") for path in folder.glob(f"*/[!_]*.{kind}")}
    assert {path_of(name) for name in names()} == files


@pytest.mark.parametrize("name", [name for name in names() if path_of(name).suffix == ".toml"])
def test_load_reads_problem_files(name):
    mine, theirs = load(name), of.load(path_of(name))
    assert mine.title == theirs.title
    assert mine.parameters == theirs.parameters
    assert mine.model.source == theirs.model.source
    for field in dataclasses.fields(of.Measurements):
        left, right = (getattr(one.measurements, field.name) for one in (mine, theirs))
        if isinstance(left, np.ndarray):
            np.testing.assert_array_equal(left, right)


def test_load_runs_python():
    problem = load("shock_front")
    assert path_of("shock_front").name == "shock_front.py"
    assert [e.name for e in problem.experiments] == ["fast", "medium", "slow"]
    assert [p.start for p in problem.parameters] == [2, 1.45, 1, 2]
    assert len(problem.measurements.value) == 36
    for experiment in problem.experiments:
        own = problem.measurements.experiment == experiment.name
        assert problem.measurements.time[own].max() == experiment.until


def test_problems_without_minimum_are_in_the_gallery():
    assert set(WITHOUT_MINIMUM) < set(names())


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("dow", "runs.csv"),
        ("oral_doses", "plasma.csv"),
        ("lockdown", "weeks.csv"),
        ("thermostat", "room.csv"),
        ("bouncing_ball", "heights.csv"),
        ("isotherm", "isotherm.csv"),
        ("cascade", "blots.csv"),
        ("urease", "ph.csv"),
        ("transistor", "voltages.csv"),
    ],
)
def test_simulated_data_can_be_made_again(name, file):
    made = import_module(f"odefit.gallery.{name}._simulate").simulated()
    pd.testing.assert_frame_equal(made, pd.read_csv(path_of(name).with_name(file)), rtol=0, atol=1e-12)


def test_the_drive_can_be_made_again_and_its_motor_is_found():
    drive = import_module("odefit.gallery.drive_cycle._simulate")
    for file, made in drive.simulated().items():
        found = pd.read_csv(path_of("drive_cycle").with_name(file))
        pd.testing.assert_frame_equal(made, found, rtol=0, atol=1e-12)
    result = of.fit(load("drive_cycle"))
    assert result.converged
    truth = {"R20": drive.R20, "C_winding": drive.C_WINDING, "G": drive.G, "G_air": drive.H}
    for name, value in truth.items():
        low, high = result.parameters[name].interval
        assert low < value < high, name


@pytest.mark.parametrize(
    ("name", "truth"),
    [
        ("thermostat", {"loss": 0.3, "power": 12.0, "low": 19.0, "high": 22.0, "T0": 20.5}),
        ("bouncing_ball", {"g": 9.81, "drag": 0.05, "restitution": 0.8, "height": 1.2}),
        ("urease", {"v_max": 0.12, "K_M": 3.2, "pKe1": 6.1, "pKe2": 8.9}),
        ("transistor", {"C1": 1.0, "C3": 3.0, "beta": 1.0}),
    ],
)
def test_true_values_are_found(name, truth):
    result = of.fit(load(name))
    assert result.converged
    for parameter, value in truth.items():
        found = result.parameters[parameter]
        assert abs(found.estimate - value) < 3.5 * found.standard_error, parameter


@pytest.mark.parametrize("function", [load, path_of])
@pytest.mark.parametrize("name", ["shok_front", "barnes/z", "../gallery/barnes", "shock_front/__init__", ""])
def test_unknown_names_are_refused(function, name):
    with pytest.raises(OdefitError, match=r"there is no demo '.*There are: arrhenius, barnes"):
        function(name)


@pytest.mark.parametrize("name", names())
def test_derivatives_agree_with_finite_differences(name):
    report = check(load(name))
    assert report.ok, report.text


@pytest.mark.parametrize("name", names())
def test_every_problem_has_a_title(name):
    assert load(name).title
