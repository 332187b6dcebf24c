"""Parameters with several values, priors and rules: residuals and derivatives."""

from __future__ import annotations

import math

import numpy as np
import pytest

import odefit as of
from odefit.errors import OdefitError, ProblemError
from odefit.transcribe import SingleShooting

WAVELENGTHS = ("410", "520", "633")
TIMES = np.array([0.0, 1.0, 2.0, 4.0])
SPECTRA = """
A' = -k*A
B' = k*A
A(0) = 1
B(0) = 0
absorbance = eA*A + eB*B
"""


def spectra(**changes):
    """Three wavelengths measured together: eA and eB have a value for each."""
    n = len(TIMES) * len(WAVELENGTHS)
    values = np.random.default_rng(1).random(n)
    options = {"lower": 0.0, "per": "wavelength", **changes}
    return of.Problem(
        model=of.Model.from_text(SPECTRA),
        parameters=[
            of.Parameter("k", 0.5, scale="log"),
            *(of.Parameter(e, v, **options) for e, v in (("eA", 0.7), ("eB", 0.4))),
        ],
        measurements=of.Measurements(
            experiment=["main"] * n,
            time=np.repeat(TIMES, 3),
            observable=["absorbance"] * n,
            value=values,
            groups={"wavelength": list(WAVELENGTHS) * len(TIMES)},
        ),
    )


def jacobian_error(problem, x=None):
    """Largest difference between the Jacobian and central differences on the frozen grid."""
    objective = SingleShooting(problem)
    x = objective.compiled.theta_start if x is None else x
    objective.refresh(x)
    exact = objective.evaluate(x, 1).linear.jacobian
    worst = 0.0
    for i in range(x.size):
        h = 1e-5 * max(1.0, abs(x[i]))
        plus, minus = x.copy(), x.copy()
        plus[i] += h
        minus[i] -= h
        difference = (objective.evaluate(plus, 0).residual - objective.evaluate(minus, 0).residual) / (2 * h)
        worst = max(worst, float(np.abs(difference - exact[:, i]).max() / max(np.abs(exact[:, i]).max(), 1e-8)))
    return worst


def test_values_per_measurement():
    problem = spectra()
    names = [f"{e}[{w}]" for e in ("eA", "eB") for w in WAVELENGTHS]
    assert SingleShooting(problem).names == ("k", *names)
    assert jacobian_error(problem) < 1e-7
    result = of.fit(problem)
    assert list(result.estimates) == ["k", *names]
    assert result.converged


def test_values_per_measurement_equal_separate_parameters():
    """The same problem with a column and a parameter for each wavelength."""
    data = spectra().measurements
    text = SPECTRA.replace("absorbance = eA*A + eB*B", "\n".join(f"a{w} = eA{w}*A + eB{w}*B" for w in WAVELENGTHS))
    names = [f"{e}{w}" for e in ("eA", "eB") for w in WAVELENGTHS]
    separate = of.Problem(
        model=of.Model.from_text(text),
        parameters=[
            of.Parameter("k", 0.5, scale="log"),
            *(of.Parameter(n, {"A": 0.7, "B": 0.4}[n[1]], lower=0.0) for n in names),
        ],
        measurements=of.Measurements.from_columns(
            TIMES, {f"a{w}": data.value[i::3] for i, w in enumerate(WAVELENGTHS)}
        ),
    )
    one, other = of.fit(spectra()), of.fit(separate)
    assert one.objective == pytest.approx(other.objective, rel=1e-10)
    np.testing.assert_allclose(list(one.estimates.values()), list(other.estimates.values()), rtol=1e-5, atol=1e-8)


def test_value_per_measurement_must_not_enter_the_dynamics():
    n = 4
    problem = of.Problem(
        model=of.Model.from_text("x' = -k*x\nx(0) = 1"),
        parameters=[of.Parameter("k", 1.0, per="gel")],
        measurements=of.Measurements(
            experiment=["main"] * n, time=[1, 2, 3, 4], observable=["x"] * n, value=[0.5] * n,
            groups={"gel": ["a", "b", "a", "b"]},
        ),
    )  # fmt: skip
    with pytest.raises(OdefitError, match="may enter observables only"):
        of.fit(problem)


def two_cells(**parameter):
    return of.Problem(
        model=of.Model.from_text("x' = -k*x\nx(0) = x0"),
        parameters=[of.Parameter("k", 0.5, **parameter), of.Parameter("x0", 1.0, per="experiment")],
        measurements=of.Measurements(
            experiment=["a", "a", "b", "b", "c", "c"], time=[1, 2, 1, 2, 1, 2], observable=["x"] * 6,
            value=[0.6, 0.35, 0.5, 0.3, 0.9, 0.7], groups={"cell": ["u", "u", "u", "u", "v", "v"]},
        ),
        experiments=[of.Experiment(n) for n in "abc"],
    )  # fmt: skip


def test_column_that_is_constant_within_experiments():
    problem = two_cells(per="cell")
    objective = SingleShooting(problem)
    assert objective.names == ("k[u]", "k[v]", "x0[a]", "x0[b]", "x0[c]")
    assert [list(c) for c in objective.compiled.columns] == [[0, 2], [0, 3], [1, 4]]
    assert jacobian_error(problem) < 1e-7


def test_single_values_can_be_started_and_simulated():
    problem = two_cells(per="cell").with_start(**{"k[v]": 0.1, "x0": 2.0})
    frame = of.simulate(problem, {"x0[c]": 3.0}, times=[1.0])
    assert frame["x"].tolist() == pytest.approx([2 * math.exp(-0.5), 2 * math.exp(-0.5), 3 * math.exp(-0.1)], rel=1e-6)
    with pytest.raises(ProblemError, match=r"there is no parameter 'k\[w\]'"):
        two_cells(per="cell").with_start(**{"k[w]": 0.1})


@pytest.mark.parametrize("per", ["cel", "gel"])
def test_unknown_column(per):
    with pytest.raises(ProblemError, match=f'per = "{per}", but the data have no such column'):
        of.fit(two_cells(per=per))


PRIORS = {
    "normal(0.4, 0.2)": lambda k: (k - 0.4) / 0.2,
    "lognormal(0.4, 0.3)": lambda k: math.log(k / 0.4) / 0.3,
    "laplace(0.4, 0.1)": lambda k: math.copysign(
        math.sqrt(2 * (math.hypot(k - 0.4, 1e-4) - 1e-4) / 0.1), k - 0.4
    ),
}  # fmt: skip


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("scale", ["linear", "log"])
def test_prior_is_a_residual(prior, scale):
    problem = two_cells(prior=prior, scale=scale)
    found = of.evaluate(problem, {"k": 0.7})
    assert found.residuals[-1] == pytest.approx(PRIORS[prior](0.7), rel=1e-12)
    assert jacobian_error(problem) < 1e-6
    assert of.fit(problem).n_data == 6


def test_laplace_prior_is_smooth_at_its_centre():
    problem = two_cells(prior="laplace(0.5, 0.1)")
    found = of.evaluate(problem, {"k": 0.5})
    assert found.residuals[-1] == 0.0
    assert np.isfinite(found.jacobian).all()


def test_uniform_prior_is_bounds():
    parameter = of.Parameter("k", 0.5, lower=0.1, prior="uniform(0, 0.6)")
    assert (parameter.lower, parameter.upper) == (0.1, 0.6)
    assert parameter.penalty is None


def test_rules_are_priors_on_expressions():
    problem = of.Problem(
        model=of.Model.from_text("y = a*exp(-b*t)"),
        parameters=[of.Parameter("a", 2.0), of.Parameter("b", 0.5), of.Parameter("c", expression="a*b")],
        measurements=of.Measurements.from_columns([1.0, 2.0], {"y": [1.0, 0.7]}),
        constraints=("log(a/b) ~ normal(1, 0.5)", "c ~ lognormal(2, 0.1)"),
    )
    found = of.evaluate(problem)
    assert found.residuals[2:] == pytest.approx([(math.log(4) - 1) / 0.5, math.log(0.5) / 0.1])
    assert jacobian_error(problem) < 1e-7
