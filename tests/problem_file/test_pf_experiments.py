"""[experiments]: entries and a table in a file."""

from __future__ import annotations

import math

import pytest
from pf_project import DATA, EQUATIONS, PARAMETERS

CSV = "experiment,time,A\nb1,0,1\nb2,0,1\n"


def load(project, text, **files):
    problem = project.load(EQUATIONS + PARAMETERS + DATA + "[experiments]\n" + text, CSV, **files)
    return {e.name: e for e in problem.experiments}


def test_entries(project):
    found = load(project, 'b1 = { k = 2, "A(0)" = "2*A0", until = 60 }\nb2 = { total = 7, use = "validate" }')
    assert dict(found["b1"].periods[0].overrides) == {"k": 2.0, "A(0)": "2*A0"}
    assert (found["b1"].until, found["b1"].use) == (60, "fit")
    assert dict(found["b2"].periods[0].overrides) == {"total": 7.0}
    assert math.isnan(found["b2"].until)
    assert found["b2"].use == "validate"


@pytest.mark.parametrize("column", ["experiment", "name"])
def test_table(project, column):
    table = f"{column};k;A(0);until;use\nb1;1,5;2*A0;60;\nb2;;NA;;validate\nb3;k2;;9;predict\n"
    found = load(project, 'file = "runs.csv"', runs_csv=table)
    assert list(found) == ["b1", "b2", "b3"]
    assert dict(found["b1"].periods[0].overrides) == {"k": 1.5, "A(0)": "2*A0"}
    assert dict(found["b2"].periods[0].overrides) == {}
    assert dict(found["b3"].periods[0].overrides) == {"k": "k2"}
    assert [e.use for e in found.values()] == ["fit", "validate", "predict"]
    assert found["b3"].until == 9


def test_table_and_entries(project):
    table = "experiment,k,k2\nb1,1,2\n"
    found = load(project, 'file = "runs.csv"\nb1 = { k = 3 }\nb2 = { k2 = 4 }', runs_csv=table)
    assert dict(found["b1"].periods[0].overrides) == {"k": 3.0, "k2": 2.0}
    assert dict(found["b2"].periods[0].overrides) == {"k2": 4.0}


def test_an_experiment_called_file(project):
    assert list(load(project, "file = {}\nb1 = {}\nb2 = {}")) == ["file", "b1", "b2"]


def test_start_of_all_experiments(project):
    toml = (EQUATIONS + PARAMETERS + DATA).replace("[model]", "[model]\nt0 = -2")
    assert [e.start for e in project.load(toml, CSV).experiments] == [-2, -2]


def test_independent_variable(project):
    toml = 'time = "r"\n' + EQUATIONS + PARAMETERS + DATA
    problem = project.load(toml, "r,A\n0,1\n1,1\n")
    assert problem.model.time == "r"
    assert problem.measurements.time.tolist() == [0, 1]


def test_other_sections(project):
    toml = (
        'title = "x"\n' + EQUATIONS + PARAMETERS + DATA + '[units]\nk = "1/h"\nt = "h"\nA = "mol"\nhalf = "h"\n'
        '[constraints]\nrules = ["log(k/k2) ~ normal(0, 1)"]\n[derived]\nhalf = "log(2)/k"\n'
        '[integrator]\nmethod = "rk32"\nrtol = 1e-5\natol = 1e-6\nmax_steps = 7\n'
        '[fit]\nmethod = "single"\ntol = 1e-3\nmax_iterations = 9\n'
    )
    problem = project.load(toml)
    assert problem.title == "x"
    assert problem.constraints == ("log(k/k2) ~ normal(0, 1)",)
    assert problem.derived == {"half": "log(2)/k"}
    assert problem.units == {"k": "1/h", "t": "h", "A": "mol", "half": "h"}
    settings = problem.settings
    assert settings.integrator == "rk32"
    assert (settings.rtol, settings.atol, settings.max_steps) == (1e-5, 1e-6, 7)
    assert (settings.method, settings.tol, settings.max_iterations) == ("single", 1e-3, 9)
