"""Ctrl-C at the doors whose results would be worth nothing: it is raised while native code runs."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time

import pytest

SCRIPT = """
import signal
import sys
import odefit as of
from odefit.report.check import check

signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background is born deaf

END = 1e12  # days of computing

def problem(until):
    data = of.Measurements.from_columns([0.0, until], {"y": [1.0, 0.5]})
    model = of.Model.from_text("y' = w*cos(w*t)\\ny(0) = a")
    free = (of.Parameter("w", 1.0), of.Parameter("a", 1.0))
    experiments = (of.Experiment("main"), of.Experiment("long", until=END))
    return of.Problem(model, free, data, experiments=experiments).with_settings(max_steps=10**12, max_iterations=1)

result = of.fit(problem(1.0))
evaluator, frozen = of.Evaluator(problem(END)), of.Evaluator(problem(END), freeze=True)
doors = {
    "simulate": lambda: of.simulate(problem(1.0), times=[END]),
    "evaluate": lambda: problem(END).evaluate(),
    "evaluator": lambda: evaluator.loglik(evaluator.start),
    "frozen": lambda: frozen.jacobian(frozen.start),
    "predict": lambda: result.predict([END]),
    "plot": lambda: result.plot(),
    "synthetic": lambda: of.with_synthetic_data(problem(END)),
    "check": lambda: check(problem(END)),
}
of.with_synthetic_data(problem(1.0))  # now everything is compiled
check(problem(1.0))
problem(1.0).evaluate()
of.simulate(problem(1.0), times=[1.0])
result.predict([1.0])
for name in sys.argv[1:]:
    print(name, flush=True)
    try:
        doors[name]()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
print(of.simulate(problem(1.0), times=[0.0])["y"][0])
"""


@pytest.mark.parametrize(
    "doors",
    [
        ("simulate", "evaluate"),
        ("predict", "plot"),
        ("synthetic", "check"),
        ("evaluator", "evaluator", "frozen", "frozen"),
    ],
)
def test_interrupt_while_native_code_runs(doors):
    """The interrupts do not reach what is computed afterwards."""
    with subprocess.Popen([sys.executable, "-c", SCRIPT, *doors], stdout=subprocess.PIPE, text=True) as process:
        try:
            for door in doors:
                assert process.stdout.readline().strip() == door
                time.sleep(0.5)  # until the kernel runs
                process.send_signal(signal.SIGINT)
                deaf = threading.Timer(10.0, process.kill)  # then there is no line to read
                deaf.start()
                assert process.stdout.readline().strip() == "interrupted"
                deaf.cancel()
            out, _ = process.communicate(timeout=60)
            assert (out.strip(), process.returncode) == ("1.0", 0)
        finally:
            process.kill()
