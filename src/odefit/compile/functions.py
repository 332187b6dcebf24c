"""Vector functions with derivatives: symbolic in, native out.

A function ``F(t, a_1, ..., a_k)`` is differentiated with respect to some of its arrays, stacked to a
vector z (states and parameters, say).  Native code is made for

* the value, ``out = F``;
* the Jacobian ``dF/dz`` on a fixed sparse pattern, rows compressed (CSR), ``out`` = its non-zeros;
* the derivative in `LANES` directions at once, ``out_ia = sum_j dF_i/dz_j v_ja``, if asked for;
* the second derivative in two directions, ``out_i = sum_jk d2F_i/dz_j dz_k v_j w_k``, made on demand.

They may call tables and have algebraic unknowns, whose slots stand in the array "u" (see
`odefit.compile.differentiation`).

Functions with conditions are differentiated forward: there the untaken branch is masked *after* its
derivative was formed, so its NaN or infinity cannot spread (backward, it would be multiplied by 0).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import casadi as ca
import numpy as np
import numpy.typing as npt

from odefit.compile import store
from odefit.compile.differentiation import directional, jacobian
from odefit.compile.foreign_code import key_of
from odefit.compile.implicit_code import SolvedBlocks
from odefit.compile.machine import LoadedObject, build_object
from odefit.compile.table_inputs import PlacedBlock
from odefit.compile.tape import SECOND_DIRECTIONS, assembly, uses_conditions
from odefit.model.foreign import Foreign

logger = logging.getLogger("odefit.compile")


@dataclass(frozen=True, eq=False)
class SymbolicFunction:
    """A vector expression of ``t`` and named arrays, and which arrays it is differentiated by.

    Attributes
    ----------
    arrays
        Name and SX column of each array argument, in the order of the native signature.
    by
        Names of the arrays that, stacked, make z.
    directional
        Whether native code for directional derivatives is wanted.
    differentiated
        Whether that of the Jacobian is; without it, there are no derivatives of any order.
    blocks, remembering
        Those of algebraic unknowns, whose slots and memories stand in the array "u"; whether u belongs to one who
        evaluates it, so that solutions may be remembered there.
    """

    name: str
    time: Any
    arrays: tuple[tuple[str, Any], ...]
    by: tuple[str, ...]
    out: Any
    directional: bool = False
    differentiated: bool = True
    blocks: tuple[PlacedBlock, ...] = ()
    remembering: bool = True

    @cached_property
    def value(self) -> Any:
        """The CasADi function of the values."""
        return self._function(self.name, self.out)

    @cached_property
    def _z(self) -> Any:
        return ca.vertcat(*(array for name, array in self.arrays if name in self.by))

    @cached_property
    def _inputs(self) -> Any:
        return dict(self.arrays).get("u", ca.SX(0, 1))

    def _function(self, name: str, out: Any, *extra: Any) -> Any:
        dense = ca.densify(out) if out.numel() else ca.SX(0, 1)
        dense = ca.cse(dense) if self.blocks else dense  # equal arguments are solved for once
        return ca.Function(name, [self.time, *(array for _, array in self.arrays), *extra], [dense])

    def jacobian(self) -> tuple[Any, list[int], list[int]]:
        """Return the function of the Jacobian's non-zeros by rows, row pointers and columns."""
        options = {"helper_options": {"enable_reverse": False}} if uses_conditions(self.value) else {}
        # CasADi stores by columns: the columns of the transpose are our rows.
        transposed = jacobian(self.out, self._z, self._inputs, options, self.blocks).T
        pattern = transposed.sparsity()
        nonzeros = ca.vertcat(*transposed.nonzeros()) if transposed.nnz() else ca.SX(0, 1)
        return self._function(f"{self.name}_jacobian", nonzeros), list(pattern.colind()), list(pattern.row())

    def directions(self) -> Any:
        """Return the function of the derivative in a direction, one array ``v_a`` for each array a of z."""
        parts = [ca.SX.sym(f"v_{name}", array.numel()) for name, array in self.arrays if name in self.by]
        along = directional(self.out, self._z, ca.vertcat(*parts), self._inputs, self.blocks)
        return self._function(f"{self.name}_directions", along, *parts)

    def second(self) -> Any:
        """Return the function of the second derivative in two directions."""
        v = ca.SX.sym("v", self._z.numel())
        w = ca.SX.sym("w", self._z.numel())
        first = directional(self.out, self._z, v, self._inputs, self.blocks)
        along = directional(first, self._z, w, self._inputs, self.blocks)
        return self._function(f"{self.name}_second", along, v, w)


@dataclass(frozen=True, eq=False)
class NativeFunction:
    """Addresses and pattern of one function.  The code lives as long as this object.

    Attributes
    ----------
    value, jacobian, directions
        Addresses (see `odefit.native.calls` for the signatures); 0 for those that were not asked for.
    row_ptr, col
        CSR pattern of the Jacobian with respect to z; shapes ``(n_out + 1,)`` and ``(n_nonzero,)``; empty without one.
    """

    name: str
    n_out: int
    n_in: int
    value: int
    jacobian: int
    directions: int
    row_ptr: npt.NDArray[np.int64]
    col: npt.NDArray[np.uint64]
    library: FunctionLibrary

    @cached_property
    def second(self) -> int:
        """Address of the second directional derivative; compiled on first access."""
        return self.library.second_order.address(f"{self.name}_second")


class _Module:
    """Functions that are compiled together."""

    def __init__(self) -> None:
        self._functions: list[Any] = []
        self._arrays: list[list[str]] = []
        self._wide: set[str] = set()
        self._solved: list[SolvedBlocks] = []

    def add(
        self, symbolic: SymbolicFunction, function: Any, single: Sequence[str] = (), wide: Sequence[str] = ()
    ) -> None:
        """Add a function with the arrays of `symbolic` and further ones, single or with lanes."""
        self._functions.append(function)
        self._arrays.append([*(name for name, _ in symbolic.arrays), *single, *wide])
        self._wide.update(wide)
        self._solved.append(SolvedBlocks(symbolic.blocks, symbolic.remembering))

    def compile(self) -> bytes:
        size = sum(function.n_instructions() for function in self._functions)
        return build_object(assembly(self._functions, self._arrays, self._wide, self._solved), size)


class FunctionLibrary:
    """Native code of several symbolic functions, from the cache or freshly compiled.

    Parameters
    ----------
    title
        What the functions belong to, for the log ("model with 2 states and 3 parameters").
    functions
        The functions; they share one object file of values and Jacobians, and a second one, made on
        demand, of second derivatives.
    """

    def __init__(self, title: str, functions: Sequence[SymbolicFunction]) -> None:
        self._title = title
        self._symbolic = tuple(functions)
        self._serialised = [function.value.serialize() for function in functions]
        self._layout = [
            f"{f.name}:{','.join(f.by)}:{f.directional}:{f.differentiated}:{f.remembering}" for f in functions
        ]
        for placed in {one.slot: one for f in functions for one in f.blocks}.values():
            self._layout.append(f"block:{placed.slot}:{placed.memory}")
            block = placed.block
            self._serialised.append(key_of(block) if isinstance(block, Foreign) else block.residual.serialize())
        stored = self._stored("first", self._build_first)
        self._first = LoadedObject(stored.code)
        self._facts = stored.facts

    def _stored(self, order: str, build: Any) -> store.StoredObject:
        name = store.key(order, *self._layout, *self._serialised)
        stored = store.load(name)
        if stored is None:
            logger.info("compiling %s (%s derivatives)", self._title, order)
            stored = build()
            store.save(name, stored)
        return stored

    def _build_first(self) -> store.StoredObject:
        module = _Module()
        facts: dict[str, Any] = {}
        for symbolic in self._symbolic:
            module.add(symbolic, symbolic.value)
            row_ptr, col = [], []
            if symbolic.differentiated:
                jacobian, row_ptr, col = symbolic.jacobian()
                module.add(symbolic, jacobian)
            if symbolic.directional:
                module.add(symbolic, symbolic.directions(), wide=[f"v_{name}" for name in symbolic.by])
            facts[symbolic.name] = {"row_ptr": row_ptr, "col": col}
        return store.StoredObject(module.compile(), facts)

    def _build_second(self) -> store.StoredObject:
        module = _Module()
        for symbolic in self._symbolic:
            module.add(symbolic, symbolic.second(), single=SECOND_DIRECTIONS)
        return store.StoredObject(module.compile(), {})

    def symbolic(self, name: str) -> SymbolicFunction:
        """Return what the function of this name was made from."""
        return next(function for function in self._symbolic if function.name == name)

    @cached_property
    def second_order(self) -> LoadedObject:
        """The code of the second derivatives."""
        return LoadedObject(self._stored("second", self._build_second).code)

    def __getitem__(self, name: str) -> NativeFunction:
        symbolic = self.symbolic(name)
        facts = self._facts[name]
        return NativeFunction(
            name=name,
            n_out=symbolic.out.numel(),
            n_in=symbolic._z.numel(),
            value=self._first.address(name),
            jacobian=self._first.address(f"{name}_jacobian") if symbolic.differentiated else 0,
            directions=self._first.address(f"{name}_directions") if symbolic.directional else 0,
            row_ptr=np.array(facts["row_ptr"], dtype=np.int64),
            col=np.array(facts["col"], dtype=np.uint64),  # unsigned: numba need not look for negative indices
            library=self,
        )
