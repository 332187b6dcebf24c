from __future__ import annotations

from collections.abc import Callable

import casadi as ca
import numpy as np
import pytest
from casadi import SX

from odefit.model import Model


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


@pytest.fixture
def residual() -> Callable[[Model, dict[str, float], dict[str, float]], dict[str, float]]:
    """Left minus right side of each row of a model, ``sum_j mass[row][j]*j' - rhs[row]``, at values and slopes."""

    def rows(model: Model, values: dict[str, float], slopes: dict[str, float]) -> dict[str, float]:
        left = {
            name: sum((one * slopes[other] for other, one in model.mass[name].items()), SX(0.0))
            if name in model.mass
            else SX(slopes[name])
            for name in model.states
        }
        rows = model.resolve([left[name] - model.rhs[name] for name in model.states])
        symbols = ca.symvar(ca.vertcat(*rows))
        function = ca.Function("rows", symbols, rows)
        found = function.call([values[symbol.name()] for symbol in symbols])
        return dict(zip(model.states, map(float, found), strict=True))

    return rows


@pytest.fixture
def numbers() -> Callable[..., dict[str, float]]:
    """Random positive numbers for names, the same for the same seed."""

    def draw(*names: str, seed: int = 1) -> dict[str, float]:
        rng = np.random.default_rng(seed)
        return {name: float(rng.uniform(0.3, 3.0)) for name in names}

    return draw
