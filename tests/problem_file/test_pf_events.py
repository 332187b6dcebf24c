"""``[events]`` in problem files, events in their equations, and the data column `side`."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from pf_comparison import assert_same_problem
from pf_project import CSV, DATA, EQUATIONS, PARAMETERS

from odefit import Dose
from odefit.errors import OdefitError
from odefit.formats import load_problem

TWO = "time,experiment,A\n1,s1,1\n1,s2,2\n"


def events(section: str, *, parameters: str = "", data: str = DATA) -> str:
    return f"{EQUATIONS}{PARAMETERS}{parameters}{data}[events]\n{section}\n"


def test_rows_of_single_experiments_and_of_all(project):
    problem = project.load(
        events(
            """rows = [
  { experiment = "s1", time = 0, target = "A", add = 100, every = 12, count = 6 },
  { time = "t1", target = "B", set = "2*k" },
  { experiment = "s2", time = 0.5, target = "A", add = 3, duration = "dur" },
]
lag = { A = "tlag" }
fraction = { A = 0.8 }""",
            parameters="t1 = 1\ntlag = 0.5\ndur = 2\n",
        ),
        TWO,
    )
    washed = Dose("t1", "B", "2*k", "set")
    assert problem.experiments[0].events == (Dose(0.0, "A", 100.0, every=12.0, count=6), washed)
    assert problem.experiments[1].events == (washed, Dose(0.5, "A", 3.0, duration="dur"))
    assert (problem.lag, problem.fraction) == ({"A": "tlag"}, {"A": 0.8})
    assert problem.model.states == ("A", "B", "rate into A")
    assert problem.event_times({}, 1) == [1.0, 3.0]


def test_rows_of_a_file(project):
    project.put(
        "doses.csv",
        'experiment;time;target;add;set;duration;every;count\n# a comment\ns1;0;A;"min(k, 2)";;1,5;24;3\n;t1;B;;0;;;\n',
    )
    problem = project.load(events('file = "doses.csv"', parameters="t1 = 1\n"), TWO)
    first = Dose(0.0, "A", "min(k, 2)", duration=1.5, every=24.0, count=3)
    assert problem.experiments[0].events == (first, Dose("t1", "B", 0.0, "set"))
    assert problem.experiments[1].events == (Dose("t1", "B", 0.0, "set"),)


def test_dates_are_days_since_the_origin(project):
    data = '[data]\nfile = "d.csv"\norigin = "2020-03-01"\n'
    csv = "time,A\n2020-03-02,1\n"
    project.put("doses.csv", "time,target,add\n2020-03-03T12:00,A,1\n1,A,2\n")
    problem = project.load(events('file = "doses.csv"', data=data), csv)
    assert [dose.time for dose in problem.experiments[0].events] == [2.5, 1.0]
    problem = project.load(events("rows = [{ time = 2020-03-11, target = 'A', add = 1 }]", data=data), csv)
    assert problem.experiments[0].events[0].time == 10.0
    with pytest.raises(OdefitError, match=r"\[events\] row 1: time has the date 2020-03-11, which needs an origin"):
        project.load(events("rows = [{ time = 2020-03-11, target = 'A', add = 1 }]"))


def test_the_column_of_the_time_may_have_its_name(project):
    toml = 'time = "s"\n' + events("rows = [{ s = 2, target = 'A', add = 1 }]")
    assert project.load(toml).experiments[0].events == (Dose(2.0, "A", 1.0),)


def test_a_file_inherits_events_and_replaces_their_rows(project):
    project.put("base.toml", events("rows = [{ time = 1, target = 'A', add = 1 }]\nlag = { A = 2 }"))
    problem = project.load('base = "base.toml"\n[events]\nlag = { A = 3 }\n')
    assert (len(problem.experiments[0].events), problem.lag) == (1, {"A": 3.0})
    project.put("doses.csv", "time,target,add\n5,A,1\n6,A,1\n")
    problem = project.load('base = "base.toml"\n[events]\nfile = "doses.csv"\n')
    assert [dose.time for dose in problem.experiments[0].events] == [5.0, 6.0]


MISTAKES = {
    "unknown key": ("doses = []", r"\[events\] has an unknown key 'doses'"),
    "unknown column": (
        "rows = [{ time = 1, target = 'A', add = 1, durration = 3 }]",
        r"\[events\] row 1 has an unknown column 'durration'; did you mean 'duration'\?",
    ),
    "file and rows": ("file = 'e.csv'\nrows = []", r"\[events\] has both 'file' and 'rows'; keep one\."),
    "rows": ("rows = 3", r"\[events\] rows must be a list of tables, not 3\."),
    "row": ("rows = [3]", r"\[events\] row 1 must be a table of keys, not 3\."),
    "file": ("file = ['a', 'b']", r"\[events\] file must be the name of one file, not a list\."),
    "no time": ("rows = [{ target = 'A', add = 1 }]", r"row 1 has no 'time'; every row needs one\."),
    "no target": ("rows = [{ time = 1, add = 1 }]", r"row 1 has no 'target'; every row needs one\."),
    "nothing given": ("rows = [{ time = 1, target = 'A' }]", "row 1 has none of 'add' and 'set'; give one of them"),
    "both": ("rows = [{ time = 1, target = 'A', add = 1, set = 2 }]", "row 1 has both of 'add' and 'set'"),
    "every": ("rows = [{ time = 1, target = 'A', add = 1, every = 2 }]", "has 'every' but not 'count'; say how often"),
    "count": (
        "rows = [{ time = 1, target = 'A', add = 1, every = 2, count = 1.5 }]",
        r"row 1: count must be a whole number, not 1\.5",
    ),
    "target": ("rows = [{ time = 1, target = 2, add = 1 }]", "row 1: target must be text in quotes, not 2"),
    "amount": ("rows = [{ time = 1, target = 'A', add = true }]", "row 1: add must be a number, not true"),
    "experiment": (
        "rows = [{ experiment = 'mein', time = 1, target = 'A', add = 1 }]",
        r"row 1: there is no experiment 'mein'; did you mean 'main'\?",
    ),
    "no state": (
        "rows = [{ time = 1, target = 'AA', add = 1 }]",
        r"experiment 'main': the dose of 'AA' at 1: 'AA' is no state; did you mean 'A'\?",
    ),
    "lag": ("lag = 3", r"\[events\] lag must be a table of keys, not 3"),
    "lag of nothing": ("lag = { A = 1 }", "a lag is given for 'A', to which nothing is given"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(project, name):
    section, message = MISTAKES[name]
    with pytest.raises(OdefitError, match=f"^p.toml: .*{message}"):
        project.load(events(section))


def test_mistakes_in_a_file_name_the_line(project):
    project.put("doses.csv", "time,target,add,set\n1,A,1,\n2,A,1,2\n")
    with pytest.raises(OdefitError, match="'doses.csv', line 3 has both of 'add' and 'set'"):
        project.load(events('file = "doses.csv"'))


def test_saving(project):
    rows = """rows = [
  { experiment = "s1", time = 0, target = "A", add = 100.5, every = 12, count = 6 },
  { time = "min(t1, 2)", target = "B", set = "2*k" },
  { experiment = "s2", time = 0.5, target = "A", add = 3, duration = 0.25, every = 2, count = 1 },
]
lag = { A = "tlag" }
fraction = { A = 0.8 }"""
    problem = project.load(events(rows, parameters="t1 = 1\ntlag = 0.5\n"), TWO)
    problem.save(project.folder / "saved.toml")
    assert_same_problem(load_problem(project.folder / "saved.toml"), problem)


@pytest.mark.parametrize("seed", range(5))
def test_saving_any_schedule(project, seed):
    random = np.random.default_rng(seed)

    def value() -> float | str:
        return float(random.normal()) if random.random() < 0.7 else str(random.choice(["k", "2*k2", "min(k, k2)"]))

    def dose() -> Dose:
        how, every = str(random.choice(["add", "set"])), float(random.exponential())
        infused = how == "add" and random.random() < 0.5
        repeated = {"every": every, "count": int(random.integers(1, 9))} if random.random() < 0.5 else {}
        duration = {"duration": float(random.exponential()) if random.random() < 0.5 else "k"} if infused else {}
        time = float(random.exponential()) if random.random() < 0.7 else "k + 1"
        return Dose(time, str(random.choice(["A", "B"])), value(), how, **duration, **repeated)

    problem = project.load(csv=TWO)
    doses = [(Dose(0.0, "A", 1.0), *(dose() for _ in range(random.integers(0, 6)))) for _ in problem.experiments]
    changed = dataclasses.replace(
        problem,
        experiments=tuple(dataclasses.replace(e, events=d) for e, d in zip(problem.experiments, doses, strict=True)),
        lag={"A": abs(float(random.normal()))},
        fraction={"A": "exp(-k)"},
    )
    changed.save(project.folder / "saved.toml")
    assert_same_problem(load_problem(project.folder / "saved.toml"), changed)


def test_saving_events_of_the_equations(project):
    problem = project.load((EQUATIONS + PARAMETERS + DATA).replace("total = A + B", "at t=1: k = 0, A += 1"))
    assert problem.model.held == ("k (held)",)
    problem.save(project.folder / "saved.toml")
    assert_same_problem(load_problem(project.folder / "saved.toml"), problem)


@pytest.mark.parametrize(
    "csv",
    [
        "time,A,B,side\n0,1,0,\n1,0.4,0.5,after\n2,0.1,0.6,before\n",
        "time,observable,value,side\n0,A,1,\n0,B,0,\n1,A,0.4,after\n1,B,0.5,after\n2,A,0.1,\n2,B,0.6,before\n",
    ],
)
def test_side(project, csv):
    problem = project.load(csv=csv)
    assert problem.measurements.after.tolist() == [False, False, True, True, False, False]
    problem.save(project.folder / "saved.toml")
    assert_same_problem(load_problem(project.folder / "saved.toml"), problem)


def test_an_unknown_side(project):
    with pytest.raises(OdefitError, match="line 2, column 'side': 'behind' is no side; write before or after"):
        project.load(csv="time,A,side\n0,1,behind\n")


def test_a_definition_called_side_is_measured(project):
    toml = (EQUATIONS + PARAMETERS + DATA).replace("total", "side")
    problem = project.load(toml, CSV.replace("B", "side"))
    assert problem.observables == ("A", "side")
    assert not problem.measurements.after.any()


def test_held_states_are_no_columns(project):
    toml = (EQUATIONS + PARAMETERS + DATA).replace("total = A + B", "at t=1: k = 0")
    with pytest.raises(OdefitError, match=r"has a column 'k \(held\)', which is no state and no definition"):
        project.load(toml, "time,A,k (held)\n0,1,1\n")
