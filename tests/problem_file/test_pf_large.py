"""A million rows load, and are what was written."""

from __future__ import annotations

import numpy as np
import pytest
from pf_project import DATA, EQUATIONS, PARAMETERS

ROWS = 10**6


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wide", "tidy", "semicolon", "quoted"])
def test_a_million_rows(project, kind):
    random = np.random.default_rng(1)
    time, a, b = random.uniform(0, 9, (3, ROWS))
    rows = zip(time.tolist(), a.tolist(), b.tolist(), strict=True)
    if kind == "wide":
        lines = ["time,A,B", *(f"{t!r},{x!r},{y!r}" for t, x, y in rows)]
    elif kind == "semicolon":
        lines = ["time;A;B", *(f"{t!r};{x!r};{y!r}".replace(".", ",") for t, x, y in rows)]
    else:
        name = '"A"' if kind == "quoted" else "A"
        lines = ["time,observable,value,sigma", *(f"{t!r},{name},{x!r},0.5" for t, x, _ in rows)]
    found = project.load(EQUATIONS + PARAMETERS + DATA, "\n".join(lines)).measurements
    if kind in ("wide", "semicolon"):
        np.testing.assert_array_equal(found.time, np.repeat(time, 2))
        np.testing.assert_array_equal(found.value, np.stack([a, b], axis=1).ravel())
        np.testing.assert_array_equal(found.row, np.repeat(np.arange(ROWS), 2))
        assert set(found.observable[::2]) == {"A"}
        assert set(found.observable[1::2]) == {"B"}
    else:
        np.testing.assert_array_equal(found.time, time)
        np.testing.assert_array_equal(found.value, a)
        assert (found.sigma == 0.5).all()
        assert set(found.observable) == {"A"}
    assert set(found.experiment) == {"main"}
