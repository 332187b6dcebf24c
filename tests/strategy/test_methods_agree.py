"""Single, incremental and multiple shooting and collocation end at the same estimates with the same standard errors.

They start a little beside the minimum: what they reach from afar is another matter (`python -m benchmarks.shooting`).
"""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.shooting import fitzhugh_nagumo

import odefit as of
from odefit.gallery import load

PROBLEMS = {
    **{name: lambda name=name: load(name) for name in ("barnes", "barnes/b", "barnes/c", "barnes/d_y1", "barnes/d_y2")},
    **{name: lambda name=name: load(name) for name in ("pyridine", "lotka_volterra_iss", "oral_doses")},
    "nerve": lambda: fitzhugh_nagumo(("V", "R")),
    "nerve, V only": fitzhugh_nagumo,
}
OTHERS = ("incremental", "multiple", "collocation")


def beside(problem: of.Problem, share: float = 0.02) -> tuple[of.FitResult, of.Problem]:
    """Return the fit by single shooting, and the problem with starts beside its estimates."""
    problem = problem.with_settings(rtol=1e-9, tol=1e-8)
    result = of.fit(problem, method="single")
    assert result.converged
    signs = np.random.default_rng(1).choice([-1.0, 1.0], len(result.estimates))
    starts = {
        name: value * (1.0 + share * sign)
        for (name, value), sign in zip(result.estimates.items(), signs.tolist(), strict=True)
        if name in result.plan.names
    }
    return result, problem.with_start(**starts)


def agree(found: of.FitResult, single: of.FitResult) -> None:
    """See that estimates and standard errors are the same; a hundred thousandth of an error is as good as equal."""
    assert found.objective == pytest.approx(single.objective, rel=1e-6)
    errors = single.standard_errors()
    for name, estimate in single.estimates.items():
        allowed = 1e-5 * errors.get(name, 0.0)
        assert found.estimates[name] == pytest.approx(estimate, rel=1e-5, abs=allowed), name
    for name, error in errors.items():
        assert found.standard_errors()[name] == pytest.approx(error, rel=1e-4), name
    assert found.dof == single.dof


@pytest.mark.parametrize("method", OTHERS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_methods_agree(name, method):
    single, start = beside(PROBLEMS[name]())
    found = of.fit(start, method=method)
    agree(found, single)
    # the valley of pyridine is so flat that the word for its end may differ
    assert found.status in (("converged", "slow-progress") if name == "pyridine" else ("converged",))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dow", "dow/dae"])
def test_collocation_agrees_on_the_dow_problem(name):
    """States free at nodes leave the narrow region where its balances make sense: multiple shooting says so."""
    single, start = beside(load(name), 0.005)
    agree(of.fit(start, method="collocation"), single)
