"""Tables, algebraic unknowns and functions of one experiment: data, where steps come to an end, inputs for tasks."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from odefit.compile.native_problem import CompiledModel
from odefit.compile.table_data import axes_of, corners, packed_table, range_of
from odefit.compile.table_inputs import memory_size, placed_blocks, shapes_of
from odefit.compile.unsolved import words_for_unsolved
from odefit.model.foreign import Foreign
from odefit.model.implicit import Block
from odefit.native.foreign_differences import EVALUATE, evaluate_foreign, refused_at, unwanted_at
from odefit.native.implicit_solve import SOLVE, solve_implicit
from odefit.native.kernel_calls import kernel_address
from odefit.native.table_slots import ADDRESS, FUNCTION, REFUSED, SLOT
from odefit.problem import Experiment, Problem

Array = npt.NDArray[np.float64]
Packed = dict[tuple[int, str | None], Array]


class ExperimentTables:
    """Packed tables of an experiment.  Inputs hold addresses of its data: it must live as long as they are used.

    Parameters
    ----------
    model
        Its model, which says at which times tables are called, and how many inputs it has beside them.
    packed
        Data of tables that were packed for other experiments already; added to.

    Attributes
    ----------
    jumps, kinks
        Times at which the right-hand side jumps, and at which its slope does, sorted; no time is in both.
    """

    def __init__(self, problem: Problem, experiment: Experiment, model: CompiledModel, packed: Packed) -> None:
        self._shapes = shapes_of(problem, experiment)
        self._blocks = problem.model.called
        self._placed = placed_blocks(self._shapes, self._blocks)
        self._solve = kernel_address(solve_implicit, SOLVE) if problem.model.implicit else 0
        self._memories = [_memory_of(block, problem, experiment) for block in self._blocks]
        self._evaluate = kernel_address(evaluate_foreign, EVALUATE) if problem.model.foreign else 0
        self._names: list[str] = []
        self._ranges: list[list[tuple[float, float]]] = []
        self._data: list[Array] = []
        for shape in self._shapes:
            table = problem.table(shape.name, experiment)
            ranges = [range_of(table, knots) for knots in axes_of(table)]
            for parameter in (None, *shape.names):
                self._names.append(shape.name)
                self._ranges.append(ranges)
                key = (id(table), parameter)
                if key not in packed:
                    packed[key] = packed_table(table, parameter)
                self._data.append(packed[key])
        jumps, kinks = [np.empty(0)], [np.empty(0)]
        for call in model.time_calls:
            found = corners(problem.table(call.name, experiment), call.place)
            for times, knots in zip((jumps, kinks), found, strict=True):
                times.append((knots - call.shift) / call.rate)
        switches = model.switches
        self._n_further = 0 if switches is None else switches.n_inputs
        if switches is not None and switches.moving:  # steps that move with their piece do not end at a fixed time
            jumps, kinks = [*jumps, *kinks], [np.empty(0)]
        self.jumps = np.unique(np.concatenate(jumps))
        self.kinks = np.setdiff1d(np.concatenate(kinks), self.jumps)

    def new_inputs(self) -> Array:
        """Return inputs u for one task, which remember nothing yet, with room for those that conditions are.

        They are empty without tables and unknowns: then whoever lays the pieces of a task makes them.
        """
        if not self.n_slots:
            return np.empty(0)
        return np.concatenate([np.zeros(1), self.new_slots(), np.zeros(self._n_further)])

    def new_slots(self) -> Array:
        """Return the slots of tables and unknowns, which remember nothing yet, and the memory of the unknowns."""
        slots = np.zeros((self.n_slots, SLOT))
        slots[:, REFUSED : REFUSED + 2] = np.nan
        addresses = [data.ctypes.data for data in self._data]
        addresses += [self._evaluate if isinstance(block, Foreign) else self._solve for block in self._blocks]
        slots.view(np.int64)[:, ADDRESS] = addresses
        for number, block in enumerate(self._blocks, len(self._data)):
            if isinstance(block, Foreign):
                slots.view(np.int64)[number, FUNCTION] = block.native.address
        return np.concatenate([slots.reshape(-1), *self._memories])

    @property
    def n_slots(self) -> int:
        """Number of slots in the inputs."""
        return len(self._data) + len(self._blocks)

    def refusal(self, u: Array) -> str:
        """Say which table, equation or function was asked for a value that it does not have; "" if none was."""
        for slot, (name, ranges) in enumerate(zip(self._names, self._ranges, strict=True)):
            for k, (low, high) in enumerate(ranges):
                argument = float(u[1 + SLOT * slot + REFUSED + k])
                if not math.isnan(argument):
                    return _refused(name, argument, low, high)
        for placed in self._placed:
            why, where = u[placed.slot + REFUSED : placed.slot + REFUSED + 2].tolist()
            if math.isnan(why):
                continue
            block = placed.block
            if isinstance(block, Foreign):
                at = placed.memory + refused_at(len(block.states), len(block.parameters))
                return block.words_for_failure(int(why), u[at : at + block.n_arguments])
            return words_for_unsolved(block, int(why), int(where))
        return ""


def _memory_of(block: Block | Foreign, problem: Problem, experiment: Experiment) -> Array:
    """Return the memory of a block or function before it is used.

    By a parameter that is a number in this experiment, whatever is estimated, a function need not be differentiated.
    """
    memory = np.zeros(memory_size(block))
    if isinstance(block, Foreign):
        moving = {name for name, value in experiment.overrides.items() if isinstance(value, str)}
        moving |= {*problem.model.changed_by_events}
        numbers = {p.name for p in problem.parameters if p.fixed and p.expression is None} - moving
        at = unwanted_at(len(block.states), len(block.parameters)) + 1 + len(block.states)
        memory[at : at + len(block.parameters)] = [name in numbers for name in block.parameters]
    return memory


def _refused(name: str, argument: float, low: float, high: float) -> str:
    place = f"before its first knot, {low:g}" if argument < low else f"behind its last knot, {high:g}"
    return (
        f"the table '{name}' was asked for a value {place} (at {argument:.6g}); give it more rows, or "
        'outside = "hold" or "extend"'
    )
