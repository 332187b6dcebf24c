"""The estimation problem: parameters, experiments, measurements - numbers and names, validated, frozen."""

from odefit.model.names import initial_name, state_of_initial
from odefit.problem.events import Dose
from odefit.problem.experiments import Experiment, Period
from odefit.problem.measurements import Measurements
from odefit.problem.noise import Noise
from odefit.problem.parameters import SCALES, Parameter
from odefit.problem.problem import Problem, Settings
from odefit.problem.tables import Table

__all__ = [
    "SCALES",
    "Dose",
    "Experiment",
    "Measurements",
    "Noise",
    "Parameter",
    "Period",
    "Problem",
    "Settings",
    "Table",
    "initial_name",
    "state_of_initial",
]
