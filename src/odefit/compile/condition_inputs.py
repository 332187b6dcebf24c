"""Inputs that stand for conditions, and the differences whose sign they tell; see `odefit.compile.switches`."""

from __future__ import annotations

from typing import Any

import casadi as ca

from odefit.compile.switch_kinds import (
    CEIL,
    EQUAL,
    FLOOR,
    GREATER,
    GREATER_EQUAL,
    LESS,
    LESS_EQUAL,
    MINUS_SIGN,
    SIGN,
    TRUNCATE,
    UNEQUAL,
)

_SWAPPED = {
    LESS: GREATER, GREATER: LESS, LESS_EQUAL: GREATER_EQUAL, GREATER_EQUAL: LESS_EQUAL, EQUAL: EQUAL, UNEQUAL: UNEQUAL,
    SIGN: MINUS_SIGN,
}  # fmt: skip
_DEEP = 1_000_000  # levels of an expression that are compared


class ConditionInputs:
    """Inputs of one sort, in time or on states: equal ones share a symbol, and equal pairs a difference.

    Attributes
    ----------
    symbols, switch_of, kind
        Per input: its symbol, the difference that it belongs to, and what it is of it.
    pairs, level, whole, words
        Per difference g = a - b: the pair (a, b), its level, whether whole numbers count and not only zero, and the
        first condition that it is of, as text.
    """

    def __init__(self, names: set[str]) -> None:
        self._names = names
        self.symbols: list[Any] = []
        self.switch_of: list[int] = []
        self.kind: list[int] = []
        self.pairs: list[tuple[Any, Any]] = []
        self.level: list[int] = []
        self.whole: list[bool] = []
        self.words: list[str] = []

    def symbol(self, a: Any, b: Any, kind: int, name: str, level: int) -> Any:
        """Return the symbol of the input that is `kind` of a - b, whose inputs have levels up to `level`."""
        whole = kind in (FLOOR, CEIL, TRUNCATE)
        if kind == SIGN and a.op() == ca.OP_SUB:  # of a difference: the switch of a comparison
            a, b = a.dep(0), a.dep(1)
        switch, kind = self._switch(a, b, kind, whole, name, level)
        for u, other, of in zip(self.symbols, self.switch_of, self.kind, strict=True):
            if (other, of) == (switch, kind):
                return u
        while name in self._names:
            name += "'"
        self._names.add(name)
        self.symbols.append(ca.SX.sym(name))
        self.switch_of.append(switch)
        self.kind.append(kind)
        return self.symbols[-1]

    def column(self) -> Any:
        """Return the symbols of all inputs."""
        return ca.vertcat(*self.symbols) if self.symbols else ca.SX(0, 1)

    def differences(self) -> list[Any]:
        """Return the g."""
        return [a - b for a, b in self.pairs]

    def _switch(self, a: Any, b: Any, kind: int, whole: bool, name: str, level: int) -> tuple[int, int]:
        """Return the number of a - b, perhaps that of b - a, and what the input is of it."""
        for number, (c, d) in enumerate(self.pairs):
            if self.whole[number] == whole:
                if ca.is_equal(a, c, _DEEP) and ca.is_equal(b, d, _DEEP):
                    return number, kind
                if kind in _SWAPPED and ca.is_equal(a, d, _DEEP) and ca.is_equal(b, c, _DEEP):
                    return number, _SWAPPED[kind]
        self.pairs.append((a, b))
        self.level.append(level + 1)
        self.whole.append(whole)
        self.words.append(name)
        return len(self.pairs) - 1, kind
