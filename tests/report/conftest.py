"""Pictures without a display; no figure outlives its test."""

from __future__ import annotations

import matplotlib as mpl
import pytest
from matplotlib import pyplot as plt


@pytest.fixture(autouse=True)
def no_display():
    chosen = mpl.get_backend()
    mpl.use("agg")
    before = dict(mpl.rcParams)
    yield
    plt.close("all")
    assert dict(mpl.rcParams) == before, "a plot changed rcParams"
    mpl.use(chosen)
