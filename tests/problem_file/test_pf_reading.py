"""The same data written in different ways are the same measurements."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pf_comparison import assert_same_measurements
from pf_project import DATA, EQUATIONS, PARAMETERS

from odefit.formats import measurements_from_frame
from odefit.formats.csv_text import split_csv
from odefit.formats.sheet import number_of
from odefit.formats.sheet_file import read_sheet

# experiments, replicates, unsorted rows, a missing value, an own sigma
WIDE = """experiment,time,A,B,A.sigma
a,0,1,0.25,0.1
a,2.5,0.125,,0.2
a,1,-1.5e-3,0.5,0.1
a,1,0.375,0.75,0.1
b,0,1e5,3,0.4
"""
TIDY = """experiment,time,observable,value,sigma,row
a,0,A,1,0.1,0
a,0,B,0.25,,0
a,2.5,A,0.125,0.2,1
a,2.5,B,,,1
a,1,A,-1.5e-3,0.1,2
a,1,B,0.5,,2
a,1,A,0.375,0.1,3
a,1,B,0.75,,3
b,0,A,1e5,0.4,4
b,0,B,3,,4
"""
COMMENTED = "# measured on a rainy day\n\n" + WIDE.replace("a,1,0.375", "  # a remark, with a comma\n,,,,\na,1,0.375")
SPACED = "\n".join(" , ".join(line.split(",")) + " " for line in WIDE.splitlines())
QUOTED = "\n".join(",".join(f'"{cell}"' for cell in line.split(",")) for line in WIDE.splitlines()) + "\n"
NAMES_QUOTED = WIDE.replace("a,", '"a",').replace("b,", '"b",')
FRAME = pd.DataFrame(
    {
        "experiment": ["a", "a", "a", "a", "b"],
        "time": [0, 2.5, 1, 1, 0],
        "A": [1, 0.125, -1.5e-3, 0.375, 1e5],
        "B": [0.25, np.nan, 0.5, 0.75, 3],
        "A.sigma": [0.1, 0.2, 0.1, 0.1, 0.4],
    }
)

VARIANTS = {
    "comma": WIDE,
    "semicolon": WIDE.replace(",", ";"),
    "semicolon, decimal comma": WIDE.replace(",", ";").replace(".", ",").replace("A,sigma", "A.sigma"),
    "semicolon, both decimals": WIDE.replace(",", ";").replace("0.25", "0,25"),
    "tab": WIDE.replace(",", "\t"),
    "tab, decimal comma": WIDE.replace(",", "\t").replace(".", ",").replace("A,sigma", "A.sigma"),
    "byte order mark": b"\xef\xbb\xbf" + WIDE.encode(),
    "UTF-16": WIDE.encode("utf-16"),
    "CRLF": WIDE.replace("\n", "\r\n"),
    "CR": WIDE.replace("\n", "\r"),
    "no last line end": WIDE.rstrip("\n"),
    "blank lines at the end": WIDE + "\n \n,,,,\n",
    "comments": COMMENTED,
    "spaces": SPACED,
    "quotes": QUOTED,
    "quoted names": NAMES_QUOTED,
    "header over two lines": WIDE.replace("experiment", '"experiment\n"', 1),
    "empty columns at the end": "\n".join(line + ",," for line in WIDE.splitlines()),
    "extra separators": "\n".join([WIDE.splitlines()[0], *(line + "," for line in WIDE.splitlines()[1:])]),
    "tidy": TIDY,
    "tidy, semicolon, decimal comma": TIDY.replace(",", ";").replace(".", ","),
    "other order of columns": pd.read_csv(io.StringIO(WIDE))[["A.sigma", "time", "A", "B", "experiment"]].to_csv(
        index=False
    ),
    **{f"missing value {word}": WIDE.replace("0.125,,", f"0.125,{word},") for word in ("NA", "NaN", "nan", ".", " ")},
}


@pytest.fixture
def expected(project):
    return project.load(None, WIDE).measurements


def test_the_reference_itself(expected):
    assert expected.experiment.tolist() == ["a"] * 8 + ["b"] * 2
    assert expected.time.tolist() == [0, 0, 2.5, 2.5, 1, 1, 1, 1, 0, 0]
    assert expected.observable.tolist() == ["A", "B"] * 5
    assert expected.row.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    np.testing.assert_array_equal(expected.value, [1, 0.25, 0.125, np.nan, -1.5e-3, 0.5, 0.375, 0.75, 1e5, 3])
    np.testing.assert_array_equal(expected.sigma[::2], [0.1, 0.2, 0.1, 0.1, 0.4])
    assert np.isnan(expected.sigma[1::2]).all()


@pytest.mark.parametrize("csv", VARIANTS.values(), ids=VARIANTS)
def test_variants_of_a_file(project, expected, csv):
    assert_same_measurements(project.load(None, csv).measurements, expected)


FRAMES = {
    "frame": FRAME,
    "index": FRAME.set_index("time"),
    "two levels": FRAME.set_index(["experiment", "time"]),
    "text": FRAME.astype({"A": str, "B": object}),
    "category": FRAME.astype({"experiment": "category"}),
    "Float64": FRAME.astype({"B": "Float64"}),
    "by experiment": {
        name: FRAME[FRAME["experiment"] == name].drop(columns="experiment") for name in FRAME["experiment"].unique()
    },
    "list": [FRAME.iloc[:3], FRAME.iloc[3:]],
    "tidy": pd.read_csv(io.StringIO(TIDY)),
    "tidy, whole numbers": pd.read_csv(io.StringIO(TIDY)).convert_dtypes(),
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize("with_model", [True, False])
def test_variants_of_a_frame(project, expected, frame, with_model):
    model = project.load().model if with_model else None
    assert_same_measurements(measurements_from_frame(frame, model), expected)


def test_two_files_number_their_rows_on(project, expected):
    lines = WIDE.splitlines()
    project.put("d1.csv", "\n".join(lines[:3])).put("d2.csv", "\n".join([lines[0], *lines[3:]]))
    toml = EQUATIONS + PARAMETERS + DATA.replace("d.csv", "d?.csv")
    assert_same_measurements(project.load(toml).measurements, expected)


NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=True).map(repr),
    st.text(alphabet="0123456789.,eE+-_ naNAif", max_size=9),
    st.sampled_from(["", "NA", "inf", "-inf", "1e400", "1e-400", "0x1", "True", "1 ", " 2", "１"]),
)


@settings(derandomize=True, database=None, deadline=None, max_examples=300)
@given(cells=st.lists(NUMBERS, min_size=1, max_size=4), separator=st.sampled_from(",;\t"))
def test_numbers_read_at_once_are_those_read_one_by_one(tmp_path_factory, cells, separator):
    cells = [cell for cell in cells if separator not in cell]
    path = tmp_path_factory.mktemp("numbers") / "n.csv"
    path.write_text(separator.join(["a", "b"]) + "\n" + "".join(f"x{separator}{cell}\n" for cell in cells))
    if not cells:
        return
    sheet = read_sheet(path, what="file", texts={"a"})
    slow = read_sheet(path, what="file")
    assert slow.columns["b"].tolist() == [cell.strip() for cell in cells]
    try:
        expected = [number_of(cell.strip(), separator != ",") for cell in cells]
    except ValueError:
        assert sheet.columns["b"].dtype == object
        return
    np.testing.assert_array_equal(sheet.numbers("b"), expected)


@pytest.mark.parametrize(
    ("header", "row", "separator"),
    [
        ("time;350,5;360,5", "0;1,5;2,5", ";"),
        ("time\t350,5\t360,5", "0\t1,5\t2,5", "\t"),
        ("time,x;y", "0,1", ","),
        ('time,"x;y;z"', "0,1", ","),
        ("time", "0", ","),
    ],
)
def test_separator(header, row, separator):
    found = split_csv("x.csv", f"{header}\n{row}\n".encode())
    assert found.separator == separator
    assert found.regular()
    assert len(found.header) == header.count(separator) + 1


def test_lines_keep_their_numbers():
    found = split_csv("x.csv", b"# one\n\ntime,x\n0,1\n#three\n\n2,3\n")
    assert found.header == ("time", "x")
    assert list(found.numbers) == [4, 7]
    assert found.body == "0,1\n2,3"


def test_what_looks_like_a_comment():
    found = split_csv("x.csv", b"time\ta\tb\n\t#1\t2\n #\t1\t2\n3\t#\t4\n\t\t \n")
    assert list(found.numbers) == [2, 4]


def test_field_over_several_lines_keeps_its_number():
    found = split_csv("x.csv", b'time,x\n0,"1\n1"\n2,3\n')
    rows, places = found.records()
    assert places == [2, 4]
    assert rows[0][1] == "1\n1"
    assert not found.regular()
