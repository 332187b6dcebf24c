"""Whatever stands in the files, nothing but an OdefitError escapes (and no warning)."""

from __future__ import annotations

import contextlib
import math
import tomllib

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pf_project import CSV, DATA, EQUATIONS, PARAMETERS, Project

from odefit.errors import OdefitError
from odefit.formats import measurements_from_frame
from odefit.formats.toml_writing import toml_key, toml_value

RICH = (
    'title = "x"\ntime = "t"\n'
    + EQUATIONS
    + """[parameters]
file = "q.csv"
"k*" = { start = 1, lower = 0, upper = 9, scale = "log", prior = "lognormal(1, 0.3)", unit = "1/h" }
A0 = { start = 1, per = "experiment" }
"A0[b1]" = 2
[data]
file = ["d.csv", "e_*.csv"]
columns = { "U [V]" = "B" }
sigma = "5 %"
[experiments]
file = "runs.csv"
b1 = { k = 2, "A(0)" = "2*A0", until = 60, use = "fit" }
[noise]
A = 0.1
[constraints]
rules = ["log(k/k2) ~ normal(0, 1)"]
[derived]
half = "log(2)/k"
[units]
k = "1/h"
[integrator]
rtol = 1e-6
[fit]
tol = 1e-5
max_iterations = 9
"""
)
FILES = {
    "q.csv": "name,start,lower,fixed\nk,1,0,\n",
    "runs.csv": "experiment,k2,until\nb1,2,\nb2,,7\n",
    "e_1.csv": "experiment;time;A;U [V];A.sigma\nb2;0;1,5;2;0,1\n",
    "base.toml": EQUATIONS,
}
DATA_TEXTS = (
    CSV,
    "experiment,time,observable,value,sigma,weight,row\na,0,A,1,0.1,,0\na,1,B,2,,0,1\n",
    "# c\ntime;A;B;A.sigma;weight\n0;1,5;2;0,5;\n\n1;NA;.;1;inf\n",
    'time\t"A"\tgel\n0\t"1"\t"g 1"\n1\t2\tg2\n',
    "date,A\n2020-03-01,1\n2020-03-02T12:00,2\n",
)
WORDS = (
    "[", "]", "{", "}", "=", ",", ";", '"', "'", '"""', "\n", "#", "\t", " ", ".", "\\", "(0)", "inf", "-inf", "nan",
    "true", "1e400", "-1", "0", "1e-400", "*", "?", "%", "~", "\u00b5", "\u0660", "\x00", "\x85", "\ufeff", "\r",
    "[data]", "[noise]", "[experiments]", "[parameters]", "start", "per", "experiment", "time", "observable", "value",
    "sigma", "weight", "row", "file", "base", 'base = "base.toml"', "melt = { into = 'w', value = 'A' }",
    "origin = 2020-03-01", "d.csv", "e_*.csv",
    "A", "B", "k", "x(0)", "'", "0x" + "f" * 400, "9" * 400, "2020-03-01", "99999-01-01", "**",
)  # fmt: skip


@st.composite
def changed(draw, texts):
    """A text with pieces cut out, doubled or put in."""
    text = draw(st.sampled_from(texts))
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        piece = draw(st.sampled_from(WORDS) | st.text(max_size=6) | st.just(text[start:end] * 2))
        text = text[:start] + piece + text[end:]
    return text.encode("utf-8", "surrogatepass")


def utf_16(text):
    return b"\xff\xfe" + text.decode("utf-8", "replace").encode("utf-16-le")


KEYS = st.sampled_from(
    [*WORDS, "title", "model", "equations", "t0", "parameters", "data", "columns", "origin", "melt", "experiments",
     "use", "until", "noise", "default", "constraints", "rules", "derived", "units", "integrator", "method", "rtol",
     "fit", "tol", "lower", "upper", "scale", "fixed", "prior", "expression", "unit", "A(0)", "k2", "A0", "total",
     "b1", "b2", "k[b1]"]
)  # fmt: skip
TEXTS = st.sampled_from(
    ["normal(0, 1)", "uniform(1, 0)", "2*k", "k2 +", "1/0", "A + t", "5 %", "estimate", "log", "logit", "experiment",
     "gel", "fit", "predict", "d.csv", "*.csv", "e_1.csv", "runs.csv", "base.toml", "", ".", "k ~ normal(1, 1)",
     "2020-03-01", "x' = 1", "k <= k2", "x\ny"]
)  # fmt: skip
NUMBERS = st.sampled_from([0, 1, -1, 2, 1.5, 1e-300, 1e300, math.inf, -math.inf, math.nan, 10**400, 2**63, True, False])
VALUES = st.recursive(
    NUMBERS | TEXTS | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=2),
    max_leaves=3,
)


@st.composite
def rearranged(draw):
    """A valid TOML file: the rich one with some keys taken out, put in, or given other values."""
    document = tomllib.loads(RICH)
    for _ in range(draw(st.integers(1, 3))):
        table = document
        for _ in range(draw(st.integers(0, 2))):
            inner = [one for one in table.values() if isinstance(one, dict) and one]
            table = draw(st.sampled_from(inner)) if inner else table
        key = draw(st.sampled_from(list(table)) | KEYS) if table else draw(KEYS)
        if draw(st.booleans()):
            table.pop(key, None)
        else:
            table[key] = draw(VALUES)
    return "".join(f"{toml_key(key)} = {toml_value(value)}\n" for key, value in document.items()).encode()


WIDE = ["A", "B", "total", "A.sigma", "A.weight", "sigma", "weight", "experiment", "gel"]
TIDY = ["sigma", "weight", "experiment", "gel", "row"]
ODD = st.sampled_from(["x", "A.sigma", "below", "350", "value", "", "A"])
NUMERIC = st.sampled_from(["0", "1", "2.5", "1e-3", "7"])
ANYTHING = st.sampled_from(
    ["-1", "2,5", "1e400", "inf", "NA", "", ".", "A", "g1", "2020-03-01", "2020-03-01T00:00Z", "x", "1e-320"]
) | st.floats().map(repr)
CELL_OF = {
    "experiment": st.sampled_from(["a", "b"]),
    "observable": st.sampled_from(["A", "B", "total"]),
    "gel": st.sampled_from(["g1", "g2"]),
    "date": st.sampled_from(["2020-03-01", "2020-03-02T12:00", "2021-03-01T00:00:00.5"]),
}


@st.composite
def columns_and_rows(draw, empty):
    """A header that has a meaning, mostly, and cells that fit it, mostly."""
    header = ["observable", "value"] if draw(st.booleans()) else []
    header += draw(st.lists(st.sampled_from(TIDY if header else WIDE), unique=True, min_size=1, max_size=4))
    header.insert(draw(st.integers(0, len(header))), draw(st.sampled_from(["time", "time", "time", "t", "date"])))
    if draw(st.integers(0, 9)) == 0:
        header[draw(st.integers(0, len(header) - 1))] = draw(ODD)
    rows = [[draw(CELL_OF.get(name, NUMERIC)) for name in header] for _ in range(draw(st.integers(1, 3)))]
    for _ in range(draw(st.integers(0, 2))):
        row = draw(st.sampled_from(rows))
        row[draw(st.integers(0, len(row) - 1))] = draw(empty | ANYTHING)
    return header, rows


@st.composite
def tables(draw):
    """A regular CSV file."""
    header, rows = draw(columns_and_rows(st.just("")))
    separator = draw(st.sampled_from([",", ";", "\t"]))
    quote = draw(st.sampled_from(['"', ""] if separator != "," else ['"']))
    lines = [separator.join(header), *(separator.join(f"{quote}{cell}{quote}" for cell in row) for row in rows)]
    return "\n".join(lines).encode()


@st.composite
def frames(draw):
    """A data frame, with columns of numbers where all cells are."""
    header, rows = draw(columns_and_rows(CELLS))
    frame = pd.DataFrame(rows, columns=header)
    for position in range(len(header)):
        with contextlib.suppress(ValueError, TypeError, OverflowError):
            frame.isetitem(position, pd.to_numeric(frame.iloc[:, position]))
    return frame


CELLS = (
    st.none() | st.integers() | st.floats() | st.text(max_size=4) | st.booleans() | st.dates() | st.binary(max_size=2)
)
FRAMES = frames()
TOML_BYTES = rearranged() | rearranged() | changed([RICH, RICH + RICH, 'base = "base.toml"\n' + PARAMETERS + DATA])
CSV_BYTES = tables() | tables() | changed(DATA_TEXTS) | changed(DATA_TEXTS).map(utf_16) | st.binary(max_size=40)
DATA_OPTIONS = st.sampled_from(
    ["", "sigma = 1\n", 'time = "date"\norigin = 2020-03-01\n', "melt = { into = 'w', value = 'A' }\n",
     'time = "A"\n', 'sigma = "5 %"\n', "origin = 2020-03-01\n", "melt = { into = 'experiment', value = 'B' }\n",
     "[noise]\nA = 1\n", "[experiments]\na = {}\n", "[experiments]\na = {}\nb = {}\n"]
)  # fmt: skip


def fuzz(cases):
    return settings(
        derandomize=True,
        database=None,
        deadline=None,
        max_examples=cases,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("fuzz"))
    for name, content in FILES.items():
        project.put(name, content)
    return project


def check_toml(folder, content):
    with contextlib.suppress(OdefitError):
        folder.load(content, "time,A,experiment\n0,1,b1\n1,2,b2\n")


def check_csv(folder, content, options):
    parameters = PARAMETERS.replace("A0 = 1", 'A0 = { start = 1, per = "gel" }') if b"gel" in content else PARAMETERS
    with contextlib.suppress(OdefitError):
        folder.load(EQUATIONS + parameters + DATA + options, content)


def check_table(folder, content, section):
    toml = EQUATIONS + (PARAMETERS if section == "experiments" else "") + DATA + f'[{section}]\nfile = "fuzzed.csv"\n'
    folder.put("fuzzed.csv", content)
    with contextlib.suppress(OdefitError):
        folder.load(toml)


def check_frame(frame, options):
    with contextlib.suppress(OdefitError):
        measurements_from_frame(frame, **options)


OPTIONS = st.sampled_from(
    [
        {},
        {"origin": "2020-01-01"},
        {"melt": {"into": "w", "value": "A"}},
        {"per": ["gel"]},
        {"sigma": "5 %"},
        {"time": "A"},
    ]
)
TABLES = changed([*FILES.values(), "name,start,fixed,per,prior\nk,1,,gel,normal(1)\n"])
SECTIONS = st.sampled_from(["parameters", "experiments"])


@fuzz(200)
@given(content=TOML_BYTES)
def test_problem_file(folder, content):
    check_toml(folder, content)


@fuzz(200)
@given(content=CSV_BYTES, options=DATA_OPTIONS)
def test_data_file(folder, content, options):
    check_csv(folder, content, options)


@fuzz(50)
@given(content=TABLES, section=SECTIONS)
def test_table_file(folder, content, section):
    check_table(folder, content, section)


@fuzz(50)
@given(frame=FRAMES, options=OPTIONS)
def test_frame(frame, options):
    check_frame(frame, options)


@pytest.mark.slow
@fuzz(8000)
@given(content=TOML_BYTES)
def test_problem_file_at_length(folder, content):
    check_toml(folder, content)


@pytest.mark.slow
@fuzz(8000)
@given(content=CSV_BYTES, options=DATA_OPTIONS)
def test_data_file_at_length(folder, content, options):
    check_csv(folder, content, options)


@pytest.mark.slow
@fuzz(2000)
@given(content=TABLES, section=SECTIONS)
def test_table_file_at_length(folder, content, section):
    check_table(folder, content, section)


@pytest.mark.slow
@fuzz(2000)
@given(frame=FRAMES, options=OPTIONS)
def test_frame_at_length(frame, options):
    check_frame(frame, options)


def test_the_texts_are_valid_to_begin_with(folder):
    assert len(folder.load(RICH, "time,A,experiment\n0,1,b1\n1,2,b2\n").measurements) == 4
