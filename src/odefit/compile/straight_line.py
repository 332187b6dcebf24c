"""From the pattern of a sparse elimination to LLVM assembly without loops.

The order of elimination and the patterns of L and U do not change (see `odefit.compile.elimination_order`), so that
every entry has a fixed address and the whole elimination can be written down, one instruction an operation.  Three
functions are made for ``A = shift I - J``; numbers stand in ``a`` as in the looped kernels of
`odefit.native.linear_systems` (entries of L, entries of U, reciprocals of the pivots), computed in the same order:

* ``i64 factorise(double* jac, double shift, double* a, double limit)`` tells how it went.  A row can grow only where
  something is eliminated from it, and only in the entries that this changes: no others are looked at.
* ``void solve(double* a, double* x)`` overwrites one right-hand side by the solution.
* ``i64 solve_blocks(double* a, double* x, i64 blocks)`` does it for blocks (n, 4) of right-hand sides, and returns 0 if
  all solutions are finite.  Up to four blocks go together, as one vector register each, so that a number of L or U is
  fetched once for all of them.

Pivots are on the diagonal here: an unknown takes the place of its own right-hand side, and all is done in place.

LLVM's time grows faster than linearly with the length of a function.  Hence functions are cut between two rows where
they get longer than `CHUNK` instructions; what a later piece needs it reads from memory.  The text needs no further
optimisation: passes would only keep in registers, and spill, what is better read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from odefit.compile.tape import LANES, literal
from odefit.native.linear_systems import GROWN, Elimination

Index = npt.NDArray[np.int64]

CHUNK = 600
GROUPS = (4, 2, 1)
"""Blocks that go together."""
_WIDE = f"<{LANES} x double>"
_FUSED = "contract"
_LARGEST = float(np.finfo(float).max)


@dataclass
class _Text:
    """Instructions of one function, each with a name of its own."""

    lines: list[str] = field(default_factory=list)

    def emit(self, text: str) -> str:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def address(self, pointer: str, element: int) -> str:
        return self.emit(f"getelementptr double, ptr {pointer}, i64 {element}") if element else pointer

    def load(self, pointer: str, element: int, kind: str = "double") -> str:
        return self.emit(f"load {kind}, ptr {self.address(pointer, element)}, align 8")

    def store(self, value: str, pointer: str, element: int, kind: str = "double") -> None:
        self.do(f"store {kind} {value}, ptr {self.address(pointer, element)}, align 8")

    def load_spread(self, pointer: str, element: int) -> str:
        """Load a number into all lanes."""
        single = self.emit(f"insertelement {_WIDE} poison, double {self.load(pointer, element)}, i64 0")
        return self.emit(f"shufflevector {_WIDE} {single}, {_WIDE} poison, <{LANES} x i32> zeroinitializer")

    def minus_product(self, value: str, one: str, other: str, kind: str = "double") -> str:
        """Print ``value - one * other``, fused where the machine can."""
        product = self.emit(f"fmul {_FUSED} {kind} {one}, {other}")
        return self.emit(f"fsub {_FUSED} {kind} {value}, {product}") if value else self.emit(f"fneg {kind} {product}")

    def size_of(self, value: str) -> str:
        return self.emit(f"call double @llvm.fabs.f64(double {value})")

    def largest(self, values: Sequence[str]) -> str:
        """Print the largest of sizes; NaN if one is."""
        sizes = [self.size_of(value) for value in values]
        while len(sizes) > 1:  # in pairs: a chain would wait for itself
            pairs = [self.larger(one, other) for one, other in zip(sizes[::2], sizes[1::2], strict=False)]
            sizes = pairs + sizes[2 * len(pairs) :]
        return sizes[0]

    def larger(self, one: str, other: str) -> str:
        is_larger = self.emit(f"fcmp ogt double {one}, {other}")
        return self.emit(f"select i1 {is_larger}, double {one}, double {other}")


def _pieces(sizes: Sequence[int]) -> Iterator[range]:
    """Cut rows of these sizes into ranges of at most `CHUNK` instructions (or one row)."""
    begin, total = 0, 0
    for i, size in enumerate(sizes):
        if total + size > CHUNK and i > begin:
            yield range(begin, i)
            begin, total = i, 0
        total += size
    yield range(begin, len(sizes))


def _slices(ptr: Index) -> list[range]:
    return [range(int(a), int(b)) for a, b in zip(ptr[:-1], ptr[1:], strict=True)]


class _Factorisation:
    """Prints ``factorise``."""

    def __init__(self, e: Elimination) -> None:
        self.e = e
        self.n = e.row_of.size
        self.lower, self.upper = _slices(e.l_ptr), _slices(e.u_ptr)
        self.at_u = e.l_col.size
        self.at_inverse = self.at_u + e.u_col.size

    def row_size(self, i: int) -> int:
        return 8 + 2 * len(self.upper[i]) + sum(3 + 2 * len(self.upper[self.e.l_col[e]]) for e in self.lower[i])

    def row(self, text: _Text, i: int, known: dict[int, str], state: tuple[str, str]) -> tuple[str, str]:
        """Print row `i`; `known` are entries of ``a`` in registers, `state` whether it has ended and grown."""
        f = self.e
        row = f.row_of[i]
        w = {int(f.column_of[row]): "%shift"}
        for e in range(f.row_ptr[row], f.mid[row]):
            value, k = text.load("%jac", e), int(f.place[e])
            w[k] = text.emit(f"fsub double {w[k]}, {value}") if k in w else text.emit(f"fneg double {value}")
        before = ["%shift", *w.values()] if self.lower[i] else []
        changed: set[int] = set()

        def entry(place: int) -> str:
            if place not in known:
                known[place] = text.load("%a", place)
            return known[place]

        def keep(value: str, place: int) -> None:
            known[place] = value
            text.store(value, "%a", place)

        for e in self.lower[i]:
            k = int(f.l_col[e])
            factor = text.emit(f"fmul double {w[k]}, {entry(self.at_inverse + k)}")
            text.store(factor, "%a", e)
            for g in self.upper[k][1:]:
                j = int(f.u_col[g])
                w[j] = text.minus_product(w.get(j, ""), factor, entry(self.at_u + g))
                if j >= i:
                    changed.add(j)
        for g in self.upper[i]:
            keep(w.get(int(f.u_col[g]), literal(0.0)), self.at_u + g)
        pivot = w.get(i, literal(0.0))
        keep(text.emit(f"fdiv double {literal(1.0)}, {pivot}"), self.at_inverse + i)
        return self.judge(text, pivot, before, [w[j] for j in sorted(changed)], state)

    def judge(
        self, text: _Text, pivot: str, before: list[str], after: list[str], state: tuple[str, str]
    ) -> tuple[str, str]:
        """Print the tests of a row: whether it has grown, and whether its pivot can be divided by."""
        ended, grown = state
        if after:
            most = text.emit(f"fmul double %limit, {text.largest(before)}")
            grows = text.emit(f"fcmp uge double {text.largest(after)}, {most}")
            counts = text.emit(f"select i1 {ended}, i1 false, i1 {grows}")  # behind a zero pivot nothing means anything
            grown = text.emit(f"or i1 {grown}, {counts}")
        vanishes = text.emit(f"fcmp ueq double {pivot}, {literal(0.0)}")
        explodes = text.emit(f"fcmp ugt double {text.size_of(pivot)}, {literal(_LARGEST)}")
        ended = text.emit(f"or i1 {ended}, {vanishes}")
        return text.emit(f"or i1 {ended}, {explodes}"), grown

    def write(self) -> str:
        pieces = list(_pieces([self.row_size(i) for i in range(self.n)]))
        arguments = "ptr %jac, double %shift, ptr %a, double %limit"
        bodies = []
        for number, rows in enumerate(pieces):
            text = _Text()
            state = (text.emit("trunc i64 %state to i1"), text.emit("icmp uge i64 %state, 2"))
            known: dict[int, str] = {}
            for i in rows:
                state = self.row(text, i, known, state)
            ended, grown = (text.emit(f"zext i1 {flag} to i64") for flag in state)
            both = text.emit(f"shl i64 {grown}, 1")
            text.do(f"ret i64 {text.emit(f'or i64 {ended}, {both}')}")
            head = f"define internal i64 @factorise_{number}({arguments}, i64 %state) noinline nounwind {{"
            bodies.append("\n".join([head, *text.lines, "}"]))
        text = _Text()
        state = "0"
        for number in range(len(pieces)):
            state = text.emit(f"call i64 @factorise_{number}({arguments}, i64 {state})")
        grown = text.emit(f"icmp uge i64 {state}, {GROWN}")
        text.do(f"ret i64 {text.emit(f'select i1 {grown}, i64 {GROWN}, i64 {state}')}")
        return "\n".join([*bodies, f"define i64 @factorise({arguments}) nounwind {{", *text.lines, "}"])


class _Substitution:
    """Prints what solves with the factors: rows of L forwards, then rows of U backwards."""

    def __init__(self, e: Elimination) -> None:
        self.e = e
        self.n = e.row_of.size
        self.lower, self.upper = _slices(e.l_ptr), _slices(e.u_ptr)
        self.at_u = e.l_col.size
        self.at_inverse = self.at_u + e.u_col.size

    def entries(self, turn: int) -> tuple[int, list[tuple[int, int]]]:
        """Return the row of a turn and its entries, (place in ``a``, unknown): n turns of L, n of U."""
        if turn < self.n:
            return turn, [(e, int(self.e.l_col[e])) for e in self.lower[turn]]
        i = 2 * self.n - 1 - turn
        return i, [(self.at_u + g, int(self.e.u_col[g])) for g in self.upper[i][1:]]

    def solve(self) -> str:
        """Print ``solve``; values pass through `work` from piece to piece."""
        pieces = list(_pieces([4 + 3 * len(self.entries(turn)[1]) for turn in range(2 * self.n)]))
        bodies = []
        for number, turns in enumerate(pieces):
            text, known = _Text(), dict[int, str]()

            def value(k: int, known: dict[int, str] = known, text: _Text = text) -> str:
                if k not in known:
                    known[k] = text.load("%work", k)
                return known[k]

            for turn in turns:
                i, entries = self.entries(turn)
                total = text.load("%x", int(self.e.row_of[i])) if turn < self.n else value(i)
                for place, k in entries:
                    total = text.minus_product(total, text.load("%a", place), value(k))
                if turn >= self.n:
                    total = text.emit(f"fmul double {total}, {text.load('%a', self.at_inverse + i)}")
                known[i] = total
                text.store(total, "%work", i)
            text.do("ret void")
            head = f"define internal void @solve_{number}(ptr %a, ptr %x, ptr %work) noinline nounwind {{"
            bodies.append("\n".join([head, *text.lines, "}"]))
        text = _Text()
        text.do(f"%work = alloca double, i64 {self.n}")
        for number in range(len(pieces)):
            text.do(f"call void @solve_{number}(ptr %a, ptr %x, ptr %work)")
        for i in range(self.n):
            text.store(text.load("%work", i), "%x", int(self.e.row_of[i]))
        return "\n".join([*bodies, "define void @solve(ptr %a, ptr %x) nounwind {", *text.lines, "  ret void", "}"])

    def turn(self, text: _Text, turn: int, group: int, checks: list[str]) -> list[str]:
        """Print a row of L or U for a group of blocks; return the checks, NaN where a value is not finite."""
        i, entries = self.entries(turn)
        if turn < self.n and not entries:
            return checks  # the right-hand side as it is

        def at(k: int, b: int) -> int:
            return (b * self.n + int(self.e.row_of[k])) * LANES

        totals = [text.load("%x", at(i, b), _WIDE) for b in range(group)]
        for place, k in entries:
            factor = text.load_spread("%a", place)
            for b in range(group):
                totals[b] = text.minus_product(totals[b], factor, text.load("%x", at(k, b), _WIDE), _WIDE)
        if turn >= self.n:
            inverse = text.load_spread("%a", self.at_inverse + i)
            totals = [text.emit(f"fmul {_WIDE} {total}, {inverse}") for total in totals]
            zeros = [text.emit(f"fmul {_FUSED} {_WIDE} {total}, zeroinitializer") for total in totals]
            checks = [
                text.emit(f"fadd {_FUSED} {_WIDE} {one}, {zero}") for one, zero in zip(checks, zeros, strict=True)
            ]
        for b in range(group):
            text.store(totals[b], "%x", at(i, b), _WIDE)
        return checks

    def group(self, group: int) -> str:
        """Print the functions for `group` blocks together."""
        sizes = [9 * group + len(self.entries(turn)[1]) * (4 + 4 * group) for turn in range(2 * self.n)]
        pieces = list(_pieces(sizes))
        arguments = f"ptr %a, ptr %x, {_WIDE}"
        bodies = []
        for number, turns in enumerate(pieces):
            text = _Text()
            checks = ["%check"] * group
            for turn in turns:
                checks = self.turn(text, turn, group, checks)
            total = checks[0]
            for one in checks[1:]:
                total = text.emit(f"fadd {_WIDE} {total}, {one}")
            text.do(f"ret {_WIDE} {total}")
            head = f"define internal {_WIDE} @group{group}_{number}({arguments} %check) noinline nounwind {{"
            bodies.append("\n".join([head, *text.lines, "}"]))
        text, check = _Text(), "%check"
        for number in range(len(pieces)):
            check = text.emit(f"call {_WIDE} @group{group}_{number}({arguments} {check})")
        head = f"define internal {_WIDE} @group{group}({arguments} %check) nounwind {{"
        return "\n".join([*bodies, head, *text.lines, f"  ret {_WIDE} {check}", "}"])

    def solve_blocks(self) -> str:
        """Print ``solve_blocks``: all blocks, in groups."""
        lines = ["define i64 @solve_blocks(ptr %a, ptr %x, i64 %blocks) nounwind {", "  br label %head0"]
        block, check, came_from = "0", "zeroinitializer", "0"
        for number, group in enumerate(GROUPS):
            lines += [
                f"head{number}:",
                f"  %block{number} = phi i64 [ {block}, %{came_from} ], [ %next{number}, %body{number} ]",
                f"  %check{number} = phi {_WIDE} [ {check}, %{came_from} ], [ %found{number}, %body{number} ]",
                f"  %next{number} = add i64 %block{number}, {group}",
                f"  %fits{number} = icmp sle i64 %next{number}, %blocks",
                f"  br i1 %fits{number}, label %body{number}, label %head{number + 1}",
                f"body{number}:",
                f"  %offset{number} = mul i64 %block{number}, {self.n * LANES}",
                f"  %x{number} = getelementptr double, ptr %x, i64 %offset{number}",
                f"  %found{number} = call {_WIDE} @group{group}(ptr %a, ptr %x{number}, {_WIDE} %check{number})",
                f"  br label %head{number}",
            ]
            block, check, came_from = f"%block{number}", f"%check{number}", f"head{number}"
        lines += [
            f"head{len(GROUPS)}:",
            f"  %bad = fcmp uno {_WIDE} {check}, zeroinitializer",
            f"  %mask = bitcast <{LANES} x i1> %bad to i{LANES}",
            f"  %result = zext i{LANES} %mask to i64",
            "  ret i64 %result",
            "}",
        ]
        return "\n".join([*(self.group(group) for group in GROUPS), *lines])


def elimination_assembly(e: Elimination) -> str:
    """Return the LLVM module of an elimination with pivots on the diagonal."""
    substitution = _Substitution(e)
    parts = [_Factorisation(e).write(), substitution.solve(), substitution.solve_blocks()]
    return "\n".join(["declare double @llvm.fabs.f64(double)", *parts]) + "\n"


def has_diagonal_pivots(e: Elimination) -> bool:
    """Tell whether each state is eliminated with its own equation, as the code needs it."""
    return bool((e.column_of[e.row_of] == np.arange(e.row_of.size)).all())
