"""Experiments that start from a steady state, and data of steady states: from the problem to the fit."""

from __future__ import annotations

import json
import math
import re

import matplotlib.pyplot as plt
import numpy as np
import pytest

import odefit as of
from odefit.errors import OdefitError, ProblemError, UnsupportedError
from odefit.gallery import load
from odefit.gallery.cascade import _simulate as truth
from odefit.model import Model
from odefit.native.stop import StopFlag
from odefit.problem.equilibration import runs_of
from odefit.transcribe import SingleShooting

INF = math.inf
METHODS = ("dopri5", "dop853", "rk32", "bdf3", "ddm")
CASCADE = """
R' = -kon*L*R + koff*RL
RL' = kon*L*R - koff*RL
K' = -(kb + ka*RL)*K + kd*KP
KP' = (kb + ka*RL)*K - kd*KP
R(0) = Rt
RL(0) = 0
K(0) = Kt
KP(0) = 0
fold = KP/KP(0)
"""
VALUES = {"kon": 0.7, "koff": 0.4, "kb": 0.05, "ka": 1.3, "kd": 0.6, "Rt": 0.9, "Kt": 2.0}


def steady(**values: float) -> of.Period:
    return of.Period(-INF, values)


def problem_of(text, values, experiments, data, **settings):
    """A problem with data given as rows (experiment, time, observable, value)."""
    columns = dict(zip(("experiment", "time", "observable", "value"), zip(*data, strict=True), strict=True))
    parameters = [one if isinstance(one, of.Parameter) else of.Parameter(*one) for one in values]
    return of.Problem(Model.from_text(text), parameters, of.Measurements(**columns), experiments).with_settings(
        **settings
    )


def cascade(**settings: object) -> of.Problem:
    """Rest before and behind, with doses and later periods."""
    experiments = [
        of.Experiment("a", [of.Period(0.0, {"L": 0.5})]),
        of.Experiment("b", [steady(L=0.0), of.Period(0.0, {"L": 3.0})]),
        of.Experiment("c", [steady(L=0.0), of.Period(0.0, {"L": 1.0})]),
        of.Experiment(
            "d",
            [steady(L=0.2), of.Period(0.0, {"L": 3.0}), of.Period(2.0, {"L": 0.5})],
            events=[of.Dose(1.5, "K", 0.7), of.Dose(2.5, "K", 0.7, duration=1.0)],
        ),
    ]
    rows = [(name, time, "KP", 0.5) for name in "abcd" for time in (0.0, 1.0, 3.0, INF)]
    rows += [(name, time, "fold", 2.0) for name in "bcd" for time in (1.0, INF)]
    return problem_of(CASCADE, VALUES.items(), experiments, rows, **settings)


def at_rest(ligand: float, kon, koff, kb, ka, kd, Rt, Kt) -> float:
    """The active kinase in the steady state."""
    rate = kb + ka * Rt * ligand / (ligand + koff / kon)
    return Kt * rate / (rate + kd)


def differences(function, x, step=1e-3):
    columns = []
    for i, size in enumerate(x):
        unit = np.eye(x.size)[i] * step * size
        near, mid, far = (function(x + k * unit) - function(x - k * unit) for k in (1, 2, 3))
        columns.append((45 * near - 9 * mid + far) / (60 * step * size))
    return np.stack(columns, axis=-1)


class TestDerivatives:
    def test_against_the_closed_form(self):
        """A cascade with two conserved totals, pre-equilibrated: initial values and steady states, and derivatives."""
        problem = cascade()
        evaluator = of.Evaluator(problem)
        x = evaluator.start * 1.1
        residuals, jacobian = evaluator.residuals_and_jacobian(x)
        data = problem.measurements
        known = {("a", INF): 0.5, ("b", 0.0): 0.0, ("c", 0.0): 0.0, ("d", 0.0): 0.2, ("b", INF): 3.0, ("c", INF): 1.0}
        rows = [k for o in SingleShooting(problem).observations for k in o.source.tolist()]
        checked = 0
        for row, k in enumerate(rows):
            ligand = known.get((data.experiment[k], float(data.time[k])))
            if ligand is None or data.observable[k] != "KP":
                continue
            checked += 1
            assert residuals[row] + 0.5 == pytest.approx(at_rest(ligand, *x), rel=1e-13)
            np.testing.assert_allclose(jacobian[row], differences(lambda x, c=ligand: at_rest(c, *x), x), atol=1e-10)
        assert checked == 6

    @pytest.mark.parametrize("method", METHODS)
    def test_on_frozen_steps(self, method):
        evaluator = of.Evaluator(cascade(integrator=method), freeze=True)
        x = evaluator.start * 1.1
        evaluator.refresh(x)
        jacobian = evaluator.jacobian(x)
        size = np.abs(jacobian).max(axis=0)
        np.testing.assert_allclose(jacobian / size, differences(evaluator.residuals, x) / size, atol=1e-9)

    def test_bands(self):
        """The delta method sees through initial values and steady states."""
        result = of.fit(cascade(max_iterations=1))
        predicted = result.predict(times=[1.0, INF])
        names, x = result.plan.names, np.array([result.estimates[name] for name in result.plan.names])

        def curves(x):
            frame = of.simulate(cascade(rtol=1e-11), dict(zip(names, x.tolist(), strict=True)), times=[1.0, INF])
            return frame[["KP", "fold"]].to_numpy()[2:]  # 'a' begins with nothing active

        gradient = differences(curves, x)
        expected = np.sqrt(np.einsum("...i,ij,...j", gradient, result.statistics.covariance, gradient))
        np.testing.assert_allclose(predicted[["KP.se", "fold.se"]].to_numpy()[2:], expected, rtol=1e-5)


def test_the_end_of_a_long_simulation():
    frame = of.simulate(cascade(rtol=1e-10), times=[1e4, INF])
    late, rest = (frame[frame["time"] == time][["R", "RL", "K", "KP"]].to_numpy() for time in (1e4, INF))
    np.testing.assert_allclose(rest, late, rtol=1e-8)


def test_threads_find_the_same():
    objective, other = (SingleShooting(cascade(), StopFlag()) for _ in range(2))
    other._shooter._parallel = True
    x = objective.compiled.theta_start
    for one in (objective, other):
        one.refresh(x)
    np.testing.assert_array_equal(objective.evaluate(x, 1).residual, other.evaluate(x, 1).residual)


class TestSharing:
    def test_equal_conditions_are_found_once(self):
        runs = runs_of(cascade())
        assert len(runs.all) == 6
        assert runs.equilibration == (-1, 4, 4, 5)

    def test_what_has_a_value_of_its_own_is_not_shared(self):
        experiments = [of.Experiment(name, [steady(L=0.0), of.Period(0.0, {"L": 1.0})]) for name in "ab"]
        rows = [(name, 1.0, "signal", 1.0) for name in "ab"]
        text = f"{CASCADE}signal = scale*KP"
        common = [*VALUES.items(), of.Parameter("scale", 1.0, per="experiment")]
        assert len(runs_of(problem_of(text, common, experiments, rows)).all) == 3
        local = of.Parameter("kb", 0.05, per="experiment")
        own = [local if one == ("kb", 0.05) else one for one in common]
        problem = problem_of(text, own, experiments, rows)
        assert len(runs_of(problem).all) == 4
        evaluator = of.Evaluator(problem, freeze=True)
        jacobian = evaluator.jacobian(evaluator.start)
        np.testing.assert_allclose(jacobian, differences(evaluator.residuals, evaluator.start), atol=1e-9)


class TestFits:
    def test_the_cascade_of_the_gallery(self):
        result = of.fit(load("cascade"))
        assert result.converged
        true = {
            "kon": truth.KON, "koff": truth.KOFF, "k_basal": truth.BASAL, "k_act": truth.ACT,
            "k_deact": truth.DEACT, "scale": truth.SCALE,
        }  # fmt: skip
        for name, value in true.items():
            low, high = result.parameters[name].interval
            assert low < value < high, name
        json.dumps(result.to_dict(), allow_nan=False)
        assert "at t = inf, signal" in result.summary()

    @pytest.mark.parametrize("method", ["incremental", "incremental-dense"])
    def test_on_growing_horizons(self, method):
        single, result = of.fit(load("cascade")), of.fit(load("cascade"), method=method)
        assert result.converged
        assert result.objective == pytest.approx(single.objective, rel=1e-6)
        assert [one.n_data for one in result.attempts][-1] == 32
        assert all(one.n_data <= 27 for one in result.attempts[:-1])
        assert all(math.isfinite(one.horizon) for one in result.attempts)
        json.dumps(result.to_dict(), allow_nan=False)

    def test_nothing_but_steady_states(self):
        """A curve of doses and responses: the constants of binding, up to the unit of time."""
        doses = [0.03, 0.1, 0.3, 1.0, 3.0]
        text = "R' = -kon*L*R + koff*RL\nRL' = kon*L*R - koff*RL\nR(0) = Rt\nRL(0) = 0"
        experiments = [of.Experiment(f"d{i}", [of.Period(0.0, {"L": dose})]) for i, dose in enumerate(doses)]
        rows = [(f"d{i}", INF, "RL", 5.0 * dose / (dose + 0.4)) for i, dose in enumerate(doses)]
        values = [("kon", 1.0), of.Parameter("koff", 2.0), ("Rt", 1.0)]
        result = of.fit(problem_of(text, values, experiments, rows).with_fixed("kon"))
        assert result.converged
        assert result.estimates["koff"] == pytest.approx(0.4, rel=1e-6)
        assert result.estimates["Rt"] == pytest.approx(5.0, rel=1e-6)
        assert result.predict()["time"].tolist() == [INF] * 5
        plt.close(result.plot().figure)

    def test_validation_scores_both_kinds_of_data(self):
        experiments = [of.Experiment("a", [of.Period(0.0, {"k": 1.0})]), of.Experiment("b", use="validate")]
        rows = [("a", 1.0, "x", 0.4), ("b", 1.0, "x", 0.4), ("b", INF, "x", 0.0)]
        values = [of.Parameter("k", 1.0, fixed=True), ("s", 1.0)]
        result = of.fit(problem_of("x' = -k*x\nx(0) = s", values, experiments, rows))
        assert result.validation["b"].n_data == 2


OSCILLATOR = "x' = k*y\ny' = -x + 0.5*(1 - x^2)*y\nx(0) = 1\ny(0) = 0"
REFUSED = {
    "oscillator": (
        OSCILLATOR,
        [steady(), of.Period(0.0)],
        r"before the start of experiment 'a' .*no steady state: '[xy]'",
    ),
    "growth": ("x' = k\nx(0) = 0", [steady(), of.Period(0.0)], "'x' grows without bound"),
    "oscillator at the end": (
        OSCILLATOR,
        [of.Period(0.0)],
        "the solution comes to no steady state: '[xy]' still changes",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_no_steady_state_is_said_in_words(case):
    text, periods, words = REFUSED[case]
    time = INF if case.endswith("end") else 1.0
    rows = [("a", time, "x", 1.0), ("a", 0.5, "x", 1.0)]
    problem = problem_of(text, [("k", 1.0)], [of.Experiment("a", periods)], rows, max_steps=5000)
    result = of.fit(problem)
    assert result.status == "failed"
    assert re.search(words, result.message)
    with pytest.warns(of.SimulationWarning, match="no steady state"):
        frame = of.simulate(problem)
    assert frame["x"].isna().any()


def simple(text, periods=(), rows=(("a", 1.0, "x", 1.0),), values=(("k", 1.0),)):
    experiments = [of.Experiment("a", periods or (of.Period(0.0),))]
    return of.Evaluator(problem_of(text, values, experiments, rows))


BEFORE = (steady(), of.Period(0.0))
AT_REST = (("a", INF, "x", 1.0),)
NOT_SUPPORTED = {
    "time": (lambda: simple("x' = -k*x + t\nx(0) = 1", BEFORE), "the equation of 'x' depends on t; replace what"),
    "condition": (lambda: simple("x' = -k*x + if(t > 1, 1, 0)\nx(0) = 1", BEFORE), "there are conditions in t"),
    "time at the end": (lambda: simple("x' = -k*x + sin(t)\nx(0) = 1", rows=AT_REST), "in which the equation of 'x'"),
    "condition at the end": (
        lambda: simple("x' = -k*x + if(t > 1, 1, 0)\nx(0) = 1", rows=AT_REST), "write what changes as an event"
    ),
    "moving event": (
        lambda: simple("x' = -k*x\nx(0) = 1\nat t=k: x += 1", rows=AT_REST), "times of events or conditions depend"
    ),
    "initial value in a condition": (
        lambda: simple("x' = -k*x + s\nx(0) = 1\ns = 1", (steady(), of.Period(0.0, {"s": "2*x(0)"}))),
        r"'s' in experiment 'a', which starts from a steady state, depends on 'x\(0\)'",
    ),
}  # fmt: skip
MISTAKES = {
    "aggregate": (
        lambda: simple("x' = -k*x\nx(0) = 1\nz = integral(x, over=t)", rows=(("a", INF, "z", 1.0),)),
        "a steady state has no 'z', an aggregate over t; give a finite time",
    ),
    "before sets a state": (
        lambda: simple("x' = -k*x\nx(0) = 1", (steady(x=1.0), of.Period(0.0))), r"sets the state 'x'; write \"x\(0\)\""
    ),
    "before sets no state": (
        lambda: simple("x' = -k*x\nx(0) = 1", (of.Period(-INF, {"y(0)": 1.0}), of.Period(0.0))), "'y' is not a state"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NOT_SUPPORTED)
def test_what_is_not_supported(case):
    make, words = NOT_SUPPORTED[case]
    with pytest.raises(UnsupportedError, match=words):
        make()


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes(case):
    make, words = MISTAKES[case]
    with pytest.raises(ProblemError, match=words):
        make()


def test_a_stimulus_in_time_is_replaced_before():
    text = "x' = stim - k*x\nstim = if(t >= 0, 3, 0)\nx(0) = 1"
    problem = problem_of(
        text, [("k", 2.0)], [of.Experiment("a", [steady(stim=0.5), of.Period(0.0)])], [("a", 1.0, "x", 1.0)]
    )
    x = of.simulate(problem, times=[0.0, 1.0])["x"].to_numpy()
    np.testing.assert_allclose(x, [0.25, 1.5 - 1.25 * math.exp(-2)], rtol=1e-6)


def test_initial_values_are_where_it_comes_from():
    """Totals are those of the initial state, which the experiment and its time before may set."""
    text = "A' = -k*A + B\nB' = k*A - B\nA(0) = 1\nB(0) = 0"
    periods = [of.Period(-INF, {"k": 3.0, "B(0)": 1.0}), of.Period(0.0, {"A(0)": 3.0})]
    frame = of.simulate(problem_of(text, [("k", 1.0)], [of.Experiment("a", periods)], [("a", 0.0, "A", 1.0)]))
    np.testing.assert_allclose(frame[["A", "B"]].to_numpy(), [[1.0, 3.0]], rtol=1e-14)


def test_integrals_begin_with_the_experiment():
    text = "x' = s - k*x\ntotal = integral(x, over=t)\nx(0) = 0"
    values = [("k", 2.0), ("s", 4.0)]
    problem = problem_of(text, values, [of.Experiment("a", BEFORE)], [("a", 0.5, "x", 2.0), ("a", 3.0, "x", 2.0)])
    derived = of.Problem(
        problem.model, problem.parameters, problem.measurements, problem.experiments,
        derived={"auc": "integral(x, over=t, from=0, to=3)"},
    )  # fmt: skip
    result = of.fit(derived.with_settings(max_iterations=1).at({"k": 2.0}))
    assert result.derived["auc"].estimate == pytest.approx(1.5 * result.estimates["s"], rel=1e-6)


def test_yields_of_parallel_reactions():
    """What is conserved has weights that depend on the rate constants: k2 B - k1 C."""
    text = (
        "A' = -(k1 + k2 + k3)*A\nB' = k1*A\nC' = k2*A + k4*(E - C)*A\nE' = 0\nA(0) = A0\nB(0) = 0\nC(0) = 0\nE(0) = E0"
    )
    values = {"k1": 2.0, "k2": 3.0, "k3": 0.5, "k4": 0.0, "A0": 4.0, "E0": 1.5}
    rows = [("main", INF, name, 1.0) for name in ("A", "B", "C")]
    problem = problem_of(text, values.items(), [of.Experiment("main")], rows).with_fixed("k4")
    evaluator = of.Evaluator(problem, freeze=True)
    x = evaluator.start
    residuals, jacobian = evaluator.residuals_and_jacobian(x)

    def yields(x):
        k1, k2, k3, total, _ = x
        return np.array([0.0, k1, k2]) / (k1 + k2 + k3) * total

    np.testing.assert_allclose(residuals + 1.0, yields(x), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(jacobian, differences(yields, x), rtol=1e-9, atol=1e-10)


def test_volumes_of_compartments():
    """Two compartments with estimated volumes: amounts are conserved, not concentrations."""
    text = "a' = -q*(a - b)/Va\nb' = q*(a - b)/Vb\na(0) = a0\nb(0) = 0"
    values = {"q": 0.3, "Va": 2.0, "Vb": 5.0, "a0": 3.0}
    rows = [("main", INF, "a", 1.0), ("main", 1.0, "a", 1.0)]
    evaluator = of.Evaluator(problem_of(text, values.items(), [of.Experiment("main", BEFORE)], rows), freeze=True)
    jacobian = evaluator.jacobian(evaluator.start)

    def mixed(x):
        _, va, vb, a0 = x
        return np.full(2, a0 * va / (va + vb))

    np.testing.assert_allclose(evaluator.residuals(evaluator.start) + 1.0, mixed(evaluator.start), rtol=1e-13)
    np.testing.assert_allclose(jacobian, differences(mixed, evaluator.start), rtol=1e-8, atol=1e-9)


def test_start_values_from_the_data_are_refused():
    for periods, time in ((BEFORE, 1.0), ((of.Period(0.0),), INF)):
        rows = [("a", t, "x", 1.0) for t in (0.0, 0.3, 0.6, 0.8, time)]
        problem = problem_of("x' = 1 - k*x\nx(0) = 0", [("k", 1.0)], [of.Experiment("a", periods)], rows, start="auto")
        with pytest.raises(OdefitError, match='start = "auto"'):
            of.fit(problem)


def test_saved_and_read_again(tmp_path):
    problem = cascade()
    problem.save(tmp_path / "p.toml")
    again = of.load(tmp_path / "p.toml")
    assert again.experiments == tuple(
        of.Experiment(e.name, e.periods, e.tables, e.events, e.until, e.use) for e in problem.experiments
    )
    np.testing.assert_array_equal(again.measurements.time, problem.measurements.time)
    np.testing.assert_array_equal(of.simulate(again).iloc[:, 1:], of.simulate(problem).iloc[:, 1:])
