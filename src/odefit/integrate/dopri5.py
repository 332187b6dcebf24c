"""Dormand-Prince 5(4), with its continuous extension of order 4.

J. R. Dormand and P. J. Prince, J. Comput. Appl. Math. 6 (1980) 19-26; the extension is Shampine's as
printed in Hairer, Norsett and Wanner, Solving Ordinary Differential Equations I, II.6.

Step-size control is the PI controller of Hairer's DOPRI5 (beta = 0.04), the first step size is found
by his algorithm HINIT.
"""

from __future__ import annotations

import numpy as np

from odefit.integrate.explicit import ExplicitRungeKutta, explicit_kernel
from odefit.integrate.schemes import scheme_of
from odefit.integrate.tableau import Tableau, hermite

_C = np.array([0.0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0])

_A = np.array(
    [
        [0, 0, 0, 0, 0, 0, 0],
        [1 / 5, 0, 0, 0, 0, 0, 0],
        [3 / 40, 9 / 40, 0, 0, 0, 0, 0],
        [44 / 45, -56 / 15, 32 / 9, 0, 0, 0, 0],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0, 0],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0, 0],
        [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0],
    ]
)

_E = np.array([71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40])

_D = np.array(
    [
        -12715105075 / 11282082432,
        0,
        87487479700 / 32700410799,
        -10690763975 / 1880347072,
        701980252875 / 199316789632,
        -1453857185 / 822651844,
        69997945 / 29380423,
    ]
)

TABLEAU = Tableau(
    name="dopri5",
    c=_C,
    A=_A,
    n_stages=7,
    error=_E,
    dense=np.vstack([hermite(_A[6], 6), _D]),
    order=5,
    dense_order=4,
    error_order=5,
    beta=0.04,
    grow_most=10.0,
    stiff_from=3.25,  # the limit of stability on the negative axis
)


class Dopri5(ExplicitRungeKutta):
    """The explicit Runge-Kutta method of order 5 of Dormand and Prince; see the module for the mathematics."""

    name = TABLEAU.name
    kernel = staticmethod(explicit_kernel("dopri5_solve", scheme_of(TABLEAU)))
