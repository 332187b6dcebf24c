"""Every status has words, and what helps where something can."""

from __future__ import annotations

import json
import pickle

import pytest

from odefit.solve import SolverStatus


@pytest.mark.parametrize("status", SolverStatus)
def test_a_status_is_its_word(status):
    assert status == status.value
    assert json.loads(json.dumps(status)) == status.value
    assert pickle.loads(pickle.dumps(status)) is status
    assert status.sentence


def test_all_failures_have_a_remedy():
    silent = {status for status in SolverStatus if not status.remedy}
    assert silent == {SolverStatus.CONVERGED, SolverStatus.INTERRUPTED}
    assert all(status.remedy.endswith(".") for status in SolverStatus if status.remedy)
