"""Changes from the command line, synthetic data, and the problem that `odefit new` writes."""

from __future__ import annotations

import io
import json
import re

import numpy as np
import pandas as pd
import pytest

import odefit as of
from odefit.gallery import path_of


@pytest.fixture
def fresh(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command("new", "growth")[0] == 0
    return tmp_path


def test_new_problem_fits_as_it_is(command, fresh):
    code, out, _ = command("fit", "growth.toml")
    assert code == 0
    assert "converged" in out
    assert "Warnings" not in out
    assert command("check", "growth.toml")[0] == 0


@pytest.mark.parametrize(
    ("kind", "files"),
    [
        ("kinetics", "a.toml and a.csv"),
        ("pk", "a.toml, a.csv and a-doses.csv"),
        ("epi", "a.toml and a.csv"),
        ("input", "a.toml, a.csv and a-input.csv"),
    ],
)
def test_kinds_of_new_problems(command, tmp_path, monkeypatch, kind, files):
    monkeypatch.chdir(tmp_path)
    assert command("new", "a", "--kind", kind)[1] == f"wrote {files}; now run: odefit fit a.toml\n"
    code, out, _ = command("fit", "a.toml")
    assert code == 0
    assert "converged" in out
    assert "Warnings" not in out
    assert command("check", "a.toml")[0] == 0


def test_new_overwrites_nothing(command, fresh):
    before = (fresh / "growth.csv").read_text()
    (fresh / "growth.toml").unlink()
    code, _, err = command("new", "growth")
    assert code == 2
    assert err == "odefit: 'growth.csv' is there already; nothing was written. Give another name.\n"
    assert (fresh / "growth.csv").read_text() == before
    assert not (fresh / "growth.toml").exists()


@pytest.mark.parametrize("name", ["a b", "../x", "a/b", ""])
def test_names_of_new_problems(command, fresh, name):
    code, _, err = command("new", name)
    assert code == 2
    assert "is not a name for a problem" in err


def test_start_values_fixed_and_free(command, fresh):
    code, out, _ = command("fit", "growth.toml", "--set", "K=2", "--fix", "K", "--free", "S0", "--json")
    assert code == 0
    found = json.loads(out)["parameters"]
    assert found["K"]["estimate"] == 2.0
    assert found["K"]["verdict"] == "fixed"
    assert found["S0"]["verdict"] == "determined"


def test_from_an_earlier_result(command, fresh):
    assert command("fit", "growth.toml", "--out", "first", "--quiet") == (0, "", "")
    first = json.loads((fresh / "first" / "result.json").read_text())
    for source in ("first", "first/result.json"):
        code, out, _ = command("fit", "growth.toml", "--from", source, "--json")
        assert code == 0
        again = json.loads(out)
        assert again["iterations"] <= 1 < first["iterations"]
        assert again["objective"] == pytest.approx(first["objective"], rel=1e-9)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--set", "K"], "--set 'K' is not of the form name=number"),
        (["--set", "K=abc"], "is not of the form name=number"),
        (["--set", "K=nan"], "is not of the form name=number"),
        (["--set", "Km=2"], "there is no parameter 'Km'; did you mean 'K'?"),
        (["--fix", "vmx"], "there is no parameter 'vmx'; did you mean 'vmax'?"),
        (["--free", "x"], "there is no parameter 'x'"),
        (["--fix", "K", "--free", "K"], "'K' cannot be both fixed and free"),
        (["--from", "nothing"], "'nothing' cannot be read"),
        (["--from", "growth.csv"], "'growth.csv' is not a result file"),
        (["--json", "--quiet"], "choose one of them"),
        (["--solver", "difpar"], "did you mean 'diffpar'?"),
        (["--method", "singel"], "did you mean 'single'?"),
    ],
)
def test_bad_options_are_answered_in_one_sentence(command, fresh, options, words):
    code, out, err = command("fit", "growth.toml", *options)
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.strip().splitlines()) == 1


def test_results_of_another_problem(command, fresh):
    command("fit", path_of("barnes"), "--out", "other", "--quiet")
    code, _, err = command("fit", "growth.toml", "--from", "other")
    assert code == 2
    assert "holds no parameter of this problem" in err


def test_simulate_prints_states_and_definitions(command, fresh):
    code, out, _ = command("simulate", "growth.toml", "--set", "vmax=2", "--times", "0:10:11")
    frame = pd.read_csv(io.StringIO(out))
    expected = of.simulate(of.load("growth.toml"), {"vmax": 2.0}, times=np.linspace(0, 10, 11))
    assert code == 0
    assert list(frame) == list(expected)
    np.testing.assert_allclose(frame["S"], expected["S"])
    assert command("simulate", "growth.toml", "--times", "0,1,2.5")[1].count("\n") == 4


def test_synthetic_data_can_be_fitted(command, fresh):
    truth = {"vmax": 1.8, "K": 2.5, "kd": 0.12}
    sets = [part for name, value in truth.items() for part in ("--set", f"{name}={value}")]
    arguments = ["simulate", "growth.toml", *sets, "--noise", "0.01", "--seed", "1"]
    code, _, _ = command(*arguments, "--out", "made.csv")
    assert code == 0
    text = (fresh / "made.csv").read_text()
    assert command(*arguments)[1] == text  # the same seed, the same noise
    assert command(*arguments[:-1], "2")[1] != text
    (fresh / "made.toml").write_text((fresh / "growth.toml").read_text().replace("growth.csv", "made.csv"))
    found = json.loads(command("fit", "made.toml", "--json")[1])["parameters"]
    for name, value in truth.items():
        assert abs(found[name]["estimate"] - value) < 5 * found[name]["standard_error"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--times", "0:1"], "--times '0:1' is neither"),
        (["--times", "0:1:1"], "is neither"),
        (["--times", "a,b"], "is neither"),
        (["--times", "-1,2"], "before experiment"),
        (["--noise", "x"], "--noise 'x' is neither"),
        (["--noise", "-1"], "cannot be negative"),
        (["--noise", "1", "--times", "0,1"], "leave out --times or --noise"),
        (["--seed", "1"], "belong to --noise"),
        (["--out", "growth.csv/x.csv"], "cannot be written"),
    ],
)
def test_bad_options_of_simulate(command, fresh, options, words):
    code, out, err = command("simulate", "growth.toml", *options)
    assert (code, out) == (2, "")
    assert words in err


def test_orthogonal_noise_keeps_the_true_values_stationary():
    problem = of.load(path_of("barnes"))
    made = of.with_synthetic_data(problem, 0.1, orthogonal=True, seed=5)
    plain = of.with_synthetic_data(problem, 0.1, seed=5)
    at_truth = of.evaluate(made)
    assert at_truth.objective > 0.01
    gradient = at_truth.jacobian.T @ at_truth.residuals
    assert np.abs(gradient).max() < 1e-10
    other = of.evaluate(plain)
    assert np.abs(other.jacobian.T @ other.residuals).max() > 0.1


def test_relative_noise_and_no_noise():
    problem = of.load(path_of("barnes"))
    exact = of.with_synthetic_data(problem)
    assert of.evaluate(exact).objective < 1e-20
    noisy = of.with_synthetic_data(problem, 0.05, relative=True, seed=2)
    ratio = noisy.measurements.value / exact.measurements.value - 1
    assert 0.02 < ratio.std() < 0.1
    with pytest.raises(of.OdefitError, match="cannot be negative"):
        of.with_synthetic_data(problem, -1.0)


@pytest.mark.parametrize("name", ["fit", "simulate", "check", "compare", "demo", "new"])
def test_help_has_an_example(command, name):
    code, out, _ = command(name, "--help")
    assert code == 0
    assert "Example" in out


def test_fit_and_demo_have_the_same_options(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    listed = {}
    for name in ("fit", "demo"):
        _, out, _ = command(name, "--help")
        listed[name] = [line.strip("│ ") for line in out.splitlines() if re.match(r"\W*--\w", line)]
    assert listed["fit"] == listed["demo"]
    names = [line.split()[0] for line in listed["fit"]]
    assert names == [
        "--method", "--solver", "--start", "--starts", "--seed", "--workers", "--integrator", "--rtol", "--atol",
        "--max-step", "--set", "--fix", "--free", "--from",
        "--json", "--quiet", "--out", "--plots", "--help",
    ]  # fmt: skip


def test_a_demo_starts_from_an_earlier_result(command, tmp_path):
    assert command("demo", "barnes", "--out", tmp_path, "--quiet") == (0, "", "")
    code, out, _ = command("demo", "barnes", "--from", tmp_path, "--json")
    assert code == 0
    assert json.loads(out)["iterations"] <= 1


def test_compare_models_of_the_same_data(command, fresh):
    text = (fresh / "growth.toml").read_text()
    (fresh / "stable.toml").write_text(
        text.replace("kd = { start = 0.1, lower = 0 }", "kd = { start = 0, fixed = true }")
    )
    code, out, _ = command("compare", "growth.toml", "stable.toml")
    assert code == 0
    assert out.splitlines()[2].startswith("growth")
    assert "stable against growth" in out
    found = json.loads(command("compare", "growth.toml", "stable.toml", "--json")[1])
    assert found["tests"][0]["p"] < 1e-6


def test_compare_refuses_other_data(command, fresh):
    code, _, err = command("compare", "growth.toml", path_of("barnes"))
    assert code == 2
    assert "were fitted to different data" in err
    code, _, err = command("compare", "growth.toml")
    assert (code, err) == (2, "odefit: compare needs two problem files or more.\n")
