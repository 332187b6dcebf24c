"""From symbols to native addresses: derivatives, code generation, the cache on disk, the parameter map."""

from odefit.compile.curves import Curves, curves_of
from odefit.compile.experiment_tables import ExperimentTables
from odefit.compile.native_problem import CompiledModel, Switches
from odefit.compile.problem import CompiledProblem, Seeds, compile_problem
from odefit.compile.structure import CompiledStructure

__all__ = [
    "CompiledModel",
    "CompiledProblem",
    "CompiledStructure",
    "Curves",
    "ExperimentTables",
    "Seeds",
    "Switches",
    "compile_problem",
    "curves_of",
]
