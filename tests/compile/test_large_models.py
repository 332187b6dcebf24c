"""Models that are large, deep or badly ordered, through native code."""

from __future__ import annotations

import dataclasses
import math

import casadi as ca
import numpy as np
import pytest

from odefit.compile import CompiledProblem, compile_problem
from odefit.compile.conditions import model_functions, variant_of
from odefit.compile.functions import SymbolicFunction
from odefit.compile.tape import LANES
from odefit.errors import LanguageError, ModelError
from odefit.model import Model
from odefit.problem import Measurements, Parameter, Problem


@dataclasses.dataclass(frozen=True)
class Network:
    """Mass-action reactions ``reactants -> products``, by numbers of species."""

    n_species: int
    reactants: list[tuple[int, ...]]
    products: list[tuple[int, ...]]

    def rhs(self, t, y, p):
        change = {f"x{i}": 0.0 for i in range(self.n_species)}
        for r, (reactants, products) in enumerate(zip(self.reactants, self.products, strict=True)):
            rate = p[f"k{r}"]
            for i in reactants:
                rate = rate * y[f"x{i}"]
            for i in reactants:
                change[f"x{i}"] = change[f"x{i}"] - rate
            for i in products:
                change[f"x{i}"] = change[f"x{i}"] + rate
        return change

    def evaluate(self, y: np.ndarray, k: np.ndarray) -> np.ndarray:
        """The right-hand side with numpy."""
        out = np.zeros(self.n_species)
        for rate, reactants, products in zip(k, self.reactants, self.products, strict=True):
            speed = rate * math.prod(y[i] for i in reactants)
            for i in reactants:
                out[i] -= speed
            for i in products:
                out[i] += speed
        return out

    def problem(self) -> Problem:
        names = [f"k{r}" for r in range(len(self.reactants))]
        states = [f"x{i}" for i in range(self.n_species)]
        model = Model.from_function(self.rhs, states, names, dict.fromkeys(states, 1.0))
        data = Measurements.from_columns([1.0], {"x0": [1.0], "x7": [1.0]})
        return Problem(model, [Parameter(name, 1.0) for name in names], data)


def network(n_species: int, n_reactions: int) -> Network:
    rng = np.random.default_rng(n_species)

    def side() -> tuple[int, ...]:
        return tuple(rng.integers(0, n_species, size=rng.integers(1, 3)).tolist())

    return Network(n_species, [side() for _ in range(n_reactions)], [side() for _ in range(n_reactions)])


def symbolic_rhs(problem: Problem) -> SymbolicFunction:
    return model_functions(problem, variant_of(problem, ()), problem.observables)["rhs"]


@pytest.mark.parametrize(
    ("n_species", "n_reactions"), [(30, 90), pytest.param(1000, 3000, marks=pytest.mark.slow)], ids=["small", "large"]
)
def test_mass_action_network(n_species, n_reactions, call):
    made = network(n_species, n_reactions)
    problem = made.problem()
    rhs = compile_problem(problem).model(0).rhs
    symbolic = symbolic_rhs(problem)
    rng = np.random.default_rng(2)
    y, k = rng.uniform(0.1, 2.0, size=n_species), rng.uniform(0.1, 2.0, size=n_reactions)
    nothing = np.empty(0)

    value = call(rhs.value, n_species, y, k, nothing)
    np.testing.assert_array_equal(value, np.array(symbolic.value(0.0, y, k, nothing)).ravel())
    np.testing.assert_allclose(value, made.evaluate(y, k), rtol=1e-12, atol=1e-12)

    function, row_ptr, col = symbolic.jacobian()
    assert rhs.row_ptr.tolist() == row_ptr
    assert rhs.col.tolist() == col
    nonzeros = call(rhs.jacobian, len(col), y, k, nothing)
    np.testing.assert_array_equal(nonzeros, np.array(function(0.0, y, k, nothing)).ravel())

    v, w = rng.normal(size=(2, n_species + n_reactions))
    second = call(rhs.second, n_species, y, k, nothing, v, w)
    np.testing.assert_array_equal(second, np.array(symbolic.second()(0.0, y, k, nothing, v, w)).ravel())

    # the function is a polynomial of degree three: these differences are exact but for rounding
    def along(a: float, b: float) -> np.ndarray:
        z = np.concatenate([y, k]) + a * v + b * w
        return made.evaluate(z[:n_species], z[n_species:])

    jacobian = np.zeros((n_species, n_species + n_reactions))
    jacobian[np.repeat(np.arange(n_species), np.diff(row_ptr)), col] = nonzeros
    first = (8 * (along(0.1, 0) - along(-0.1, 0)) - (along(0.2, 0) - along(-0.2, 0))) / 1.2
    np.testing.assert_allclose(jacobian @ v, first, rtol=1e-10, atol=1e-9)
    lanes = rng.normal(size=(n_species + n_reactions, LANES))
    directions = call(rhs.directions, n_species * LANES, y, k, nothing, lanes[:n_species], lanes[n_species:])
    np.testing.assert_allclose(directions.reshape(n_species, LANES), jacobian @ lanes, rtol=1e-12, atol=1e-12)
    mixed = (along(0.1, 0.1) - along(0.1, -0.1) - along(-0.1, 0.1) + along(-0.1, -0.1)) / 0.04
    np.testing.assert_allclose(second, mixed, rtol=1e-9, atol=1e-8)


@dataclasses.dataclass(frozen=True)
class Text:
    """A model of one state and one parameter from text, compiled."""

    problem: Problem
    compiled: CompiledProblem

    def observe(self, call, y: float, p: float) -> tuple[np.ndarray, np.ndarray, float]:
        """Value, gradient by (y, p) and second derivative along (1, 2), (3, 5)."""
        function = self.compiled.observe(0)
        arguments = ([y], [p], [], [])
        gradient = np.zeros(2)
        gradient[function.col.astype(int)] = call(function.jacobian, function.col.size, *arguments)
        second = call(function.second, 1, *arguments, [1.0, 2.0], [3.0, 5.0])
        return call(function.value, 1, *arguments), gradient, float(second[0])


def compiled_text(definitions: str) -> Text:
    text = f"x' = -k*x\nx(0) = 1\n{definitions}\n"
    data = Measurements.from_columns([1.0], {"out": [1.0]})
    problem = Problem(Model.from_text(text), [Parameter("k", 1.0)], data)
    return Text(problem, compile_problem(problem))


def nested_sine(depth: int) -> str:
    return "out = " + "sin(k*" * depth + "x" + ")" * depth


def nested_brackets(depth: int) -> str:
    return "out = " + "(" * depth + "x" + " + k)/2" * depth


def nested_if(depth: int) -> str:
    return "out = " + "if(x > k, 0.5*x + 0.25*(" * depth + "x*k" + "), k)" * depth


def nested_power(depth: int) -> str:
    return "out = " + "^".join(["x"] + ["(k/k)"] * depth)


def dual(f, y: float, p: float) -> tuple[float, np.ndarray, float]:
    """Value, gradient and second derivative along (1, 2), (3, 5) of a function of CasADi symbols."""
    z = ca.SX.sym("z", 2)
    value = f(z[0], z[1])
    gradient = ca.gradient(value, z)
    second = ca.jtimes(ca.dot(gradient, ca.SX([1.0, 2.0])), z, ca.SX([3.0, 5.0]))
    results = ca.Function("f", [z], [value, gradient, second])([y, p])
    return float(results[0]), np.array(results[1]).ravel(), float(results[2])


def repeated(step, start):
    """The function that the nested text means, built by a loop."""

    def function(depth: int):
        def f(x, k):
            value = start(x, k)
            for _ in range(depth):
                value = step(value, x, k)
            return value

        return f

    return function


NESTED = {
    "functions": (nested_sine, repeated(lambda v, x, k: ca.sin(k * v), lambda x, k: x), (0.7, 1.001)),
    "brackets": (nested_brackets, repeated(lambda v, x, k: (v + k) / 2, lambda x, k: x), (0.7, 1.3)),
    "conditions": (nested_if, repeated(lambda v, x, k: 0.5 * x + 0.25 * v, lambda x, k: x * k), (2.0, 1.5)),
    "powers": (nested_power, lambda depth: lambda x, k: x, (1.7, 1.2)),
}


@pytest.mark.parametrize("depth", [1, 20, 500])
@pytest.mark.parametrize("kind", NESTED)
def test_nested_expression(kind, depth, call):
    text, function, (y, p) = NESTED[kind]
    value, gradient, second = compiled_text(text(depth)).observe(call, y, p)
    expected = dual(function(depth), y, p)
    np.testing.assert_allclose(value, expected[0], rtol=1e-11)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(second, expected[2], rtol=1e-8, atol=1e-10)


def test_long_sum(call):
    terms = " + ".join(f"{i}*x^{i % 4}*k" for i in range(1, 2001))
    value, gradient, second = compiled_text(f"out = {terms}").observe(call, 0.5, 2.0)
    sums = [sum(range(start, 2001, 4)) for start in (4, 1, 2, 3)]  # of the coefficients of x^0, x^1, ...
    polynomial = np.polynomial.Polynomial(sums)
    np.testing.assert_allclose(value, polynomial(0.5) * 2.0, rtol=1e-12)
    np.testing.assert_allclose(gradient, [polynomial.deriv()(0.5) * 2.0, polynomial(0.5)], rtol=1e-12)
    expected = 3 * polynomial.deriv(2)(0.5) * 2.0 + (1 * 5 + 2 * 3) * polynomial.deriv()(0.5)
    np.testing.assert_allclose(second, expected, rtol=1e-12)


def chain(count: int, order: str) -> str:
    """Definitions d0 = x, d(i) = d(i-1) + k*sin(d(i-1))/count; the last one is measured."""
    lines = ["d0 = x", *(f"d{i} = d{i - 1} + k*sin(d{i - 1})/{count}" for i in range(1, count))]
    lines.append(f"out = d{count - 1}")
    if order == "reverse":
        lines.reverse()
    elif order == "shuffled":
        lines = [lines[i] for i in np.random.default_rng(0).permutation(len(lines))]
    return "\n".join(lines)


@pytest.mark.parametrize("order", ["forward", "reverse", "shuffled"])
def test_300_definitions(order, call):
    count = 300
    made = compiled_text(chain(count, order))
    value, gradient, second = made.observe(call, 0.7, 1.2)

    def function(x, k):
        for _ in range(1, count):
            x = x + k * ca.sin(x) / count
        return x

    expected = dual(function, 0.7, 1.2)
    np.testing.assert_allclose(value, expected[0], rtol=1e-13)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-12)
    np.testing.assert_allclose(second, expected[2], rtol=1e-11)


def test_definitions_used_by_equations_in_reverse_order(call):
    lines = ["x' = -rate*x", "x(0) = start", "rate = a299", "start = b9"]
    lines += [f"a{i} = a{i - 1}*1.01" for i in range(299, 0, -1)] + ["a0 = k"]
    lines += [f"b{i} = b{i - 1} + k" for i in range(9, 0, -1)] + ["b0 = 1"]
    data = Measurements.from_columns([1.0], {"x": [1.0]})
    compiled = compile_problem(Problem(Model.from_text("\n".join(lines)), [Parameter("k", 2.0)], data))
    seeds = compiled.parameters(compiled.theta_start, 0, order=1)
    assert seeds.y0.tolist() == [19.0]
    assert seeds.dy0.tolist() == [[9.0]]
    rate = 2.0 * 1.01**299
    value = call(compiled.model(0).rhs.value, 1, [3.0], seeds.p, [])
    np.testing.assert_allclose(value, -3.0 * rate, rtol=1e-12)
    jacobian = call(compiled.model(0).rhs.jacobian, 2, [3.0], seeds.p, [])
    np.testing.assert_allclose(jacobian, [-rate, -3.0 * rate / 2.0], rtol=1e-12)


def ring(count: int) -> list[str]:
    return [f"d{i} = d{(i + 1) % count} + 1" for i in range(count)]


@pytest.mark.parametrize(
    ("lines", "cycle"),
    [
        (["a = a + 1"], "a -> a"),
        (["a = b", "b = a"], "a -> b -> a"),
        (["out = c", "c = 2*b", "b = 1 + a", "a = c"], "c -> b -> a -> c"),
        (["good = 1", *ring(4), "other = d2"], "d0 -> d1 -> d2 -> d3 -> d0"),
        (ring(300), " -> ".join(f"d{i}" for i in range(30)) + r" .* \.\.\. .* d299 -> d0"),
    ],
    ids=["itself", "two", "three", "four", "three-hundred"],
)
def test_cycle_is_named(lines, cycle):
    with pytest.raises(LanguageError, match=f"the definitions {cycle} need each other"):
        Model.from_text("\n".join(["x' = -x", "x(0) = 1", *lines]))


def test_cycle_made_by_replacing_is_named():
    model = Model.from_text("a = 2*b\nb = 3*c\nc = k")
    with pytest.raises(ModelError, match=r"a -> b -> c -> a"):
        model.resolve([model.symbols["a"]], {"c": model.expression("a + 1")})
