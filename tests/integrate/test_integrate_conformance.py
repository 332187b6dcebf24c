"""What every integrator must do: method x problem."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from initial_value_problems import (
    CASES,
    IMPLICIT,
    LOOSER,
    compiled_model,
    counts_of,
    exact,
    exact_states,
    grid_of,
    highest_order,
    make_run,
    run_of,
    solve,
)

from odefit.compile import Seeds
from odefit.errors import OdefitError, ProblemError
from odefit.integrate import METHODS, Bdf3, Dop853, Dopri5, Rk32, Run, Status, StepGrid, integrator, piece_ends

ORDERS = {"dopri5": (5, 4), "dop853": (8, 7), "rk32": (3, 3), "bdf3": (3, 3)}
"""Order of the solution at the grid points, and of the dense output; ddm and limex have their own tests."""

STEPS = {"dopri5": 33, "dop853": 12, "rk32": 33, "bdf3": 66}
"""Of the coarser one of two uniform grids; whole arcs of three steps."""

LARGEST_ERRORS = {
    "dopri5": (5, 1.0),
    "dop853": (10, 1.0),
    "rk32": (1, 1.0),
    "bdf3": (5, 0.75),
    "ddm": (300, 1.0),
    "limex": (10, 1.0),
}
"""Over a power of the tolerance, and this power.  The local errors of bdf3 go with h^4 and add up to h^3."""

EXCEPTIONS = {("rk32", "bell"): (2, 0.75), ("limex", "bell"): (10, 0.9)}
"""On "bell", x' = g(t) x, the estimate of rk32 begins with -(g h)^3 x/6 and nearly vanishes where g changes its sign;
steps are too long there, and the error goes with tol^0.71 to tol^0.78 (observed: it depends on where a step ends).
Those of limex do the same, row by row (observed: 10 to 49 times the tolerance, tol^0.77)."""

IN_TIME = {
    "decay": ("x' = -0.8*f*x\nx(0) = 2", [2.0]),
    "from nothing": ("x' = f*(1 - x)\nx(0) = 0", [0.0]),
    "at rest": ("x' = f*(1 - x)\nx(0) = 1", [1.0]),
    "at rest for now": ("x' = f*(1 - x + f^2*t^2)\nx(0) = 1", [1.0]),
    "stiff": ("a' = -1e3*f*(a - b^2)\nb' = -f*b\na(0) = 2\nb(0) = 1", [2.0, 1.0]),
}
"""Right-hand sides in which f is one over the unit of time, and initial values."""
TOLERANCES = 10.0 ** np.arange(-3, -10.5, -1)
by_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def largest_error(method, case) -> tuple[float, float]:
    return EXCEPTIONS.get((method.name, case.name), LARGEST_ERRORS[method.name])


def uniform(method, case, n_steps: int) -> StepGrid:
    """Return a grid that lands on the end exactly, as an adaptive run does."""
    return grid_of(method, [np.full(n_steps, (case.end - case.t0) / n_steps)])


def observed_orders(errors) -> np.ndarray:
    return np.log2(np.array(errors[:-1]) / np.array(errors[1:]))


@pytest.mark.parametrize("method", [METHODS[name] for name in ORDERS], ids=ORDERS)
class TestOrder:
    @by_case
    def test_order_on_uniform_grids(self, method, case):
        run = make_run(case, times=[case.end])
        y, s, s2 = exact(case, [case.end])
        errors = []
        for n_steps in (STEPS[method.name], 2 * STEPS[method.name]):
            found = solve(method, case, run, grid=uniform(method, case, n_steps), order=highest_order(method))
            errors.append([np.abs(found.y - y[:, :, 0]).max(), np.abs(found.S - s).max()])
            if found.S2.size:
                errors[-1].append(np.abs(found.S2 - s2).max())
        orders = observed_orders(errors)
        expected = ORDERS[method.name][0]
        assert (orders > expected - 0.4).all()
        assert (orders < expected + 1.6).all()

    @by_case
    def test_order_of_dense_output(self, method, case):
        errors = []
        for n_steps in (STEPS[method.name], 2 * STEPS[method.name]):
            h = (case.end - case.t0) / n_steps
            between = case.t0 + h * (np.arange(n_steps)[:, None] + np.array([0.2, 0.5, 0.7])).ravel()
            times = np.append(between, case.end)
            found = solve(method, case, make_run(case, times=times), grid=uniform(method, case, n_steps), order=1)
            y, s, _ = exact(case, between)
            errors.append([np.abs(found.y[:-1] - y[:, :, 0]).max(), np.abs(found.S[:-1] - s).max()])
        orders = observed_orders(errors)
        expected = ORDERS[method.name][1]
        assert (orders > expected - 0.4).all()
        assert (orders < expected + 1.6).all()


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
class TestConformance:
    @by_case
    @pytest.mark.parametrize("rtol", TOLERANCES)
    def test_accuracy_at_tolerance(self, method, case, rtol):
        found = solve(method, case, make_run(case), rtol=rtol, atol=1e-2 * rtol)
        assert found.status is Status.OK
        assert found.t_end == case.end
        assert found.error_ratio <= 1.0
        error = np.abs(found.y - exact_states(case, case.times)).max()
        factor, power = largest_error(method, case)
        assert error <= factor * rtol**power * np.abs(found.y).max()

    @by_case
    def test_error_is_proportional_to_tolerance(self, method, case):
        errors = [
            np.abs(solve(method, case, make_run(case), rtol=r, atol=1e-2 * r).y - exact_states(case, case.times)).max()
            for r in TOLERANCES
        ]
        slope = np.polyfit(np.log(TOLERANCES), np.log(errors), 1)[0]
        assert slope == pytest.approx(largest_error(method, case)[1], abs=0.22)

    @by_case
    def test_replay_repeats_the_run(self, method, case):
        run = make_run(case)
        chosen = solve(method, case, run, order=highest_order(method))
        replayed = solve(method, case, run, order=highest_order(method), grid=chosen.grid)
        assert replayed.status is Status.OK
        assert (replayed.t_end, replayed.error_ratio) == (chosen.t_end, chosen.error_ratio)
        for name in ("y", "S", "S2"):
            np.testing.assert_array_equal(getattr(replayed, name), getattr(chosen, name))
        assert replayed.derivatives == chosen.derivatives in ("discrete", "variational")
        assert replayed.grid is chosen.grid

    @by_case
    @pytest.mark.parametrize("order", [0, 1])
    def test_derivatives_do_not_change_the_solution(self, method, case, order):
        full = solve(method, case, make_run(case), order=highest_order(method))
        less = solve(method, case, make_run(case), order=order)
        np.testing.assert_array_equal(less.y, full.y)
        np.testing.assert_array_equal(less.grid.steps, full.grid.steps)
        np.testing.assert_array_equal(less.S, full.S[:, :, : less.S.shape[2]])
        q = case.theta.size
        assert less.S.shape == (case.times.size, len(case.y0), q if order else 0)
        assert less.S2.shape == (case.times.size, len(case.y0), 0)

    @by_case
    def test_output_times_do_not_change_the_solution(self, method, case):
        few = np.array([case.times[3], case.end])
        many = np.sort(np.concatenate([[case.t0, *few], np.linspace(case.t0, case.end, 50)[1:-1]]))
        sparse, dense = (solve(method, case, make_run(case, times=t), order=1) for t in (few, many))
        np.testing.assert_array_equal(sparse.grid.steps, dense.grid.steps)
        chosen = np.searchsorted(many, few)
        np.testing.assert_array_equal(sparse.y, dense.y[chosen])
        np.testing.assert_array_equal(sparse.S, dense.S[chosen])

    @by_case
    @pytest.mark.parametrize("where", ["start", "start and end", "end", "between", "at a step"])
    def test_places_of_output_times(self, method, case, where):
        steps = solve(method, case, make_run(case)).grid.steps
        inside = case.t0 + 0.37 * (case.end - case.t0)
        times = {
            "start": [case.t0],
            "start and end": [case.t0, case.end],
            "end": [case.end],
            "between": [inside],
            "at a step": [case.t0 + steps[0], case.end],
        }[where]
        found = solve(method, case, make_run(case, times=times), order=1)
        y, s, _ = exact(case, times)
        assert found.status is Status.OK
        assert found.t_end == times[-1]
        scale = LOOSER[method.name]
        np.testing.assert_allclose(found.y, y[:, :, 0], rtol=1e-5 * scale, atol=1e-6 * scale)
        np.testing.assert_allclose(found.S, s, rtol=1e-4 * scale, atol=1e-5 * scale)
        if times[0] == case.t0:
            np.testing.assert_array_equal(found.y[0], case.y0)
            np.testing.assert_array_equal(found.S[0], np.eye(case.theta.size)[len(case.p) :])

    @by_case
    def test_times_may_be_read_only_or_a_part_of_others(self, method, case):
        run = make_run(case)
        expected = solve(method, case, run, order=1)
        fixed = run.times.copy()
        fixed.flags.writeable = False
        for times in (fixed, np.repeat(run.times, 2)[::2]):
            found = solve(method, case, run._replace(times=times), order=1)
            np.testing.assert_array_equal(found.y, expected.y)
            np.testing.assert_array_equal(found.S, expected.S)

    @by_case
    def test_start_alone_costs_nothing(self, method, case):
        found = solve(method, case, make_run(case, times=[case.t0]), order=highest_order(method))
        assert found.grid.steps.size == 0
        assert tuple(found.counters) == (0, 0, 0, 0, 0)
        assert (found.status, found.t_end, found.error_ratio) == (Status.OK, case.t0, 0.0)
        np.testing.assert_array_equal(found.S2, 0.0)

    @by_case
    def test_no_times_at_all(self, method, case):
        found = solve(method, case, make_run(case, times=[]), order=highest_order(method))
        assert found.status is Status.OK
        assert found.y.shape == (0, len(case.y0))
        assert found.S.shape == (0, len(case.y0), case.theta.size)

    @by_case
    def test_steps_end_at_stops(self, method, case):
        span = case.end - case.t0
        stops = case.t0 + span * np.array([0.2, 0.21, 0.77])
        run = make_run(case, stops=stops)
        found = solve(method, case, run, order=highest_order(method))
        y, s, s2 = exact(case, case.times)
        assert found.status is Status.OK
        scale = LOOSER[method.name]
        np.testing.assert_allclose(found.y, y[:, :, 0], rtol=1e-5 * scale, atol=1e-6 * scale)
        np.testing.assert_allclose(found.S, s, rtol=1e-4 * scale, atol=1e-5 * scale)
        np.testing.assert_allclose(found.S2, s2[:, :, : found.S2.shape[2]], rtol=1e-3, atol=1e-4)
        assert len(found.grid.pieces) == 4
        landed = case.t0 + np.cumsum(found.grid.steps)[np.cumsum(counts_of(found.grid)) - 1]
        np.testing.assert_allclose(landed, [*stops, case.end], rtol=1e-13)
        assert all((piece > 0).all() for piece in found.grid.pieces)
        again = solve(method, case, run, order=highest_order(method), grid=found.grid)
        for name in ("y", "S", "S2"):
            np.testing.assert_array_equal(getattr(again, name), getattr(found, name))

    @by_case
    def test_output_exactly_at_stops(self, method, case):
        stops = case.t0 + (case.end - case.t0) * np.array([0.25, 0.5])
        found = solve(method, case, make_run(case, times=[*stops, case.end], stops=stops), rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(
            found.y, exact_states(case, [*stops, case.end]), rtol=1e-7 * LOOSER[method.name], atol=1e-8
        )

    @by_case
    def test_stops_outside_are_ignored(self, method, case):
        outside = np.array([case.t0 - 1.0, case.t0, case.end, case.end + 1.0])
        plain, stopped = (solve(method, case, make_run(case, stops=s)) for s in (None, outside))
        np.testing.assert_array_equal(plain.grid.steps, stopped.grid.steps)
        np.testing.assert_array_equal(plain.y, stopped.y)

    @by_case
    def test_counters(self, method, case):
        for order in range(highest_order(method) + 1):
            found = solve(method, case, make_run(case), order=order)
            counters = found.counters
            assert counters.steps == found.grid.steps.size == sum(counts_of(found.grid)) > 0
            assert counters.rhs >= counters.steps
            assert (counters.jacobian > 0) == (order >= 1 or method.name in IMPLICIT)
            assert (counters.second > 0) == (order == 2 or (order == 1 and method.needs_second))
            replayed = solve(method, case, make_run(case), order=order, grid=found.grid).counters
            assert (replayed.steps, replayed.rejected) == (counters.steps, 0)
            assert replayed.rhs <= counters.rhs

    @by_case
    def test_tighter_tolerance_takes_more_work(self, method, case):
        """Not always more steps: limex may raise their order instead."""
        counts = [solve(method, case, make_run(case), rtol=r, atol=r).counters.rhs for r in (1e-4, 1e-7, 1e-10)]
        assert counts[0] < counts[1] < counts[2]

    @by_case
    def test_error_ratio_tells_when_steps_no_longer_fit(self, method, case):
        coarse = solve(method, case, make_run(case), rtol=1e-4, atol=1e-6).grid
        found = solve(method, case, make_run(case), rtol=1e-9, atol=1e-11, grid=coarse)
        assert found.status is Status.OK
        assert found.error_ratio > 10.0

    @by_case
    def test_grid_of_another_method_is_refused(self, method, case):
        grid = StepGrid("another", np.array([1.0]), np.array([1]))
        with pytest.raises(OdefitError, match=f"a step grid of 'another' cannot be replayed by '{method.name}'"):
            solve(method, case, make_run(case), grid=grid)

    @by_case
    def test_inputs_are_not_changed(self, method, case):
        run = make_run(case)
        before = [getattr(run, name).copy() for name in ("y0", "p", "times", "ends", "dy0", "dp", "d2y0", "d2p")]
        grid = solve(method, case, run, order=highest_order(method)).grid
        kept = [piece.copy() for piece in grid.pieces]
        solve(method, case, run, order=highest_order(method), grid=grid)
        for name, value in zip(("y0", "p", "times", "ends", "dy0", "dp", "d2y0", "d2p"), before, strict=True):
            np.testing.assert_array_equal(getattr(run, name), value)
        assert len(grid.pieces) == len(kept)
        for piece, old in zip(grid.pieces, kept, strict=True):
            np.testing.assert_array_equal(piece, old)

    def test_instances_are_shared_by_threads(self, method):
        runs = [(case, make_run(case)) for case in CASES]
        alone = [solve(method, case, run, order=highest_order(method)) for case, run in runs]
        with ThreadPoolExecutor(max_workers=4) as pool:
            together = list(pool.map(lambda pair: solve(method, *pair, order=highest_order(method)), runs * 5))
        for i, found in enumerate(together):
            np.testing.assert_array_equal(found.S, alone[i % len(runs)].S)
            np.testing.assert_array_equal(found.S2, alone[i % len(runs)].S2)

    @pytest.mark.parametrize("times", [[0.0], [0.0, 1.0, 5.0], [3.0]])
    def test_no_states(self, method, times):
        model, run = run_of("y = a + b*t", (1.0, 2.0), (), times)
        found = method.solve(model, run, rtol=1e-7, atol=1e-9, order=highest_order(method))
        assert found.status is Status.OK
        assert found.y.shape == (len(times), 0)
        assert found.S.shape == (len(times), 0, 2)
        assert found.S2.shape == (len(times), 0, 3 if highest_order(method) == 2 else 0)
        assert found.grid.steps.size == 0

    def test_constant_state(self, method):
        model, run = run_of("x' = 0\nx(0) = 1", (), (0.3,), [0.0, 1.0, 1e6])
        found = method.solve(model, run, rtol=1e-7, atol=1e-9, order=1)
        np.testing.assert_array_equal(found.y, 0.3)
        np.testing.assert_allclose(found.S, 1.0, rtol=4 * np.finfo(float).eps)

    def test_state_that_stays_zero(self, method):
        model, run = run_of("x' = -k*x\nx(0) = 1", (1.0,), (0.0,), [1.0, 10.0])
        found = method.solve(model, run, rtol=1e-7, atol=1e-9, order=1)
        assert found.status is Status.OK
        np.testing.assert_array_equal(found.y, 0.0)
        np.testing.assert_array_equal(found.S[:, 0, 0], 0.0)

    @pytest.mark.parametrize("start", [0.3, 1.0, -7.0, 1e5])
    @pytest.mark.parametrize("n_ulps", [1, 2, 5, 100])
    def test_interval_as_short_as_rounding(self, method, start, n_ulps):
        """0.1 + 0.2 is one such number behind 0.3: a datum there is no failure."""
        end = start + n_ulps * np.spacing(abs(start))
        model, run = run_of("x' = -k*x\nx(0) = 1", (1.0,), (2.0,), [end], t0=start)
        found = method.solve(model, run, rtol=1e-7, atol=1e-9, order=1)
        assert found.status is Status.OK
        assert found.t_end == end
        np.testing.assert_allclose(found.y, 2.0, rtol=1e-8)
        np.testing.assert_allclose(found.S[0, 0], [0.0, 1.0], atol=1e-8)

    @pytest.mark.parametrize("seed", range(40))
    def test_the_end_is_met_exactly(self, method, seed):
        """Whatever the rounding of t + h: the last output is there, on replay too."""
        rng = np.random.default_rng(seed)
        start, stop, end = np.cumsum(rng.uniform(0.1, 1.0, size=3)) - 1.0
        model, run = run_of("x' = -k*x\nx(0) = 1", (1.0,), (2.0,), [stop, end], t0=start, stops=[stop])
        found = method.solve(model, run, rtol=1e-7, atol=1e-9)
        again = method.solve(model, run, rtol=1e-7, atol=1e-9, grid=found.grid)
        assert found.t_end == again.t_end == end
        assert np.isfinite(again.y).all()
        np.testing.assert_array_equal(again.y, found.y)

    def test_stops_as_close_as_rounding(self, method):
        stops = [1.0, 1.0 + np.spacing(1.0), 1.0 + 3 * np.spacing(1.0)]
        model, run = run_of("x' = -k*x\nx(0) = 1", (1.0,), (2.0,), [2.0], stops=stops)
        found = method.solve(model, run, rtol=1e-9, atol=1e-11)
        assert found.status is Status.OK
        np.testing.assert_allclose(found.y, 2 * np.exp(-2.0), rtol=1e-7 * LOOSER[method.name])

    @pytest.mark.parametrize("least", [0, 1, 2])
    def test_pieces_of_no_length(self, method, least):
        order = min(least, highest_order(method))
        model, plain = run_of("x' = -k*x\nx(0) = 1", (1.0,), (2.0,), [0.0, 1.0, 2.0], stops=[1.0])
        run = plain._replace(ends=np.array([0.0, 1.0, 1.0, 1.0, 2.0, 2.0]))
        expected, found = (method.solve(model, r, rtol=1e-7, atol=1e-9, order=order) for r in (plain, run))
        again = method.solve(model, run, rtol=1e-7, atol=1e-9, order=order, grid=found.grid)
        a, b = counts_of(expected.grid)
        assert counts_of(found.grid) == [0, a, 0, 0, b, 0]
        for name in ("status", "t_end", "y", "S", "S2"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
            np.testing.assert_array_equal(getattr(again, name), getattr(expected, name))

    @pytest.mark.parametrize("scale", [1e-12, 1e-3, 1e6, 1e12])
    def test_scale_of_time(self, method, scale):
        model, run = run_of("x' = -k*x\nx(0) = 1", (1.0 / scale,), (2.0,), [scale])
        found = method.solve(model, run, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(found.y, 2 * np.exp(-1.0), rtol=1e-6)

    @pytest.mark.parametrize(("text", "y0"), IN_TIME.values(), ids=IN_TIME)
    @pytest.mark.parametrize("power", [-100, 1, 100])
    def test_unit_of_time(self, method, text, y0, power):
        """Powers of two are exact: with t in another unit the same steps are taken, to the last bit."""
        one, two = (
            method.solve(*run_of(text, (1.0 / unit,), y0, [0.5 * unit, 3.0 * unit]), rtol=1e-6, atol=1e-8, order=1)
            for unit in (1.0, 2.0**power)
        )
        assert one.status is two.status is Status.OK
        np.testing.assert_array_equal(two.grid.steps, 2.0**power * one.grid.steps)
        np.testing.assert_array_equal(two.y, one.y)
        expected = one.S * np.where(np.arange(one.S.shape[2]) == 0, 2.0**power, 1.0)
        np.testing.assert_allclose(two.S, expected, rtol=1e-12, atol=1e-250 * 2.0**power)

    @pytest.mark.parametrize("n", [1, 2, 3, 7, 20])
    def test_number_of_states(self, method, n):
        """A chain of n equal decays, fed at the head: x_j = t^j exp(-t)/j!."""
        lines = ["x0' = -x0", *(f"x{j}' = x{j - 1} - x{j}" for j in range(1, n))]
        text = "\n".join([*lines, *(f"x{j}(0) = 0" for j in range(n))])
        model, run = run_of(text, (), (1.0, *[0.0] * (n - 1)), [0.5, 2.0])
        found = method.solve(model, run, rtol=1e-9, atol=1e-12, order=1)
        factorial = np.cumprod([1.0, *range(1, n)])
        for row, t in enumerate((0.5, 2.0)):
            expected = t ** np.arange(n) * np.exp(-t) / factorial
            np.testing.assert_allclose(found.y[row], expected, rtol=1e-6, atol=1e-10)
            np.testing.assert_allclose(found.S[row, :, 0], expected, rtol=1e-6, atol=1e-9)
            np.testing.assert_allclose(np.diag(found.S[row]), np.exp(-t), rtol=1e-6)


@pytest.mark.parametrize(
    ("times", "stops", "expected"),
    [
        ([], None, []),
        ([0.0], None, []),
        ([0.0, 2.0], None, [2.0]),
        ([1.0, 2.0], [], [2.0]),
        ([2.0], [0.5, 1.5], [0.5, 1.5, 2.0]),
        ([2.0], [-1.0, 0.0, 1.0, 2.0, 3.0], [1.0, 2.0]),
        ([0.0], [0.5], []),
    ],
)
def test_piece_ends(times, stops, expected):
    found = piece_ends(0.0, np.array(times), None if stops is None else np.array(stops))
    np.testing.assert_array_equal(found, expected)


def test_piece_ends_are_a_copy():
    times = np.array([1.0, 2.0])
    piece_ends(0.0, times)[0] = 9.0
    np.testing.assert_array_equal(times, [1.0, 2.0])


@pytest.mark.parametrize("pieces", [[[1.0]], [[0.0], [1.0, 2.0, 3.0], [4.0, 5.0]], [[1.0, 2.0], [], [3.0]]])
def test_pieces_of_a_grid(pieces):
    grid = grid_of(METHODS["dopri5"], pieces)
    assert [piece.tolist() for piece in grid.pieces] == pieces


def test_integrators_have_names():
    assert isinstance(integrator("dopri5"), Dopri5)
    assert isinstance(integrator("dop853"), Dop853)
    assert isinstance(integrator("rk32"), Rk32)
    assert isinstance(integrator("bdf3"), Bdf3)
    assert {name: method.name for name, method in METHODS.items()} == {name: name for name in METHODS}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("dopri", r"'dopri'; did you mean 'dopri5'\? There are:"),
        ("xyz", r"'xyz'[.;] There are: auto, dopri5, dop853, rk32"),
    ],
)
def test_unknown_integrator(name, words):
    with pytest.raises(ProblemError, match=f"there is no integrator {words}"):
        integrator(name)


def test_runs_are_plain_data():
    """A run can be made without any problem: the model, arrays, nothing else."""
    nothing = np.empty((1, 0))
    run = Run.of(Seeds(np.ones(1), np.ones(1), nothing, nothing, nothing, nothing), 0.0, np.ones(1))
    found = Dopri5().solve(compiled_model("x' = -k*x\nx(0) = 1"), run, rtol=1e-9, atol=1e-9, order=2)
    np.testing.assert_allclose(found.y, np.exp(-1.0), rtol=1e-7)
    assert found.S.shape == found.S2.shape == (1, 1, 0)
