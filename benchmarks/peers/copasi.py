"""COPASI through BasiCO: its parameter-estimation task with Levenberg-Marquardt and LSODA.

The task is run through COPASI's own bindings, without the tables that BasiCO makes afterwards.  COPASI takes
derivatives by finite differences; its objective is the whole sum of squares.
"""

from __future__ import annotations

import re
import tempfile
from typing import Any

import basico
import COPASI
import numpy as np
import pandas as pd

from benchmarks.peers.contract import Outcome
from benchmarks.peers.problems import ATOL, RTOL, FitProblem


class Copasi:
    """A model of global quantities with rate equations; unknowns in logs appear as ``exp(...)``."""

    setup = "LSODA, Levenberg-Marquardt"

    def __init__(self, problem: FitProblem) -> None:
        self.model = basico.new_model(name=problem.name)
        _write_equations(problem, self.model)
        self._folder = tempfile.TemporaryDirectory()  # COPASI reads its data from a file, again at every run
        _write_data(problem, self.model, self._folder.name)
        basico.set_fit_parameters(
            [
                {"name": name, "start": start, "lower": "-inf", "upper": "inf"}
                for name, start in zip(_fitted(problem), problem.x_start, strict=True)
            ],
            model=self.model,
        )
        integration = {"Relative Tolerance": RTOL, "Absolute Tolerance": ATOL, "Max Internal Steps": 100_000}
        basico.set_task_settings(
            basico.T.TIME_COURSE, {"method": {"name": "Deterministic (LSODA)", **integration}}, model=self.model
        )
        basico.set_task_settings(
            basico.T.PARAMETER_ESTIMATION,
            {
                "method": {"name": basico.PE.LEVENBERG_MARQUARDT, "Tolerance": 1e-8, "Iteration Limit": 2000},
                "problem": {
                    "Randomize Start Values": False,
                    "Calculate Statistics": False,
                    "Create Parameter Sets": False,
                },
                "update_model": False,
            },
            model=self.model,
        )
        self.task = self.model.getTask("Parameter Estimation")

    def fit(self) -> Outcome:
        task = self.task
        done = task.initializeRaw(COPASI.CCopasiTask.NO_OUTPUT) and task.processRaw(True)
        task.restore(False)
        problem = task.getProblem()
        return Outcome(0.5 * problem.getSolutionValue() if done else np.nan, problem.getFunctionEvaluations())


def _fitted(problem: FitProblem) -> list[str]:
    """Return COPASI's names of the unknowns: a parameter that is an initial value belongs to its state."""
    state_of = {text: state for state, text in problem.initial.items()}
    return [f"Values[{state_of.get(name, name)}].InitialValue" for name in problem.parameters]


def _write_equations(problem: FitProblem, model: Any) -> None:
    for name, value in zip(problem.parameters, problem.x_start, strict=True):
        basico.add_parameter(name, initial_value=value, type="fixed", model=model)
    natural = dict(zip(problem.parameters, problem.start, strict=True))
    for state, text in problem.initial.items():
        value = natural[text] if text in natural else float(text)
        basico.add_parameter(state, initial_value=value, model=model)

    def quantity(match: re.Match[str]) -> str:
        name = match.group()
        if name in problem.parameters and problem.in_logs:
            return f"exp({{Values[{name}]}})"
        return f"{{Values[{name}]}}"

    names = re.compile(r"\b(" + "|".join([*problem.rates, *problem.parameters]) + r")\b")
    for state, text in problem.rates.items():
        expression = names.sub(quantity, text)
        basico.set_parameters(state, exact=True, status="ode", expression=expression, model=model)


def _write_data(problem: FitProblem, model: Any, folder: str) -> None:
    """Add the measurements, every weight 1.

    A weight that equals COPASI's own choice is forgotten for its next choice, so its choice is made final
    (not normalised) before ours.
    """
    data = pd.DataFrame(problem.values, columns=[f"Values[{state}]" for state in problem.rates])
    data.insert(0, "Time", problem.times)
    basico.add_experiment("data", data, data_dir=folder, model=model)
    experiments = model.getTask("Parameter Estimation").getProblem().getExperimentSet()
    experiment = experiments.getExperiment(0)
    experiment.setNormalizeWeightsPerExperiment(False)
    experiments.compile(model.getModel().getMathContainer())
    columns = experiment.getObjectMap()
    for i in range(1, problem.n_states + 1):
        columns.setScale(i, 1.0)
    experiments.compile(model.getModel().getMathContainer())
    if any(columns.getScale(i) != 1.0 for i in range(1, problem.n_states + 1)):
        raise RuntimeError("COPASI did not take the weights")
