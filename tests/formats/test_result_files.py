"""result.json: strict JSON, a fixed order of keys, written whole or not at all."""

from __future__ import annotations

import json
import math
import os

import numpy as np
import pytest

import odefit as of
from odefit.errors import OdefitError
from odefit.formats import write_result
from odefit.formats.result_file import result_json
from odefit.gallery import path_of
from odefit.strategy.result_content import with_none_for_missing

KEYS = [
    "schema", "status", "message", "objective", "iterations", "evaluations", "parameters", "derived", "rules",
    "loglik", "chi2",
    "n_data", "dof", "aic", "aicc", "bic", "r2", "errors", "derivatives", "correlation", "tests",
    "method", "solver", "integrators", "start_values", "multistart", "attempts", "equivalent_iterations",
    "validation", "warnings", "versions",
]  # fmt: skip


def problem_of(text, parameters, times, values, **rest) -> of.Problem:
    data = of.Measurements.from_columns(times, {"y": values}, **rest)
    return of.Problem(of.Model.from_text(text), tuple(parameters), data)


T = np.linspace(0.0, 2.0, 6)
PROBLEMS = {
    "converged": lambda: of.load(path_of("barnes")),
    "at a bound": lambda: of.load(path_of("barnes")).with_bounds(k2=(0.0, 1.5)),
    "undetermined": lambda: problem_of(
        "y = (a + b)*t", [of.Parameter("a", 1.0), of.Parameter("b", 1.0)], T, 3 * T + 0.1
    ),
    "failed": lambda: problem_of("y' = k*y^2\ny(0) = 1", [of.Parameter("k", 5.0)], [1.0, 2.0], [1.0, 1.0]),
    "no influence": lambda: problem_of("y' = -k*y\ny(0) = 1", [of.Parameter("k", 5.0)], [0.0], [2.0]),
    "too few data": lambda: problem_of("y = a + b*t", [of.Parameter("a", 1.0), of.Parameter("b", 1.0)], [1.0], [3.0]),
    "huge interval": lambda: problem_of(
        "y = exp(-a) + b", [of.Parameter("a", 30.0, scale="log"), of.Parameter("b", 1.0)], T, np.sin(9 * T)
    ),
    "zero residual": lambda: problem_of("y = a*t", [of.Parameter("a", 1.0)], T, 3 * T),
    "known sigma": lambda: problem_of("y = a*t", [of.Parameter("a", 1.0)], T, 3 * T + 0.1, sigma={"y": 0.2}),
    "fixed": lambda: problem_of("y = a*t + b", [of.Parameter("a", 1.0), of.Parameter("b", 1, fixed=True)], T, 3 * T),
    "Unicode": lambda: problem_of("y = α*t", [of.Parameter("α", 1.0)], T, 3 * T + np.sin(T)),
}


def refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


@pytest.mark.parametrize("name", PROBLEMS)
def test_document(name):
    result = of.fit(PROBLEMS[name]())
    found = json.loads(result_json(result), parse_constant=refuse)
    assert list(found) == KEYS
    assert found["schema"] == "odefit-result-1"
    assert (found["status"], found["message"]) == (result.status, result.message)
    assert list(found["parameters"]) == [p.name for p in result.problem.parameters]
    for row in found["parameters"].values():
        assert list(row) == ["estimate", "standard_error", "interval", "verdict"]
        assert isinstance(row["estimate"], float)
        assert isinstance(row["verdict"], str)
        if row["interval"] is not None:
            low, high = row["interval"]
            assert low <= row["estimate"] <= high
    assert found["n_data"] == result.n_data
    assert found["method"] == "single"
    assert found["attempts"] == [{"method": "single", "status": result.status, "objective": found["objective"]}]
    assert all(list(w) == ["code", "text"] for w in found["warnings"])
    assert found["derived"] == {}
    assert found["versions"]["odefit"] == of.__version__
    assert result_json(result).endswith("}\n")


def test_numbers_are_exact():
    result = of.fit(PROBLEMS["converged"]())
    found = json.loads(result_json(result))
    assert found["objective"] == result.objective
    assert {name: row["estimate"] for name, row in found["parameters"].items()} == result.estimates


@pytest.mark.parametrize(
    ("name", "status", "codes"),
    [
        ("converged", "converged", ["residuals.resemble"]),
        ("at a bound", "converged", ["residuals.resemble", "parameter.bound"]),
        ("undetermined", "converged", ["residuals.resemble", "parameter.combination"]),
        ("failed", "failed", ["convergence.failed"]),
        ("no influence", "no-influence", ["convergence.no-influence", "parameter.undetermined"]),
        ("too few data", "converged", ["data.few", "parameter.combination"]),
    ],
)
def test_warnings(name, status, codes):
    found = json.loads(result_json(of.fit(PROBLEMS[name]())))
    assert found["status"] == status
    assert [w["code"] for w in found["warnings"]] == codes
    assert all(w["text"].endswith(".") for w in found["warnings"])


def test_missing_numbers_are_null():
    found = json.loads(result_json(of.fit(PROBLEMS["failed"]())))
    assert found["objective"] is None
    assert found["loglik"] is None
    assert found["parameters"]["k"]["standard_error"] is None
    assert found["parameters"]["k"]["interval"] is None
    assert found["parameters"]["k"]["estimate"] == 5.0


def test_starts_that_failed_have_null_for_what_they_did_not_find(tmp_path):
    result = of.fit(PROBLEMS["failed"](), starts=2, workers=1)
    found = json.loads(write_result(result, tmp_path).read_text(), parse_constant=refuse)
    assert [run["objective"] for run in found["multistart"]["runs"]] == [None, None]
    assert [run["resolution"] for run in found["multistart"]["runs"]] == [None, None]
    json.dumps(result.multistart.to_dict(), allow_nan=False)


def test_numbers_that_do_not_exist_are_none_at_any_depth():
    content = {"a": [1.5, math.nan, (math.inf, 2)], "b": {"c": -math.inf, "d": np.float64("nan"), "e": "nan"}}
    assert with_none_for_missing(content) == {"a": [1.5, None, [None, 2]], "b": {"c": None, "d": None, "e": "nan"}}


def test_likelihood_with_known_sigma():
    found = json.loads(result_json(of.fit(PROBLEMS["known sigma"]())))
    assert found["chi2"] == pytest.approx(2 * found["objective"])
    n, sigma = 6, 0.2
    expected = -found["objective"] - n * math.log(sigma) - 0.5 * n * math.log(2 * math.pi)
    assert found["loglik"] == pytest.approx(expected)


def test_likelihood_with_estimated_sigma():
    found = json.loads(result_json(of.fit(PROBLEMS["converged"]())))
    n = 22
    variance = 2 * found["objective"] / n
    assert found["chi2"] is None
    assert found["loglik"] == pytest.approx(-0.5 * n * (math.log(2 * math.pi * variance) + 1))
    assert found["dof"] == 19


# --- writing ---


@pytest.fixture(scope="module")
def result():
    return of.fit(of.load(path_of("barnes")))


def test_folder_is_made(result, tmp_path):
    path = write_result(result, tmp_path / "a" / "b")
    assert path == tmp_path / "a" / "b" / "result.json"
    assert path.read_text(encoding="utf-8") == result_json(result)


def test_old_file_is_replaced(result, tmp_path):
    (tmp_path / "result.json").write_text("old")
    path = write_result(result, str(tmp_path))
    assert json.loads(path.read_text())["status"] == "converged"
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]


def test_old_file_survives_a_failed_write(result, tmp_path, monkeypatch):
    (tmp_path / "result.json").write_text("old")

    def fail(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OdefitError, match=r"the result cannot be written to '.*result\.json': No space left on device"):
        write_result(result, tmp_path)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("result.json", "old")]


def test_folder_that_is_a_file(result, tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(OdefitError, match=r"the result cannot be written to '.*taken.*': "):
        write_result(result, tmp_path / "taken")


def test_folder_below_a_file(result, tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(OdefitError, match=r"the result cannot be written to '.*': Not a directory"):
        write_result(result, tmp_path / "taken" / "below")


def test_readers_other_than_the_owner(result, tmp_path):
    """The file gets the permissions of any new file, not those of a temporary one."""
    plain = tmp_path / "plain"
    plain.write_text("")
    assert write_result(result, tmp_path).stat().st_mode == plain.stat().st_mode


def test_unicode_is_readable(tmp_path):
    path = write_result(of.fit(PROBLEMS["Unicode"]()), tmp_path)
    assert '"α"' in path.read_text(encoding="utf-8")
