"""Coefficients of the Dormand-Prince 5(4) pair with its continuous extension of order 4.

J. R. Dormand and P. J. Prince, J. Comput. Appl. Math. 6 (1980) 19-26; the extension is Shampine's as
printed in Hairer, Norsett and Wanner, Solving Ordinary Differential Equations I, II.6.

The last row of `A` is the weight vector of the solution ("first same as last"), `E` the difference
to the embedded solution.  The continuous extension is

    y(t + x h) = y + h sum_i w_i(x) k_i,
    w(x) = x b + x (1-x)(e_1 - b) + x^2 (1-x)(2 b - e_1 - e_7) + x^2 (1-x)^2 d .
"""

from __future__ import annotations

import numpy as np

C = np.array([0.0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0])

A = np.array(
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

B = A[6].copy()

E = np.array([71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40])

D = np.array(
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
