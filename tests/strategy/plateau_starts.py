"""Fits on logarithmic and logit scales from starts that are up to fourteen decades away from the truth."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

import odefit as of

DECADES = 14.0
T = np.linspace(0.0, 6.0, 13)[1:]
MODELS = {
    "decay": ("y' = -k*y\ny(0) = a", {"a": 2.0, "k": 0.7}, ("y",)),
    "offset": ("y = a + b*exp(-k*t)", {"a": 1.0, "b": 2.0, "k": 0.7}, ("y",)),
    "Michaelis-Menten": ("s' = -V*s/(K + s)\ns(0) = 3", {"V": 1.0, "K": 0.8}, ("s",)),
    "two steps": ("a' = -k1*a\nb' = k1*a - k2*b\na(0) = 1\nb(0) = 0", {"k1": 0.9, "k2": 0.4}, ("a", "b")),
    "logistic": ("n' = r*n*(1 - n/5)\nn(0) = n0", {"r": 1.0, "n0": 0.5}, ("n",)),
}
LOGIT = {"logistic": "n0"}
UPPER = 5.0  # of what is on a logit scale, its lower bound is zero


@dataclass(frozen=True)
class Case:
    """A problem that starts far away, and the same one from the truth."""

    far: of.Problem
    near: of.Problem


def case(name: str, seed: int) -> Case:
    """Return a problem of the family: true values, noise, which unknowns start far away and how far."""
    rng = np.random.default_rng([seed, *map(ord, name)])
    text, centre, observed = MODELS[name]
    truth = {key: value * math.exp(rng.uniform(-0.7, 0.7)) for key, value in centre.items()}
    if name in LOGIT:
        truth[LOGIT[name]] = min(truth[LOGIT[name]], 0.9 * UPPER)
    model = of.Model.from_text(text)
    blank = of.Measurements.from_columns(T, {key: np.zeros(T.size) for key in observed})
    exact = of.simulate(of.Problem(model, _parameters(name, truth), blank), truth, T)
    noise = 10.0 ** rng.uniform(-3.0, -1.5)
    data = {key: exact[key].to_numpy() + noise * rng.standard_normal(T.size) for key in observed}
    far = dict(truth)
    moved = list(truth) if rng.random() < 0.3 else [rng.choice(list(truth))]
    for key in moved:
        far[key] = _moved(name, key, truth[key], 10.0 ** rng.uniform(-DECADES, DECADES))
    measured = of.Measurements.from_columns(T, data)
    return Case(
        of.Problem(model, _parameters(name, far), measured), of.Problem(model, _parameters(name, truth), measured)
    )


def _moved(name: str, key: str, value: float, factor: float) -> float:
    if LOGIT.get(name) != key:
        return value * factor
    odds = factor * value / (UPPER - value)
    return min(UPPER * odds / (1.0 + odds), UPPER * (1 - 1e-15))


def _parameters(name: str, start: dict[str, float]) -> list[of.Parameter]:
    return [
        of.Parameter(key, value, lower=0.0, upper=UPPER, scale="logit")
        if LOGIT.get(name) == key
        else of.Parameter(key, value, scale="log")
        for key, value in start.items()
    ]
