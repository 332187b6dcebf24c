"""``[data] arguments`` and names in cells of `sigma`: every layout of data, saving, and mistakes with their place."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from pf_project import Project

import odefit as of
from odefit.errors import OdefitError

MODEL = '''[model]
equations = """
A' = -k*A
A(0) = 1
y = s*A + o
z = s*A
"""
[parameters]
k = 0.5
s1 = 2
scale2 = { start = 3, per = "experiment" }
both = { expression = "s1*2" }
e1 = { start = 0.1, fixed = true }
[data]
file = "d.csv"
'''
ARGUMENTS = 'arguments = { s = "scale", o = "offset" }\n'
TIDY = """experiment,time,observable,value,scale,offset,sigma
main,0,y,2,s1,0,e1
main,1,y,1,2.5,s1,0.2
main,1,z,1,both,,e1
main,2,z,1,scale2,,0.3
"""


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


def columns(problem: of.Problem) -> dict[str, list]:
    data = problem.measurements
    return {name: cells.tolist() for name, cells in data.arguments.items()} | {"sigma": data.sigma.tolist()}


def test_tidy(project):
    made = project.load(MODEL + ARGUMENTS, TIDY)
    assert columns(made) == {
        "s": ["s1", 2.5, "both", "scale2"],
        "o": [0.0, "s1", "", ""],
        "sigma": ["e1", 0.2, "e1", 0.3],
    }
    a = np.exp(-0.5 * made.measurements.time)
    expected = (np.array([2, 2.5, 4, 3]) * a + [0, 2, 0, 0] - [2, 1, 1, 1]) / [0.1, 0.2, 0.1, 0.3]
    np.testing.assert_allclose(made.evaluate().residuals, expected, atol=1e-6)


def test_wide_with_cells_of_the_row_and_of_single_columns(project):
    csv = """time;y;z;scale;z.scale;offset;sigma;y.sigma
0;2;1;s1;s1;0;e1;0,5
1;1;1;2,5;both;s1;0,25;e1
2;;1;;scale2;;e1;e1
"""
    made = project.load(MODEL + ARGUMENTS, csv)
    assert columns(made) == {
        "s": ["s1", "s1", 2.5, "both", "", "scale2"],
        "o": [0.0, 0.0, "s1", "s1", "", ""],
        "sigma": [0.5, "e1", "e1", 0.25, "e1", "e1"],
    }
    np.testing.assert_array_equal(made.sigma[[0, 1, 2, 3, 5]], [0.5, 0.1, 0.1, 0.25, 0.1])


def test_matrix(project):
    toml = MODEL + 'arguments = { s = "scale", o = "offset" }\nmelt = { into = "wavelength", value = "y" }\n'
    csv = "time,300,350,scale,350.scale,offset,sigma\n0,1,2,s1,both,scale2,e1\n1,1,2,3,4,0,e1\n"
    made = project.load(toml, csv)
    assert columns(made) == {
        "s": ["s1", "both", 3.0, 4.0],
        "o": ["scale2", "scale2", 0.0, 0.0],
        "sigma": ["e1"] * 4,
    }
    assert made.measurements.groups["wavelength"].tolist() == ["300", "350", "300", "350"]


def test_several_files(project):
    project.put("more.csv", "experiment,time,z,scale\nb,1,3,s1\nb,2,1,scale2\n")
    toml = MODEL.replace('"d.csv"', '["d.csv", "more.csv"]') + ARGUMENTS
    made = project.load(toml, TIDY + "b,1,y,1,both,1,e1\n")
    assert columns(made) == {
        "s": ["s1", 2.5, "both", "scale2", "both", "s1", "scale2"],
        "o": [0.0, "s1", "", "", 1.0, "", ""],
        "sigma": ["e1", 0.2, "e1", 0.3, "e1", "", ""],
    }


def test_one_column_may_serve_two_symbols_and_a_group(project):
    toml = MODEL.replace('per = "experiment"', 'per = "scale"')
    csv = "time,y,scale,sigma\n0,1,s1,e1\n1,1,scale2,e1\n2,1,both,e1\n"
    made = project.load(toml + 'arguments = { s = "scale", o = "scale" }\n', csv)
    assert columns(made)["s"] == columns(made)["o"] == ["s1", "scale2", "both"]
    assert [slot.name for slot in made.slots.slots if slot.key] == ["scale2[s1]", "scale2[scale2]", "scale2[both]"]


def test_saved_problems_are_the_same(project):
    made = project.load(MODEL + ARGUMENTS, TIDY)
    made.save(project.folder / "again.toml")
    again = of.load(project.folder / "again.toml")
    assert again.measurements == made.measurements
    assert again.parameters == made.parameters
    np.testing.assert_array_equal(again.evaluate().residuals, made.evaluate().residuals)


def test_saved_columns_get_names_of_their_own(project):
    """Symbols called like columns with a meaning, or like a group."""
    data = of.Measurements(
        ["main"] * 2, [0, 1], ["y"] * 2, [1, 2], groups={"gel": ["a", "b"]},
        arguments={"weight": ["c", 2], "gel": [1, "c"], "weight_": [3, 4]},
    )  # fmt: skip
    made = of.Problem(
        of.Model.from_text("y = weight*gel + weight_*g"),
        [of.Parameter("c", 1.0), of.Parameter("g", 1.0, per="gel")],
        data,
    )
    made.save(project.folder / "again.toml")
    assert of.load(project.folder / "again.toml").measurements == made.measurements


def test_names_that_would_be_missing_cells_are_not_saved(project):
    data = of.Measurements(["main"], [0], ["y"], [1], arguments={"s": ["NA"]})
    made = of.Problem(of.Model.from_text("y = s*t"), [of.Parameter("NA", 1.0)], data)
    with pytest.raises(OdefitError, match="argument 's' 'NA' would not be read back"):
        made.save(project.folder / "again.toml")


def test_data_frames():
    frame = pd.DataFrame({"time": [0, 1], "y": [1.0, 2.0], "scale": ["s1", 2], "sigma": ["e1", 0.25]})
    model = of.Model.from_text("A' = -k*A\nA(0) = 1\ny = s*A")
    data = of.measurements_from_frame(frame, model, arguments={"s": "scale"})
    assert data.arguments["s"].tolist() == ["s1", 2.0]
    assert data.sigma.tolist() == ["e1", 0.25]
    frame["sigma"] = ["e1", None]
    assert of.measurements_from_frame(frame, model, arguments={"s": "scale"}, sigma=0.5).sigma.tolist() == ["e1", 0.5]
    frame["scale"] = [1.5, 2.0]
    assert of.measurements_from_frame(frame, model, arguments={"s": "scale"}).arguments["s"].tolist() == [1.5, 2.0]
    with pytest.raises(OdefitError, match="has a column 'scale', which is no state .* did you mean 'scal'"):
        of.measurements_from_frame(frame, model, arguments={"s": "scal"})
    with pytest.raises(OdefitError, match="takes 's' from the column 'scal', but the data have no such column"):
        of.measurements_from_frame(frame.drop(columns="scale"), model, arguments={"s": "scal"})


def swapped(old: str, new: str) -> str:
    assert old in TIDY
    return TIDY.replace(old, new)


MISTAKES = {
    "unknown name": (
        swapped("2,s1,0", "2,scale,0"),
        "line 2, column 'scale': its argument 's' is 'scale', .*mean 'scale2'",
    ),
    "unknown sigma": (
        swapped("s1,0.2", "s1,e"),
        "line 3, column 'sigma': its sigma is 'e', which is no number and no pa",
    ),
    "empty": (swapped("2.5,s1", "2.5,"), "line 3, column 'offset': its argument 'o' is missing, but 'y' depends on it"),
    "infinite": (swapped("2.5", "inf"), "line 3, column 'scale': its argument 's' is infinite"),
    "zero sigma": (swapped("0.2", "0"), "line 3, column 'sigma': its sigma is 0; a standard deviation is positive"),
    "negative sigma": (swapped("0.3", "-0.3"), "line 5, column 'sigma': its sigma is -0.3"),
    "a state": (swapped("both", "A"), "line 4, column 'scale': its argument 's' is 'A', a state or definition"),
    "no column": (
        TIDY.replace("scale,", "scales,", 1),
        "has a column 'scales' without a meaning; did you mean 'scale'",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_in_the_data(project, mistake):
    csv, message = MISTAKES[mistake]
    with pytest.raises(OdefitError, match=message):
        project.load(MODEL + ARGUMENTS, csv)


SECTIONS = {
    "no such symbol": (
        'arguments = { s = "scale", o = "offset", q = "scale" }',
        "the argument 'q' of the data does not",
    ),
    "a parameter": ('arguments = { s = "scale", o = "offset", k = "scale" }', "'k' is an argument .* also a parameter"),
    "a state": ('arguments = { s = "scale", o = "offset", A = "scale" }', "'A' is an argument .* equation of its own"),
    "a column that means something": (
        'arguments = { s = "weight" }',
        "from the column 'weight', which has another mean",
    ),
    "a column of values": (
        'arguments = { s = "z", o = "offset" }',
        "the column 'z', which is a state or definition of",
    ),
    "a column that is not there": (
        'arguments = { s = "scale", o = "off" }',
        "'off', but the data|'offset' without a me",
    ),
    "no text": ("arguments = { s = 3 }", r"\[data\] arguments s must be text"),
    "no table": ('arguments = "scale"', r"\[data\] arguments must be a table"),
    "missing": ('arguments = { s = "scale" }', "'o' is used in the equations but has no value|'offset' without a mean"),
}


@pytest.mark.parametrize("mistake", SECTIONS)
def test_mistakes_in_the_section(project, mistake):
    line, message = SECTIONS[mistake]
    with pytest.raises(OdefitError, match=message):
        project.load(MODEL + line + "\n", TIDY)


def test_wide_mistakes_name_the_column_that_serves(project):
    csv = "time,y,z,scale,z.scale,offset,sigma\n0,2,1,s1,both,0,e1\n1,2,1,scale2,s3,0,e1\n"
    with pytest.raises(OdefitError, match=r"line 3, column 'z\.scale': its argument 's' is 's3'"):
        project.load(MODEL + ARGUMENTS, csv)
    with pytest.raises(OdefitError, match=r"has a column 'w\.scale', but no measured column 'w'"):
        project.load(MODEL + ARGUMENTS, csv.replace("z.scale", "w.scale"))
