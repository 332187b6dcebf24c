"""Results hold values: they go through pickle and copies, and stay what they were whatever is done afterwards."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import odefit as of
from odefit.gallery import load

COPIES = {"pickle": lambda value: pickle.loads(pickle.dumps(value)), "deepcopy": copy.deepcopy}


@pytest.fixture(scope="module", params=["single", "incremental", "several", "blocks", "exact", "failed"])
def result(request) -> of.FitResult:
    barnes = load("barnes")
    if request.param == "several":
        return of.fit(barnes, starts=3, workers=1)
    if request.param == "blocks":
        return of.fit(load("ecoli_batches"))
    if request.param == "exact":
        weight = np.full(len(barnes.measurements), np.nan)
        weight[0] = np.inf
        data = barnes.measurements
        exact = of.Measurements(data.experiment, data.time, data.observable, data.value, row=data.row, weight=weight)
        return of.fit(barnes.with_measurements(exact))
    if request.param == "failed":
        return of.fit(barnes.with_start(k1=1e9))
    return of.fit(barnes, method=request.param)


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_copies_say_the_same(result, copied):
    summary, content = result.summary(), result.to_dict()  # statistics exist now, and are not copied
    again = copied(result)
    assert again is not result
    assert again.summary() == summary
    assert again.to_dict() == content
    np.testing.assert_array_equal(again.solution.x, result.solution.x)


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_a_copied_problem_gives_the_same_fit(result, copied):
    fit, again = (of.fit(problem, method=result.method) for problem in (result.problem, copied(result.problem)))
    np.testing.assert_array_equal(again.solution.x, fit.solution.x)
    assert again.solution.trace == fit.solution.trace


@pytest.mark.parametrize("method", ["single", "incremental", "incremental-dense"])
def test_integrators_are_those_of_the_fit(method):
    result = of.fit(load("barnes"), method=method)
    assert result.converged
    assert result.integrators == {"main": "dopri5"}
    of.fit(load("barnes").with_settings(integrator="ddm"))
    assert result.to_dict()["integrators"] == {"main": "dopri5"}
