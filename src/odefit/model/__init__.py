"""Models: symbolic differential equations, read from text or traced from Python functions."""

from odefit.model import functions_for_tracing
from odefit.model.expression import Expression
from odefit.model.functions import FUNCTIONS, GrammarFunction
from odefit.model.functions_for_tracing import where
from odefit.model.model import Model

__all__ = ["FUNCTIONS", "Expression", "GrammarFunction", "Model", "functions_for_tracing", "where"]
