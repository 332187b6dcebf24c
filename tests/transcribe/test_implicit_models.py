"""Algebraic unknowns from the problem to the fit: as if there were a formula, and words where there is no solution."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest

import odefit as of
from odefit.compile import compile_problem
from odefit.errors import ProblemError, UnsupportedError
from odefit.gallery import load
from odefit.integrate.experiment import solve_experiment
from odefit.report.check import check

IMPLICIT = "algebraic H ~ 0.1\n0 = H^2 + Ka*H - Ka*total\n"
FORMULA = "H = (-Ka + sqrt(Ka^2 + 4*Ka*total))/2\n"
REACTION = "total = c0*x\nx' = -k*H*x\nx(0) = 1\ny = H*x\n"
TIMES = np.linspace(0.5, 6.0, 8)
VALUES = {"k": 0.7, "Ka": 0.4, "c0": 1.3}


def problem(equations: str, *, experiments=None, columns=("x", "y"), values=VALUES, **further) -> of.Problem:
    model = of.Model.from_text(equations, tables=further.pop("table_names", None))
    names = [e.name for e in experiments] if experiments else ["main"]
    data = pd.concat(
        pd.DataFrame({"experiment": name, "time": TIMES, **{c: 0.3 + 0.01 * TIMES for c in columns}}) for name in names
    )
    return of.Problem(
        model=model,
        parameters=tuple(of.Parameter(name, start=value) for name, value in values.items()),
        measurements=of.measurements_from_frame(data, model),
        **({"experiments": experiments} if experiments else {}),
        **further,
    )


def assert_same(one: of.Problem, other: of.Problem, at=VALUES, rtol=1e-9) -> None:
    """Compare what both evaluate to; the root in the formula would tighten a tolerance that is not given."""
    left, right = (p.with_settings(atol=1e-9).evaluate(at, order=1) for p in (one, other))
    np.testing.assert_allclose(left.residuals, right.residuals, rtol=rtol, atol=1e-12)
    np.testing.assert_allclose(left.jacobian, right.jacobian, rtol=100 * rtol, atol=1e-10)


@pytest.mark.parametrize("integrator", ["dopri5", "ddm"])
def test_an_implicit_model_is_the_explicit_one(integrator):
    settings = {"integrator": integrator, "atol": 1e-9}
    both = [problem(text + REACTION).with_settings(**settings) for text in (IMPLICIT, FORMULA)]
    assert_same(*both)
    solved = []
    for p in both:
        compiled = compile_problem(p)
        solved.append(solve_experiment(p, compiled, compiled.theta_start, 0, TIMES, order=2)[1])
    for name in ("y", "S", "S2"):
        np.testing.assert_allclose(getattr(solved[0], name), getattr(solved[1], name), rtol=1e-7, atol=1e-9)


def test_evaluations_do_not_depend_on_those_before():
    p = problem(IMPLICIT + REACTION)
    first = p.evaluate(VALUES, order=1)
    p.evaluate({"k": 3.0, "Ka": 4.0, "c0": 0.1}, order=1)
    again = p.evaluate(VALUES, order=1)
    assert again.residuals.tobytes() == first.residuals.tobytes()
    assert again.jacobian.tobytes() == first.jacobian.tobytes()


CHANGED = "total = if(t > tc, 2, 1)*c0*x*U(t)\n"


def test_tables_conditions_and_what_experiments_replace_reach_the_equation():
    tables = {"U": of.Table(x=[0.0, 2.0, 7.0], y=[1.0, 0.6, 1.5], kind="linear")}
    experiments = (
        of.Experiment("a", (of.Period(overrides={"c0": 0.9}),)),
        of.Experiment("b", (of.Period(overrides={"total": "c0*x^2 + 0.1*t"}),)),
        of.Experiment("c", (of.Period(), of.Period(start=2.5, overrides={"Ka": 0.2}))),
    )
    rest = CHANGED + REACTION.split("\n", 1)[1]
    values = {**VALUES, "tc": 3.3}
    both = [
        problem(text + rest, experiments=experiments, tables=tables, table_names=("U",), values=values)
        for text in (IMPLICIT, FORMULA)
    ]
    assert_same(*both, at=values, rtol=1e-8)


def test_events_change_what_stands_in_the_equation():
    events = "at t=2: Ka = 3*Ka\nat t=3: x += 0.5\n"
    assert_same(*(problem(text + REACTION + events) for text in (IMPLICIT, FORMULA)), rtol=1e-8)


def test_integrals_and_extremes_of_an_unknown():
    further = "area = integral(H, over=t, from=0)\ntop = max(H, over=t, from=0)\n"
    both = [problem(text + REACTION + further, columns=("area", "top", "H")) for text in (IMPLICIT, FORMULA)]
    assert_same(*both, rtol=1e-7)


def test_an_unknown_of_the_parameters_is_an_initial_value_and_a_derived_quantity():
    equations = "total = c0\nx' = -k*x\nx(0) = H\n"
    both = [problem(t + equations, columns=("x",), derived={"twice": "2*H"}) for t in (IMPLICIT, FORMULA)]
    assert_same(*both)
    left, right = (of.fit(p) for p in both)
    assert left.derived["twice"].estimate == pytest.approx(right.derived["twice"].estimate, rel=1e-9)


def test_an_unknown_of_the_parameters_in_a_derived_quantity_has_an_interval():
    text = "total = c0\nx' = -k*x + 0.1*Ka\nx(0) = c0\n"
    left, right = (of.fit(problem(t + text, columns=("x",), derived={"twice": "2*H"})) for t in (IMPLICIT, FORMULA))
    for name in ("estimate", "standard_error"):
        expected = getattr(right.derived["twice"], name)
        assert getattr(left.derived["twice"], name) == pytest.approx(expected, rel=1e-6)


def test_the_isotherm_is_found_without_a_state():
    isotherm = load("isotherm")
    assert isotherm.model.states == ()
    result = of.fit(isotherm)
    assert result.converged
    for name, value in {"K_ref": 0.8, "H": -24.0, "w": 4.5, "q_max": 3.2}.items():
        low, high = result.parameters[name].interval
        assert low < value < high, name
    frame = of.simulate(isotherm, result.estimates, times=[0.0, 0.5, 4.0])
    theta = frame.theta.to_numpy()
    temperature = frame.experiment.map({"cold": 298.0, "warm": 318.0, "hot": 338.0})
    attraction = np.exp(result.estimates["w"] * theta / (8.314e-3 * temperature))
    np.testing.assert_allclose(theta, frame.K * frame.time * (1 - theta) * attraction, rtol=1e-13)


@pytest.mark.parametrize(
    "integrator", ["dopri5", "dop853", "ddm", "bdf3", pytest.param("rk32", marks=pytest.mark.slow)]
)
def test_the_shock_front_is_that_of_the_formula(integrator):
    both = (load(name).with_settings(integrator=integrator) for name in ("shock_front", "shock_front/implicit"))
    formula, implicit = (of.fit(one) for one in both)
    assert implicit.converged
    assert implicit.estimates == pytest.approx(formula.estimates, rel=1e-8)
    assert implicit.iterations == formula.iterations


TWO = "algebraic H ~ 0.1\n0 = (H - x)*(H - x + 2)\nx' = k*H + 1\nx(0) = 0\ny = H + 0*t\n"


def test_curves_have_the_solution_of_the_trajectory():
    """Of the solutions x and x - 2 the guess leads to the first at the start, and would lead to the second later."""
    p = problem(TWO, columns=("x", "y"), values={"k": 0.2})
    frame = of.simulate(p, times=[5.0])
    assert frame.x[0] > 5.0
    assert frame.H[0] == pytest.approx(frame.x[0], rel=1e-12)
    fitted = of.fit(
        p.with_measurements(of.measurements_from_frame(of.simulate(p)[["experiment", "time", "x", "y"]], p.model))
    )
    assert fitted.objective < 1e-12


@pytest.mark.parametrize("expression", ["max(H, over=t, to=4)", "integral(H*x, over=t, to=3)"])
def test_a_derived_quantity_along_the_solution_may_use_an_unknown(expression):
    both = (problem(t + REACTION, derived={"q": expression}) for t in (IMPLICIT, FORMULA))
    left, right = (of.fit(p.with_fixed("Ka", "c0").with_settings(rtol=1e-9, atol=1e-11)) for p in both)
    for name in ("estimate", "standard_error"):
        assert getattr(left.derived["q"], name) == pytest.approx(getattr(right.derived["q"], name), rel=1e-5)


def test_a_derived_quantity_at_a_time_cannot_use_an_unknown_yet():
    with pytest.raises(UnsupportedError, match=r"a value at a given time such as x\(t=5\), that uses .* 'H'"):
        _ = of.fit(problem(IMPLICIT + REACTION, derived={"q": "H(t=2)"})).derived


def test_noise_may_depend_on_an_unknown_of_the_time():
    noise = {"x": of.Noise(sigma="0.05*G")}
    texts = ("algebraic G ~ 1\n0 = G^2 - 1 - t\n", "G = sqrt(1 + t)\n")
    left, right = (problem(FORMULA + REACTION + t, columns=("x",), noise=noise).evaluate(order=1) for t in texts)
    assert left.loglik == pytest.approx(right.loglik, rel=1e-12)


def test_a_condition_on_an_unknown_in_its_own_equation_is_named():
    p = problem("algebraic H ~ 0.5\n0 = H + if(H > 0.3*x, 0.01, 0) - Ka*total\n" + REACTION)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert compile_problem(p).model(0).on_states == ("(0.3*x)<H",)
    with pytest.raises(UnsupportedError, match="a condition on an algebraic unknown that changes with time alone"):
        problem(
            "algebraic H ~ 0.5\n0 = H + if(H > 0.3, 0.01, 0) - Ka*t*c0\nx' = -k*H\nx(0) = 1", columns=("x",)
        ).evaluate()


def test_logarithms_in_equations_keep_small_states_accurate():
    for equation, edge in (("log(H) + H - Ka*x", True), ("exp(H) + H - Ka*x", False)):
        p = problem(f"algebraic H ~ 0.5\n0 = {equation}\nx' = -k*x\nx(0) = c0", columns=("H",))
        assert compile_problem(p).variant(0).relative.tolist() == [edge]


FOLD = "algebraic H ~ 1\n0 = H^2 + x - 2*c0\nx' = k*H\nx(0) = 1\n"
WORDS = r"no solution for 'H' was found of the equation '0 = H\^2 \+ x - 2\*c0'"


def test_where_the_solution_ends_the_equation_is_named():
    p = problem(FOLD, columns=("x",), values={"k": 1.0, "c0": 0.7})
    with pytest.warns(of.SimulationWarning, match=f"could not be continued beyond t = 1.26.*{WORDS}"):
        frame = of.simulate(p)
    # x = 1.4 - H^2 with H = 0.4^(1/2) - t/2, until H is 0
    np.testing.assert_allclose(frame.x[0], 1.4 - (np.sqrt(0.4) - TIMES[0] / 2) ** 2, rtol=1e-6)
    assert frame.x[1:].isna().all()
    found = p.evaluate({"k": 1.0, "c0": 0.7})
    assert found.status == "failed"
    assert re.search(WORDS, found.message)


def test_an_observable_without_solution_names_its_equation():
    p = problem("algebraic H ~ 1\n0 = H^2 + t - c0", columns=("H",), values={"c0": 2.0})
    with pytest.warns(
        of.SimulationWarning, match=r"no solution for 'H' was found of the equation '0 = H\^2 \+ t - c0'"
    ):
        frame = of.simulate(p)
    np.testing.assert_allclose(frame.H[:2], np.sqrt(2.0 - TIMES[:2]), rtol=1e-14)
    assert frame.H[2:].isna().all()
    result = of.fit(p)
    assert result.status == "failed"
    assert "the observable 'H' has no finite value at t = 2.07143: no solution for 'H' was found" in result.message


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: {"experiments": (of.Experiment("a", (of.Period(overrides={"H": 1.0}),)),)}, UnsupportedError,
         "experiment 'a' sets 'H': 'H' is an algebraic unknown; replace what stands in its equations"),
        (lambda: {"experiments": (of.Experiment("a", (of.Period(), of.Period(start=1.0, overrides={"H": 1.0}))),)},
         UnsupportedError, "period 2 sets 'H': 'H' is an algebraic unknown"),
        (lambda: {"experiments": (of.Experiment("a", (of.Period(overrides={"q": 1.0}),)),)}, UnsupportedError,
         "sets 'q': 'q' depends on the algebraic unknown 'H' and stands in its equations"),
        (lambda: {"constraints": ("H ~ normal(1, 0.1)",)}, (ProblemError, UnsupportedError), "H"),
    ],
)  # fmt: skip
def test_what_cannot_be_replaced_is_refused(build, error, message):
    text = "algebraic H ~ 0.1\nq = H^2\n0 = q + Ka*H - Ka*total\n" + REACTION
    with pytest.raises(error, match=message):
        problem(text, **build())


def test_an_event_cannot_use_an_unknown_yet():
    with pytest.raises(
        UnsupportedError, match="an event, or a value at a given time .* that uses the algebraic unknown 'H'"
    ):
        problem(f"{IMPLICIT}{REACTION}at t=1: x += H\n").evaluate(VALUES)


def test_check_shows_the_equations():
    report = check(problem(IMPLICIT + REACTION))
    assert report.ok, report.text
    assert "Algebraic unknowns; of several solutions the one that continues the guess\n" in report.text
    assert "  H: 0 = H^2 + Ka*H - Ka*total\n" in report.text
    assert "Definitions: total, y\n" in report.text
    assert "States: none: an implicit model\n" in check(load("isotherm")).text


def test_a_condition_on_an_unknown_is_a_border():
    further = "z' = if(H > 0.4, 1, 0.2*x)\nz(0) = 0\nwhen H < 0.3: x = 1.5*x\n"
    both = [problem(text + REACTION + further, columns=("x", "z")) for text in (IMPLICIT, FORMULA)]
    assert_same(*both, rtol=1e-7)
    last = of.simulate(both[0], times=[TIMES[-1]])
    assert last.z[0] > 0.2  # both happen
    assert of.simulate(problem(FORMULA + REACTION), times=[TIMES[-1]]).x[0] < 0.9 * last.x[0]
