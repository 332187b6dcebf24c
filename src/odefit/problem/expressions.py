"""The expressions in a problem's texts, as symbols."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import casadi as ca

from odefit.model import Model
from odefit.model.aggregates import Aggregates
from odefit.model.kept import Kept
from odefit.model.table_calls import table_symbol

_MOST_TEXTS = 10_000


class Expressions:
    """Expressions of a model's names and of further parameters; each text is read once.

    Attributes
    ----------
    own_symbols
        Symbols of the parameters that the model does not have.
    """

    def __init__(self, model: Model, parameters: Iterable[str], tables: Iterable[str] = ()) -> None:
        self._model = model
        self._read = Kept(most=_MOST_TEXTS)
        symbols = {name: ca.SX.sym(name) for name in parameters if name not in model.symbols}
        self.own_symbols: Mapping[str, Any] = MappingProxyType(symbols)
        self._tables = {name: table_symbol(name) for name in tables if name not in model.tables}

    def read(self, text: str) -> Any:
        """Return the expression that `text` stands for, as SX."""
        return self._read.get(text, lambda: self._model.expression(text, self.own_symbols, self._tables))

    def read_along(self, text: str, aggregates: Aggregates) -> Any:
        """Return what `text` stands for, which may use aggregates over time and values at a time."""
        return self._model.expression(text, self.own_symbols, self._tables, aggregates)
