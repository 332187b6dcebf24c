"""Mass-action kinetics in which some rates vanish: linear scale, lower bound 0, so that minima lie on bounds.

A network is a list of reactions, each of first or second order with a rate of its own.  A case draws which rates
vanish, the others, the noise, and where the fit starts, all from its seed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

import odefit as of

TIMES = np.linspace(0.0, 8.0, 17)
LEAST, MOST = 0.01, 10.0
"""Rates at which fits start, log-uniformly; those that do not vanish are between 0.1 and 2."""
SAME = 1e-3
"""Relative difference of objectives that is of no consequence."""

NETWORKS = {
    "consecutive": "A>B B>C C>D D>E A>C B>D C>E",
    "reversible": "A>B B>A B>C C>B C>D D>C",
    "parallel": "A>B A>C A>D B>D C>D B>C C>B",
    "association": "A+B>C C>A+B C>D A>D B>D D>C",
    "dimers": "A+A>B B>A+A B>C C>B A>C B+C>D",
}
STARTING_WITH = {"A": 1.0, "B": 0.7}
"""First contents; others are empty.  B is empty as well where it is not a partner of A."""


@dataclass(frozen=True)
class Case:
    """A problem of the family: the rates that it was made with, and how many of them vanish."""

    network: str
    truth: dict[str, float]
    n_vanishing: int
    problem: of.Problem


def model_text(network: str) -> tuple[str, int]:
    """Return the equations of a network in the language of problem files, and the number of its reactions."""
    reactions = [side.split(">") for side in NETWORKS[network].split()]
    rates: dict[str, list[str]] = {}
    for number, (left, right) in enumerate(reactions, 1):
        reactants, products = left.split("+"), right.split("+")
        speed = "*".join([f"k{number}", *reactants])
        for one in reactants:
            rates.setdefault(one, []).append(f"- {speed}")
        for one in products:
            rates.setdefault(one, []).append(f"+ {speed}")
    first = STARTING_WITH if any(left == "A+B" for left, _ in reactions) else {"A": 1.0}
    lines = [f"{name}' = 0 {' '.join(terms)}" for name, terms in sorted(rates.items())]
    lines += [f"{name}(0) = {first.get(name, 0.0)}" for name in sorted(rates)]
    return "\n".join(lines), len(reactions)


def case(network: str, seed: int) -> Case:
    """Return a problem with data from rates of which 0 to 5 vanish, and noise of 1 to 5 % of the largest content."""
    rng = np.random.default_rng([seed, *map(ord, network)])
    text, n = model_text(network)
    names = [f"k{i}" for i in range(1, n + 1)]
    n_vanishing = int(rng.integers(0, min(5, n - 2) + 1))
    rates = 10.0 ** rng.uniform(-1.0, 0.3, n)
    rates[rng.choice(n, n_vanishing, replace=False)] = 0.0
    truth = dict(zip(names, rates.tolist(), strict=True))
    model = of.Model.from_text(text)
    times = TIMES[1:]
    blank = of.Measurements.from_columns(times, {state: np.zeros(times.size) for state in model.states})
    free = [of.Parameter(name, 1.0, lower=0.0, scale="linear") for name in names]
    exact = of.simulate(of.Problem(model, free, blank), truth, times)
    noise = rng.uniform(0.01, 0.05)
    data = {s: exact[s].to_numpy() + noise * rng.standard_normal(times.size) for s in model.states}
    starts = np.exp(rng.uniform(np.log(LEAST), np.log(MOST), n))
    free = [of.Parameter(name, x, lower=0.0, scale="linear") for name, x in zip(names, starts, strict=True)]
    return Case(network, truth, n_vanishing, of.Problem(model, free, of.Measurements.from_columns(times, data)))


def fitted_by_scipy(problem: of.Problem):
    """Return what SciPy's trust-region reflective method makes of the same objective."""
    evaluator = of.Evaluator(problem)
    return least_squares(
        evaluator.residuals, evaluator.start, evaluator.jacobian, method="trf",
        bounds=(evaluator.lower, evaluator.upper), x_scale="jac", ftol=1e-10, xtol=1e-10, gtol=1e-10, max_nfev=400,
    )  # fmt: skip
