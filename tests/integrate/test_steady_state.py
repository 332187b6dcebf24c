"""Steady states that solutions come to, against closed forms, long integrations and differences; and where none is."""

from __future__ import annotations

import numpy as np
import pytest

import odefit as of
from odefit.compile import compile_problem
from odefit.integrate import Status, integrator
from odefit.integrate.equilibration import Rest, equilibrate
from odefit.integrate.experiment import experiment_aims
from odefit.model import Model

METHODS = ("dopri5", "dop853", "rk32", "bdf3", "ddm")

BINDING = """
A' = -kon*A*B + koff*C
B' = -kon*A*B + koff*C
C' = kon*A*B - koff*C
A(0) = a0
B(0) = b0
C(0) = 0
"""
SWITCH = "x' = r*x*(1 - x)*(x - a)\nx(0) = x0"


def problem_of(text: str, values: dict[str, float], **settings: object) -> of.Problem:
    model = Model.from_text(text)
    data = of.Measurements.from_columns([np.inf], {model.shown[0]: [1.0]})
    return of.Problem(model, [of.Parameter(name, value) for name, value in values.items()], data).with_settings(
        **settings
    )


def rest_of(text: str, values: dict[str, float], method: str = "auto", order: int = 1, **settings: object) -> Rest:
    """Where a model comes to rest, with derivatives by the parameters in their order."""
    return rest_of_problem(problem_of(text, values, integrator=method, **settings), order)


def rest_of_problem(problem: of.Problem, order: int) -> Rest:
    compiled = compile_problem(problem)
    return equilibrate(
        integrator(problem.settings.integrator), compiled.model(0), compiled.parameters(compiled.theta_start, 0, order),
        compiled.structure.laws(0, compiled.slot_start), np.empty(0), rtol=problem.settings.rtol,
        aims=experiment_aims(compiled, problem.settings, 0), order=order, max_steps=problem.settings.max_steps,
    )  # fmt: skip


def bound(kon: float, koff: float, a0: float, b0: float) -> float:
    """The complex of two partners in equilibrium."""
    k = koff / kon
    total = a0 + b0 + k
    return 2 * a0 * b0 / (total + np.sqrt(total**2 - 4 * a0 * b0))


def differences(function, values: dict[str, float], step: float = 1e-3) -> np.ndarray:
    """Derivatives by differences of sixth order, (n, parameters)."""
    columns = []
    for name, value in values.items():
        h = step * value
        at = [function({**values, name: value + k * h}) for k in (-3, -2, -1, 1, 2, 3)]
        weights = np.array([-1, 9, -45, 45, -9, 1]) / 60
        columns.append(sum(w * y for w, y in zip(weights, at, strict=True)) / h)
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize("method", METHODS)
def test_two_conserved_totals_against_the_closed_form(method):
    values = {"kon": 3.0, "koff": 1.5, "a0": 1.0, "b0": 2.0}
    rest = rest_of(BINDING, values, method)
    c = bound(**values)
    np.testing.assert_allclose(rest.y, [1 - c, 2 - c, c], rtol=1e-14)
    expected = differences(lambda v: np.array([v["a0"], v["b0"], 0]) + bound(**v) * np.array([-1, -1, 1]), values)
    np.testing.assert_allclose(rest.S, expected, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("scale", [2.0**-40, 2.0**40])
@pytest.mark.parametrize("clock", [2.0**-30, 2.0**30])
def test_units_do_not_matter(scale, clock):
    values = {"kon": 3.0, "koff": 1.5, "a0": 1.0, "b0": 2.0}
    scaled = {"kon": 3.0 / scale / clock, "koff": 1.5 / clock, "a0": scale, "b0": 2.0 * scale}
    np.testing.assert_allclose(rest_of(BINDING, scaled).y, scale * rest_of(BINDING, values).y, rtol=1e-13)


@pytest.mark.parametrize("method", ["dopri5", "ddm"])
def test_second_derivatives(method):
    values = {"kon": 3.0, "koff": 1.5, "a0": 1.0, "b0": 2.0}
    rest = rest_of(BINDING, values, method, order=2)
    first = differences(lambda v: rest_of(BINDING, v, method).S, values)  # (n, q, q)
    pairs = [first[:, a, b] for a in range(4) for b in range(a, 4)]
    np.testing.assert_allclose(rest.S2, np.stack(pairs, axis=1), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(("start", "end"), [(0.29999, 0.0), (0.30001, 1.0), (0.01, 0.0), (7.0, 1.0)])
@pytest.mark.parametrize("method", METHODS)
def test_of_two_steady_states_the_one_that_the_solution_comes_to(method, start, end):
    rest = rest_of(SWITCH, {"r": 1.0, "a": 0.3, "x0": start}, method)
    assert rest.status is Status.OK
    np.testing.assert_allclose(rest.y, [end], atol=1e-15)
    np.testing.assert_allclose(rest.S, 0.0, atol=1e-12)


def test_a_high_and_a_low_state_far_apart():
    """Positive feedback with a low state a thousand times smaller than the high one."""
    text = "x' = leak + k*x^4/(1 + x^4) - d*x\nx(0) = x0"
    values = {"leak": 0.01, "k": 20.0, "d": 1.0}
    low, high = (rest_of(text, {**values, "x0": x0}).y[0] for x0 in (0.2, 0.6))
    assert low < 0.02
    assert high > 19.9
    for x in (low, high):
        assert abs(0.01 + 20 * x**4 / (1 + x**4) - x) < 1e-14 * (1 + x)


NONE = {
    "oscillation": ("x' = y\ny' = mu*(1 - x^2)*y - x\nx(0) = 1\ny(0) = 0", {"mu": 5.0}, Status.NOT_AT_REST),
    "undamped": ("x' = k*y\ny' = -x\nx(0) = 1\ny(0) = 0", {"k": 1.0}, Status.NOT_AT_REST),
    "centre": ("x' = a*x - x*y\ny' = x*y - a*y\nx(0) = 1\ny(0) = 0.5", {"a": 1.0}, Status.NOT_AT_REST),
    "linear growth": ("x' = k\nx(0) = 1", {"k": 1.0}, Status.GROWS),
    "exponential growth": ("x' = k*x\nx(0) = 1", {"k": 1.0}, Status.GROWS),
    "accumulation": ("x' = k - d*x\nz' = x\nx(0) = 0\nz(0) = 0", {"k": 1.0, "d": 2.0}, Status.GROWS),
    "ever more slowly": ("x' = -k*x^2\nx(0) = 1", {"k": 1.0}, Status.DEGENERATE),
    "continuum": (
        "S' = -b*S*I\nI' = b*S*I - g*I\nS(0) = 0.99\nI(0) = 0.01", {"b": 2.0, "g": 1.0}, Status.DEGENERATE
    ),
    "unstable": (SWITCH, {"r": 1.0, "a": 0.25, "x0": 0.25}, Status.UNSTABLE),
}  # fmt: skip


@pytest.mark.parametrize("case", NONE)
def test_no_steady_state_is_a_status(case):
    text, values, status = NONE[case]
    rest = rest_of(text, values, max_steps=20_000)
    assert rest.status is status
    assert np.isnan(rest.y).all()
    assert np.isnan(rest.S).all()


def random_network(rng: np.random.Generator) -> tuple[str, dict[str, float]]:
    """Reversible reactions A <-> B and A + B <-> C with rates of six decades, some species absent at the start."""
    n = int(rng.integers(2, 9))
    terms: list[list[str]] = [[] for _ in range(n)]
    values: dict[str, float] = {}
    for k in range(int(rng.integers(n - 1, 2 * n))):
        species = rng.choice(n, 3 if n >= 3 and rng.random() < 0.5 else 2, replace=False).tolist()
        *left, right = species
        forward, backward = 10.0 ** rng.uniform(-3, 3, 2)
        values |= {f"f{k}": forward, f"b{k}": backward}
        rate = f"(f{k}*{'*'.join(f'x{i}' for i in left)} - b{k}*x{right})"
        for i in species:
            terms[i].append(f"{'+' if i == right else '-'}{rate}")
    lines = [f"x{i}' = {''.join(part) or '0'}\nx{i}(0) = y{i}" for i, part in enumerate(terms)]
    values |= {f"y{i}": float(rng.uniform(0.1, 2.0)) if rng.random() < 0.8 else 0.0 for i in range(n)}
    return "\n".join(lines), values


@pytest.mark.parametrize("seed", range(12))
def test_random_networks_against_a_long_integration(seed):
    text, values = random_network(np.random.default_rng(seed))
    problem = problem_of(text, values)
    rest = rest_of_problem(problem, 1)
    assert rest.status is Status.OK
    frame = of.simulate(problem.with_settings(integrator="ddm", rtol=1e-9), times=[0.0, 1e15])
    late = frame.iloc[-1, 2:].to_numpy(dtype=float)
    np.testing.assert_allclose(rest.y, late, rtol=1e-6, atol=1e-9)
    positive = {name: value for name, value in values.items() if value > 0}
    columns = [i for i, value in enumerate(values.values()) if value > 0]
    size = np.array(list(positive.values()))
    found = rest.S[:, columns] * size
    expected = differences(lambda v: rest_of_problem(problem.with_start(**v), 0).y, positive) * size
    scale = np.maximum(np.abs(rest.y), np.abs(found).max(axis=1))[:, None] + 1e-300
    np.testing.assert_allclose(found / scale, expected / scale, atol=1e-7)


def test_what_cannot_come_into_being_stays_away():
    """A virus that nobody has: cells rest as if there were none, though the least of it would change that."""
    text = "T' = s - d*T - b*T*V\nI' = b*T*V - c*I\nV' = p*I - u*V\nT(0) = 1\nI(0) = 0\nV(0) = 0"
    rest = rest_of(text, {"s": 10.0, "d": 0.1, "b": 1.0, "c": 1.0, "p": 5.0, "u": 2.0})
    np.testing.assert_allclose(rest.y, [100.0, 0.0, 0.0], rtol=1e-14)
    np.testing.assert_allclose(rest.S[0, :2], [10.0, -1000.0], rtol=1e-12)
