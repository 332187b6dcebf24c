"""Runge-Kutta 3(2) of diffpar: three stages, for moderate accuracy.

L. Edsberg and P.-A. Wedin, Optimization Methods and Software 6 (1995) 193-217, sections 3.3.1-3.3.3.  One step is

    q1 = f(t, y),   q2 = f(t + h, y + h q1),   q3 = f(t + h/2, y + h (q1 + q2)/4)
    y_new = y + h (q1 + q2 + 4 q3)/6                                                 (34), (35)
    y_est = y + h (q1 + q2)/2,   so that   y_est - y_new = h (q1 + q2 - 2 q3)/3      (36)

and with a = (t_out - t)/h, d = (y_new - y)/h and f_new = f(t + h, y_new) the output between the grid points is

    y(t + a h) = y + a h (f + a (d - f) + a (a - 1)(f_new - 2 d + f)),               (45), (46)

the cubic Hermite polynomial: values and slopes at both ends are those of the solution, and the order 3
is kept.  f_new is a fourth stage and the first one of the next step; a step where it is not finite is rejected.

The error is tested state by state against ``atol + rtol |y|`` where (37) takes one norm of the whole vector:
states of different size would hide behind the largest one.  The next step is that of (42),
h_new = h 0.9 (tolerance/error)^(1/3), no longer than the piece; moreover at most five times as long
and at least a fifth (a tenth where a value is not finite), and no longer than before right after a rejection.
"""

from __future__ import annotations

import numpy as np

from odefit.integrate.explicit import ExplicitRungeKutta, explicit_kernel
from odefit.integrate.schemes import scheme_of
from odefit.integrate.tableau import Tableau, hermite

_A = np.array(
    [
        [0, 0, 0, 0],
        [1, 0, 0, 0],
        [1 / 4, 1 / 4, 0, 0],
        [1 / 6, 1 / 6, 2 / 3, 0],
    ]
)

TABLEAU = Tableau(
    name="rk32",
    c=np.array([0, 1, 1 / 2, 1]),
    A=_A,
    n_stages=4,
    error=np.array([1 / 3, 1 / 3, -2 / 3, 0]),
    dense=hermite(_A[3], 3),
    order=3,
    dense_order=3,
    error_order=3,
    grow_most=5.0,
)
SCHEME = scheme_of(TABLEAU)


class Rk32(ExplicitRungeKutta):
    """The explicit Runge-Kutta method 3(2) of diffpar; see the module for the mathematics."""

    name = TABLEAU.name
    kernel = staticmethod(explicit_kernel("rk32_solve", SCHEME))
