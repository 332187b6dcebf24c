"""What tests of several stages share."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import pytest
from matplotlib import image


@pytest.fixture
def decoded() -> Callable[[bytes], np.ndarray]:
    """Decode a PNG in which something must be drawn; returns its pixels (height, width, colours)."""

    def decode(content: bytes) -> np.ndarray:
        pixels = image.imread(io.BytesIO(content), format="png")
        height, width, _ = pixels.shape
        assert min(height, width) >= 200
        ink = (pixels[:, :, :3] < 0.9).any(axis=2)  # not the white ground
        assert 0.01 < ink.mean() < 0.5
        rows, columns = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))
        assert np.ptp(rows) > 0.8 * height
        assert np.ptp(columns) > 0.8 * width
        assert len(np.unique(pixels.reshape(-1, pixels.shape[2]), axis=0)) > 20  # curves in colours, text, grid
        return pixels

    return decode
