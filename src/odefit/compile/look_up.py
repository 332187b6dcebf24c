"""The look-up of a table, as LLVM assembly beside the code of the model.

An argument mostly stays in the interval in which it was found before, or moves to the next one: that interval is
remembered in the slot of the table, and looked at first.  Any other is found by bisection.  The interval depends on
the argument alone, so that the result does not depend on what was looked up before.

An argument outside the range of the table is noted in the slot, and the value is NaN, the derivatives 0: in a branch
that is not taken, no NaN must spread.  See `odefit.compile.table_data` for the data, and
`odefit.compile.table_inputs` for the slots.
"""

from __future__ import annotations

from odefit.compile.table_inputs import ORDERS
from odefit.native.table_slots import REFUSED, REMEMBERED

LOOK_UP = {1: "odefit_look_up_1", 2: "odefit_look_up_2"}
"""Names of the functions, by the number of arguments."""
RESULT = "[6 x double]"
"""What they return: the value and its derivatives, in the order of `ORDERS`."""

_INTERVAL = """
define internal i64 @odefit_interval(ptr %knots, i64 %n, ptr %memory, double %x) nounwind {
entry:
  %r = load i64, ptr %memory, align 8
  %pa = getelementptr double, ptr %knots, i64 %r
  %pb = getelementptr double, ptr %pa, i64 1
  %a = load double, ptr %pa, align 8
  %b = load double, ptr %pb, align 8
  %above = fcmp ole double %a, %x
  %below = fcmp olt double %x, %b
  %same = and i1 %above, %below
  br i1 %same, label %done, label %beside
beside:
  %up = add i64 %r, 1
  %down = sub i64 %r, 1
  %next = select i1 %above, i64 %up, i64 %down
  %low_ok = icmp sge i64 %next, 0
  %high_ok = icmp sle i64 %next, %n
  %ok = and i1 %low_ok, %high_ok
  br i1 %ok, label %near, label %search
near:
  %qa = getelementptr double, ptr %knots, i64 %next
  %qb = getelementptr double, ptr %qa, i64 1
  %c = load double, ptr %qa, align 8
  %d = load double, ptr %qb, align 8
  %above2 = fcmp ole double %c, %x
  %below2 = fcmp olt double %x, %d
  %found = and i1 %above2, %below2
  br i1 %found, label %keep, label %search
search:
  br label %halve
halve:
  %lo = phi i64 [ 0, %search ], [ %lo_new, %go_on ]
  %hi = phi i64 [ %n, %search ], [ %hi_new, %go_on ]
  %open = icmp slt i64 %lo, %hi
  br i1 %open, label %go_on, label %keep
go_on:
  %sum = add i64 %lo, %hi
  %more = add i64 %sum, 1
  %mid = sdiv i64 %more, 2
  %pm = getelementptr double, ptr %knots, i64 %mid
  %k = load double, ptr %pm, align 8
  %right = fcmp ole double %k, %x
  %less = sub i64 %mid, 1
  %lo_new = select i1 %right, i64 %mid, i64 %lo
  %hi_new = select i1 %right, i64 %hi, i64 %less
  br label %halve
keep:
  %i = phi i64 [ %next, %near ], [ %lo, %halve ]
  store i64 %i, ptr %memory, align 8
  br label %done
done:
  %result = phi i64 [ %r, %entry ], [ %i, %keep ]
  ret i64 %result
}

define internal double @odefit_distance(ptr %knots, i64 %i, double %x) alwaysinline nounwind {
  %first = icmp eq i64 %i, 0
  %at = select i1 %first, i64 1, i64 %i
  %p = getelementptr double, ptr %knots, i64 %at
  %base = load double, ptr %p, align 8
  %s = fsub double %x, %base
  ret double %s
}

define internal i1 @odefit_refused(ptr %range, double %x, ptr %note) alwaysinline nounwind {
entry:
  %low = load double, ptr %range, align 8
  %p = getelementptr double, ptr %range, i64 1
  %high = load double, ptr %p, align 8
  %under = fcmp olt double %x, %low
  %over = fcmp ogt double %x, %high
  %out = or i1 %under, %over
  br i1 %out, label %refuse, label %accept
refuse:
  store double %x, ptr %note, align 8
  ret i1 true
accept:
  ret i1 false
}
"""


class _Lines:
    """Assembly, a line at a time, with names for what it computes."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._count = 0

    def emit(self, text: str) -> str:
        self._count += 1
        self.lines.append(f"  %v{self._count} = {text}")
        return f"%v{self._count}"

    def element(self, pointer: str, index: int | str) -> str:
        return self.emit(f"getelementptr double, ptr {pointer}, i64 {index}")

    def load(self, pointer: str, index: int | str) -> str:
        return self.emit(f"load double, ptr {self.element(pointer, index)}, align 8")

    def polynomial(self, coefficients: list[str], s: str, order: int) -> str:
        """Return a derivative of the polynomial with these coefficients, ascending, by Horner's rule."""
        terms = []
        for power in range(order, len(coefficients)):
            factor = 1
            for k in range(order):
                factor *= power - k
            term = coefficients[power]
            terms.append(term if factor == 1 else self.emit(f"fmul double {term}, {float(factor)}"))
        result = terms[-1]
        for term in reversed(terms[:-1]):
            result = self.emit(f"fadd double {term}, {self.emit(f'fmul double {result}, {s}')}")
        return result


def _returned(lines: _Lines, values: dict[int, str]) -> None:
    result = "zeroinitializer"
    for place, value in values.items():
        result = lines.emit(f"insertvalue {RESULT} {result}, double {value}, {place}")
    lines.lines.append(f"  ret {RESULT} {result}")


def _header(name: str, arguments: str) -> str:
    return f"define internal {RESULT} @{name}(ptr %slot, {arguments}) nounwind {{"


_NOT_A_NUMBER = "0x7FF8000000000000"


def _opening(lines: _Lines) -> str:
    """Write how the data of a table are found; return the pointer to them."""
    address = lines.emit("load i64, ptr %slot, align 8")
    return lines.emit(f"inttoptr i64 {address} to ptr")


def _one_argument() -> str:
    w = _Lines()
    w.lines.append(_header(LOOK_UP[1], "double %x"))
    data = _opening(w)
    refused = w.emit(f"call i1 @odefit_refused(ptr {w.element(data, 1)}, double %x, ptr {w.element('%slot', REFUSED)})")
    w.lines += [f"  br i1 {refused}, label %outside, label %inside", "outside:"]
    _returned(w, {0: _NOT_A_NUMBER})
    w.lines.append("inside:")
    n = w.emit(f"fptosi double {w.load(data, 0)} to i64")
    knots, memory = w.element(data, 3), w.element("%slot", REMEMBERED)
    i = w.emit(f"call i64 @odefit_interval(ptr {knots}, i64 {n}, ptr {memory}, double %x)")
    s = w.emit(f"call double @odefit_distance(ptr {knots}, i64 {i}, double %x)")
    at = w.emit(f"add i64 {w.emit(f'add i64 {n}, 2')}, {w.emit(f'mul i64 {i}, 4')}")
    start = w.element(knots, at)
    c = [w.load(start, k) for k in range(4)]
    _returned(w, {0: w.polynomial(c, s, 0), 1: w.polynomial(c, s, 1), 3: w.polynomial(c, s, 2)})
    return "\n".join([*w.lines, "}"])


def _two_arguments() -> str:
    w = _Lines()
    w.lines.append(_header(LOOK_UP[2], "double %x, double %z"))
    data = _opening(w)
    bad = [
        w.emit(
            f"call i1 @odefit_refused(ptr {w.element(data, 2 + 2 * k)}, double {x}, "
            f"ptr {w.element('%slot', REFUSED + k)})"
        )
        for k, x in enumerate(("%x", "%z"))
    ]
    w.lines += [f"  br i1 {w.emit(f'or i1 {bad[0]}, {bad[1]}')}, label %outside, label %inside", "outside:"]
    _returned(w, {0: _NOT_A_NUMBER})
    w.lines.append("inside:")
    n, m = (w.emit(f"fptosi double {w.load(data, k)} to i64") for k in range(2))
    first = w.element(data, 6)
    second = w.element(first, w.emit(f"add i64 {n}, 2"))
    places = []
    for k, (knots, count, x) in enumerate(((first, n, "%x"), (second, m, "%z"))):
        memory = w.element("%slot", REMEMBERED + k)
        i = w.emit(f"call i64 @odefit_interval(ptr {knots}, i64 {count}, ptr {memory}, double {x})")
        places.append((i, w.emit(f"call double @odefit_distance(ptr {knots}, i64 {i}, double {x})")))
    (i, s), (j, r) = places
    row = w.emit(f"mul i64 {i}, {w.emit(f'add i64 {m}, 1')}")
    cell = w.emit(f"mul i64 {w.emit(f'add i64 {row}, {j}')}, 16")
    start = w.element(second, w.emit(f"add i64 {w.emit(f'add i64 {m}, 2')}, {cell}"))
    c = [[w.load(start, 4 * a + b) for b in range(4)] for a in range(4)]
    values = {}
    for place, (along, across) in enumerate(ORDERS):
        values[place] = w.polynomial([w.polynomial(c[a], r, across) for a in range(4)], s, along)
    _returned(w, values)
    return "\n".join([*w.lines, "}"])


def look_up_code() -> str:
    """Return the functions that look up tables of one and of two arguments."""
    return "\n".join([_INTERVAL, _one_argument(), _two_arguments(), ""])
