"""Least-squares problems of More, Garbow and Hillstrom, ACM TOMS 7 (1981) 17-41.

Sums of squares at the minima are those printed there (the numbers of the paper are sums, not halves).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

exp, sqrt = np.exp, np.sqrt


@dataclass(frozen=True)
class TestFunction:
    """`minima` are the sums of squares of the known local minima; `solutions` the points, where printed."""

    __test__ = False
    name: str
    function: Callable
    start: tuple[float, ...]
    minima: tuple[float, ...]
    solutions: tuple[tuple[float, ...], ...] = ()


def stack(*parts):
    return np.array(parts)


def rosenbrock(x):
    return stack(10 * (x[1] - x[0] ** 2), 1 - x[0])


def freudenstein_roth(x):
    return stack(
        -13 + x[0] + ((5 - x[1]) * x[1] - 2) * x[1],
        -29 + x[0] + ((x[1] + 1) * x[1] - 14) * x[1],
    )


def powell_badly_scaled(x):
    return stack(1e4 * x[0] * x[1] - 1, exp(-x[0]) + exp(-x[1]) - 1.0001)


def brown_badly_scaled(x):
    return stack(x[0] - 1e6, x[1] - 2e-6, x[0] * x[1] - 2)


def beale(x):
    i = np.arange(1, 4)
    return np.array([1.5, 2.25, 2.625]) - x[0] * (1 - x[1] ** i)


def jennrich_sampson(x):
    i = np.arange(1, 11)
    return 2 + 2 * i - (exp(i * x[0]) + exp(i * x[1]))


_BARD = np.array([0.14, 0.18, 0.22, 0.25, 0.29, 0.32, 0.35, 0.39, 0.37, 0.58, 0.73, 0.96, 1.34, 2.10, 4.39])


def bard(x):
    u = np.arange(1.0, 16.0)
    v = 16 - u
    return _BARD - (x[0] + u / (v * x[1] + np.minimum(u, v) * x[2]))


_GAUSS = np.array([0.0009, 0.0044, 0.0175, 0.0540, 0.1295, 0.2420, 0.3521])


def gaussian(x):
    y = np.concatenate([_GAUSS, [0.3989], _GAUSS[::-1]])
    t = (8 - np.arange(1, 16)) / 2
    return x[0] * exp(-x[1] * (t - x[2]) ** 2 / 2) - y


_MEYER = np.array(
    [34780, 28610, 23650, 19630, 16370, 13720, 11540, 9744, 8261, 7030, 6005, 5147, 4427, 3820, 3307, 2872]
)  # fmt: skip


def meyer(x):
    t = 45 + 5 * np.arange(1, 17)
    return x[0] * exp(x[1] / (t + x[2])) - _MEYER


def box_three_dimensional(x):
    t = 0.1 * np.arange(1, 11)
    return exp(-t * x[0]) - exp(-t * x[1]) - x[2] * (exp(-t) - exp(-10 * t))


def powell_singular(x):
    return stack(x[0] + 10 * x[1], sqrt(5) * (x[2] - x[3]), (x[1] - 2 * x[2]) ** 2, sqrt(10) * (x[0] - x[3]) ** 2)


def wood(x):
    return stack(
        10 * (x[1] - x[0] ** 2), 1 - x[0], sqrt(90) * (x[3] - x[2] ** 2), 1 - x[2],
        sqrt(10) * (x[1] + x[3] - 2), (x[1] - x[3]) / sqrt(10),
    )  # fmt: skip


_KOWALIK = np.array([0.1957, 0.1947, 0.1735, 0.1600, 0.0844, 0.0627, 0.0456, 0.0342, 0.0323, 0.0235, 0.0246])
_KOWALIK_U = np.array([4, 2, 1, 0.5, 0.25, 0.167, 0.125, 0.1, 0.0833, 0.0714, 0.0625])


def kowalik_osborne(x):
    u = _KOWALIK_U
    return _KOWALIK - x[0] * (u**2 + u * x[1]) / (u**2 + u * x[2] + x[3])


def brown_dennis(x):
    t = np.arange(1, 21) / 5
    return (x[0] + t * x[1] - exp(t)) ** 2 + (x[2] + x[3] * np.sin(t) - np.cos(t)) ** 2


_OSBORNE_1 = np.array(
    [
        0.844, 0.908, 0.932, 0.936, 0.925, 0.908, 0.881, 0.850, 0.818, 0.784, 0.751, 0.718, 0.685, 0.658, 0.628, 0.603,
        0.580, 0.558, 0.538, 0.522, 0.506, 0.490, 0.478, 0.467, 0.457, 0.448, 0.438, 0.431, 0.424, 0.420, 0.414, 0.411,
        0.406,
    ]
)  # fmt: skip


def osborne_1(x):
    t = 10.0 * np.arange(33)
    return _OSBORNE_1 - (x[0] + x[1] * exp(-t * x[3]) + x[2] * exp(-t * x[4]))


def biggs_exp6(x):
    t = 0.1 * np.arange(1, 14)
    y = exp(-t) - 5 * exp(-10 * t) + 3 * exp(-4 * t)
    return x[2] * exp(-t * x[0]) - x[3] * exp(-t * x[1]) + x[5] * exp(-t * x[4]) - y


_OSBORNE_2 = np.array(
    [
        1.366, 1.191, 1.112, 1.013, 0.991, 0.885, 0.831, 0.847, 0.786, 0.725, 0.746, 0.679, 0.608, 0.655, 0.616, 0.606,
        0.602, 0.626, 0.651, 0.724, 0.649, 0.649, 0.694, 0.644, 0.624, 0.661, 0.612, 0.558, 0.533, 0.495, 0.500, 0.423,
        0.395, 0.375, 0.372, 0.391, 0.396, 0.405, 0.428, 0.429, 0.523, 0.562, 0.607, 0.653, 0.672, 0.708, 0.633, 0.668,
        0.645, 0.632, 0.591, 0.559, 0.597, 0.625, 0.739, 0.710, 0.729, 0.720, 0.636, 0.581, 0.428, 0.292, 0.162, 0.098,
        0.054,
    ]
)  # fmt: skip


def osborne_2(x):
    t = np.arange(65) / 10
    return _OSBORNE_2 - (
        x[0] * exp(-t * x[4])
        + x[1] * exp(-((t - x[8]) ** 2) * x[5])
        + x[2] * exp(-((t - x[9]) ** 2) * x[6])
        + x[3] * exp(-((t - x[10]) ** 2) * x[7])
    )


FUNCTIONS = [
    TestFunction("Rosenbrock", rosenbrock, (-1.2, 1.0), (0.0,), ((1.0, 1.0),)),
    TestFunction("Freudenstein-Roth", freudenstein_roth, (0.5, -2.0), (0.0, 48.9842), ((5.0, 4.0), (11.4128, -0.8968))),
    TestFunction("Powell badly scaled", powell_badly_scaled, (0.0, 1.0), (0.0,), ((1.09816e-5, 9.10615),)),
    TestFunction("Brown badly scaled", brown_badly_scaled, (1.0, 1.0), (0.0,), ((1e6, 2e-6),)),
    TestFunction("Beale", beale, (1.0, 1.0), (0.0,), ((3.0, 0.5),)),
    TestFunction("Jennrich-Sampson", jennrich_sampson, (0.3, 0.4), (124.362,), ((0.2578, 0.2578),)),
    TestFunction("Bard", bard, (1.0, 1.0, 1.0), (8.21487e-3,)),
    TestFunction("Gaussian", gaussian, (0.4, 1.0, 0.0), (1.12793e-8,)),
    TestFunction("Meyer", meyer, (0.02, 4000.0, 250.0), (87.9458,), ((5.6096364710e-3, 6181.3463463, 345.22363462),)),
    TestFunction("Box", box_three_dimensional, (0.0, 10.0, 20.0), (0.0,), ((1.0, 10.0, 1.0), (10.0, 1.0, -1.0))),
    TestFunction("Powell singular", powell_singular, (3.0, -1.0, 0.0, 1.0), (0.0,), ((0.0,) * 4,)),
    TestFunction("Wood", wood, (-3.0, -1.0, -3.0, -1.0), (0.0,), ((1.0,) * 4,)),
    TestFunction("Kowalik-Osborne", kowalik_osborne, (0.25, 0.39, 0.415, 0.39), (3.07505e-4,)),
    TestFunction("Brown-Dennis", brown_dennis, (25.0, 5.0, -5.0, -1.0), (85822.2,)),
    TestFunction("Osborne 1", osborne_1, (0.5, 1.5, -1.0, 0.01, 0.02), (5.46489e-5,)),
    TestFunction(
        "Biggs EXP6", biggs_exp6, (1.0, 2.0, 1.0, 1.0, 1.0, 1.0), (0.0, 5.65565e-3), ((1.0, 10.0, 1.0, 5.0, 4.0, 3.0),)
    ),
    TestFunction("Osborne 2", osborne_2, (1.3, 0.65, 0.65, 0.7, 0.6, 3.0, 5.0, 7.0, 2.0, 4.5, 5.5), (4.01377e-2,)),
]
