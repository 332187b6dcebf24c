"""Multiple shooting: what a node costs, and how many digits the elimination of nodes keeps where solutions grow.

    python -m benchmarks.nodes [most nodes]

Costs are CPU time of one iteration over the number of nodes, 10 states each: linear algebra alone (a full step and a
damped one of random numbers), and a cascade of reactions that is driven by a periodic inflow, one datum of every second
state at each node: evaluation with derivatives, step, all of it.

Digits are those of one linear step of Bulirsch's problem, y'' = mu^2 y - (mu^2 + p^2) sin(p t), with nodes at nine of
its ten data, against arithmetic of 100 digits with the same numbers.  *Condensing* is the classical recursion: states
follow from theta by products of the transition matrices, and theta from the data in it.
"""

from __future__ import annotations

import decimal
import math
import sys
import time
from collections.abc import Callable, Sequence
from decimal import Decimal

import numpy as np
import numpy.typing as npt

import odefit as of
from benchmarks.iss import system_one
from benchmarks.tables import print_rows
from benchmarks.timing import best_cpu_seconds
from odefit.native.threads import limit_blas
from odefit.solve import Scaling
from odefit.solve.node_elimination import HANDOVER, N_STATES, NODE
from odefit.solve.node_steps import NodeSteps
from odefit.solve.nodes import HeavyRows, NodesLinear
from odefit.transcribe.interval_plan import IntervalPlan
from odefit.transcribe.multiple import MultipleShooting
from odefit.transcribe.node_states import start_of_nodes

Array = npt.NDArray[np.float64]

NODES = (3, 10, 30, 100, 300, 1000)
STATES, SHARED, DATA = 10, 5, 5
_SIGMA = 0.05


def random_chain(n_nodes: int, seed: int = 0) -> NodesLinear:
    """Return a linear model of one chain with transition matrices that neither grow nor decay."""
    rng = np.random.default_rng(seed)
    m, hand = n_nodes + 1, DATA * (n_nodes + 1)
    chain = np.full((m, 5), -1, np.int64)
    chain[:, 0] = DATA * np.arange(m)
    chain[:, 1] = chain[:, 0] + DATA
    chain[:-1, HANDOVER] = hand + STATES * np.arange(n_nodes)
    chain[1:, NODE] = STATES * np.arange(n_nodes)
    chain[:, N_STATES] = STATES
    rows = rng.normal(size=(hand + STATES * n_nodes, STATES + 1 + SHARED))
    for first in chain[:-1, HANDOVER]:
        rows[first : first + STATES, :STATES] = np.linalg.qr(rng.normal(size=(STATES, STATES)))[0]
        rows[first : first + STATES, STATES] = 1.0
    rows[:DATA, :STATES] = rows[hand : hand + STATES, :STATES] = 0.0  # the first interval begins where theta says
    return NodesLinear(rows, rng.normal(size=rows.shape[0]), chain, SHARED, _exact(hand, rows.shape[0]))


def _exact(first: int, behind: int) -> HeavyRows:
    hand = np.arange(first, behind)
    return HeavyRows(hand, np.ones(hand.size), np.full(hand.size, np.inf))


def steps_of(linear: NodesLinear, x: Array) -> NodeSteps:
    unbounded = np.full(linear.n, np.inf)
    return NodeSteps(Scaling(x, np.ones(linear.n, bool)), -unbounded, unbounded, np.empty(0))


def cascade(n_nodes: int) -> of.Problem:
    """Return a cascade of ten reactions whose time grows with the number of nodes."""
    lines = ["x0' = 1 + 0.5*sin(t) - k0*x0"]
    lines += [f"x{i}' = k{(i - 1) % 4}*x{i - 1} - k{i % 4}*x{i}" for i in range(1, STATES)]
    lines += [f"x{i}(0) = 0.5" for i in range(STATES)]
    rates = {"k0": 1.0, "k1": 1.5, "k2": 0.7, "k3": 1.2}
    times = 0.5 * np.arange(1, n_nodes + 2)
    names = [f"x{i}" for i in range(1, STATES, 2)]

    def made(values: dict[str, float], data: of.Measurements) -> of.Problem:
        model = of.Model.from_text("\n".join(lines))
        return of.Problem(model, [of.Parameter(n, v, scale="log") for n, v in values.items()], data)

    empty = of.Measurements.from_columns(times, {name: times for name in names})
    curves = of.simulate(made(rates, empty), times=times)
    noise = 0.01 * np.random.default_rng(1).normal(size=(times.size, len(names)))
    columns = {name: curves[name].to_numpy() + noise[:, j] for j, name in enumerate(names)}
    start = {name: 1.2 * value for name, value in rates.items()}
    return made(start, of.Measurements.from_columns(times, columns, sigma=dict.fromkeys(names, 0.01)))


def damped(steps: NodeSteps, linear: NodesLinear, x: Array, part: float) -> None:
    """Take a step of a part of the full length, as an iteration does."""
    steps.move(linear, x)
    steps.step(part * steps.step(math.inf).length)


def full(steps: NodeSteps, linear: NodesLinear, x: Array) -> None:
    steps.move(linear, x)
    steps.step(math.inf)


def cost_of(n_nodes: int) -> list[str]:
    """Return a row of the table: microseconds a node."""
    linear = random_chain(n_nodes)
    x = np.ones(linear.n)
    steps = steps_of(linear, x)
    problem = cascade(n_nodes)
    began = time.process_time()
    objective = MultipleShooting(problem, IntervalPlan(problem, n_nodes))
    plan_time = time.process_time() - began
    theta = objective.compiled.theta_start
    began = time.process_time()
    start = start_of_nodes(objective, theta, "reset", problem.measurements.value.size)
    start_time = time.process_time() - began
    objective.weights[:] = 1.0 / start.sizes
    at = np.append(theta, start.states)
    objective.refresh(at)
    point = objective.evaluate(at.copy(), 1)
    model = point.linear
    moving = steps_of(model, at)
    calls: dict[str, Callable[[], object]] = {
        "full": lambda: full(steps, linear, x),
        "damped": lambda: damped(steps, linear, x, 0.3),
        "refresh": lambda: objective.refresh(at),
        "evaluate": lambda: objective.evaluate(at.copy(), 1),
        "both": lambda: damped(moving, objective.evaluate(at.copy(), 1).linear, at, 0.3),
    }
    best = best_cpu_seconds(calls, rounds=5 if n_nodes >= 300 else 10)
    found = [plan_time, start_time, *best.values()]
    return [str(n_nodes), *(f"{seconds / n_nodes * 1e6:.1f}" for seconds in found)]


def fits(most: int) -> list[list[str]]:
    """Return CPU time of whole fits."""
    rows = []
    for n_nodes in NODES:
        if n_nodes > most:
            break
        problem = cascade(n_nodes).with_settings(nodes=n_nodes)
        of.fit(problem, method="multiple")
        began = time.process_time()
        result = of.fit(problem, method="multiple")
        seconds = time.process_time() - began
        count = result.iterations
        rows.append([str(n_nodes), result.status, str(count), f"{seconds * 1e3:.0f}",
                     f"{seconds / max(count, 1) / n_nodes * 1e6:.1f}"])  # fmt: skip
    return rows


class Step:
    """One linear step of Bulirsch's problem at p = 3, states at the data, with exact transition matrices."""

    def __init__(self, mu: float, p: float = 3.0, n: int = 10) -> None:
        t = np.arange(n + 1) / n
        problem = system_one(mu)
        data = np.array([problem.measurements.value[problem.measurements.observable == name] for name in ("y1", "y2")])
        states = np.vstack([[0.0, math.pi], data.T[:-1]])
        self.G, self.H, ends = [], [], []
        for k in range(n):
            a, b, h = t[k], t[k + 1], t[k + 1] - t[k]
            c, s = math.cosh(mu * h), math.sinh(mu * h)
            g = np.array([[c, s / mu], [mu * s, c]])
            begin, end = _forced(p, a), _forced(p, b)
            self.G.append(g)
            self.H.append(_forced_slope(p, b) - g @ _forced_slope(p, a))
            ends.append(end + g @ (states[k] - begin))
        self.data = [(e - d) / _SIGMA for e, d in zip(ends, data.T, strict=True)]
        self.gaps = [e - s for e, s in zip(ends[:-1], states[1:], strict=True)]
        self.n = n

    def linear(self) -> NodesLinear:
        """Return it as a model with nodes."""
        n, hand = self.n, 2 * self.n
        chain = np.full((n, 5), -1, np.int64)
        chain[:, 0] = 2 * np.arange(n)
        chain[:, 1] = chain[:, 0] + 2
        chain[:-1, HANDOVER] = hand + 2 * np.arange(n - 1)
        chain[1:, NODE] = 2 * np.arange(n - 1)
        chain[:, N_STATES] = 2
        rows = np.zeros((hand + 2 * (n - 1), 4))
        for k in range(n):
            own = self.G[k] if k else np.zeros((2, 2))
            rows[2 * k : 2 * k + 2] = np.column_stack([own, np.zeros(2), self.H[k]]) / _SIGMA
            if k < n - 1:
                rows[hand + 2 * k : hand + 2 * k + 2] = np.column_stack([own, np.ones(2), self.H[k]])
        residual = np.concatenate([*self.data, *self.gaps])
        return NodesLinear(rows, residual, chain, 1, _exact(hand, rows.shape[0]))

    def by_elimination(self) -> Array:
        """Return the step in p and all states."""
        linear = self.linear()
        steps = steps_of(linear, np.ones(linear.n))
        steps.move(linear, np.ones(linear.n))
        return steps.step(math.inf).v

    def by_condensing(self) -> Array:
        """Return the step by products of the transition matrices."""
        follows, moved = [np.zeros(2)], [np.zeros(2)]
        rows, right = [], []
        for k in range(self.n):
            slope = self.G[k] @ follows[-1] + self.H[k]
            rest = self.G[k] @ moved[-1]
            rows.append(slope / _SIGMA)
            right.append(-self.data[k] - rest / _SIGMA)
            if k < self.n - 1:
                follows.append(slope)
                moved.append(rest + self.gaps[k])
        column, values = np.concatenate(rows), np.concatenate(right)
        p = float(column @ values / (column @ column))
        return np.concatenate([[p], *(m + f * p for m, f in zip(moved[1:], follows[1:], strict=True))])

    def exactly(self) -> list[Decimal]:
        """Return the step that the same numbers have, by the equations of Lagrange in 100 digits."""
        linear = self.linear()
        matrix, n_data = linear.jacobian, 2 * self.n
        n, m = matrix.shape[1], matrix.shape[0] - n_data
        with decimal.localcontext() as context:
            context.prec = 100
            a = [[Decimal(float(v)) for v in row] for row in matrix]
            r = [Decimal(float(v)) for v in linear.residual]
            data, exact = a[:n_data], a[n_data:]
            system = [[sum((row[i] * row[j] for row in data), Decimal(0)) for j in range(n)] for i in range(n)]
            for i in range(n):
                system[i] += [row[i] for row in exact] + [
                    -sum((row[i] * v for row, v in zip(data, r[:n_data], strict=True)), Decimal(0))
                ]
            system += [[*exact[k], *[Decimal(0)] * m, -r[n_data + k]] for k in range(m)]
            return _gauss(system)[:n]


def _forced(p: float, t: float) -> Array:
    return np.array([math.sin(p * t), p * math.cos(p * t)])


def _forced_slope(p: float, t: float) -> Array:
    return np.array([t * math.cos(p * t), math.cos(p * t) - p * t * math.sin(p * t)])


def _gauss(rows: list[list[Decimal]]) -> list[Decimal]:
    """Solve a linear system, whose right-hand side is the last column."""
    n = len(rows)
    for k in range(n):
        best = max(range(k, n), key=lambda i: abs(rows[i][k]))
        rows[k], rows[best] = rows[best], rows[k]
        for i in range(k + 1, n):
            if rows[i][k]:
                factor = rows[i][k] / rows[k][k]
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[k], strict=True)]
    x = [Decimal(0)] * n
    for k in range(n - 1, -1, -1):
        x[k] = (rows[k][n] - sum((rows[k][j] * x[j] for j in range(k + 1, n)), Decimal(0))) / rows[k][k]
    return x


def digits(found: Sequence[float], exact: Sequence[Decimal]) -> tuple[float, float]:
    """Return how many digits of p are right, and of the states, relative to the largest one."""
    wrong = [abs(float(Decimal(float(a)) - b)) for a, b in zip(found, exact, strict=True)]
    largest = max(abs(float(b)) for b in exact[1:])
    parts = wrong[0] / abs(float(exact[0])), max(wrong[1:]) / largest
    return tuple(-math.log10(max(part, 1e-17)) for part in parts)  # type: ignore[return-value]


def print_digits() -> None:
    rows = []
    for mu in (5.0, 10.0, 20.0, 25.0, 30.0, 40.0, 60.0, 80.0):
        step = Step(mu)
        exact = step.exactly()
        found = [*digits(step.by_elimination(), exact), *digits(step.by_condensing(), exact)]
        rows.append([f"{mu:g}", f"{math.exp(mu):.0e}", *(f"{d:.1f}" for d in found)])
    header = ["mu", "growth", "elimination: p", "states", "condensing: p", "states"]
    print_rows("Right digits of one linear step", header, rows, text=0)


def print_starts() -> None:
    rows = []
    for start in (1.0, 10.0, 100.0, 300.0, -10.0, -100.0, -300.0):
        began = time.process_time()
        result = of.fit(system_one(40.0).with_start(p=start), method="multiple")
        row = result.parameters["p"]
        rows.append([f"{start:g}", result.status, str(result.iterations), f"{2 * result.objective / result.dof:.3g}",
                     f"{row.estimate - math.pi:.1e}", f"{1e3 * (time.process_time() - began):.0f}"])  # fmt: skip
    header = ["start of p", "status", "iterations", "chi2/dof", "p - pi", "CPU ms"]
    print_rows('Bulirsch\'s problem at mu = 40, method = "multiple"', header, rows, text=2)


def main() -> None:
    limit_blas(1)  # its threads wait for each other where vectors have more than 10000 entries, and that is CPU time
    most = int(sys.argv[1]) if len(sys.argv) > 1 else NODES[-1]
    print_digits()
    print_starts()
    rows = [cost_of(n) for n in NODES if n <= most]
    header = ["nodes", "plan, once", "first states, once", "full step", "damped step", "adapt", "replay",
              "replay + step"]  # fmt: skip
    print_rows("CPU microseconds a node: linear algebra of random numbers, then a cascade", header, rows, text=0)
    header = ["nodes", "status", "iterations", "CPU ms", "us an iteration and node"]
    print_rows("Whole fits of the cascade", header, fits(most), text=0)


if __name__ == "__main__":
    main()
