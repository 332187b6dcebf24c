"""Explicit regression problems with certified values: default settings give at least six digits, from both starts."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import odefit as of

REFERENCE = json.loads((Path(__file__).parent / "nist_strd.json").read_text())
PROBLEMS, TOLERANCE = REFERENCE["problems"], REFERENCE["tolerance"]


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("name", PROBLEMS)
def test_certified_values(name, start):
    known = PROBLEMS[name]
    x = np.array(known["x"])
    problem = of.Problem(
        of.Model.from_text(known["model"]),
        [of.Parameter(f"b{i + 1}", value) for i, value in enumerate(known["starts"][start])],
        of.Measurements.from_columns(x, {"y": known["y"]}),
        experiments=[of.Experiment("main", (of.Period(min(0.0, float(x.min()))),))],
    )
    result = of.fit(problem)
    assert result.converged
    np.testing.assert_allclose(list(result.estimates.values()), known["certified"], rtol=TOLERANCE)
    # the data of Lanczos1 have 13 digits: rounding of the model is a thousandth of what they leave
    digits = 1e-3 if name == "Lanczos1" else 1e-6
    errors = list(result.standard_errors("independent").values())
    np.testing.assert_allclose(errors, known["standard_deviation"], rtol=digits)
    assert math.isclose(result.sum_of_squares, known["sum_of_squares"], rel_tol=digits)
    assert "residuals.exact" not in [notice.code for notice in result.warnings]
