"""One evaluation with sensitivities of models in a folder, on frozen steps, against another version of odefit.

    python -m benchmarks.speed FOLDER [--against SRC] [name ...]

Each folder below FOLDER with a problem.toml is a model.  It is evaluated at rtol = atol = 1e-8 near its start values;
SRC is the `src` folder of the other version, which runs in a process of its own.  The two take turns, and the best CPU
time of each counts.  Printed beside are the time of `of.simulate` over that of its integrations, and how much CPU time
went by until the model was ready: with an empty cache, what it takes to compile.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROUNDS = 12

WORKER = """
import dataclasses, json, logging, os, sys, tempfile, time
sys.path.insert(0, sys.argv[1])
if sys.argv[3]:
    os.environ["ODEFIT_CACHE_DIR"] = sys.argv[3]
started = time.process_time()
import numpy as np
import odefit as of
from odefit.compile import compile_problem
from odefit.integrate.experiment import solve_experiment
from odefit.transcribe import SingleShooting

problem = of.load(sys.argv[2]).with_settings(rtol=1e-8, atol=1e-8)
objective = SingleShooting(problem)
x = objective.compiled.theta_start.copy()
objective.refresh(x)
near = x + 1e-6
point = objective.evaluate(near, 1)
of.simulate(problem)
print(json.dumps({
    "value": point.value, "gradient": float(np.abs(point.linear.jacobian).sum()),
    "steps": sum(g.steps.size for g in objective.grids), "methods": sorted({g.method for g in objective.grids}),
    "columns": len(objective.names), "ready": time.process_time() - started,
}), flush=True)

def best(call, seconds=0.15):
    found, until = 1e9, time.process_time() + seconds
    while time.process_time() < until:
        begin = time.process_time()
        call()
        found = min(found, time.process_time() - begin)
    return found

def integrations():
    compiled = compile_problem(problem)
    for e, experiment in enumerate(problem.experiments):
        times = frames.get(experiment.name)
        if times is not None:
            solve_experiment(problem, compiled, compiled.theta_start, e, times)

frame = of.simulate(problem)
grouped = frame.groupby("experiment") if "experiment" in frame else [(problem.experiments[0].name, frame)]
frames = {name: group["time"].to_numpy(float) for name, group in grouped}
for line in sys.stdin:
    print(json.dumps({
        "evaluation": best(lambda: objective.evaluate(near, 1)), "states": best(lambda: objective.evaluate(near, 0)),
        "simulate": best(lambda: of.simulate(problem)), "integrations": best(integrations),
    }), flush=True)
"""


class Version:
    """A process with one version of odefit that has loaded a model."""

    def __init__(self, source: str, problem: Path, cache: str) -> None:
        command = [sys.executable, "-W", "ignore", "-c", WORKER, source, str(problem), cache]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.facts: dict[str, Any] = self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a version of odefit failed; its message stands above")
        return json.loads(line)

    def measure(self) -> dict[str, float]:
        """Return CPU seconds of one turn."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return self._answer()

    def end(self) -> None:
        """Let the process go."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def compare(problem: Path, sources: list[str], cache: str) -> list[dict[str, float]]:
    """Print and return the best times of the versions."""
    versions = [Version(source, problem, cache) for source in sources]
    rounds = [[version.measure() for version in versions] for _ in range(ROUNDS)]
    best = [{key: min(r[i][key] for r in rounds) for key in rounds[0][i]} for i in range(len(versions))]
    facts = versions[0].facts
    print(
        f"{problem.parent.name}: {facts['columns']} unknowns, {facts['steps']} steps by {', '.join(facts['methods'])}"
    )
    for name, version, times in zip(("this", "other"), versions, best, strict=False):
        print(
            f"  {name:6} evaluation {times['evaluation'] * 1e3:9.3f} ms, states alone {times['states'] * 1e3:8.3f} ms; "
            f"simulate {times['simulate'] * 1e3:8.2f} ms, {times['simulate'] / times['integrations']:.2f} times its "
            f"integrations; objective {version.facts['value']:.12g}; ready after {version.facts['ready']:.2f} s"
        )
        version.end()
    if len(best) == 2:
        print(f"  {best[1]['evaluation'] / best[0]['evaluation']:.1f} times as fast")
    return best


def main() -> None:
    """Compare the models of a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="models, a folder with a problem.toml each")
    parser.add_argument("names", nargs="*", help="those to take; all by default")
    parser.add_argument("--against", help="the src folder of another version")
    parser.add_argument("--cache", default="", help="the cache folder; by default the usual one")
    options = parser.parse_args()
    here = str(Path(__file__).resolve().parent.parent / "src")
    wanted = set(options.names)
    found = [p for p in sorted(options.folder.glob("*/problem.toml")) if not wanted or p.parent.name in wanted]
    if not found:
        raise SystemExit(f"no problem.toml in the folders below {options.folder}")
    for problem in found:
        compare(problem, [here, *([options.against] if options.against else [])], options.cache)


if __name__ == "__main__":
    main()
