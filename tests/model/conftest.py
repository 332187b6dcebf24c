from __future__ import annotations

from collections.abc import Callable

import casadi as ca
import pytest
from casadi import SX


@pytest.fixture
def evaluate() -> Callable[..., float]:
    """Value of a scalar SX for named values of its symbols."""

    def value(expression: SX, **values: float) -> float:
        symbols = ca.symvar(expression)
        if not symbols:
            return float(expression)
        function = ca.Function("f", symbols, [expression])
        return float(function(*(values[symbol.name()] for symbol in symbols)))

    return value
