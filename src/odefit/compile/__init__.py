"""From symbols to native addresses: derivatives, code generation, the cache on disk, the parameter map."""

from odefit.compile.curves import Curves
from odefit.compile.problem import CompiledModel, CompiledProblem, Seeds, compile_problem

__all__ = ["CompiledModel", "CompiledProblem", "Curves", "Seeds", "compile_problem"]
