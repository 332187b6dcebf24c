"""How the model is integrated, said on the command line."""

from __future__ import annotations

import io
import json

import pandas as pd
import pytest

import odefit as of
from odefit.gallery import load

PULSE = """[model]
equations = \"\"\"
x' = -x + exp(-((t - 12)/0.02)^2)/0.02
x(0) = 0
\"\"\"
[data]
file = "data.csv"
"""


@pytest.fixture
def pulse(tmp_path):
    (tmp_path / "data.csv").write_text("time,x\n5,0\n13,0.65\n")
    path = tmp_path / "pulse.toml"
    path.write_text(PULSE)
    return path


def simulated(command, *arguments):
    code, out, _ = command("simulate", *arguments)
    assert code == 0
    return pd.read_csv(io.StringIO(out))["x"].tolist()


def test_short_steps_see_a_short_pulse(command, pulse):
    assert simulated(command, pulse)[-1] == pytest.approx(0.0, abs=1e-6)  # it was stepped over
    assert simulated(command, pulse, "--max-step", "0.01")[-1] == pytest.approx(0.6523, abs=1e-3)


@pytest.mark.parametrize("rtol", ["1e-3", "1e-10"])
def test_tolerances_are_those_of_the_settings(command, rtol):
    code, out, _ = command("demo", "barnes", "--rtol", rtol, "--atol", "1e-12", "--json")
    assert code == 0
    expected = of.fit(load("barnes").with_settings(rtol=float(rtol), atol=1e-12)).objective
    assert json.loads(out)["objective"] == expected
    assert expected != of.fit(load("barnes")).objective


def test_an_integrator(command):
    code, out, _ = command("demo", "barnes", "--integrator", "ddm", "--atol", "auto", "--json")
    assert code == 0
    assert json.loads(out)["integrators"] == {"main": "ddm"}


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--rtol", "2", "'rtol' is 2; it must lie between 0 and 1."),
        ("--atol", "small", "--atol 'small' is neither a number (1e-9) nor \"auto\"."),
        ("--atol", "-1", "'atol' is -1.0; it must be"),
        ("--max-step", "0", "'max_step' is 0; it must be above 0."),
        ("--integrator", "euler", "there is no integrator 'euler'"),
    ],
)
@pytest.mark.parametrize("name", ["fit", "simulate"])
def test_mistakes(command, pulse, name, option, value, words):
    code, _, err = command(name, pulse, option, value)
    assert code == 2
    assert words in err
