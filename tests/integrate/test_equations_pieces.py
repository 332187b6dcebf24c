"""What happens in time, and where states cross a border, in equations in several derivatives, and its derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from equation_cases import SOLVERS
from test_pieces_conformance import ROUNDING, RTOL, Case, check_true_derivatives, chosen_and_replayed
from test_state_events_conformance import closest

import odefit as of

PAIR = (
    "C*(x' - z') = -k*(x - z)\nC*(z' - x') = k*(x - z) + x^3 + z - s - 0.2*t\nx(0) = 1\nz(0) = 0.5\n"  # not consistent
)
LOOP = (
    "(1 + w^2)*x' + 0.3*z' = -k*x*(1 + w^2)\nz' = x - c*w*z\nalgebraic w ~ 0.3\n0 = exp(w) - 1 - x - 0.1*t\n"
    "x(0) = 1\nz(0) = 0.5\n"
)
NAMES = tuple(method.name for method in SOLVERS)
AT_TIMES = (0.7, 1.9, 3.5)


def case(name: str, text: str, times=AT_TIMES, **values: float) -> Case:
    doses, lag, tables = (values.pop(one, default) for one, default in (("doses", ()), ("lags", {}), ("tables", {})))
    return Case(name, text, values, times, doses, lag, tables, NAMES, NAMES[0])


CASES = [
    case("dose of a pair", PAIR + "at t=tau: x += D", C=0.8, k=0.6, s=2.0, tau=1.3, D=1.0),
    case("dose and parameter", LOOP + "at t=tau: x += D, k = 2*k", k=0.6, c=0.4, tau=1.3, D=1.0),
    case("two events at one time", LOOP + "at t=tau: x += D*w\nat t=tau: z += w", k=0.6, c=0.4, tau=1.3, D=1.0),
    case(
        "infusions", PAIR, (0.3, 0.9, 2.0, 3.5), C=0.8, k=0.6, s=2.0, w=0.9, T=0.5,
        doses=(of.Dose("T", "x", 2.0, duration="w"), of.Dose(2.2, "z", 1.0, duration="w")),
    ),
    case(
        "lag", LOOP, (0.5, 0.9, 1.7, 3.5), k=0.6, c=0.4, lag=0.3, A=1.5,
        doses=(of.Dose(0.0, "x", "A", every=1.1, count=3),), lags={"x": "lag"},
    ),
    case(
        "conditions that move", LOOP.replace("0.1*t", "if(t < lag, 0.1*t, if(t < lag + v, 0.5, 0.2*t))"),
        (0.5, 1.6, 2.5, 3.5), k=0.6, c=0.4, lag=1.1, v=0.7,
    ),
    case(
        "condition in a coefficient", LOOP.replace("(1 + w^2)*x'", "(1 + w^2 + if(t < lag, 0, 1))*x'"),
        k=0.6, c=0.4, lag=1.1,
    ),
    case(
        "tables", LOOP.replace("0.1*t", "L(t)").replace("(1 + w^2)*x'", "(1 + H(t)*w^2)*x'"),
        k=0.6, c=0.4, b=2.0, h=0.7,
        tables={
            "L": of.Table([0, 0.8, 2, 4], [1, "b", 0.5, 1]),
            "H": of.Table([0, 1.1, 2.3], [0, "h", 0.2], kind="hold", outside="hold"),
        },
    ),
    case("event on a state", LOOP + "when x < a: x += D*w, k = 0.9*k", k=0.6, c=0.4, a=0.6, D=1.0),
    case("event on an unknown", LOOP + "when w < a: x += D*w", k=0.6, c=0.4, a=0.55, D=1.0),
    case(
        "event that keeps a difference", PAIR + "when x < a: z -= D", (0.2, 0.7, 1.9, 3.5),
        C=0.8, k=0.6, s=2.0, a=0.95, D=0.5,
    ),
    case(
        "condition on an unknown", LOOP.replace("-k*x", "-k*if(w > a, 1, 0.9)*x"), (0.2, 1.9, 3.5), k=0.6, c=0.4, a=0.55
    ),
    case("unknown that jumps", LOOP.replace("0.1*t", "if(x < a, 1, 0.2)"), k=0.6, c=0.4, a=0.7),
    case("guess on the other side", LOOP.replace("~ 0.3", "~ 0.1") + "when w > a: z += D", k=0.6, c=0.4, a=0.4, D=1.0),
    case(
        "to and fro",
        "(1 + w^2)*x' + 0.3*z' = (cos(t) + 0.1*if(w > a, k, 0.3))*(1 + w^2)\nz' = x - w*z\nalgebraic w ~ 0.3\n"
        "0 = exp(w) - 3 - x - 0.1*t\nx(0) = 0.2\nz(0) = 0.5\n", (0.7, 1.9, 3.5, 5.0, 7.0, 9.0), k=0.6, a=1.2,
    ),
]  # fmt: skip
MATRIX = [(method, one) for one in CASES for method in SOLVERS]
by_method_and_case = pytest.mark.parametrize(
    ("method", "case"), MATRIX, ids=[f"{method.name}-{one.name}" for method, one in MATRIX]
)


@by_method_and_case
def test_derivatives_are_those_of_the_true_solution(method, case):
    check_true_derivatives(method, case, second_order=2e-6)


@by_method_and_case
def test_derivatives_are_those_of_the_replayed_solution(method, case):
    order, chosen = chosen_and_replayed(method, case)

    def replayed(x, order):
        return case.solve(method, x, order, grid=chosen.grid)

    tolerance = ROUNDING.get(method.name, 1e-9) if chosen.derivatives == "discrete" else 10 * RTOL
    assert closest(case, lambda x: replayed(x, 0).y, chosen.S) <= tolerance
    if order == 2:
        assert closest(case, lambda x: replayed(x, 1).S, chosen.S2) <= 10 * tolerance


@pytest.mark.parametrize("method", SOLVERS, ids=lambda method: method.name)
def test_a_condition_that_only_the_guess_does_not_meet_sets_nothing_off(method):
    """It is true from the start on, where the unknown is consistent."""
    other = next(one for one in CASES if one.name == "guess on the other side")
    plain = case("plain", LOOP, k=0.6, c=0.4)
    np.testing.assert_allclose(other.solve(method, other.x).y, plain.solve(method, plain.x).y, rtol=1e-4)


def test_a_state_that_slides_along_a_border_is_refused():
    """Beyond the border the unknown rises, before it falls."""
    model = of.Model.from_text(LOOP.replace("-k*x", "-k*if(w > a, 1, 0.3)*x"))
    values = {"k": 0.6, "c": 0.4, "a": 0.4}
    data = of.Measurements.from_columns([3.0], {"w": [0.0]})
    made = of.Problem(model, [of.Parameter(*item) for item in values.items()], data)
    assert "the condition 'a<w' changes to and fro without end at t = 1.76" in made.evaluate(order=0).message
