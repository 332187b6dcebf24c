"""Right-hand sides that cannot be traced: functions of numbers, from Python, numba or C.

Such a function ``f(t, y, p)`` has no expressions.  In a model its results are calls, written like those of a table
(`odefit.model.table_calls`): ``CALL(f, t, y, .., p, .., i)`` is the derivative of state number i, where `f` is a symbol
that stands for the function.  So they are expressions to whatever resolves, replaces, adds to, stretches or pickles
right-hand sides: doses, periods, events that set a parameter, and experiments that replace one need nothing else.
`odefit.compile` calls and differentiates them.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from casadi import SX

from odefit.errors import ModelError
from odefit.model.conserved_totals import Total, eliminated
from odefit.model.implicit import block_symbol
from odefit.model.table_calls import call_table

Array = npt.NDArray[np.float64]

_making = threading.Lock()


@dataclass(frozen=True, eq=False)
class Foreign:
    """A function of time, states and parameters of which only values are known.

    Attributes
    ----------
    function
        See `odefit.native.foreign_function`.
    states, parameters
        Names, in the order in which it is given them.
    autonomous
        Whether it does not use the time; then it is given NaN for it.
    conserved
        Totals that it conserves, see `odefit.model.conserved_totals`.
    symbol
        Stands for the function in calls; a new one unless it is given.
    """

    function: Any
    states: tuple[str, ...]
    parameters: tuple[str, ...]
    autonomous: bool = False
    conserved: tuple[Total, ...] = ()
    symbol: Any = None

    def __post_init__(self) -> None:
        if self.symbol is None:
            object.__setattr__(self, "symbol", block_symbol([f"{name}'" for name in self.states]))

    @property
    def n_arguments(self) -> int:
        """Number of arguments (t, y, p)."""
        return 1 + len(self.states) + len(self.parameters)

    @cached_property
    def name(self) -> str:
        """Its name, for messages."""
        from odefit.native.foreign_function import name_of

        return name_of(self.function)

    @property
    def native(self) -> Any:
        """Its native form, made on first use, and only once: addresses are good as long as it lives."""
        with _making:
            return self._native

    @cached_property
    def _native(self) -> Any:
        from odefit.native.foreign_function import foreign_function

        return foreign_function(self.function, len(self.states), len(self.parameters))

    def derivatives(self, time: SX, symbols: Mapping[str, SX]) -> dict[str, SX]:
        """Return the calls that are the derivatives of the states."""
        arguments = [symbols[name] for name in (*self.states, *self.parameters)]
        with_arguments = call_table(self.symbol, [SX(0.0) if self.autonomous else time, *arguments])
        called = {name: call_table(with_arguments, [SX(number)]) for number, name in enumerate(self.states)}
        found = dict(called)
        for name, weights in eliminated(self.conserved, self.states).items():
            found[name] = SX(0.0)
            for other, weight in weights.items():
                found[name] -= weight * called[other]
        return found

    def fault_of_conserved(self, t: float, y: Array, p: Array) -> str | None:
        """Say which total the function does not conserve there, or return None; also if it has no value."""
        if self.native.fault(t, y, p):
            return None
        slopes = dict(zip(self.states, self.native.call(t, y, p).tolist(), strict=True))
        for total in self.conserved:
            parts = [weight * slopes[name] for name, weight in total]
            if abs(sum(parts)) > 1e-8 * sum(map(abs, parts)):
                text = " + ".join(f"{weight:g}*{name}" for name, weight in total)
                return (
                    f"the right-hand side '{self.name}' does not conserve {text}, which is said to be conserved: it "
                    f"changes by {sum(parts):.3g} in a unit of time where its parts change by up to "
                    f"{max(map(abs, parts)):.3g}"
                )
        return None

    def packed(self) -> tuple[Any, ...]:
        """Return what `unpacked` makes it from in another process, but for the symbol."""
        from odefit.native.foreign_function import is_address

        if is_address(self.function):
            raise ModelError(
                f"the right-hand side '{self.name}' is known by its address alone, which means nothing in another "
                "process or in a file; give a function of Python or numba, or make the model there"
            )
        try:
            content = pickle.dumps(self.function)
        except Exception:
            raise ModelError(
                f"the right-hand side '{self.name}' cannot be sent to another process or kept in a file; define it at "
                "the top of a module, not inside another function nor as a lambda"
            ) from None
        return content, self.states, self.parameters, self.autonomous, self.conserved

    @classmethod
    def unpacked(cls, packed: tuple[Any, ...], symbol: SX) -> Foreign:
        """Return the function that `packed` was called for."""
        content, *further = packed
        return cls(pickle.loads(content), *further, symbol=symbol)

    def words_for_failure(self, why: int, x: Array) -> str:
        """Say what is wrong with the function at x = (t, y, p), and what to do; `why` comes from the kernel."""
        from odefit.native.foreign_differences import NO_DERIVATIVE

        n = len(self.states)
        t, y, p = float(x[0]), x[1 : 1 + n].copy(), x[1 + n :].copy()
        for array in (y, p):
            array.setflags(write=False)
        t_given = float("nan") if self.autonomous else t
        names = [*self.states, *self.parameters]
        shown = ", ".join(f"{name} = {value:.6g}" for name, value in zip(names[:6], x[1:7], strict=False))
        place = f"{shown}{', ...' if len(names) > 6 else ''}"
        place = place if self.autonomous else f"t = {t:.6g}, {place}"
        fault = self.native.fault(t_given, y, p)
        if fault:
            return f"the right-hand side '{self.name}' {fault} (at {place})"
        if why == NO_DERIVATIVE:
            return (
                f"the right-hand side '{self.name}' has no finite values around {place}, from which derivatives could "
                "be made; let it go on beyond the edge of its domain, or keep away from it by bounds of parameters"
            )
        bad = [
            name
            for name, value in zip(self.states, self.native.call(t_given, y, p), strict=True)
            if not np.isfinite(value)
        ]
        used = " (with autonomous=True it is given NaN for the time)" if self.autonomous else ""
        which = f"for the derivative of '{bad[0]}' " if bad else ""
        return f"the right-hand side '{self.name}' has no finite value {which}at {place}{used}"
