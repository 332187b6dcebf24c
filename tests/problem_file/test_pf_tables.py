"""``[tables]``: where rows come from, what experiments replace, what is saved, and mistakes."""

from __future__ import annotations

import numpy as np
import pytest

import odefit as of
from odefit.errors import OdefitError

FILE = """
[model]
equations = '''
x' = k*U(t) - x
x(0) = 0
'''
[parameters]
k = 1.0
{parameters}
[data]
file = "a.csv"
{data}
{rest}
"""
DATA = "time,x\n1,1\n2,1\n"


def text(rest, *, data="", parameters=""):
    return FILE.format(rest=rest, data=data, parameters=parameters)


@pytest.fixture
def ready(project):
    project.put("a.csv", DATA)
    return project


def test_lists(ready):
    table = ready.load(text('[tables.U]\nx = [0, 1, 2]\ny = [1, 2, 3]\nkind = "pchip"\noutside = "hold"')).tables["U"]
    assert table == of.Table([0, 1, 2], [1, 2, 3], kind="pchip", outside="hold")


def test_parameters_and_dates_as_values(ready):
    ready.put("a.csv", "time,x\n2020-03-01,1\n2020-03-05,1\n")
    rest = '[tables.U]\nx = ["2020-03-01", 2020-03-03, "2020-03-11T12:00"]\ny = ["b1", 2, "b2"]\nkind = "hold"'
    problem = ready.load(text(rest, data='origin = "2020-03-01"', parameters="b1 = 1\nb2 = 2"))
    assert problem.tables["U"] == of.Table([0, 2, 10.5], ["b1", 2.0, "b2"], kind="hold")
    with pytest.raises(OdefitError, match=r"\[tables.U\] x has the date 2020-03-01, which needs an origin"):
        ready.load(text(rest, parameters="b1 = 1\nb2 = 2"))


@pytest.mark.parametrize(
    ("content", "keys"),
    [
        ("s,A\n0,1\n1,2\n2,4\n", ""),
        ("s;A\n0;1,0\n1;2,0\n2;4,0\n", ""),
        ("n,A,s\n7,1,0\n8,2,1\n9,4,2\n", 'x = "s"\ny = "A"'),
    ],
)
def test_files(ready, content, keys):
    ready.put("u.csv", content)
    problem = ready.load(text(f'[tables.U]\nfile = "u.csv"\n{keys}'))
    assert problem.tables["U"] == of.Table([0, 1, 2], [1, 2, 4])


def test_a_file_of_two_arguments(ready):
    ready.put("w.csv", "t,0,10\n0,1,2\n5,3,4\n")
    changed = text('[tables.U]\nfile = "w.csv"').replace("U(t)", "U(t, x)")
    assert ready.load(changed).tables["U"] == of.Table(([0, 5], [0, 10]), [[1, 2], [3, 4]])


def test_a_column_of_the_data_is_a_table_of_each_experiment(ready):
    ready.put("a.csv", "experiment,time,x,amps\na,0,,1\na,1,1,2\na,2,1,\nb,0,0,5\nb,3,1,7\n")
    problem = ready.load(text('[tables.U]\ncolumn = "amps"\nkind = "hold"'))
    assert [e.tables["U"] for e in problem.experiments] == [
        of.Table([0, 1], [1, 2], kind="hold"),
        of.Table([0, 3], [5, 7], kind="hold"),
    ]
    assert problem.observables == ("x",)
    assert len(problem.measurements) == 5


def test_experiments_replace_tables(ready):
    ready.put("a.csv", "experiment,time,x\na,1,1\nb,1,1\nc,1,1\n")
    ready.put("u.csv", "s,A\n0,1\n1,2\n")
    experiments = '[experiments]\na = {}\nb = { U = 3 }\nc = { U = { file = "u.csv" } }'
    rest = f'[tables.U]\nx = [0, 1]\ny = [1, 1]\nkind = "hold"\n{experiments}'
    tables = [dict(e.tables) for e in ready.load(text(rest)).experiments]
    assert tables == [{}, {"U": of.Table.constant(3.0)}, {"U": of.Table([0, 1], [1, 2], kind="hold")}]


def test_what_is_saved_reads_back(ready, tmp_path):
    ready.put("a.csv", "experiment,time,x\na,1,1\nb,1,1\nc,1,1\n")
    ready.put("u.csv", "s,A\n" + "".join(f"{i / 7!r},{i / 3!r}\n" for i in range(200)))
    rest = (
        '[tables.U]\nfile = "u.csv"\n[tables.V]\nx = [0, 1]\ny = ["k", 2]\nkind = "cubic"\noutside = "extend"\n'
        "[experiments]\na = {}\nb = { U = 3 }\nc = { U = { x = [0, 3], y = [1, 2] } }"
    )
    problem = ready.load(text(rest).replace("k*U(t)", "k*U(t)*V(x)"))
    problem.save(tmp_path / "saved.toml")
    again = of.load(tmp_path / "saved.toml")
    assert again.tables == problem.tables
    assert again.experiments == problem.experiments
    assert (tmp_path / "saved.U.csv").exists()
    np.testing.assert_array_equal(again.tables["U"].x, np.arange(200) / 7)


MISTAKES = {
    "no rows": (
        "[tables.U]\nkind = 'hold'",
        "needs its rows from one of 'file', 'column' or 'x' with 'y'; it has none",
    ),
    "two sources": ("[tables.U]\nx = [0, 1]\ny = [1, 2]\ncolumn = 'a'", "it has 'column' and 'x'"),
    "no values": ("[tables.U]\nx = [0, 1]", "needs both x and y"),
    "unknown key": ("[tables.U]\nx = [0, 1]\ny = [1, 2]\nkindd = 'hold'", "unknown key 'kindd'; did you mean 'kind'"),
    "unknown kind": (
        "[tables.U]\nx = [0, 1]\ny = [1, 2]\nkind = 'spline'",
        r"\[tables.U\]: a table has kind = 'spline'",
    ),
    "unsorted": ("[tables.U]\nx = [1, 0]\ny = [1, 2]", r"must increase, but 0 \(row 2\) comes behind 1; sort the rows"),
    "duplicate": ("[tables.U]\nx = [1, 1]\ny = [1, 2]", "has the knot 1 twice"),
    "not finite": ("[tables.U]\nx = [0, 1]\ny = [1, inf]", "value number 2 of a table is inf"),
    "lengths": ("[tables.U]\nx = [0, 1]\ny = [1]", "has 2 knots but 1 values"),
    "no number": ("[tables.U]\nx = [0, 'a']\ny = [1, 2]", "the knot 'a', which is no number and no date"),
    "no file": ("[tables.U]\nfile = 'nothing.csv'", "does not exist"),
    "not called": ("[tables.U]\nx = [0, 1]\ny = [1, 2]\n[tables.V]\nx = [0, 1]\ny = [1, 2]", "'V' is not called"),
    "unknown parameter": ("[tables.U]\nx = [0, 1]\ny = ['kk', 2]", "has the value 'kk', which is no parameter"),
    "expression": (
        "[tables.U]\nx = [0, 1]\ny = [1, 2]\n[experiments]\na = { U = '2*t' }",
        "not supported yet: a table that is replaced by an expression",
    ),
    "misspelt": ("[tables.Uh]\nx = [0, 1]\ny = [1, 2]", "there is no function and no table 'U'"),
    "a name in the equations": ("[tables.x]\nx = [0, 1]\ny = [1, 2]", "'x' is a table too; a name has one meaning"),
    "a parameter": ("[tables.k]\nx = [0, 1]\ny = [1, 2]", "'k' is a table; write k"),
    "pchip of parameters": (
        "[tables.U]\nx = [0, 1]\ny = ['k', 2]\nkind = 'pchip'",
        "not supported yet: parameters as values of a table of kind 'pchip'",
    ),
    "arguments": (
        "[tables.U]\nx = [[0, 1], [0, 1]]\ny = [[1, 2], [1, 2]]",
        "takes two arguments, but it is called with one",
    ),
    "in a rule": (
        "[tables.U]\nx = [0, 1]\ny = [1, 2]\n[constraints]\nrules = ['U(k) ~ normal(1, 2)']",
        "not supported yet: the table 'U' in a rule",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(ready, mistake):
    rest, words = MISTAKES[mistake]
    with pytest.raises(OdefitError, match=words):
        ready.load(text(rest))


def test_three_columns_need_names(ready):
    ready.put("u.csv", "n,A,seconds\n7,1,0\n8,2,1\n")
    with pytest.raises(OdefitError, match="'u.csv' has 3 columns; say which hold arguments and values"):
        ready.load(text('[tables.U]\nfile = "u.csv"'))
    with pytest.raises(OdefitError, match=r"\[tables.U\] x = 'second' is no column of 'u.csv'; did you mean 'seconds'"):
        ready.load(text('[tables.U]\nfile = "u.csv"\nx = "second"\ny = "A"'))


def test_a_base_gives_rows_that_are_replaced(ready):
    ready.put("base.toml", text('[tables.U]\nx = [0, 1]\ny = [1, 2]\nkind = "hold"'))
    ready.put("u.csv", "s,A\n0,5\n1,6\n")
    problem = ready.load('base = "base.toml"\n[tables.U]\nfile = "u.csv"\n')
    assert problem.tables["U"] == of.Table([0, 1], [5, 6], kind="hold")
