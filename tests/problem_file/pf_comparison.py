"""What it means for two problems to be equal."""

from __future__ import annotations

import numpy as np

from odefit.problem import Measurements, Problem


def assert_same_measurements(one: Measurements, other: Measurements) -> None:
    for name in ("experiment", "observable", "row", "side", "censoring"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist(), name
    for name in ("time", "value", "sigma", "weight", "since"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert one.groups.keys() == other.groups.keys()
    for name, column in one.groups.items():
        assert column.tolist() == other.groups[name].tolist(), name
        assert column.dtype == other.groups[name].dtype == object


def assert_same_problem(one: Problem, other: Problem) -> None:
    assert one.model.source == other.model.source
    assert one.model.time == other.model.time
    assert one.model.states == other.model.states
    for name in ("noise", "constraints", "derived", "units", "settings", "title", "starts", "lag", "fraction"):
        assert getattr(one, name) == getattr(other, name), name
    assert [repr(p) for p in one.parameters] == [repr(p) for p in other.parameters]
    assert [repr(e) for e in one.experiments] == [repr(e) for e in other.experiments]
    assert_same_measurements(one.measurements, other.measurements)
    np.testing.assert_array_equal(one.sigma, other.sigma)
