"""Columns of data files that [experiments] sets."""

from __future__ import annotations

import pytest

from odefit.errors import ProblemError

TOML = """[model]
equations = '''
A' = -k*T*A
T = 320
A(0) = 1
'''
[parameters]
k = 0.001
[data]
file = "d.csv"
[experiments]
b1 = { T = 310 }
b2 = { T = 330 }
"""
WIDE = "experiment,time,A,T\nb1,0,1,310\nb1,1,0.7,310.0\nb2,1,0.6,\nb2,2,0.5,330\n"
TIDY = "experiment,time,observable,value\nb1,1,A,0.7\nb1,1,T,310\nb2,1,A,0.6\nb2,1,T,330\n"


@pytest.mark.parametrize("csv", [WIDE, TIDY])
def test_not_among_the_observables(project, csv):
    problem = project.load(TOML, csv)
    assert problem.observables == ("A",)
    assert set(problem.measurements.observable.tolist()) == {"A"}


@pytest.mark.parametrize(
    ("csv", "place"),
    [(WIDE.replace("330", "331"), "line 5, column 'T'"), (TIDY.replace("330", "331"), "line 5, column 'value'")],
)
def test_the_place_of_a_value_that_differs(project, csv, place):
    with pytest.raises(ProblemError, match=f"'d.csv', {place}: the value is 331, but experiment 'b2' sets 'T' to 330"):
        project.load(TOML, csv)


@pytest.mark.parametrize("csv", [WIDE, TIDY])
def test_a_parameter(project, csv):
    assert project.load(TOML.replace("T = 320\n", ""), csv).observables == ("A",)


def test_an_experiment_that_does_not_set_it(project):
    toml = TOML.replace("b2 = { T = 330 }", "b2 = {}")
    with pytest.raises(ProblemError, match="line 5, column 'T': the value is 330, but 'T' is 320"):
        project.load(toml, WIDE)
    assert project.load(toml.replace("T = 320", "T = 320 + A"), WIDE).observables == ("A", "T")
    fixed = toml.replace("T = 320\n", "").replace("k = 0.001", "k = 0.001\nT = { start = 330, fixed = true }")
    with pytest.raises(ProblemError, match="line 5, column 'T': .*since other experiments set it"):
        project.load(fixed, WIDE)


def test_a_table_of_experiments(project):
    project.put("runs.csv", "experiment,T\nb1,310\nb2,330\n")
    toml = TOML[: TOML.index("b1 =")] + 'file = "runs.csv"\n'
    assert project.load(toml, WIDE).observables == ("A",)
