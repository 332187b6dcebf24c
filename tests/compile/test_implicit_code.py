"""Algebraic unknowns in native code: solutions, and derivatives of both orders against closed forms."""

from __future__ import annotations

import ctypes

import casadi as ca
import numpy as np
import pytest

from odefit.compile.functions import FunctionLibrary, SymbolicFunction
from odefit.compile.table_inputs import n_inputs, placed_blocks
from odefit.model import Model
from odefit.model.table_calls import call_table, with_calls_replaced
from odefit.native.implicit_solve import NOT_FINITE, NOT_FOUND, SINGULAR, SOLVE, solve_implicit
from odefit.native.kernel_calls import kernel_address
from odefit.native.table_slots import ADDRESS, PHASE, REFUSED, REMEMBERED, SLOT

EPS = np.finfo(float).eps


class Solved:
    """The definitions `names` of a text as native functions of `variables`, with slots and memories of their own."""

    def __init__(self, text: str, names: str, variables: str, *, remembering: bool = True) -> None:
        model = Model.from_text(text)
        self.blocks = placed_blocks((), model.implicit)
        u = ca.SX.sym("u", n_inputs((), model.implicit))
        slots = {one.block.symbol.element_hash(): u[one.slot] for one in self.blocks}
        out = ca.vertcat(*model.resolve([model.symbols[name] for name in names.split()]))
        out = ca.cse(with_calls_replaced(out, lambda block, given: call_table(slots[block.element_hash()], given)))
        z = ca.vertcat(*(model.symbols[name] for name in variables.split()))
        arrays = (("z", z), ("u", u))
        symbolic = SymbolicFunction(
            "f", model.symbols["t"], arrays, ("z",), out, True, blocks=self.blocks, remembering=remembering
        )
        self.symbolic, self.native = symbolic, FunctionLibrary("a test", [symbolic])["f"]
        self.n, self.m = out.numel(), z.numel()
        self.u = np.zeros(u.numel())
        self.forget()

    def forget(self) -> None:
        for one in self.blocks:
            self.u.view(np.int64)[one.slot + ADDRESS] = kernel_address(solve_implicit, SOLVE)
            self.u[one.slot + REMEMBERED] = 0.0
            self.u[one.slot + REFUSED : one.slot + REFUSED + 2] = np.nan

    def noted(self, block: int = 0) -> tuple[float, float]:
        why, where = self.u[self.blocks[block].slot + REFUSED :][:2].tolist()
        return why, where

    def _call(self, address: int, n_out: int, z, *further) -> np.ndarray:
        out, arrays = np.empty(n_out), [np.array(one, dtype=float) for one in (z, *further)]
        function = ctypes.CFUNCTYPE(None, ctypes.c_double, *[ctypes.c_void_p] * (len(arrays) + 2))(address)
        places = [one.ctypes.data for one in arrays]
        function(0.0, places[0], self.u.ctypes.data, *places[1:], out.ctypes.data)
        return out

    def __call__(self, *z: float) -> np.ndarray:
        return self._call(self.native.value, self.n, z)

    def jacobian(self, *z: float) -> np.ndarray:
        result = np.zeros((self.n, self.m))
        rows = np.repeat(np.arange(self.n), np.diff(self.native.row_ptr))
        result[rows, self.native.col.astype(int)] = self._call(self.native.jacobian, self.native.col.size, z)
        return result

    def directions(self, z, v: np.ndarray) -> np.ndarray:
        return self._call(self.native.directions, 4 * self.n, z, v).reshape(self.n, 4)

    def second(self, z, v, w) -> np.ndarray:
        return self._call(self.native.second, self.n, z, v, w)

    def hessians(self, *z: float) -> np.ndarray:
        unit = np.eye(self.m)
        return np.array([[self.second(z, v, w) for w in unit] for v in unit]).transpose(2, 0, 1)


def closed_form(expressions: list[str], variables: str):
    """Return values, Jacobian and Hessians of explicit formulas, by CasADi."""
    names = [f"f{i}" for i in range(len(expressions))]
    model = Model.from_text("\n".join(f"{name} = {one}" for name, one in zip(names, expressions, strict=True)))
    z = ca.vertcat(*(model.symbols[name] for name in variables.split()))
    f = ca.vertcat(*(model.definitions[name] for name in names))
    hessians = [ca.hessian(f[i], z)[0] for i in range(f.numel())]
    function = ca.Function("f", [z], [f, ca.jacobian(f, z), *hessians])
    return lambda *z: [np.array(one) for one in function(np.array(z))]


EQUILIBRIUM = """
algebraic A ~ 0.5
algebraic B ~ 0.5
algebraic AB ~ 0.1
0 = A + AB - A_total
0 = B + AB - B_total
0 = A*B - K*AB
"""
ROOT = "sqrt((A_total + B_total + K)^2 - 4*A_total*B_total)"
AB = f"(A_total + B_total + K - {ROOT})/2"
CUBIC = "algebraic x ~ 1\n0 = x^3 + p*x + q"
CARDANO = "sqrt(q^2/4 + p^3/27)"
CASES = {
    "cubic": (
        CUBIC, "x", "p q",
        [f"(-q/2 + {CARDANO})^(1/3) - (q/2 + {CARDANO})^(1/3)"],
        lambda rng: (rng.uniform(0.5, 3), rng.uniform(-0.5, 0.5)),
    ),
    "quadratic": (
        "algebraic x ~ 1\ny = x*b\n0 = x^2 + y - c\nz = y^2*b", "x z", "b c",
        ["(-b + sqrt(b^2 + 4*c))/2", "((-b + sqrt(b^2 + 4*c))/2*b)^2*b"],
        lambda rng: (rng.uniform(-2, 2), rng.uniform(0.1, 5)),
    ),
    "equilibrium": (
        EQUILIBRIUM, "A B AB", "A_total B_total K",
        [f"A_total - {AB}", f"B_total - {AB}", AB],
        lambda rng: tuple(rng.uniform(0.2, 2, 3)),
    ),
    "one after the other": (
        "algebraic x ~ 1\nalgebraic y ~ 1\n0 = y^2 - x*c\n0 = x^2 - b", "y", "b c",
        ["sqrt(sqrt(b)*c)"], lambda rng: tuple(rng.uniform(0.2, 3, 2)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("remembering", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_solutions_and_derivatives_are_those_of_closed_forms(case, remembering):
    text, names, variables, expressions, draw = CASES[case]
    solved, exact = Solved(text, names, variables, remembering=remembering), closed_form(expressions, variables)
    rng = np.random.default_rng(1)
    for _ in range(20):
        z = draw(rng)
        value, jacobian, *hessians = exact(*z)
        np.testing.assert_allclose(solved(*z), value[:, 0], rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(solved.jacobian(*z), jacobian, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(solved.hessians(*z), hessians, rtol=1e-9, atol=1e-10)
        v = rng.normal(size=(len(z), 4))
        np.testing.assert_allclose(solved.directions(z, v), jacobian @ v, rtol=1e-10, atol=1e-11)


def test_lambert_w_and_its_derivatives():
    from scipy.special import lambertw

    solved = Solved("algebraic W ~ 0.5\n0 = W*exp(W) - a", "W", "a")
    for a in (1e-8, 0.1, 1.0, 30.0, 1e6, -0.2):
        w = lambertw(a).real
        first = w / (a * (1 + w))
        second = -(w**2) * (w + 2) / (a**2 * (1 + w) ** 3)
        assert solved(a)[0] == pytest.approx(w, rel=4 * EPS)
        assert solved.jacobian(a)[0, 0] == pytest.approx(first, rel=1e-14)
        assert solved.hessians(a)[0, 0, 0] == pytest.approx(second, rel=1e-13)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_random_systems_have_exact_derivatives(k):
    rng = np.random.default_rng(k)
    c = rng.uniform(-0.3, 0.3, (k, k))
    lines = [f"algebraic x{i} ~ 0" for i in range(k)]
    for i in range(k):
        coupled = "".join(f" + ({float(c[i, j])!r})*sin(x{j} + p)" for j in range(k))
        lines.append(f"0 = x{i} + x{i}^3/3{coupled} - q*{i + 1}")
    names = [f"x{i}" for i in range(k)]
    solved = Solved("\n".join(lines), " ".join(names), "p q")
    assert [len(one.block.unknowns) for one in solved.blocks] == [k]
    weight = np.arange(1, k + 1)
    for z in rng.normal(size=(5, 2)):
        x = solved(*z)
        s, slope = np.sin(x + z[0]), np.cos(x + z[0])
        assert np.abs(x + x**3 / 3 + c @ s - z[1] * weight).max() < 1e-14 * k * 10
        by_x, by_z = np.diag(1 + x**2) + c * slope, np.column_stack([c @ slope, -weight])
        exact = -np.linalg.solve(by_x, by_z)
        np.testing.assert_allclose(solved.jacobian(*z), exact, rtol=1e-12, atol=1e-13)
        h, hessians = 1e-5, solved.hessians(*z)
        for a, unit in enumerate(np.eye(2)):
            difference = (solved.jacobian(*(z + h * unit)) - solved.jacobian(*(z - h * unit))) / (2 * h)
            np.testing.assert_allclose(hessians[:, a], difference, rtol=1e-6, atol=1e-8)


def test_where_one_came_from_is_forgotten():
    solved, rng = Solved(EQUILIBRIUM, "A B AB", "A_total B_total K"), np.random.default_rng(3)
    points = rng.uniform(0.1, 3, (200, 3))
    along = np.array([solved(*z) for z in points])
    for z, x in zip(points, along, strict=True):
        solved.forget()
        np.testing.assert_allclose(solved(*z), x, rtol=8 * EPS)
    solved.forget()
    assert (np.array([solved(*z) for z in points]) == along).all()


@pytest.mark.parametrize(("guess", "root"), [("-3", -2.0), ("0.1", 0.0), ("1.5", 2.0)])
def test_the_solution_near_the_guess_is_taken_and_kept(guess, root):
    solved = Solved(f"algebraic x ~ {guess}\n0 = x*(x - a)*(x + a)", "x", "a")
    assert solved(2.0)[0] == pytest.approx(root, abs=1e-14)
    for a in (1.0, 0.1, 5.0, 0.2, 300.0):
        assert solved(a)[0] == pytest.approx(root / 2.0 * a, abs=1e-13)


@pytest.mark.parametrize(
    ("text", "a", "root"),
    [
        ("algebraic x ~ 1\n0 = log(x) - a", -30.0, np.exp(-30.0)),
        ("algebraic x ~ 1\n0 = log(x) - a", 30.0, np.exp(30.0)),
        ("algebraic x ~ 3\n0 = atan(x) - a", 0.0, 0.0),
        ("algebraic x ~ 0\n0 = exp(x) - a", 1e10, np.log(1e10)),
        ("algebraic x ~ 1e-7\n0 = x^2 + 1e-3*x - a", 1e-6, 6.180339887498949e-4),
        ("algebraic x ~ 1\n0 = tanh(x) - a", 0.999999, np.arctanh(0.999999)),
        ("algebraic x ~ 5\n0 = exp(-x^2)*x - a", 0.0, 0.0),
    ],
)
def test_a_poor_guess_is_left_by_continuation(text, a, root):
    solved = Solved(text, "x", "a")
    if "exp(-x^2)" in text:  # behind the maximum there is no way
        assert np.isnan(solved(a)[0])
        return
    assert solved(a)[0] == pytest.approx(root, rel=1e-9, abs=1e-14)


def test_any_guess_leads_to_the_only_solution_of_a_rising_equation():
    solved = Solved("algebraic x ~ g\n0 = b*x + c*x^3 + d*tanh(x) + e*x^5 - a", "x", "a b c d e g")
    rng = np.random.default_rng(7)
    for _ in range(300):
        a, g = (rng.choice([-1, 1]) * 10 ** rng.uniform(-3, 3) for _ in range(2))
        b, c, d, e = 10 ** rng.uniform(-1, 1, 4)
        solved.forget()
        x = solved(a, b, c, d, e, g)[0]
        assert b * x + c * x**3 + d * np.tanh(x) + e * x**5 == pytest.approx(a, rel=1e-13)


@pytest.mark.parametrize(("guess", "root"), [(1.57, 0.0), (1.6, np.pi), (4.7, np.pi), (-1.57, 0.0)])
def test_a_first_correction_that_goes_far_does_not_lead_to_a_solution_far_away(guess, root):
    solved = Solved(f"algebraic x ~ {guess}\n0 = sin(x) - a", "x", "a")
    assert solved(0.0)[0] == pytest.approx(root, abs=1e-15)


@pytest.mark.parametrize("guess", [1e-8, 1e-3, 1.0, 1e3, 1e8])
def test_a_small_solution_is_as_accurate_as_a_large_one(guess):
    solved = Solved(f"algebraic x ~ {guess}\n0 = sqrt(x) - a", "x", "a")
    for a in (1e-8, 2.0, 1e-12, 1e-3):
        assert solved(a)[0] == pytest.approx(a**2, rel=8 * EPS)


def test_unknowns_pass_zero():
    solved = Solved("algebraic x ~ 0\nalgebraic y ~ 0\n0 = exp(x) - 1 - a + 0.1*a*y\n0 = y^3 + y - b - x", "x y", "a b")
    sequence = [*np.linspace(1e-3, -1e-3, 21), 1e-17, -1e-16, 1e-18, 0.0, 1e-300, 3.0]
    for a, b in zip(sequence, np.linspace(-3, 3, len(sequence)), strict=True):
        x, y = solved(a, b)
        assert abs(np.expm1(x) - a + 0.1 * a * y) <= 1e-15 * max(1.0, abs(a))
        assert abs(y**3 + y - b - x) <= 1e-14


def test_equal_arguments_are_solved_for_once():
    from odefit.compile.implicit_code import SolvedBlocks
    from odefit.compile.tape import assembly

    k = 6
    lines = [f"algebraic x{i} ~ 0\n0 = x{i} + sin(x{(i + 1) % k} + {i}*p) - q" for i in range(k)]
    solved = Solved("\n".join(lines), " ".join(f"x{i}" for i in range(k)), "p q")
    function = solved.symbolic.jacobian()[0]
    text = assembly([function], [["z", "u"]], solved=[SolvedBlocks(solved.blocks)])
    assert function.n_instructions() < 400
    assert text.count("call void @odefit_solve(") - text.count("call void @odefit_solve(ptr %own") == 1


def test_without_a_solution_the_value_is_missing_and_its_derivatives_are_zero():
    solved = Solved("algebraic x ~ 1\n0 = x^2 - a\ny = if(a > 0, x, a)", "x y", "a")
    assert np.isnan(solved(-1.0)[0])
    assert solved(-1.0)[1] == -1.0
    np.testing.assert_array_equal(solved.jacobian(-1.0)[:, 0], [0.0, 1.0])
    why, where = solved.noted()
    assert why in (SINGULAR, NOT_FOUND)
    assert where == 0
    np.testing.assert_allclose(solved(4.0), 2.0, rtol=EPS)


def test_a_branch_that_ends_is_not_exchanged_for_another_one():
    solved = Solved("algebraic x ~ 1.2\n0 = x^3 - x - a", "x", "a")
    assert solved(0.0)[0] == 1.0
    assert np.isnan(solved(-0.5)[0])  # behind the fold at -0.385 there is a root below -1 only
    assert solved(-0.3)[0] == pytest.approx(np.roots([1, 0, -1, 0.3]).real.max(), rel=1e-14)


def test_the_equation_to_blame_is_noted():
    solved = Solved("algebraic x ~ 1\nalgebraic y ~ 1\n0 = x + y - 1\n0 = x*y - log(x - a)", "x y", "a")
    assert np.isnan(solved(2.0)).all()
    assert solved.noted() == (NOT_FINITE, 1.0)


def test_arguments_that_are_missing_are_no_fault_of_the_equation():
    solved = Solved(CUBIC, "x", "p q")
    assert np.isnan(solved(np.nan, 1.0)[0])
    assert np.isnan(solved.noted()).all()
    assert np.isfinite(solved(1.0, 1.0)[0])


def test_shared_inputs_are_not_written_to_by_functions_that_do_not_remember():
    solved = Solved(CUBIC, "x", "p q", remembering=False)
    before = solved.u.tobytes()
    assert np.isfinite(solved(1.0, 1.0)[0])
    assert solved.u.tobytes() == before
    solved = Solved("algebraic x ~ 1\n0 = x^2 - a", "x", "a", remembering=False)
    assert np.isnan(solved(-1.0)[0])
    assert np.isfinite(solved.noted()).all()


def test_slots_have_room_for_what_is_noted():
    assert len({ADDRESS, REMEMBERED, REMEMBERED + 1, REFUSED, REFUSED + 1, PHASE}) == SLOT
