"""fit on problems that go wrong: a status with words, never an exception, never a false success."""

from __future__ import annotations

import math
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import odefit as of
from odefit.errors import FitError, LanguageError, ModelError, ProblemError, UnsupportedError
from odefit.gallery import path_of

T = np.linspace(0.0, 4.0, 9)
DECAY = "x' = -k*x\nx(0) = 1"
RUNAWAY = "x' = k*x^2\nx(0) = 1"


def problem_of(text, parameters, times, values, observable="x", **rest) -> of.Problem:
    made = tuple(p if isinstance(p, of.Parameter) else of.Parameter(*p) for p in parameters)
    weights = {key: {observable: rest.pop(key)} for key in ("sigma", "weight") if key in rest}
    data = of.Measurements.from_columns(times, {observable: values}, **weights)
    return of.Problem(of.Model.from_text(text), made, data, **rest)


def check_consistent(result: of.FitResult) -> None:
    """Everything that can be asked of a result works, whatever its status."""
    assert result.summary()
    document = result.to_dict()
    assert document["status"] == result.status
    assert (result.status == "converged") is result.converged
    if not result.converged:
        assert result.warnings[0].code == f"convergence.{result.status}"
        assert f"{result.status}: " in result.summary()


# text, parameters, times, values, status, words of the message
FAILURES = {
    "blows up at the start": (RUNAWAY, [("k", 5.0)], T, 1 / (1 + 0.3 * T), "failed", "beyond t = 0.2: 'x'"),
    "overflows at the start": ("x' = k*x\nx(0) = 1", [("k", 1e4)], T, np.exp(-T), "failed", "at the start: "),
    "NaN at the start": (
        "x' = log(k)*x\nx(0) = 1",
        [("k", -1.0)],
        T,
        np.exp(-T),
        "failed",
        "derivative of 'x' is not a finite",
    ),
    "NaN initial value": ("x' = -k*x\nx(0) = sqrt(k)", [("k", -1.0)], T, np.exp(-T), "failed", "at the start"),
    "observable without a value": (
        "x = log(k - t)",
        [("k", 2.0)],
        T,
        T,
        "failed",
        "the observable 'x' has no finite value at t = 2",
    ),
    "data at the start alone": (
        DECAY,
        [("k", 1.0)],
        [0.0],
        [1.5],
        "no-influence",
        "do not depend on any free parameter",
    ),
    "observable without parameters": (
        "x' = -k*x\nx(0) = 1\ny = 3 + 0*k",
        [("k", 1.0)],
        T,
        T,
        "no-influence",
        "do not depend on any free parameter",
    ),
    "stiff": ("x' = -k*(x - cos(t))\nx(0) = 1", [("k", 1e7)], T, np.cos(T), "failed", "limit on the number of steps"),
    "derivative of an observable": (
        "z' = k\nz(0) = 0\nx = sqrt(z)",
        [("k", 1.0)],
        T,
        np.sqrt(T),
        "failed",
        "derivative",
    ),
    "derivative of a state": ("z' = k\nx' = sqrt(z)\nz(0) = 0\nx(0) = 0", [("k", 1.0)], T, T, "failed", "derivative"),
    "numbers that no model value is felt beside": (DECAY, [("k", 1.0)], T, 1e200 * np.ones(9), "stalled", "no step"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_failure_is_a_status(name):
    text, parameters, times, values, status, words = FAILURES[name]
    observable = "y" if "y = " in text else "x"
    # the explicit method: the automatic choice would integrate the stiff one
    result = of.fit(problem_of(text, parameters, times, values, observable).with_settings(integrator="dopri5"))
    assert result.status == status
    assert words in result.message
    assert result.iterations == 0
    assert result.estimates == dict(parameters)
    check_consistent(result)
    assert (status == "failed") is math.isnan(result.objective)


# text, parameters, times, values, estimates
RECOVERIES = {
    "near a pole": (RUNAWAY, [("k", 0.24)], T, 1 / (1 + 0.3 * T), {"k": -0.3}),
    "grows by e^80 at the start": ("x' = k*x\nx(0) = 1", [("k", 20.0)], T, np.exp(-T), {"k": -1.0}),
    "one datum": (DECAY, [("k", 1.0)], [1.0], [0.5], {"k": math.log(2.0)}),
    "explicit model": ("x = a*exp(-k*t)", [("a", 1.0), ("k", 0.2)], T, 3 * np.exp(-T), {"a": 3.0, "k": 1.0}),
    "exact data": ("x' = -k*x\nx(0) = a", [("k", 2.0), ("a", 2.0)], T, np.exp(-T), {"k": 1.0, "a": 1.0}),
    "start at zero": (DECAY, [("k", 0.0)], T, np.exp(-T), {"k": 1.0}),
    "start at zero, bounded": (DECAY, [of.Parameter("k", 0.0, 0.0, 9.0)], T, np.exp(-T), {"k": 1.0}),
    "line from zero": ("x = a + b*t", [("a", 0.0), ("b", 0.0)], T, 1 + 2 * T, {"a": 1.0, "b": 2.0}),
    "start on a bound, log": (DECAY, [of.Parameter("k", 0.2, 0.2, 9.0, scale="log")], T, np.exp(-T), {"k": 1.0}),
    "solution on a bound": (DECAY, [of.Parameter("k", 0.5, 0.2, 0.7)], T, np.exp(-T), {"k": 0.7}),
    "solution on a bound, log": (DECAY, [of.Parameter("k", 0.5, 0.2, 0.7, scale="log")], T, np.exp(-T), {"k": 0.7}),
    "replicates": (DECAY, [("k", 0.5)], [1, 1, 1, 1], [0.5, 0.4, 0.5, 0.4], {"k": -math.log(0.45)}),
    "negative times": ("x' = -k*x\nx(0) = 1", [("k", 0.5)], T - 5.0, np.exp(-T), {"k": 1.0}),
}


@pytest.mark.parametrize("name", RECOVERIES)
def test_recovery(name):
    text, parameters, times, values, estimates = RECOVERIES[name]
    start = min(0.0, float(np.min(times)))
    experiments = (of.Experiment("main", (of.Period(start),)),)
    result = of.fit(problem_of(text, parameters, times, values, experiments=experiments))
    assert result.status == "converged"
    for parameter, value in estimates.items():
        assert result.estimates[parameter] == pytest.approx(value, rel=1e-5)
    check_consistent(result)


def test_fewer_data_than_parameters():
    result = of.fit(problem_of("x' = -k*x + c\nx(0) = a", [("k", 1.0), ("c", 1.0), ("a", 1.0)], [1.0, 2.0], [0.5, 0.4]))
    notice = next(n for n in result.warnings if n.code == "data.few")
    assert notice.text == "There are only 2 data for 3 free parameters."
    assert not [row for row in result.parameters.values() if row.verdict == "determined"]
    check_consistent(result)


def test_parameter_that_runs_away():
    """The data are constant: the rate has its best value at infinity."""
    problem = problem_of(
        "x' = -k*(x - 1)\nx(0) = 0", [of.Parameter("k", 3.0, scale="log")], [4.0, 5.0, 6.0], [1.1, 1.05, 1.1]
    )
    result = of.fit(problem)
    assert result.status != "converged" or result.parameters["k"].verdict != "determined"
    check_consistent(result)


def test_iteration_limit():
    result = of.fit(of.load(path_of("barnes")).with_settings(max_iterations=2))
    assert (result.status, result.iterations) == ("iteration-limit", 2)
    check_consistent(result)


def test_step_limit():
    result = of.fit(of.load(path_of("barnes")).with_settings(max_steps=3))
    assert result.status == "failed"
    assert "raise max_steps" in result.message


# problem, error class, words
REFUSALS = {
    "no free parameter": (
        lambda: problem_of(DECAY, [of.Parameter("k", 1.0, fixed=True)], T, T),
        FitError,
        "there is nothing to fit: no parameter is free; set fixed = false",
    ),
    "no parameter at all": (
        lambda: problem_of("x' = -x\nx(0) = 1", [], T, T),
        FitError,
        "there is nothing to fit: no parameter is free",
    ),
    "all weights zero": (
        lambda: problem_of(DECAY, [("k", 1.0)], T, T, weight=0.0),
        FitError,
        "there is nothing to fit: no experiment has a measured value with a weight above zero",
    ),
    "all values missing": (
        lambda: problem_of(DECAY, [("k", 1.0)], T, np.full(9, np.nan)),
        FitError,
        "there is nothing to fit: no experiment",
    ),
    "no data": (lambda: problem_of(DECAY, [("k", 1.0)], [], []), FitError, "there is nothing to fit: no experiment"),
    "no experiment to fit": (
        lambda: problem_of(DECAY, [("k", 1.0)], T, T, experiments=(of.Experiment("main", use="validate"),)),
        FitError,
        "there is nothing to fit: no experiment",
    ),
    "unknown integrator": (
        lambda: problem_of(DECAY, [("k", 1.0)], T, T, settings=of.Settings(integrator="dopri")),
        ProblemError,
        r"there is no integrator 'dopri'; did you mean 'dopri5'\?",
    ),
    "expressions in a circle": (
        lambda: problem_of(
            "x' = -k*x + c\nx(0) = 1", [of.Parameter("k", expression="c"), of.Parameter("c", expression="k")], T, T
        ),
        ModelError,
        "need each other",
    ),
    "expression with an unknown name": (
        lambda: problem_of("x' = -k*x + c\nx(0) = 1", [("k", 1.0), of.Parameter("c", expression="2*kk")], T, T),
        LanguageError,
        r"unknown name 'kk'; did you mean 'k'\?",
    ),
    "expression of a state": (
        lambda: problem_of("x' = -k*x + c\nx(0) = 1", [("k", 1.0), of.Parameter("c", expression="2*x")], T, T),
        ProblemError,
        "the expression of 'c' uses the state 'x'; only parameters may stand there",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusal(name):
    make, kind, words = REFUSALS[name]
    with pytest.raises(kind, match=words):
        of.fit(make())


@pytest.mark.parametrize("method", ["auto"])
def test_planned_methods_are_refused(method):
    with pytest.raises(UnsupportedError, match=f"not supported yet: method '{method}'"):
        of.fit(of.load(path_of("barnes")), method=method)


def test_unknown_method():
    with pytest.raises(ProblemError, match=r"there is no method 'sinlge'; did you mean 'single'\?"):
        of.fit(of.load(path_of("barnes")), method="sinlge")


def test_method_of_the_problem_is_the_default():
    with pytest.raises(ProblemError, match="there is no method 'xyz'"):
        of.fit(of.load(path_of("barnes")).with_settings(method="xyz"))
    assert of.fit(of.load(path_of("barnes")).with_settings(method="xyz"), method="single").converged


# --- the result ---


def test_callback_sees_every_iteration():
    rows = []
    result = of.fit(of.load(path_of("barnes")), callback=rows.append)
    assert [row.iteration for row in rows] == list(range(1, result.iterations + 1))
    assert rows[-1].objective == pytest.approx(result.objective)


def test_error_in_a_callback_is_the_callers():
    def broken(row):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        of.fit(of.load(path_of("barnes")), callback=broken)


def test_fit_inside_a_callback():
    inner = []
    problem = of.load(path_of("barnes"))
    of.fit(problem, callback=lambda row: inner.append(of.fit(problem).status))
    assert set(inner) == {"converged"}


def test_problem_is_not_changed_by_a_fit():
    problem = of.load(path_of("barnes"))
    first = of.fit(problem)
    assert [p.start for p in problem.parameters] == [1.0, 1.0, 1.0]
    assert of.fit(problem).estimates == first.estimates


def test_start_at_the_solution():
    problem = of.load(path_of("barnes"))
    first = of.fit(problem)
    second = of.fit(problem.with_start(**first.estimates))
    assert second.status == "converged"
    assert second.iterations <= 1
    assert second.objective == pytest.approx(first.objective, rel=1e-6)


def test_fixed_parameters_are_reported():
    result = of.fit(of.load(path_of("barnes")).with_fixed("k2"))
    assert list(result.estimates) == ["k1", "k2", "k3"]
    assert result.estimates["k2"] == 1.0
    assert result.parameters["k2"].verdict == "fixed"


def test_fits_in_threads():
    """Problems and results are independent: threads give what one after the other gives."""
    problem = of.load(path_of("barnes"))
    starts = [1.0, 0.8, 1.2, 0.9]
    problems = [problem.with_start(k1=s) for s in starts]
    alone = [of.fit(p).estimates for p in problems]
    with ThreadPoolExecutor(max_workers=4) as pool:
        assert list(pool.map(lambda p: of.fit(p).estimates, problems)) == alone
    assert threading.current_thread() is threading.main_thread()


def test_summary_shows_everything_once():
    result = of.fit(of.load(path_of("barnes")).with_bounds(k2=(0.0, 1.5)))
    lines = result.summary().splitlines()
    assert lines[0] == "Barnes' problem (a): Lotka-Volterra kinetics, three rate constants"
    assert lines[1].startswith("converged: ")
    assert max(map(len, lines)) <= 100
    warnings = lines[lines.index("Warnings") + 1 :]
    assert warnings[0].startswith("  - Neighbouring residuals resemble")
    assert warnings[-1] == "  - 'k2' is at its bound 1.5."
    for name in ("k1", "k2", "k3"):
        assert sum(line.startswith(f"{name} ") for line in lines) == 1


def test_units_in_the_summary():
    problem = problem_of(DECAY, [of.Parameter("k", 1.0, unit="1/h")], T, np.exp(-T))
    assert "k [1/h]" in of.fit(problem).summary()


# --- processes and signals: in an interpreter of their own ---

FORK = """
import multiprocessing
import odefit as of
from odefit.gallery import path_of

def work(queue):
    queue.put(of.fit(of.load(path_of("barnes"))).status)

if __name__ == "__main__":
    of.fit(of.load(path_of("barnes")))
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=work, args=(queue,))
    child.start()
    child.join(20)
    if child.exitcode is None:
        child.kill()
        raise SystemExit("the fit in the forked process hangs")
    print(queue.get())
"""

INTERRUPT = """
import os, signal, threading, time
import odefit as of

text = "x' = v\\nv' = -w^2*x\\nx(0) = 1\\nv(0) = 0"
data = of.Measurements.from_columns([1e-3, 1e5], {"x": [0.5, 0.5]})
problem = of.Problem(of.Model.from_text(text), (of.Parameter("w", 1e3),), data)
print(of.fit(problem.with_settings(max_steps=10)).status)  # now everything is compiled

def interrupt():
    time.sleep(1.0)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
print(of.fit(problem.with_settings(max_steps=10**8)).status)
print(of.fit(problem.with_settings(max_steps=10)).status)
"""

BETWEEN = """
import os, signal, sys
import odefit as of
from odefit.gallery import path_of

problem = of.load(path_of("barnes"))
best = []

def interrupt(row):
    best.append(row.objective)
    if row.iteration == 2:
        os.kill(os.getpid(), signal.SIGINT)
        import time
        time.sleep(0.5)

result = of.fit(problem, callback=interrupt)
print(result.status)
print(result.objective == best[-1] == min(best), result.iterations)
print(result.warnings[0].code)
"""


def run(script: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")


def test_fit_in_a_forked_process():
    """What multiprocessing does by default on Linux, after a fit in the parent."""
    assert run(FORK)[0] == "converged"


@pytest.mark.slow
def test_interrupt_while_native_code_runs():
    """Ctrl-C ends the fit with a status; the next one is not affected."""
    assert run(INTERRUPT)[:3] == ["failed", "interrupted", "failed"]


@pytest.mark.slow
def test_interrupt_between_iterations_keeps_the_best_point():
    status, best, code = run(BETWEEN)[:3]
    assert status == "interrupted"
    assert best == "True 2"
    assert code == "convergence.interrupted"


@pytest.mark.parametrize(
    ("method", "rtol", "accuracy"),
    [("rk32", 1e-4, 1e-2), ("rk32", 1e-7, 1e-5), ("dop853", 1e-4, 1e-2), ("dop853", 1e-8, 1e-6)],
)
def test_fit_with_another_explicit_method(method, rtol, accuracy):
    """Steps are frozen and derivatives exact, so that a fit converges at loose tolerances as well."""
    problem = of.load(path_of("barnes"))
    expected = of.fit(problem.with_settings(integrator="dopri5", rtol=1e-10, atol=1e-12))
    found = of.fit(problem.with_settings(integrator=method, rtol=rtol, atol=1e-2 * rtol))
    assert found.converged
    assert set(found.integrators.values()) == {method}
    for name, value in expected.estimates.items():
        assert found.estimates[name] == pytest.approx(value, rel=accuracy)
    assert found.objective == pytest.approx(expected.objective, rel=accuracy)
