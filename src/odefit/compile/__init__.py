"""From symbols to native addresses: derivatives, code generation, the cache on disk, the parameter map."""

from odefit.compile.problem import CompiledModel, CompiledProblem, Seeds, compile_problem

__all__ = ["CompiledModel", "CompiledProblem", "Seeds", "compile_problem"]
