"""From a CasADi SX function to LLVM assembly.

An SX function is a tape: a list of scalar instructions on registers that are reused.  The walk is

1. read the tape and give every instruction its own value number (static single assignment);
2. cut it into chunks of at most `CHUNK` instructions.  LLVM's time grows faster than linearly with
   the length of a function, so each chunk becomes an internal function; values that cross a border
   go through a work array on the caller's stack, whose slots are reused once dead;
3. print one line of assembly (or a few) per instruction.

Meanings that differ from C on purpose, so that a failure is never hidden and never invented:

* ``fmin``/``fmax`` propagate NaN (C's ignore it);
* a *condition* times a value is a selection: where the condition is false the product is 0, whatever
  the value, NaN and infinity included.  Together with forward differentiation this makes
  ``if(x > 0, x*log(x), 0)`` and its derivatives finite at x = 0;
* in a second derivative a product with a component of a direction that is 0 is 0: infinite curvature in
  other directions does not matter.

**Tables.**  A call of a table (`odefit.model.table_calls`) names a slot of the inputs `u`.  It becomes a call of a
look-up, one for a slot and its arguments, whichever of its derivatives are used.  A call of a block of algebraic
unknowns becomes one of the kernel that solves for them, see `odefit.compile.implicit_code`.

**Lanes.**  Arrays may be declared *wide*: each of their elements is a group of `LANES` numbers that stand
for as many evaluations at once, and so is everything computed from them; the output of such a function is
wide as a whole.  Derivatives in several directions are linear in the directions, so that this costs one
vector instruction where there was a scalar one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import casadi as ca

from odefit.compile.foreign_code import FOREIGN_CODE
from odefit.compile.implicit_code import CODE_ARRAYS, SOLVE_CODE, Solutions, SolvedBlocks, functions_of
from odefit.compile.look_up import LOOK_UP, RESULT, look_up_code
from odefit.errors import CompileError
from odefit.model.implicit import Block
from odefit.model.table_calls import CALL, has_calls
from odefit.native.table_slots import SLOT

CHUNK = 400
LANES = 4
SECOND_DIRECTIONS = ("v", "w")  # names of the two direction arrays of a second derivative
_WIDE = f"<{LANES} x double>"

_LIBM = {
    ca.OP_EXP: "exp",
    ca.OP_LOG: "log",
    ca.OP_SIN: "sin",
    ca.OP_COS: "cos",
    ca.OP_TAN: "tan",
    ca.OP_ASIN: "asin",
    ca.OP_ACOS: "acos",
    ca.OP_ATAN: "atan",
    ca.OP_SINH: "sinh",
    ca.OP_COSH: "cosh",
    ca.OP_TANH: "tanh",
    ca.OP_ASINH: "asinh",
    ca.OP_ACOSH: "acosh",
    ca.OP_ATANH: "atanh",
    ca.OP_ERF: "erf",
    ca.OP_LOG1P: "log1p",
    ca.OP_EXPM1: "expm1",
    ca.OP_POW: "pow",
    ca.OP_CONSTPOW: "pow",
    ca.OP_ATAN2: "atan2",
    ca.OP_HYPOT: "hypot",
    ca.OP_FMOD: "fmod",
}
_INTRINSIC = {
    ca.OP_SQRT: "llvm.sqrt.f64",
    ca.OP_FABS: "llvm.fabs.f64",
    ca.OP_FLOOR: "llvm.floor.f64",
    ca.OP_CEIL: "llvm.ceil.f64",
    ca.OP_FMIN: "llvm.minimum.f64",
    ca.OP_FMAX: "llvm.maximum.f64",
    ca.OP_COPYSIGN: "llvm.copysign.f64",
}
_ARITHMETIC = {ca.OP_ADD: "fadd", ca.OP_SUB: "fsub", ca.OP_MUL: "fmul", ca.OP_DIV: "fdiv"}
_COMPARISON = {ca.OP_LT: "olt", ca.OP_LE: "ole", ca.OP_EQ: "oeq", ca.OP_NE: "une"}
_LOGIC = {ca.OP_AND: "and", ca.OP_OR: "or"}
_BOOLEAN = frozenset([*_COMPARISON, *_LOGIC, ca.OP_NOT])
_BINARY_FUNCTIONS = frozenset(
    [ca.OP_POW, ca.OP_CONSTPOW, ca.OP_ATAN2, ca.OP_HYPOT, ca.OP_FMOD, ca.OP_FMIN, ca.OP_FMAX, ca.OP_COPYSIGN]
)


def literal(value: float) -> str:
    """Return `value` as an exact LLVM double."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


@dataclass(slots=True)
class _Value:
    """One instruction of the tape: its operation and the numbers of the values it uses."""

    operation: int
    operands: tuple[int, ...]
    constant: float = 0.0
    place: tuple[int, int] = (0, 0)  # of an input: which array, which element; of a call: the first of its slot
    derivative: int = 0  # of a call: which of what a look-up or a solution returns
    block: int = -1  # of a call: number of the block of algebraic unknowns, if it is none of a table
    chunk: int = 0
    slot: int = -1  # in the work array, if a later chunk needs it
    wide: bool = False  # a group of lanes
    seed: bool = False  # an element of a direction of a second derivative


@dataclass(slots=True)
class _Tape:
    values: list[_Value]
    outputs: list[tuple[int, int, int]]  # element of the output, value, chunk
    n_chunks: int


def uses_conditions(function: Any) -> bool:
    """Tell whether the tape holds an operation whose untaken side must not leak into derivatives."""
    kinds = {ca.OP_IF_ELSE_ZERO, ca.OP_FMIN, ca.OP_FMAX, *_BOOLEAN}
    return any(function.instruction_id(k) in kinds for k in range(function.n_instructions()))


class _TableCall:
    """A call of a table while its arguments are read; once it is used, its value has a `number`."""

    def __init__(self, table: int, arguments: tuple[int, ...]) -> None:
        self.table, self.arguments = table, arguments
        self.number: int | None = None

    def value(self, values: list[_Value], chunk: int, block_at: Mapping[int, int]) -> int:
        """Return the number of its value; it is made when first asked for.  `block_at` are blocks by their place."""
        if self.number is None:
            array, element = values[self.table].place
            self.number = len(values)
            if element in block_at:
                output, given = int(values[self.arguments[-1]].constant), self.arguments[:-1]
                block = block_at[element]
                wide = any(values[k].wide for k in given)  # directions of a function of its own
                values.append(
                    _Value(
                        CALL, given, place=(array, element), derivative=output, block=block, chunk=chunk, wide=wide
                    )  # fmt: skip
                )
                return self.number
            slot, derivative = divmod(element - 1, SLOT)
            place = (array, 1 + SLOT * slot)
            values.append(_Value(CALL, self.arguments, place=place, derivative=derivative, chunk=chunk))
        return self.number


def _read(function: Any, wide: Sequence[int], seeds: Sequence[int], block_at: Mapping[int, int]) -> _Tape:
    """Read the tape of `function` into values, numbered in order of computation; `wide` inputs have lanes."""
    values: list[_Value] = []
    outputs: list[tuple[int, int, int]] = []
    register: dict[int, int | _TableCall] = {}
    counted = 0

    def number_in(place: int, chunk: int) -> int:
        entry = register[place]
        return entry.value(values, chunk, block_at) if isinstance(entry, _TableCall) else entry

    for k in range(function.n_instructions()):
        operation = function.instruction_id(k)
        inputs = function.instruction_input(k)
        chunk = counted // CHUNK
        if operation == ca.OP_OUTPUT:
            outputs.append((function.instruction_output(k)[1], number_in(inputs[0], chunk), chunk))
            counted += 1
            continue
        if operation == CALL:
            before, argument = register[inputs[0]], number_in(inputs[1], chunk)
            table, arguments = (before.table, before.arguments) if isinstance(before, _TableCall) else (before, ())
            register[function.instruction_output(k)[0]] = _TableCall(table, (*arguments, argument))
            counted += 1
            continue
        if operation == ca.OP_CONST:
            value = _Value(operation, (), constant=function.instruction_constant(k))
        elif operation == ca.OP_INPUT:
            value = _Value(operation, (), place=(inputs[0], inputs[1]), wide=inputs[0] in wide, seed=inputs[0] in seeds)
        else:
            operands = tuple(number_in(i, chunk) for i in inputs)
            value = _Value(operation, operands, wide=any(values[i].wide for i in operands))
            counted += 1
        value.chunk = chunk
        register[function.instruction_output(k)[0]] = len(values)
        values.append(value)
    return _Tape(values, outputs, counted // CHUNK + 1)


def _assign_slots(tape: _Tape) -> int:
    """Give every value that crosses a chunk border a slot of the work array; return its size."""
    last_chunk: dict[int, int] = {}
    for value in tape.values:
        for operand in value.operands:
            last_chunk[operand] = max(last_chunk.get(operand, -1), value.chunk)
    for _, number, chunk in tape.outputs:
        last_chunk[number] = max(last_chunk.get(number, -1), chunk)
    dying: dict[int, list[int]] = {}
    free: list[int] = []
    size = 0
    current = 0
    for number, value in enumerate(tape.values):
        while current < value.chunk:  # slots last read in an earlier chunk may be written again
            free.extend(dying.pop(current, ()))
            current += 1
        if value.operation in (ca.OP_CONST, ca.OP_INPUT) or last_chunk.get(number, -1) <= value.chunk:
            continue
        if not free:
            free.append(size)
            size += 1
        value.slot = free.pop()
        dying.setdefault(last_chunk[number], []).append(value.slot)
    return size


@dataclass
class _Writer:
    """Prints the chunks of one function."""

    name: str
    array_names: Sequence[str]
    tape: _Tape
    work_size: int
    external: set[str]
    solutions: Solutions
    lanes: int = 1  # of the output and of the slots
    lines: list[str] = field(default_factory=list)
    known: dict[int, str] = field(default_factory=dict)  # values present in the chunk being printed
    spread: dict[int, str] = field(default_factory=dict)  # the same, copied to all lanes
    flags: dict[int, str] = field(default_factory=dict)  # the same, as i1 (conditions only)
    looked_up: dict[Any, str] = field(default_factory=dict)  # what look-ups of tables returned there
    counter: int = 0

    def fresh(self) -> str:
        self.counter += 1
        return f"%v{self.counter}"

    def emit(self, text: str) -> str:
        name = self.fresh()
        self.lines.append(f"  {name} = {text}")
        return name

    def number(self, k: int) -> str:
        """Return value `k` in the current chunk, loading it if needed."""
        if k in self.known:
            return self.known[k]
        value = self.tape.values[k]
        if value.operation == ca.OP_CONST:
            result = literal(value.constant)
        elif value.operation == ca.OP_INPUT:
            result = self.load_input(*value.place, value.wide)
        elif k in self.flags:
            result = self.emit(f"uitofp i1 {self.flags[k]} to double")
        else:
            address = self.emit(f"getelementptr double, ptr %work, i64 {value.slot * self.lanes}")
            result = self.emit(f"load {self.kind(k)}, ptr {address}, align 8")
        self.known[k] = result
        return result

    def kind(self, k: int) -> str:
        return _WIDE if self.tape.values[k].wide else "double"

    def load_input(self, array: int, element: int, wide: bool) -> str:
        if array == 0:
            return "%t"
        pointer = f"%{self.array_names[array - 1]}"
        if element:
            pointer = self.emit(f"getelementptr double, ptr {pointer}, i64 {element * (LANES if wide else 1)}")
        return self.emit(f"load {_WIDE if wide else 'double'}, ptr {pointer}, align 8")

    def as_wide(self, k: int, wide: bool) -> str:
        """Return value `k`, copied to all lanes if it is a single number and `wide` asks for lanes."""
        if not wide or self.tape.values[k].wide:
            return self.number(k)
        if k not in self.spread:
            single = self.emit(f"insertelement {_WIDE} poison, double {self.number(k)}, i64 0")
            self.spread[k] = self.emit(
                f"shufflevector {_WIDE} {single}, {_WIDE} poison, <{LANES} x i32> zeroinitializer"
            )
        return self.spread[k]

    def flag(self, k: int) -> str:
        """Return value `k` as a condition (i1): different from zero."""
        if k not in self.flags:
            self.flags[k] = self.emit(f"fcmp une double {self.number(k)}, {literal(0.0)}")
        return self.flags[k]

    def is_condition(self, k: int) -> bool:
        return self.tape.values[k].operation in _BOOLEAN

    def call(self, function: str, operands: Sequence[int]) -> str:
        self.external.add(f"{function}/{len(operands)}")
        arguments = ", ".join(f"double {self.number(k)}" for k in operands)
        return self.emit(f"call double @{function}({arguments})")

    def look_up(self, value: _Value) -> str:
        """Print the look-up of a table; its value and derivatives at the same arguments share one."""
        key = (value.place, *self.identities(value.operands))
        if key not in self.looked_up:
            array, element = value.place
            slot = self.emit(f"getelementptr double, ptr %{self.array_names[array - 1]}, i64 {element}")
            arguments = ", ".join(f"double {self.number(k)}" for k in value.operands)
            name = LOOK_UP[len(value.operands)]
            self.looked_up[key] = self.emit(f"call {RESULT} @{name}(ptr {slot}, {arguments})")
        return self.emit(f"extractvalue {RESULT} {self.looked_up[key]}, {value.derivative}")

    def identities(self, operands: Sequence[int]) -> list[Any]:
        """Return what tells values apart: inputs and constants are read more than once."""
        values = [(k, self.tape.values[k]) for k in operands]
        same = {ca.OP_INPUT: lambda one: one.place, ca.OP_CONST: lambda one: one.constant}
        return [same[one.operation](one) if one.operation in same else k for k, one in values]

    def solution(self, value: _Value) -> str:
        """Print the solution for a block of algebraic unknowns."""
        array, slot = value.place
        pointer = f"%{self.array_names[array - 1]}"
        return self.solutions.printed(self, value.block, value.derivative, pointer, slot, value.operands, value.wide)

    def select(self, condition: int, value: int) -> str:
        kind = self.kind(value)
        return self.emit(f"select i1 {self.flag(condition)}, {kind} {self.number(value)}, {kind} zeroinitializer")

    def compute(self, k: int) -> None:
        """Print the instruction that makes value `k`."""
        value = self.tape.values[k]
        operation, operands = value.operation, value.operands
        if operation in _BOOLEAN:
            self.flags[k] = self.condition(operation, operands)
        elif operation == CALL:
            self.known[k] = self.look_up(value) if value.block < 0 else self.solution(value)
        elif operation == ca.OP_MUL and self.is_condition(operands[0]):
            self.known[k] = self.select(operands[0], operands[1])
        elif operation == ca.OP_MUL and self.is_condition(operands[1]):
            self.known[k] = self.select(operands[1], operands[0])
        elif operation == ca.OP_DIV and self.is_condition(operands[0]):
            # CasADi writes condition * (1/x) like this: where the condition is false, 1/x does not matter
            inverse = self.emit(f"fdiv double {literal(1.0)}, {self.number(operands[1])}")
            self.known[k] = self.emit(f"select i1 {self.flag(operands[0])}, double {inverse}, double {literal(0.0)}")
        elif operation in _ARITHMETIC:
            self.known[k] = self.arithmetic(k)
        elif value.wide and operation not in _LINEAR:
            raise CompileError(f"a directional derivative is not linear in its directions (CasADi {operation})")
        elif operation in _LIBM or operation in _INTRINSIC:
            name = _LIBM.get(operation) or _INTRINSIC[operation]
            self.known[k] = self.call(name, operands[: 2 if operation in _BINARY_FUNCTIONS else 1])
        elif operation in _SPECIAL:
            self.known[k] = _SPECIAL[operation](self, operands)
        else:
            raise CompileError(f"the model uses an operation that has no native form (CasADi operation {operation})")
        if value.slot >= 0:
            address = self.emit(f"getelementptr double, ptr %work, i64 {value.slot * self.lanes}")
            self.lines.append(f"  store {self.kind(k)} {self.number(k)}, ptr {address}, align 8")

    def arithmetic(self, k: int) -> str:
        """Print + - * /; a product with an element of a direction that is 0 is 0, whatever the other factor."""
        value = self.tape.values[k]
        a, b = (self.as_wide(i, value.wide) for i in value.operands)
        result = self.emit(f"{_ARITHMETIC[value.operation]} {self.kind(k)} {a}, {b}")
        if value.operation in (ca.OP_MUL, ca.OP_DIV):
            for i, text in zip(value.operands, (a, b), strict=True):
                if self.tape.values[i].seed:
                    nonzero = self.emit(f"fcmp une double {text}, {literal(0.0)}")
                    result = self.emit(f"select i1 {nonzero}, double {result}, double {literal(0.0)}")
        return result

    def condition(self, operation: int, operands: Sequence[int]) -> str:
        if operation in _COMPARISON:
            a, b = (self.number(i) for i in operands)
            return self.emit(f"fcmp {_COMPARISON[operation]} double {a}, {b}")
        if operation == ca.OP_NOT:
            return self.emit(f"xor i1 {self.flag(operands[0])}, true")
        return self.emit(f"{_LOGIC[operation]} i1 {self.flag(operands[0])}, {self.flag(operands[1])}")

    def sign(self, k: int) -> str:
        """Print sign(x): -1, 0, 1, and NaN for NaN."""
        x = self.number(k)
        above = self.emit(f"fcmp ogt double {x}, {literal(0.0)}")
        below = self.emit(f"fcmp olt double {x}, {literal(0.0)}")
        inner = self.emit(f"select i1 {below}, double {literal(-1.0)}, double {x}")  # 0, -0 and NaN stay
        return self.emit(f"select i1 {above}, double {literal(1.0)}, double {inner}")

    def write(self) -> str:
        """Print all chunks and the entry point."""
        # a look-up notes what it found in its slot
        written = {self.array_names[one.place[0] - 1] for one in self.tape.values if one.operation == CALL}
        arguments = ", ".join(
            f"ptr noalias {'' if name in written else 'readonly '}%{name}" for name in self.array_names
        )
        signature = f"double %t, {arguments}, ptr noalias %out"
        passed = ", ".join(["double %t", *(f"ptr %{name}" for name in self.array_names), "ptr %out"])
        chunked = self.tape.n_chunks > 1
        by_chunk: list[list[int]] = [[] for _ in range(self.tape.n_chunks)]
        for k, value in enumerate(self.tape.values):
            if value.operation not in (ca.OP_CONST, ca.OP_INPUT):
                by_chunk[value.chunk].append(k)
        outputs: list[list[tuple[int, int]]] = [[] for _ in range(self.tape.n_chunks)]
        for element, number, chunk in self.tape.outputs:
            outputs[chunk].append((element, number))
        for chunk in range(self.tape.n_chunks):
            self.known, self.spread, self.flags, self.looked_up, self.counter = {}, {}, {}, {}, 0
            self.solutions.begin_function()
            if chunked:
                self.lines.append(
                    f"define internal void @{self.name}_{chunk}({signature}, ptr noalias %work) noinline nounwind {{"
                )
            else:
                self.lines.append(f"define void @{self.name}({signature}) nounwind {{")
            for k in by_chunk[chunk]:
                self.compute(k)
            for element, number in outputs[chunk]:
                wide = self.lanes > 1
                result = self.as_wide(number, wide)
                address = self.emit(f"getelementptr double, ptr %out, i64 {element * self.lanes}")
                self.lines.append(f"  store {_WIDE if wide else 'double'} {result}, ptr {address}, align 8")
            self.lines.append("  ret void\n}")
        if chunked:
            self.lines.append(f"define void @{self.name}({signature}) nounwind {{")
            self.lines.append(f"  %work = alloca double, i64 {max(self.work_size * self.lanes, 1)}")
            self.lines.extend(
                f"  call void @{self.name}_{chunk}({passed}, ptr %work)" for chunk in range(self.tape.n_chunks)
            )
            self.lines.append("  ret void\n}")
        return "\n".join(self.lines)


_SPECIAL: dict[int, Callable[[_Writer, Sequence[int]], str]] = {
    ca.OP_NEG: lambda w, o: w.emit(f"fneg {w.kind(o[0])} {w.number(o[0])}"),
    ca.OP_SQ: lambda w, o: w.emit(f"fmul double {w.number(o[0])}, {w.number(o[0])}"),
    ca.OP_TWICE: lambda w, o: w.emit(f"fadd {w.kind(o[0])} {w.number(o[0])}, {w.number(o[0])}"),
    ca.OP_INV: lambda w, o: w.emit(f"fdiv double {literal(1.0)}, {w.number(o[0])}"),
    ca.OP_ASSIGN: lambda w, o: w.number(o[0]),
    ca.OP_SIGN: lambda w, o: w.sign(o[0]),
    ca.OP_IF_ELSE_ZERO: lambda w, o: w.select(o[0], o[1]),
}
_LINEAR = frozenset([ca.OP_NEG, ca.OP_TWICE, ca.OP_ASSIGN, ca.OP_IF_ELSE_ZERO])

OPERATIONS = frozenset([*_LIBM, *_INTRINSIC, *_ARITHMETIC, *_BOOLEAN, *_SPECIAL])
"""CasADi's operations that have a native form."""


def assembly(
    functions: Sequence[Any],
    array_names: Sequence[Sequence[str]],
    wide: Collection[str] = (),
    solved: Sequence[SolvedBlocks] = (),
) -> str:
    """Translate SX functions into one LLVM module.

    Parameters
    ----------
    functions
        CasADi functions with inputs ``(t, a_1, ..., a_k)`` and one dense vector output; each becomes
        ``void name(double t, double* a_1, ..., double* a_k, double* out)``.
    array_names
        Names of ``a_1 ... a_k`` for each function.
    wide
        Names of arrays whose elements have lanes; a function that has one writes lanes.
    solved
        Blocks of algebraic unknowns of each function, the same ones for all that have any.
    """
    external: set[str] = set()
    bodies = []
    every = solved or [SolvedBlocks()] * len(functions)
    blocks = max((one.blocks for one in every), key=len, default=())
    numbered = ((number, placed.block) for number, placed in enumerate(blocks))
    of_blocks = [one for number, block in numbered if isinstance(block, Block) for one in functions_of(block, number)]
    compiled = [(one, CODE_ARRAYS, SolvedBlocks()) for one in of_blocks]
    for function, names, own in [*compiled, *zip(functions, array_names, every, strict=True)]:
        lanes = [i + 1 for i, name in enumerate(names) if name in wide]  # input 0 is the time
        seeds = [i + 1 for i, name in enumerate(names) if name in SECOND_DIRECTIONS]
        tape = _read(function, lanes, seeds, {one.slot: number for number, one in enumerate(own.blocks)})
        work_size, width = _assign_slots(tape), LANES if lanes else 1
        bodies.append(_Writer(function.name(), names, tape, work_size, external, Solutions(own), width).write())
    declarations = []
    for entry in sorted(external):
        name, arity = entry.rsplit("/", 1)
        attributes = "" if name.startswith("llvm.") else " nounwind willreturn memory(none)"
        declarations.append(f"declare double @{name}({', '.join(['double'] * int(arity))}){attributes}")
    tables = [look_up_code(), SOLVE_CODE, FOREIGN_CODE] if any(has_calls(function) for function in functions) else []
    return "\n".join([*declarations, *tables, *bodies]) + "\n"
