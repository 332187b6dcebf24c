"""The shape of shock fronts in a detonating explosive: an implicit equation inside the right-hand side.

L. Edsberg and P.-A. Wedin, Optim. Methods Softw. 6 (1995) 193-217, section 4.5.  A front z(r) with slope angle phi
has at each radius r the curvature that belongs to its normal velocity Dn = D0 cos(phi),

    phi' = kappa/cos(phi) - tan(phi)/r,  phi(0) = 0,        z' = -tan(phi),  z(0) = z0,
    alpha1 kappa^(1/nu) + alpha2 kappa exp(psi (DCJ - Dn)) = 1 - Dn/DCJ.

Only z was "measured", on three fronts of different velocity D0 and radius R (one alone does not tell the four
parameters apart).  The data are exact, simulated at (alpha1, nu, alpha2, psi) = (1.25, 1.76, 2.31, 0.41).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

import odefit as of

DCJ = 6.788  # Chapman-Jouguet velocity, that of a plane front
FRONTS = {  # velocity, height and radius
    "fast": {"D0": 6.156, "z0": 17.5, "R": 89.4},
    "medium": {"D0": 5.835, "z0": 8.4, "R": 50.0},
    "slow": {"D0": 4.044, "z0": 3.3, "R": 20.0},
}
NEWTON_STEPS = 6


def curvature(normal_velocity: Any, p: Any) -> Any:
    """Return kappa for the normal velocity, by a fixed number of Newton steps in x = log(kappa).

    Divided by the right-hand side s = 1 - Dn/DCJ the equation is A + B = 1 with A = alpha1 exp(x/nu)/s and
    B = alpha2 exp(psi (DCJ - Dn) + x)/s; solved is F(x) = log(A + B) = 0.  As the logarithm of a sum of
    exponentials F is convex, and its slope lies between 1/nu and 1, so that Newton's method converges from
    everywhere: monotonically from where F >= 0.  A place that is so near that few steps reach rounding is
    x = -log(c), c = alpha1^nu/s^nu + B/kappa, the sum of 1/kappa at which A or B alone is 1: with the share q of the
    first, A + B = q^(1/nu) + 1 - q there, and 0 <= F <= log(2) for nu >= 1.

    The derivatives come out right as well.  A Newton step x - F/F' has at the root the derivative 0 by x and -F_p/F'
    by a parameter, which is that of the implicit function: what happened before the last step does not matter
    to the first derivative (nor what happened before the last but one to the second).
    """
    right = of.log(1 - normal_velocity / DCJ)
    log_a = of.log(p.alpha1) - right
    log_b = of.log(p.alpha2) + p.psi * (DCJ - normal_velocity) - right
    x = -of.log(of.exp(p.nu * log_a) + of.exp(log_b))
    for _ in range(NEWTON_STEPS):
        a, b = of.exp(log_a + x / p.nu), of.exp(log_b + x)
        x = x - (a + b) * of.log(a + b) / (a / p.nu + b)
    return of.exp(x)


def front(r: Any, y: Any, p: Any) -> dict[str, Any]:
    """Return the slopes of phi and z.

    At the axis tan(phi)/r is 0/0 with the limit phi'(0), hence phi'(0) = kappa/2.  Both branches of `where` are
    evaluated, so the one that is not taken must not divide by zero either.
    """
    kappa = curvature(p.D0 * of.cos(y.phi), p)
    off_axis = r > 0
    ring = of.tan(y.phi) / of.where(off_axis, r, 1.0)
    return {"phi": of.where(off_axis, kappa / of.cos(y.phi) - ring, kappa / 2), "z": -of.tan(y.phi)}


def problem() -> of.Problem:
    """Return the problem with its three fronts."""
    model = of.Model.from_function(
        front,
        states=["phi", "z"],
        parameters=["alpha1", "nu", "alpha2", "psi", "D0", "z0"],
        initial={"phi": 0, "z": "z0"},
        observables=lambda r, y, p: {"kappa": curvature(p.D0 * of.cos(y.phi), p)},
        time="r",
    )
    starts = {"alpha1": 2.0, "nu": 1.45, "alpha2": 1.0, "psi": 2.0}
    return of.Problem(
        model=model,
        parameters=tuple(of.Parameter(name, start=start, scale="log") for name, start in starts.items()),
        measurements=of.measurements_from_frame(pd.read_csv(Path(__file__).with_name("fronts.csv")), model),
        experiments=tuple(
            of.Experiment(name, (of.Period(overrides={"D0": one["D0"], "z0": one["z0"]}),), until=one["R"])
            for name, one in FRONTS.items()
        ),
        title="Shock fronts of three velocities: curvature from an implicit equation",
    )
