"""From symbols to native addresses: derivatives, code generation, the cache on disk, the parameter map."""

from odefit.compile.conserved import Laws
from odefit.compile.curves import Curves, curves_of
from odefit.compile.equilibria import StartFromRest
from odefit.compile.events import NO_OCCURRENCES, EventFunctions, Occurrences
from odefit.compile.experiment_tables import ExperimentTables
from odefit.compile.native_problem import CompiledModel, Switches
from odefit.compile.problem import CompiledProblem, Seeds, compile_problem
from odefit.compile.structure import CompiledStructure

__all__ = [
    "NO_OCCURRENCES",
    "CompiledModel",
    "CompiledProblem",
    "CompiledStructure",
    "Curves",
    "EventFunctions",
    "ExperimentTables",
    "Laws",
    "Occurrences",
    "Seeds",
    "StartFromRest",
    "Switches",
    "compile_problem",
    "curves_of",
]
