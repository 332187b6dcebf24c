"""Kinetics of which some rates vanish: no crawling along bounds, and minima as good as those of SciPy."""

from __future__ import annotations

import pytest
from vanishing_rates import NETWORKS, SAME, case, fitted_by_scipy

import odefit as of


@pytest.mark.parametrize(("network", "seed"), [("dimers", 8), ("parallel", 29), ("association", 28)])
def test_steps_that_meet_bounds_do_not_crawl(network, seed):
    problem = case(network, seed).problem
    result = of.fit(problem)
    assert result.iterations <= 80
    assert result.objective <= fitted_by_scipy(problem).cost * (1 + SAME)


@pytest.mark.slow
def test_as_many_reach_the_best_as_with_scipy():
    cases = [case(network, seed).problem for network in NETWORKS for seed in range(40, 60)]
    fits = [of.fit(problem) for problem in cases]
    others = [float(fitted_by_scipy(problem).cost) for problem in cases]
    best = [min(fit.objective, other) * (1 + SAME) for fit, other in zip(fits, others, strict=True)]
    assert not any(fit.status == "iteration-limit" for fit in fits)
    reached = sum(fit.objective <= least for fit, least in zip(fits, best, strict=True))
    assert reached >= sum(other <= least for other, least in zip(others, best, strict=True))
    assert reached >= 0.9 * len(cases)
