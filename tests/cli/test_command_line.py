"""The command line: exit codes, one JSON document on standard output, never a traceback."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

import odefit as of
from odefit.gallery import WITHOUT_MINIMUM, load, names, path_of

DECAY = "x' = -k*x\nx(0) = 1"
CSV = "time,x\n0,1\n1,0.5\n2,0.3\n"


def toml(equations=DECAY, parameters="k = 1", rest="") -> str:
    return f'[model]\nequations = """\n{equations}\n"""\n[parameters]\n{parameters}\n[data]\nfile = "data.csv"\n{rest}'


@pytest.fixture
def file(tmp_path):
    def write(text: str, csv: str = CSV):
        (tmp_path / "data.csv").write_text(csv)
        path = tmp_path / "problem.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_fit_prints_a_summary(command):
    code, out, _ = command("fit", path_of("barnes"))
    assert code == 0
    assert out == of.fit(of.load(path_of("barnes"))).summary() + "\n"


@pytest.mark.parametrize("name", sorted(set(names()) - set(WITHOUT_MINIMUM)))
def test_every_demo_converges(command, name):
    code, out, _ = command("demo", name, "--json")
    assert json.loads(out)["status"] == "converged"
    assert code == 0


@pytest.mark.parametrize("name", WITHOUT_MINIMUM)
def test_demo_without_minimum_says_so(command, name):
    code, out, _ = command("demo", name, "--json")
    assert json.loads(out)["status"] == "flat-valley"
    assert code == 3


def test_demo_built_by_python_prints_a_summary(command):
    code, out, _ = command("demo", "shock_front")
    assert code == 0
    assert out == of.fit(load("shock_front")).summary() + "\n"


def test_demo_that_does_not_converge_says_so(command):
    """The data of pyridine do not fix k4; whatever word the fit ends with, exit code and result agree."""
    code, out, _ = command("demo", "pyridine", "--json")
    assert code == (0 if json.loads(out)["status"] == "converged" else 3)


def test_demo_lists_its_names(command):
    code, out, err = command("demo")
    assert (code, err) == (0, "")
    assert out.splitlines() == names()
    assert names() == [
        "arrhenius", "barnes", "barnes/b", "barnes/c", "barnes/d_y1", "barnes/d_y2", "bioprocess", "bouncing_ball",
        "cascade", "closed_orbit", "dow", "dow/dae", "drive_cycle", "ecoli_batches", "herbert", "herbert/ridge",
        "isotherm", "lockdown", "lorenz", "lotka_volterra_iss", "oral_doses", "pyridine", "pyridine/exact",
        "robertson", "robertson/exact", "shock_front", "shock_front/implicit", "thermostat", "transistor", "urease",
    ]  # fmt: skip


def test_json_is_the_result(command):
    code, out, _ = command("fit", path_of("barnes/b"), "--json")
    assert code == 0
    assert json.loads(out) == json.loads(json.dumps(of.fit(of.load(path_of("barnes/b"))).to_dict()))


def test_everything_else_goes_to_standard_error(command, file, tmp_path, monkeypatch):
    """Even while a model is compiled for the first time, and a file is written."""
    monkeypatch.setenv("ODEFIT_CACHE_DIR", str(tmp_path / "cache"))
    code, out, err = command("fit", file(toml("x' = -k*x - 0.125*k\nx(0) = 1")), "--json", "--out", tmp_path / "out")
    assert code == 0
    assert json.loads(out)["status"] == "converged"
    assert "odefit: compiling model with 1 state and 1 parameter" in err
    assert f"odefit: wrote {tmp_path / 'out' / 'result.json'}" in err


@pytest.mark.parametrize("as_json", [True, False])
def test_out_writes_the_document(command, tmp_path, as_json):
    folder = tmp_path / "a" / "b"
    code, out, _ = command("demo", "barnes", "--out", folder, *(["--json"] if as_json else []))
    assert code == 0
    written = (folder / "result.json").read_text(encoding="utf-8")
    assert json.loads(written)["schema"] == "odefit-result-1"
    assert (out == written) is as_json


NOT_CONVERGED = {
    "failed": (toml("x' = k*x^2\nx(0) = 1", "k = 9"), CSV, "failed"),
    "no influence": (toml(), "time,x\n0,2\n", "no-influence"),
    "iteration limit": (toml(parameters="k = 0.01", rest="[fit]\nmax_iterations = 1\n"), CSV, "iteration-limit"),
}


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize("name", NOT_CONVERGED)
def test_not_converged_is_exit_code_3(command, file, tmp_path, name, as_json):
    text, csv, status = NOT_CONVERGED[name]
    arguments = ["fit", file(text, csv), "--out", tmp_path / "out", *(["--json"] if as_json else [])]
    code, out, _ = command(*arguments)
    assert code == 3
    if as_json:
        assert json.loads(out)["status"] == status
    else:
        assert f"{status}: " in out
        assert "Warnings" in out
    assert json.loads((tmp_path / "out" / "result.json").read_text())["status"] == status


# arguments (FILE stands for the problem file), text of the file, data, words on standard error
BAD_INPUT = {
    "no such file": (
        ["fit", "none.toml"],
        None,
        CSV,
        "odefit: the problem file 'none.toml' cannot be read: No such file",
    ),
    "a folder": (["fit", "."], None, CSV, "cannot be read: Is a directory"),
    "not TOML": (["fit", "FILE"], "[model\n", CSV, "is not valid TOML"),
    "unknown key": (
        ["fit", "FILE"],
        toml(rest="sigm = 1"),
        CSV,
        "[data] has an unknown key 'sigm'; did you mean 'sigma'?",
    ),
    "equation": (["fit", "FILE"], toml("x' = -k x\nx(0) = 1"), CSV, "odefit: problem.toml: equations, line 1: "),
    "unsupported": (["fit", "FILE"], toml(rest="[grids.r]\n"), CSV, "not supported yet: [grids.r]"),
    "no data file": (["fit", "FILE"], toml().replace("data.csv", "other.csv"), CSV, "other.csv' does not exist"),
    "text in data": (["fit", "FILE"], toml(), "time,x\n0,high\n", "'high' is not a number"),
    "empty data": (["fit", "FILE"], toml(), "", "'data.csv' is empty"),
    "nothing to fit": (["fit", "FILE"], toml(), "time,x,weight\n0,1,0\n", "there is nothing to fit"),
    "nothing free": (["fit", "FILE"], toml(parameters="k = { start = 1, fixed = true }"), CSV, "no parameter is free"),
    "integrator": (["fit", "FILE"], toml(rest="[integrator]\nmethod = 'dopri'\n"), CSV, "did you mean 'dopri5'?"),
    "method in the file": (["fit", "FILE"], toml(rest="[fit]\nmethod = 'sinlge'\n"), CSV, "did you mean 'single'?"),
    "unknown method": (
        ["demo", "barnes", "--method", "sinlge"],
        None,
        CSV,
        "there is no method 'sinlge'; did you mean 'single'?",
    ),
    "planned method": (
        ["demo", "barnes", "--method", "auto"],
        None,
        CSV,
        "not supported yet: method 'auto'",
    ),
    "unknown demo": (
        ["demo", "barns"],
        None,
        CSV,
        "there is no demo 'barns'; did you mean 'barnes'? There are: arrhenius, barnes",
    ),
    "strange demo": (["demo", "xyzzy"], None, CSV, "there is no demo 'xyzzy'"),
    "demo outside the gallery": (["demo", "../formats/x"], None, CSV, "there is no demo '../formats/x'"),
    "out is a file": (["demo", "barnes", "--out", "FILE"], "", CSV, "the result cannot be written to"),
    "unknown option": (["fit", "FILE", "--frobnicate"], toml(), CSV, "No such option"),
    "no file": (["fit"], None, CSV, "Missing argument"),
    "unknown command": (["frobnicate"], None, CSV, "No such command"),
}


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("name", BAD_INPUT)
def test_bad_input_is_exit_code_2(command, file, name, as_json):
    arguments, text, csv, words = BAD_INPUT[name]
    path = file(text or "", csv)
    given = [path if a == "FILE" else a for a in arguments]
    code, out, err = command(*given, *(["--json"] if as_json and arguments[0] in ("fit", "demo") else []))
    assert code == 2
    assert words in " ".join(err.split())
    assert name == "out is a file" or out == ""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["demo", "xyzzy"], "there is no demo 'xyzzy'[.;] There are:"),
        (["demo", "barns"], r"'barnes'\? There are: arrhenius, barnes, "),
    ],
)
def test_sentences_are_separated(command, words, expected):
    _, _, err = command(*words)
    assert re.search(expected, err)


def test_help(command):
    code, out, _ = command("--help")
    assert code == 0
    assert "fit" in out
    assert "demo" in out


@pytest.mark.parametrize("arguments", [["fit", "--help"], ["demo", "--help"]])
def test_help_of_commands_shows_an_example(command, arguments):
    code, out, _ = command(*arguments)
    assert code == 0
    assert "Example" in out


# --- in an interpreter of their own ---


def run(*arguments: object, script: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    head = [sys.executable, "-c", script] if script else [sys.executable, "-m", "odefit"]
    return subprocess.run(
        [*head, *map(str, arguments)], capture_output=True, text=True, encoding="utf-8", timeout=300, check=False,
        env=os.environ | environment,
    )  # fmt: skip


def test_module_can_be_run(file):
    done = run("fit", file(toml()), "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["status"] == "converged"


def test_bad_input_in_a_process_of_its_own(tmp_path):
    done = run("fit", tmp_path / "none.toml")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_output_that_cannot_show_every_letter(file, options):
    """A terminal without Greek letters is no reason to lose the result of a fit."""
    path = file('title = "Größe"\n' + toml("x' = -α*x\nx(0) = 1", '"α" = 1'))
    done = run("fit", path, *options, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "converged" in done.stdout
    assert not options or list(json.loads(done.stdout)["parameters"]) == ["α"]


INTERRUPT = """
import os, signal, sys, threading, time
import odefit as of
from odefit.cli import main

of.fit(of.load(sys.argv[2]).with_settings(max_steps=10))  # now everything is compiled

def interrupt():
    time.sleep(1.5)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
sys.argv[0] = "odefit"
main()
"""


@pytest.mark.slow
def test_interrupt(file, tmp_path):
    """Ctrl-C during a long integration: exit code 3, a result that says so, no traceback."""
    equations = "x' = v\nv' = -w^2*x\nx(0) = 1\nv(0) = 0"
    path = file(toml(equations, "w = 1e3", "[integrator]\nmax_steps = 100000000\n"), "time,x\n0.001,0.5\n1e5,0.5\n")
    done = run("fit", path, "--json", "--out", tmp_path / "out", script=INTERRUPT)
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout)["status"] == "interrupted"
    assert json.loads((tmp_path / "out" / "result.json").read_text())["status"] == "interrupted"
    assert "Traceback" not in done.stderr
