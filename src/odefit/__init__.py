"""odefit fits differential-equation models to data.

>>> import odefit as of
>>> problem = of.load("barnes.toml")
>>> result = of.fit(problem)
>>> print(result.summary())

Names are imported when they are first used: half a second of imports is time enough for a Ctrl-C, which the
command line has to answer without a traceback.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from odefit.problem import Dose, Experiment, Measurements, Noise, Parameter, Period, Problem, Settings, Table
    from odefit.strategy import Comparison, FitResult, compare, with_synthetic_data
    from odefit.transcribe import Evaluator, PointEvaluation

__version__ = "0.1.0"

__all__ = [
    "Comparison",
    "CompileError",
    "Dose",
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

_HOMES = {
    "odefit.api": ("SimulationWarning", "evaluate", "fit", "load", "simulate"),
    "odefit.errors": (
        "CompileError", "FitError", "LanguageError", "ModelError", "OdefitError", "ProblemError", "UnsupportedError",
    ),
    "odefit.formats": ("measurements_from_frame",),
    "odefit.model": ("Model",),
    "odefit.problem": (
        "Dose", "Experiment", "Measurements", "Noise", "Parameter", "Period", "Problem", "Settings", "Table",
    ),
    "odefit.strategy": ("Comparison", "FitResult", "compare", "with_synthetic_data"),
    "odefit.transcribe": ("Evaluator", "PointEvaluation"),
}  # fmt: skip
_HOME_OF = dict.fromkeys(__all__, "odefit.model.functions_for_tracing") | {
    name: module for module, names in _HOMES.items() for name in names
}


def __getattr__(name: str) -> Any:
    """Import a public name on its first use."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'odefit' has no attribute '{name}'")
    value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return value


def __dir__() -> list[str]:
    """Return all names, used or not."""
    return sorted({*globals(), *__all__})
