"""[parameters]: entries, a table in a file, patterns, start values of single slots."""

from __future__ import annotations

import math

import pytest
from pf_project import DATA, EQUATIONS

from odefit.problem import Parameter

TABLE = """name,start,lower,upper,scale,fixed,prior,per,unit,expression
k,1,0,9,log,,"lognormal(1, 0.3)",,1/h,
k2,0.5,,,,true,,,,
A0,,,,,,,,mol,2*k2
"""


def load(project, entries, **files):
    return {p.name: p for p in project.load(EQUATIONS + "[parameters]\n" + entries + "\n" + DATA, **files).parameters}


def test_entries(project):
    found = load(
        project,
        'k = { start = 1, lower = 0, upper = 9, scale = "log", prior = "lognormal(1, 0.3)", unit = "1/h" }\n'
        'k2 = { start = 0.5, fixed = true, linear = false }\nA0 = { expression = "2*k2", unit = "mol" }',
    )
    expected = {
        "k": Parameter("k", 1.0, 0.0, 9.0, "log", prior="lognormal(1, 0.3)", unit="1/h"),
        "k2": Parameter("k2", 0.5, fixed=True),
        "A0": Parameter("A0", expression="2*k2", unit="mol"),
    }
    assert {name: repr(p) for name, p in found.items()} == {name: repr(p) for name, p in expected.items()}
    assert repr(load(project, 'file = "q.csv"', q_csv=TABLE)) == repr(found)
    semicolons = TABLE.replace('"lognormal(1, 0.3)"', "lognormal(1; 0.3)").replace(",", ";").replace("1; 0.3", "1, 0.3")
    assert repr(load(project, 'file = "q.csv"', q_csv=semicolons.replace("0.5", "0,5"))) == repr(found)


def test_file_and_entries(project):
    found = load(project, 'file = "q.csv"\nk = { start = 2 }\nk2 = 3\nA0 = { start = 5 }', q_csv=TABLE)
    assert list(found) == ["k", "k2", "A0"]
    assert (found["k"].start, found["k"].upper, found["k"].scale) == (2, 9, "log")  # tables are merged
    assert (found["k2"].start, found["k2"].fixed) == (3, False)  # a number replaces
    assert (found["A0"].start, found["A0"].expression, found["A0"].unit) == (5, None, "mol")


def test_an_expression_replaces_a_row(project):
    found = load(project, 'file = "q.csv"\nk = { expression = "2*k2" }', q_csv=TABLE)
    assert (found["k"].expression, found["k"].prior) == ("2*k2", None)


def test_entries_beside_a_file(project):
    found = load(project, 'A0 = 7\nfile = "q.csv"', q_csv="name,start\nk,1\nk2,2\n")
    assert [(p.name, p.start) for p in found.values()] == [("k", 1), ("k2", 2), ("A0", 7)]


@pytest.mark.parametrize("written", ["true", "True", "TRUE", "yes", "1"])
def test_flags_in_a_table(project, written):
    assert load(project, 'file = "q.csv"\nk2 = 1\nA0 = 1', q_csv=f"name,start,fixed\nk,1,{written}\n")["k"].fixed


def test_infinite_bounds_in_a_table(project):
    found = load(project, 'file = "q.csv"\nk2 = 1\nA0 = 1', q_csv="name,start,lower,upper\nk,1,-inf,inf\n")
    assert (found["k"].lower, found["k"].upper) == (-math.inf, math.inf)


def test_patterns(project):
    found = load(project, '"k*" = { start = 0.1, lower = 1e-5, scale = "log" }\nA0 = 1\nk2 = { start = 3 }')
    assert list(found) == ["k", "A0", "k2"]
    assert (found["k"].start, found["k"].scale) == (0.1, "log")
    assert (found["k2"].start, found["k2"].scale) == (3, "linear")  # an own entry wins entirely


def test_patterns_match_parameters_only(project):
    found = load(project, '"*" = 2')
    assert list(found) == ["k", "k2", "A0"]
    assert all(p.start == 2 for p in found.values())


def test_pattern_in_a_file(project):
    found = load(project, 'file = "q.csv"\nA0 = 1', q_csv="name,start\nk*,2\n")
    assert [(p.name, p.start) for p in found.values()] == [("k", 2), ("k2", 2), ("A0", 1)]


def test_pattern_whose_names_all_have_entries(project):
    assert load(project, '"k*" = 2\nk = 1\nk2 = 1\nA0 = 1')["k"].start == 1


def test_a_parameter_called_file(project):
    equations = EQUATIONS.replace("k2", "file")
    problem = project.load(equations + "[parameters]\nk = 1\nA0 = 1\nfile = { start = 2 }\n" + DATA)
    assert {p.name: p.start for p in problem.parameters}["file"] == 2


def test_start_values_of_slots(project):
    toml = EQUATIONS + '[parameters]\n"k*" = { start = 1, per = "experiment" }\nA0 = 1\n"k[b]" = 3\n' + DATA
    problem = project.load(toml, "experiment,time,A\na,0,1\nb,0,1\n")
    assert problem.starts == {"k[b]": 3.0}


def test_look_alike_letters(project):
    equations = EQUATIONS.replace("k2", "\u03bc")
    problem = project.load(equations + '[parameters]\nk = 1\nA0 = 1\n"\u00b5" = 2\n' + DATA)
    assert [p.name for p in problem.parameters] == ["k", "A0", "\u03bc"]
