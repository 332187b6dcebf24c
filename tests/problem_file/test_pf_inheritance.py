"""base = "...": inherit, then override."""

from __future__ import annotations

import pytest
from pf_project import DATA, EQUATIONS, PARAMETERS

from odefit.errors import ProblemError
from odefit.formats.inheritance import merged

BASE = 'title = "base"\n' + EQUATIONS + PARAMETERS + DATA + "[experiments]\nb1 = { k = 2, k2 = 3 }\n"


def test_inherit_everything(project):
    problem = project.put("m.toml", BASE).load('base = "m.toml"')
    assert problem.title == "base"
    assert [p.start for p in problem.parameters] == [1, 0.5, 1]
    assert len(problem.measurements) == 6


def test_tables_are_merged(project):
    later = (
        'base = "m.toml"\ntitle = "new"\n[parameters]\nk = { start = 7 }\n'
        "[experiments]\nb1 = { k = 5 }\n[data]\nsigma = 2\n"
    )
    problem = project.put("m.toml", BASE).load(later)
    assert problem.title == "new"
    assert [(p.name, p.start) for p in problem.parameters] == [("k", 7), ("k2", 0.5), ("A0", 1)]
    assert dict(problem.experiments[0].periods[0].overrides) == {"k": 5.0, "k2": 3.0}
    assert problem.sigma.tolist() == [2] * 6


def test_chain(project):
    project.put("m.toml", BASE).put("n.toml", 'base = "m.toml"\n[parameters]\nk = 2\nk2 = 2')
    problem = project.load('base = "n.toml"\n[parameters]\nk = 3')
    assert [p.start for p in problem.parameters] == [3, 2, 1]


def test_files_are_relative_to_the_file_that_names_them(project):
    project.put("lib/m.toml", BASE.replace(PARAMETERS, '[parameters]\nfile = "q.csv"\n'))
    project.put("lib/d.csv", "time,B\n0,0\n4,1\n").put("lib/q.csv", "name,start\nk,1\nk2,2\nA0,3\n")
    assert project.load('base = "lib/m.toml"').observables == ("B",)
    assert project.load('base = "lib/m.toml"\n[data]\nfile = "d.csv"').observables == ("A", "B")


def test_a_pattern_in_a_base(project):
    project.put("lib/m.toml", BASE.replace("d.csv", "r_*.csv")).put("lib/r_b1.csv", "time,B\n0,0\n")
    assert project.load('base = "lib/m.toml"').observables == ("B",)


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ("x =", r"p.toml: base 'm.toml': this is not valid TOML|p.toml: base 'm.toml': line 1 is not valid TOML"),
        ('base = "p.toml"', "p.toml: the bases go round in a circle: 'p.toml' -> 'm.toml' -> 'p.toml'"),
        ('base = "q.toml"', "p.toml: the base 'q.toml' of 'm.toml' cannot be read: No such file"),
    ],
)
def test_mistakes(project, base, message):
    with pytest.raises(ProblemError, match=message):
        project.put("m.toml", base).load('base = "m.toml"\n' + BASE)


def test_circle_through_another_path(project):
    with pytest.raises(ProblemError, match="circle"):
        project.put("lib/m.toml", 'base = "../lib/../p.toml"').load('base = "lib/m.toml"')


def test_deep_tables(project):
    deep = "[a" + ".a" * 2000 + "]\nb = 1"
    with pytest.raises(ProblemError, match="more than 100 points in a key"):
        project.put("m.toml", deep).load('base = "m.toml"\n' + deep)


def test_merged():
    earlier = {"a": 1, "b": {"c": 1, "d": {"e": 1}}, "f": {"g": 1}, "h": [1]}
    later = {"b": {"d": {"x": 2}, "y": 3}, "f": 4, "h": [2]}
    assert merged(earlier, later) == {"a": 1, "b": {"c": 1, "d": {"e": 1, "x": 2}, "y": 3}, "f": 4, "h": [2]}
    assert earlier["b"] == {"c": 1, "d": {"e": 1}}
