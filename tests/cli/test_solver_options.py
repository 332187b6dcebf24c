"""Solver and freeze rule by name: in the file, on the command line, in Python; and exact data through a file."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

import odefit as of
from odefit.native.stop import StopFlag
from odefit.solve import SOLVERS, ErrorGrowth, LinearStep, Readapt, Solver, StepLength
from odefit.strategy import fit_by

TOML = """[model]
equations = \"\"\"
x' = -k*x
x(0) = a
\"\"\"
[parameters]
k = 1
a = 0.8
[data]
file = "data.csv"
{rest}"""
CSV = "time,x,x.weight\n0,1.05,\n1,0.6,inf\n2,0.3,\n3,0.2,\n"


@pytest.fixture
def file(tmp_path):
    """Write a problem with an exact point and return a function of its further sections."""

    def write(rest="", csv=CSV):
        (tmp_path / "data.csv").write_text(csv)
        path = tmp_path / "problem.toml"
        path.write_text(TOML.format(rest=rest))
        return path

    return write


def odefit(*arguments):
    """Run the command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "odefit", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ,
        timeout=300,
    )


BAD = {
    "solver": "there is no solver 'trst'; did you mean 'trust'?",
    "freeze": "there is no rule freeze = 'trst'",
}


@pytest.mark.parametrize(("key", "words"), BAD.items())
def test_unknown_name_in_the_file(file, key, words):
    run = odefit("fit", file(f'[fit]\n{key} = "trst"\n'))
    assert run.returncode == 2
    assert run.stdout == ""
    assert words in " ".join(run.stderr.split())
    assert "Traceback" not in run.stderr


def test_unknown_solver_on_the_command_line(file):
    run = odefit("fit", file(), "--solver", "trst", "--json")
    assert run.returncode == 2
    assert run.stdout == ""
    assert BAD["solver"] in " ".join(run.stderr.split())


def test_unknown_names_in_python(file):
    problem = of.load(file())
    with pytest.raises(of.ProblemError, match=r"there is no solver 'damp'; did you mean 'damped'\?"):
        of.fit(problem, solver="damp")
    with pytest.raises(of.ProblemError, match="there is no rule freeze = 'never'"):
        of.fit(problem.with_settings(freeze="never"))


@pytest.mark.parametrize("solver", ["diffpar"])
def test_exact_point_through_a_file(file, solver):
    run = odefit("fit", file(), "--json", "--solver", solver)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout, parse_constant=lambda name: pytest.fail(f"{name} in the result"))
    assert (found["status"], found["solver"], found["n_data"], found["dof"]) == ("converged", solver, 3, 2)
    assert re.search("^{", run.stdout)


def test_contradiction_through_a_file(file):
    run = odefit("fit", file(csv="time,x,x.weight\n0,1,\n1,0.6,inf\n1,0.5,inf\n2,0.3,\n"), "--json")
    assert run.returncode == 3
    found = json.loads(run.stdout, parse_constant=lambda name: pytest.fail(f"{name} in the result"))
    assert found["status"] == "infeasible"
    assert "data of infinite weight" in found["message"]


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("freeze", ["omega", "growth", "readapt"])
def test_settings_survive_saving(file, tmp_path, solver, freeze):
    problem = of.load(file()).with_settings(solver=solver, freeze=freeze)
    target = tmp_path / "saved" / "problem.toml"
    target.parent.mkdir()
    problem.save(target)
    again = of.load(target)
    assert (again.settings.solver, again.settings.freeze) == (solver, freeze)
    one, other = of.fit(problem), of.fit(again)
    assert one.solver == other.solver == solver
    assert one.converged
    assert one.estimates == pytest.approx(other.estimates, rel=1e-12)
    assert one.estimates["k"] == pytest.approx(of.fit(of.load(file())).estimates["k"], rel=1e-6)


@pytest.mark.parametrize("freeze", [None, ErrorGrowth(), Readapt()])
def test_composition_of_ones_own(file, freeze):
    problem = of.load(file())
    result = of.fit(problem, solver=Solver(LinearStep(), StepLength(accept=0.5), freeze=freeze, weights=(1.0, 1e3)))
    assert result.converged
    assert result.solver == "custom"
    assert result.estimates["k"] == pytest.approx(of.fit(problem).estimates["k"], rel=1e-6)


@pytest.mark.parametrize("after", [1, 2, 4])
def test_stopped_while_weights_are_raised(file, after):
    """The best point so far comes back, judged with the weights that the data have."""
    stop = StopFlag()
    result = fit_by("single", of.load(file()), stop=stop, callback=lambda row: row.iteration == after and stop.set())
    assert result.status == "interrupted"
    assert result.message == "the fit was stopped; this is the best point so far"
    assert result.iterations == after
    assert 0.0 < result.objective < 1.0
    assert json.dumps(result.to_dict(), allow_nan=False)
