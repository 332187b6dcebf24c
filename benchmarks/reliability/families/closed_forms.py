"""Solutions that are known in closed form, as functions of time."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import wrightomega

Array = npt.NDArray[np.float64]


def decay(t: Array, k: float, a: float) -> Array:
    """Return x' = -k x, x(0) = a."""
    return a * np.exp(-k * t)


def saturated(t: Array, v: float, k: float, a: float) -> Array:
    """Return x' = -v x/(k + x), x(0) = a."""
    return k * wrightomega(np.log(a / k) + (a - v * t) / k).real


def logistic(t: Array, r: float, k: float, a: float) -> Array:
    """Return x' = r x (1 - x/k), x(0) = a."""
    return k / (1.0 + (k / a - 1.0) * np.exp(-r * t))


def second(t: Array, k1: float, k2: float, a: float) -> Array:
    """Return the second state of a -> b -> c, from a(0) = a; equal constants are moved apart by a rounding error."""
    if abs(k1 - k2) <= 1e-9 * abs(k1):
        k2 = k1 * (1.0 + 1e-7)
    return a * k1 / (k2 - k1) * (np.exp(-k1 * t) - np.exp(-k2 * t))


def infused(t: Array, k: float, dose: float, begin: float, width: float) -> Array:
    """Return x' = dose/width while begin <= t < begin + width, less k x; x(0) = 0."""

    def since(time: Array) -> Array:
        return -np.expm1(-k * np.maximum(time, 0.0)) / k

    return dose / width * (since(t - begin) - since(t - begin - width))


def absorbed(t: Array, ka: float, k: float, dose: float, begin: float, width: float) -> Array:
    """Return c of gut' = dose/width while begin <= t < begin + width, less ka gut; c' = ka gut - k c."""
    if abs(ka - k) <= 1e-9 * abs(ka):
        k = ka * (1.0 + 1e-7)

    def since(time: Array) -> Array:
        late = np.maximum(time, 0.0)
        return ka / (ka - k) * (np.expm1(-ka * late) / ka - np.expm1(-k * late) / k)

    return dose / width * (since(t - begin) - since(t - begin - width))


def two_compartments(t: Array, cl: float, v1: float, q: float, v2: float, ka: float = math.inf) -> Array:
    """Return the concentration in the first of two compartments after a dose of 1 into it, or absorbed with ka."""
    k10, k12, k21 = cl / v1, q / v1, q / v2
    total, product = k10 + k12 + k21, k10 * k21
    fast = 0.5 * (total + np.sqrt(total * total - 4.0 * product))
    slow = product / fast
    if math.isinf(ka):
        return ((fast - k21) * np.exp(-fast * t) + (k21 - slow) * np.exp(-slow * t)) / (fast - slow) / v1
    terms = (
        (k21 - x) / ((y - x) * (z - x)) * np.exp(-x * t)
        for x, y, z in ((fast, slow, ka), (slow, fast, ka), (ka, fast, slow))
    )
    return ka / v1 * sum(terms, np.zeros(t.size))
