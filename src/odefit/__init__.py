"""odefit fits differential-equation models to data.

>>> import odefit as of
>>> problem = of.load("barnes.toml")
>>> result = of.fit(problem)
>>> print(result.summary())
"""

from odefit.api import SimulationWarning, evaluate, fit, load, simulate
from odefit.errors import (
    CompileError,
    FitError,
    LanguageError,
    ModelError,
    OdefitError,
    ProblemError,
    UnsupportedError,
)
from odefit.formats import measurements_from_frame
from odefit.model import Model
from odefit.model.functions_for_tracing import (
    absolute,
    acos,
    asin,
    atan,
    atan2,
    ceil,
    cos,
    cosh,
    erf,
    exp,
    floor,
    log,
    log2,
    log10,
    maximum,
    minimum,
    sign,
    sin,
    sinh,
    sqrt,
    table,
    tan,
    tanh,
    where,
)
from odefit.problem import Experiment, Measurements, Noise, Parameter, Period, Problem, Settings, Table
from odefit.strategy import Comparison, FitResult, compare, with_synthetic_data
from odefit.transcribe import Evaluator, PointEvaluation

__version__ = "0.1.0"

__all__ = [
    "Comparison",
    "CompileError",
    "Evaluator",
    "Experiment",
    "FitError",
    "FitResult",
    "LanguageError",
    "Measurements",
    "Model",
    "ModelError",
    "Noise",
    "OdefitError",
    "Parameter",
    "Period",
    "PointEvaluation",
    "Problem",
    "ProblemError",
    "Settings",
    "SimulationWarning",
    "Table",
    "UnsupportedError",
    "absolute",
    "acos",
    "asin",
    "atan",
    "atan2",
    "ceil",
    "compare",
    "cos",
    "cosh",
    "erf",
    "evaluate",
    "exp",
    "fit",
    "floor",
    "load",
    "log",
    "log2",
    "log10",
    "maximum",
    "measurements_from_frame",
    "minimum",
    "sign",
    "simulate",
    "sin",
    "sinh",
    "sqrt",
    "table",
    "tan",
    "tanh",
    "where",
    "with_synthetic_data",
]
