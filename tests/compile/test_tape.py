"""The lowering to native code against CasADi's own evaluation, bit by bit."""

from __future__ import annotations

import itertools
import re

import casadi as ca
import numpy as np
import pytest
from casadi import SX

from odefit.compile import tape
from odefit.compile.functions import SymbolicFunction
from odefit.compile.machine import CAREFUL_BELOW, OPTIMISE_BELOW, LoadedObject, build_object
from odefit.errors import CompileError

NAN, INF = np.nan, np.inf
UNARY = """EXP LOG SIN COS TAN ASIN ACOS ATAN SINH COSH TANH ASINH ACOSH ATANH ERF LOG1P EXPM1
    SQRT FABS FLOOR CEIL SIGN NEG SQ TWICE INV ASSIGN NOT""".split()
BINARY = """ADD SUB MUL DIV POW CONSTPOW ATAN2 HYPOT FMOD FMIN FMAX COPYSIGN LT LE EQ NE AND OR IF_ELSE_ZERO""".split()
LEVELS = pytest.mark.parametrize(
    "size", [1, OPTIMISE_BELOW, CAREFUL_BELOW], ids=["optimised", "careful", "fast"]
)  # sizes from which the machine chooses how hard it works

SPECIAL = [
    NAN, INF, -INF, 0.0, -0.0, 5e-324, -5e-324, 1e-310, 1e308, -1e308, 1e-8, -1e-8, 0.5, -0.5, 1.0, -1.0,
    2.0, -2.0, 3.0, -7.0, np.pi, np.pi / 2, 709.9, -745.2, 1e17,
]  # fmt: skip


def spread(count: int, seed: int) -> np.ndarray:
    """Numbers of both signs over six orders of magnitude."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=count) * 10.0 ** rng.integers(-3, 3, size=count)


def points(n: int) -> np.ndarray:
    """Columns are points: all combinations of the special values, and ordinary ones."""
    ordinary = spread(150 * n, seed=n).reshape(n, -1)
    return np.hstack([np.array(list(itertools.product(SPECIAL, repeat=n))).T, ordinary])


def code(name: str) -> int:
    return getattr(ca, f"OP_{name}")


def apply(name: str, *arguments: SX) -> SX:
    return SX.unary(code(name), *arguments) if len(arguments) == 1 else SX.binary(code(name), *arguments)


def on_inputs(name: str, n_inputs: int) -> tuple[SX, SX]:
    x = SX.sym("x", n_inputs)
    return x, apply(name, *(x[i] for i in range(n_inputs)))


def function_of(x: SX, *out: SX, name: str = "f"):
    return ca.Function(name, [SX.sym("t"), x], [ca.densify(ca.vertcat(*out)) if out else SX(0, 1)])


def same_bits(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Equal to the last bit and in the sign of zero; NaNs are all alike."""
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    return (a.view(np.int64) == b.view(np.int64)) | (np.isnan(a) & np.isnan(b))


def assert_same_bits(actual: np.ndarray, expected: np.ndarray, at: np.ndarray | None = None) -> None:
    wrong = np.argwhere(~same_bits(actual, expected))
    where = [] if at is None else at[..., wrong[:3, 0]].T.tolist()
    assert not wrong.size, f"{len(wrong)} differ: {actual[~same_bits(actual, expected)][:3]} at {where}"


def evaluate(native, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Native and CasADi values at many points, shape (points, outputs)."""
    count = at.shape[1]
    expected = np.array(native.function.map(count)(np.zeros((1, count)), at)).reshape(-1, count).T
    return np.array([native(column) for column in at.T]).reshape(expected.shape), expected


def test_every_lowered_operation_is_listed():
    assert {code(name) for name in UNARY + BINARY} == tape.OPERATIONS


@LEVELS
@pytest.mark.parametrize("name", UNARY)
def test_unary_operation(name, size, compiled):
    at = points(1)
    assert_same_bits(*evaluate(compiled(function_of(*on_inputs(name, 1)), size), at), at)


@LEVELS
@pytest.mark.parametrize("name", [name for name in BINARY if name not in ("FMIN", "FMAX")])
def test_binary_operation(name, size, compiled):
    at = points(2)
    assert_same_bits(*evaluate(compiled(function_of(*on_inputs(name, 2)), size), at), at)


@LEVELS
@pytest.mark.parametrize(("name", "reference"), [("FMIN", np.minimum), ("FMAX", np.maximum)])
def test_minimum_and_maximum_propagate_nan(name, reference, size, compiled):
    at = points(2)
    actual, expected = evaluate(compiled(function_of(*on_inputs(name, 2)), size), at)
    missing = np.isnan(at).any(axis=0)
    assert np.isnan(actual[missing]).all()
    np.testing.assert_array_equal(actual[~missing], expected[~missing])
    np.testing.assert_array_equal(actual[:, 0], reference(*at))


@LEVELS
@pytest.mark.parametrize(
    ("name", "pair", "negative"),
    [
        ("FMIN", (0.0, -0.0), True),
        ("FMIN", (-0.0, 0.0), True),
        ("FMAX", (0.0, -0.0), False),
        ("FMAX", (-0.0, 0.0), False),
    ],
)
def test_minimum_and_maximum_of_signed_zeros(name, pair, negative, size, compiled):
    (result,) = compiled(function_of(*on_inputs(name, 2)), size)(pair)
    assert result == 0.0
    assert np.signbit(result) == negative


@LEVELS
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", ["LT", "LE", "EQ", "NE", "AND", "OR", "NOT"])
def test_condition_times_value_selects(name, side, size, compiled):
    x = SX.sym("x", 3)
    condition = apply(name, x[0]) if name == "NOT" else apply(name, x[0], x[1])
    factors = (condition, x[2]) if side == "left" else (x[2], condition)
    values = [NAN, INF, -INF, 0.0, 1.5, -2.0]
    at = np.array(list(itertools.product(values, repeat=3))).T
    actual, _ = evaluate(compiled(function_of(x, condition, apply("MUL", *factors)), size), at)
    assert_same_bits(actual[:, 1], np.where(actual[:, 0] == 1.0, at[2], 0.0))
    assert set(actual[:, 0]) == {0.0, 1.0}


def test_product_of_conditions(compiled):
    x = SX.sym("x", 2)
    product = apply("MUL", apply("LT", x[0], SX(1.0)), apply("LT", x[1], SX(1.0)))
    native = compiled(function_of(x, product))
    assert [native(pair).item() for pair in [(0, 0), (0, 2), (2, 0), (2, 2)]] == [1.0, 0.0, 0.0, 0.0]


DERIVABLE = [name for name in UNARY + BINARY if name not in ("FMIN", "FMAX", "IF_ELSE_ZERO")]


@LEVELS
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", DERIVABLE)
def test_derivatives_of_operations(name, order, size, compiled):
    n = 1 if name in UNARY else 2
    x, value = on_inputs(name, n)
    symbolic = SymbolicFunction("f", SX.sym("t"), (("x", x),), ("x",), value)
    if order == 1:
        at, function = points(n), symbolic.jacobian()[0]
        native = compiled(function, size)
        assert_same_bits(*evaluate(native, at), at)
        return
    native = compiled(symbolic.second(), size)
    rng = np.random.default_rng(5)
    for point in points(n).T[:: 1 if n == 1 else 7]:
        v, w = rng.normal(size=(2, n))
        assert_same_bits(native(point, v, w), native.expected(point, v, w))


CALLS = ["exp", "log", "sin", "cos", "tan", "atan", "tanh", "sinh", "erf", "sqrt", "fabs", "floor", "expm1", "log1p"]


def random_graph(x: SX, n_operations: int, seed: int) -> list[SX]:
    """A graph in which late operations use early ones, conditions included (but not as factors)."""
    rng = np.random.default_rng(seed)
    values = [x[i] for i in range(x.numel())]
    factors = list(values)
    for _ in range(n_operations):
        a, b, c = (values[i] for i in rng.integers(0, len(values), size=3))
        kind = rng.integers(0, 6)
        if kind == 0:
            made = ca.tanh(getattr(ca, str(rng.choice(CALLS)))(a))
        elif kind == 1:
            made = apply("IF_ELSE_ZERO", apply("LT", a, b), c) + apply("IF_ELSE_ZERO", apply("LE", b, a), a)
        elif kind == 2:
            made = apply("OR", apply("LT", a, b), apply("NE", b, c))
        elif kind == 3:
            first, second = (factors[i] for i in rng.integers(0, len(factors), size=2))
            made = ca.sin(first * second)
        else:
            made = ca.sin(a + b if kind == 4 else a - b) * float(rng.normal())
        values.append(made)
        if kind != 2:
            factors.append(made)
    return values


@LEVELS
@pytest.mark.parametrize("seed", range(6))
def test_random_graphs(seed, size, compiled):
    x = SX.sym("x", 5)
    native = compiled(function_of(x, *random_graph(x, 150, seed)), size)
    at = spread(5 * 40, seed=seed).reshape(5, -1)
    assert_same_bits(*evaluate(native, at))


# A base that is a power of two makes exp2 of pow when the code is optimised: one unit in the last place.
@pytest.mark.parametrize(("base", "ulps"), [(2.0, 1), (0.5, 1), (4.0, 1), (10.0, 0), (np.e, 0), (0.3, 0)])
@LEVELS
def test_power_of_a_constant_base(base, ulps, size, compiled):
    x = SX.sym("x", 1)
    at = points(1)
    actual, expected = evaluate(compiled(function_of(x, apply("POW", SX(base), x[0])), size), at)
    finite = np.isfinite(expected)
    assert_same_bits(actual[~finite], expected[~finite])
    np.testing.assert_array_max_ulp(actual[finite], expected[finite], maxulp=max(ulps, 1))
    if ulps == 0 or size > 1:
        assert_same_bits(actual, expected, at)


@LEVELS
@pytest.mark.parametrize("exponent", [-2.0, -1.0, -0.5, 0.0, 1 / 3, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 7.0, 32.0])
def test_power_with_a_constant_exponent(exponent, size, compiled):
    x = SX.sym("x", 1)
    at = points(1)
    assert_same_bits(*evaluate(compiled(function_of(x, apply("POW", x[0], SX(exponent))), size), at), at)


CONSTANTS = [0.0, 1.0, -1.5, 0.1, 1 / 3, 1e-320, 5e-324, 1.7976931348623157e308, INF, -INF, NAN]


@LEVELS
@pytest.mark.parametrize("value", CONSTANTS)
def test_constants_are_exact(value, size, compiled):
    x = SX.sym("x", 1)
    native = compiled(function_of(x, SX(value), x[0] * SX(value)), size)
    assert_same_bits(native([1.0]), np.array([value, value]))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0x0000000000000000"),
        (-0.0, "0x8000000000000000"),
        (1.0, "0x3FF0000000000000"),
        (0.1, "0x3FB999999999999A"),
        (5e-324, "0x0000000000000001"),
        (-INF, "0xFFF0000000000000"),
    ],
)
def test_literal(value, text):
    assert tape.literal(value) == text


def test_time_is_the_first_argument(compiled):
    t, x = SX.sym("t"), SX.sym("x", 2)
    native = compiled(ca.Function("f", [t, x], [ca.vertcat(t, x[1] - t, t * x[0])]))
    assert native([2.0, 3.0], t=10.0).tolist() == [10.0, -7.0, 20.0]


def test_several_arrays(compiled):
    t, a, b, c = SX.sym("t"), SX.sym("a", 3), SX.sym("b", 2), SX.sym("c", 1)
    out = ca.vertcat(a[2] - b[1], b[0] * c[0], a[0] / c[0], a[1] + t)
    native = compiled(ca.Function("f", [t, a, b, c], [out]))
    assert native([1, 2, 3], [4, 5], [8], t=0.5).tolist() == [-2.0, 32.0, 0.125, 2.5]


UNSUPPORTED = {
    "erfinv": lambda x: ca.erfinv(x),
    "remainder": lambda x: ca.remainder(x, x + 1),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_operation_without_native_form(name, compiled):
    x = SX.sym("x", 1)
    with pytest.raises(CompileError, match=r"no native form \(CasADi operation \d+\)"):
        compiled(function_of(x, UNSUPPORTED[name](x[0])))


# ---------------------------------------------------------------------------------------------------- chunks


CHUNKS = [1, 2, 3, 7, 50]


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("seed", range(2))
@LEVELS
def test_chunked_equals_unchunked(chunk, seed, size, compiled, monkeypatch):
    x = SX.sym("x", 4)
    function = function_of(x, *random_graph(x, 120, 100 + seed))
    monkeypatch.setattr(tape, "CHUNK", 10**9)
    whole = compiled(function, size)
    monkeypatch.setattr(tape, "CHUNK", chunk)
    cut = compiled(function, size)
    assert n_chunks(function) > 120 // chunk
    for column in spread(4 * 20, seed=seed).reshape(4, -1).T:
        assert_same_bits(cut(column), whole(column))


def n_chunks(function) -> int:
    """Number of internal functions that `function` is cut into, by the assembly."""
    text = tape.assembly([function], [[f"a{i}" for i in range(1, function.n_in())]])
    return len(re.findall(r"^define internal void ", text, flags=re.MULTILINE))


@pytest.mark.parametrize("n_operations", [399, 400, 401, 1000, 5000])
def test_functions_longer_than_a_chunk(n_operations, compiled):
    """A chain x_{i+1} = sin(x_i) + x_{i-1}, so that every value is used in the next two."""
    x = SX.sym("x", 2)
    previous, current = x[0], x[1]
    for _ in range(n_operations // 2):
        previous, current = current, ca.sin(current) + previous
    function = function_of(x, current, previous)
    assert n_chunks(function) == (0 if n_operations < 398 else (function.n_instructions() - 2) // tape.CHUNK + 1)
    for column in ([0.3, -1.2], [5.0, 0.0], [NAN, 1.0]):
        native = compiled(function, 10**9)
        assert_same_bits(native(column), native.expected(column))


@pytest.mark.parametrize("chunk", CHUNKS)
def test_values_cross_many_borders(chunk, compiled, monkeypatch):
    """Early values are used at the very end, and work slots are reused in between."""
    monkeypatch.setattr(tape, "CHUNK", chunk)
    x = SX.sym("x", 3)
    early = [ca.sin(x[0]), ca.exp(x[1]), x[0] * x[2], ca.cos(x[2])]
    middle = x[1]
    for i in range(60):
        middle = ca.cos(middle + 0.1 * i)
    native = compiled(function_of(x, *early, middle, *(value * middle for value in early)))
    assert work_size(native.function) >= len(early)
    for column in spread(3 * 10, seed=3).reshape(3, -1).T:
        assert_same_bits(native(column), native.expected(column))


def test_work_slots_are_reused():
    x = SX.sym("x", 1)
    value = x[0]
    for _ in range(10 * tape.CHUNK):
        value = ca.sin(value)
    assert work_size(function_of(x, value)) <= 2


def work_size(function) -> int:
    """How many values the work array holds at once."""
    (size,) = re.findall(r"alloca double, i64 (\d+)", tape.assembly([function], [["a1"]]))
    return int(size)


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("use", ["select", "product", "logic", "not", "number", "output"])
def test_conditions_cross_borders(chunk, use, compiled, monkeypatch):
    monkeypatch.setattr(tape, "CHUNK", chunk)
    x = SX.sym("x", 3)
    condition = apply("LT", x[0], x[1])
    filler = x[2]
    for _ in range(60):
        filler = ca.sin(filler)
    late = {
        "select": apply("IF_ELSE_ZERO", condition, x[2]),
        "product": apply("MUL", condition, x[2]),
        "logic": apply("AND", condition, apply("LT", filler, SX(2.0))),
        "not": apply("NOT", condition),
        "number": condition + filler,
        "output": condition,
    }[use]
    native = compiled(function_of(x, condition, filler, late, late + filler))
    assert has_conditions_in_work(tape.assembly([native.function], [["a1"]]))
    for a, b, c in itertools.product([1.0, 2.0, NAN], [1.0, 2.0], [0.5, -3.0]):
        np.testing.assert_array_equal(native([a, b, c]), native.expected([a, b, c]))
    assert native([1.0, 2.0, 0.5])[2] != native([2.0, 1.0, 0.5])[2]
    if use in ("select", "product"):
        assert [native([1.0, 2.0, INF])[2], native([2.0, 1.0, INF])[2]] == [INF, 0.0]


def has_conditions_in_work(text: str) -> bool:
    """Tell whether a condition goes, as a number, through the work array."""
    for chunk in text.split("define ")[1:]:
        numbers = re.findall(r"(%\w+) = uitofp i1", chunk)
        places = re.findall(r"(%\w+) = getelementptr double, ptr %work", chunk)
        stores = re.findall(r"store double (%\w+), ptr (%\w+)", chunk)
        if any(value in numbers and place in places for value, place in stores):
            return True
    return False


@pytest.mark.parametrize("chunk", [1, 3, 400])
def test_constants_and_inputs_as_outputs(chunk, compiled, monkeypatch):
    monkeypatch.setattr(tape, "CHUNK", chunk)
    x = SX.sym("x", 3)
    out = [x[2], SX(1.5), x[0], SX(0.0), x[2], SX(NAN), x[1] * 2, SX(INF), x[0]]
    expected = np.array([3.0, 1.5, 1.0, 0.0, 3.0, NAN, 4.0, INF, 1.0])
    assert_same_bits(compiled(function_of(x, *out))([1.0, 2.0, 3.0]), expected)


@pytest.mark.parametrize("chunk", [1, 3, 400])
def test_same_value_in_many_outputs(chunk, compiled, monkeypatch):
    monkeypatch.setattr(tape, "CHUNK", chunk)
    x = SX.sym("x", 1)
    value = ca.exp(x[0])
    native = compiled(function_of(x, *[value] * 9))
    assert native([1.0]).tolist() == [np.exp(1.0)] * 9


@pytest.mark.parametrize("n_inputs", [0, 3])
@pytest.mark.parametrize("chunk", [1, 400])
def test_no_outputs(n_inputs, chunk, compiled, monkeypatch):
    monkeypatch.setattr(tape, "CHUNK", chunk)
    native = compiled(function_of(SX.sym("x", n_inputs)))
    assert native(np.ones(n_inputs)).size == 0


def test_no_inputs(compiled):
    assert compiled(function_of(SX(0, 1), SX(2.5), SX(-1.0)))([]).tolist() == [2.5, -1.0]


def test_structural_zeros_are_written(compiled):
    x = SX.sym("x", 2)
    out = SX(4, 1)
    out[2] = x[0] * x[1]
    native = compiled(ca.Function("f", [SX.sym("t"), x], [ca.densify(out)]))
    assert native([2.0, 3.0]).tolist() == [0.0, 0.0, 6.0, 0.0]


@pytest.mark.parametrize("chunk", [3, 400])
def test_several_functions_in_one_module(chunk, call, monkeypatch):
    monkeypatch.setattr(tape, "CHUNK", chunk)
    t, x, y = SX.sym("t"), SX.sym("x", 2), SX.sym("y", 1)
    first = ca.Function("first", [t, x], [ca.vertcat(ca.sin(x[0]) * ca.exp(x[1]), ca.cos(x[0]) - t)])
    second = ca.Function("second", [t, x, y], [ca.exp(x[1]) * ca.sin(y) + ca.tan(x[0])])
    loaded = LoadedObject(build_object(tape.assembly([first, second], [["x"], ["x", "y"]]), 1))
    at = [0.3, -0.7]
    assert_same_bits(call(loaded.address("first"), 2, at, t=1.0), np.array(first(1.0, at)).ravel())
    assert_same_bits(call(loaded.address("second"), 1, at, [2.0]), np.array(second(0.0, at, 2.0)).ravel())
    with pytest.raises(CompileError, match="no function 'third'"):
        loaded.address("third")


# ----------------------------------------------------------------------------------------------------- lanes


def directional(build, n: int, seed: int = 0):
    """The derivative of `build(x)` along v as a function of (t, x, v), and a point with LANES directions."""
    x, v = SX.sym("x", n), SX.sym("v", n)
    out = ca.densify(ca.jtimes(build(x), x, v))
    rng = np.random.default_rng(seed)
    return ca.Function("f", [SX.sym("t"), x, v], [out]), rng.normal(size=n), rng.normal(size=(n, tape.LANES))


def lane_by_lane(function, x: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.stack([np.array(function(0.0, x, column)).ravel() for column in v.T], axis=1)


@LEVELS
@pytest.mark.parametrize("name", [name for name in UNARY + BINARY if name != "ASSIGN"])
def test_lanes_of_every_derivative(name, size, compiled):
    n = 1 if name in UNARY else 2
    x, value = on_inputs(name, n)
    v = SX.sym("v", n)
    function = ca.Function("f", [SX.sym("t"), x, v], [ca.densify(ca.jtimes(value, x, v))])
    native = compiled(function, size, wide=("a2",))
    rng = np.random.default_rng(1)
    for point in spread(30 * n, seed=8).reshape(-1, n):
        v = rng.normal(size=(n, tape.LANES))
        assert_same_bits(native(point, v), lane_by_lane(function, point, v))


@LEVELS
@pytest.mark.parametrize("chunk", [1, 3, 50, 400])
def test_lanes_cross_borders(chunk, size, compiled, monkeypatch):
    monkeypatch.setattr(tape, "CHUNK", chunk)

    def build(x):
        values = [x[i] for i in range(4)]
        for i in range(40):
            values.append(ca.sin(values[i] * values[i + 2]) + values[i + 1] / (2 + values[i + 3] ** 2))
        return ca.vertcat(*values, values[-1] * values[4])

    function, x, v = directional(build, 4)
    native = compiled(function, size, wide=("a2",))
    assert_same_bits(native(x, v), lane_by_lane(function, x, v))


@LEVELS
def test_single_values_are_written_to_all_lanes(size, compiled):
    t, x, v = SX.sym("t"), SX.sym("x", 2), SX.sym("v", 2)
    function = ca.Function("f", [t, x, v], [ca.vertcat(x[0] * x[1], SX(2.5), t, v[1], x[0] < x[1], -v[0] + x[1])])
    directions = np.arange(2.0 * tape.LANES).reshape(2, -1)
    out = compiled(function, size, wide=("a2",))([3.0, 4.0], directions, t=7.0)
    expected = [[12.0] * 4, [2.5] * 4, [7.0] * 4, directions[1], [1.0] * 4, 4.0 - directions[0]]
    assert out.tolist() == np.array(expected).tolist()


@LEVELS
@pytest.mark.parametrize("chunk", [1, 400])
@pytest.mark.parametrize("condition", [True, False])
def test_condition_selects_lanes(condition, chunk, size, compiled, monkeypatch):
    monkeypatch.setattr(tape, "CHUNK", chunk)
    t, x, v = SX.sym("t"), SX.sym("x", 2), SX.sym("v", 1)
    test = apply("LT", x[0], x[1])
    late = ca.sin(ca.sin(ca.sin(x[0])))
    out = ca.vertcat(test, late, test * v[0], apply("IF_ELSE_ZERO", test, v[0] / x[0]))
    native = compiled(ca.Function("f", [t, x, v], [out]), size, wide=("a2",))
    v = np.array([1.0, NAN, INF, -2.0])
    result = native([1.0, 2.0] if condition else [0.0, -1.0], v)
    assert_same_bits(result[2], v if condition else np.zeros(4))
    assert_same_bits(result[3], v if condition else np.zeros(4))


@pytest.mark.parametrize("name", ["SQ", "SIN", "SQRT", "FABS", "SIGN", "EXP"])
def test_lanes_of_something_not_linear_are_refused(name, compiled):
    t, x, v = SX.sym("t"), SX.sym("x", 1), SX.sym("v", 1)
    function = ca.Function("f", [t, x, v], [x * apply(name, v[0])])
    with pytest.raises(CompileError, match="not linear in its directions"):
        compiled(function, wide=("a2",))


def test_functions_with_and_without_lanes_in_one_module(call):
    t, x, v = SX.sym("t"), SX.sym("x", 1), SX.sym("v_x", 1)
    single = ca.Function("single", [t, x], [ca.exp(x)])
    wide = ca.Function("wide", [t, x, v], [ca.exp(x) * v])
    text = tape.assembly([single, wide], [["x"], ["x", "v_x"]], ["v_x"])
    loaded = LoadedObject(build_object(text, 1))
    assert call(loaded.address("single"), 1, [0.0]).tolist() == [1.0]
    assert call(loaded.address("wide"), 4, [0.0], [1.0, 2.0, 3.0, 4.0]).tolist() == [1.0, 2.0, 3.0, 4.0]


# ------------------------------------------------------------------------------------------------ conditions


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda a, b: a + b, False),
        (lambda a, b: ca.sin(a) ** b, False),
        (lambda a, b: ca.fmin(a, b), True),
        (lambda a, b: ca.fmax(a, b), True),
        (lambda a, b: a < b, True),
        (lambda a, b: ca.if_else(a, b, a), True),
        (lambda a, b: ca.logic_not(a), True),
    ],
)
def test_conditions_are_found(build, expected):
    x = SX.sym("x", 2)
    assert tape.uses_conditions(function_of(x, build(x[0], x[1]))) is expected
