"""Look-ups in native code against SciPy's interpolants: values, first and second derivatives."""

from __future__ import annotations

import ctypes

import casadi as ca
import numpy as np
import pytest
from scipy.interpolate import CubicSpline, PchipInterpolator

from odefit.compile.functions import FunctionLibrary, SymbolicFunction
from odefit.compile.table_data import corners, packed_table
from odefit.model.table_calls import call_table
from odefit.native.table_slots import ADDRESS, REFUSED, REMEMBERED, SLOT
from odefit.problem import Table

KNOTS = np.array([-1.0, 0.0, 0.5, 2.0, 3.5, 3.75, 6.0])
VALUES = np.array([1.0, 2.0, -1.0, 0.5, 0.25, 3.0, 1.0])


class Looked:
    """``(U(y0 p) y1 + U(t), W(U(y0), y1)^2 p)`` in native code, with U of one argument and W of two."""

    def __init__(self, one: Table, two: Table) -> None:
        t, y, p, u = ca.SX.sym("t"), ca.SX.sym("y", 2), ca.SX.sym("p"), ca.SX.sym("u", 1 + 2 * SLOT)

        def first(x):
            return call_table(u[1], [x])

        second = call_table(u[1 + SLOT], [first(y[0]), y[1]])
        out = ca.vertcat(first(y[0] * p) * y[1] + first(t), second**2 * p)
        arrays = (("y", y), ("p", p), ("u", u))
        library = FunctionLibrary("a test", [SymbolicFunction("f", t, arrays, ("y", "p"), out, directional=True)])
        self.native = library["f"]
        self._data = packed_table(one), packed_table(two)
        self.u = np.zeros(1 + 2 * SLOT)
        for slot, data in enumerate(self._data):
            self.u.view(np.int64)[1 + slot * SLOT + ADDRESS] = data.ctypes.data

    def _call(self, address, n_out, t, *arrays):
        out = np.empty(n_out)
        inputs = [np.array(array, dtype=float) for array in arrays]
        places = (array.ctypes.data for array in inputs)
        y, p, *others = places
        function = ctypes.CFUNCTYPE(None, ctypes.c_double, *[ctypes.c_void_p] * (len(arrays) + 2))(address)
        function(t, y, p, self.u.ctypes.data, *others, out.ctypes.data)
        return out

    def value(self, t, z):
        return self._call(self.native.value, 2, t, z[:2], z[2:])

    def jacobian(self, t, z):
        native, result = self.native, np.zeros((2, 3))
        nonzeros = self._call(native.jacobian, native.col.size, t, z[:2], z[2:])
        rows = np.repeat([0, 1], np.diff(native.row_ptr))
        result[rows, native.col.astype(int)] = nonzeros
        return result

    def directions(self, t, z, v):
        return self._call(self.native.directions, 8, t, z[:2], z[2:], v[:2], v[2:]).reshape(2, 4)

    def second(self, t, z, v, w):
        return self._call(self.native.second, 2, t, z[:2], z[2:], v, w)


def reference(kind, knots, values):
    """Return SciPy's interpolant, a function of numbers."""
    if kind == "cubic":
        return CubicSpline(knots, values)
    if kind == "pchip":
        return PchipInterpolator(knots, values)
    if kind == "linear":
        return lambda x: float(np.interp(x, knots, values))
    return lambda x: float(values[np.searchsorted(knots, x, side="right") - 1])


def two_arguments(kind):
    """Return a table of two arguments, and the function that interpolates first across, then along."""
    rng = np.random.default_rng(5)
    x, z = np.array([-2.0, -0.5, 0.0, 1.0, 4.0]), np.array([-1.0, 0.0, 2.0, 3.0])
    values = rng.normal(size=(5, 4))

    def value(a, b):
        return reference(kind, x, np.array([float(reference(kind, z, row)(b)) for row in values]))(a)

    return Table((x, z), values, kind=kind, outside="hold"), value


@pytest.mark.parametrize("kind", ["linear", "hold", "cubic", "pchip"])
def test_values_and_derivatives_against_scipy_and_differences(kind):
    two, across = two_arguments("linear" if kind == "pchip" else kind)
    looked, one = Looked(Table(KNOTS, VALUES, kind=kind), two), reference(kind, KNOTS, VALUES)
    rng = np.random.default_rng(1)
    for _ in range(20):
        t, z = rng.uniform(-1, 6), np.array([rng.uniform(-0.5, 3.0), rng.uniform(-0.9, 2.9), rng.uniform(0.5, 1.5)])
        inner = float(np.clip(one(z[0]), -2, 4))
        expected = [one(z[0] * z[2]) * z[1] + one(t), across(inner, z[1]) ** 2 * z[2]]
        np.testing.assert_allclose(looked.value(t, z), expected, rtol=1e-12, atol=1e-13)
        jacobian, h = looked.jacobian(t, z), 1e-6
        differences = np.stack([looked.value(t, z + h * e) - looked.value(t, z - h * e) for e in np.eye(3)], 1)
        if kind != "hold":  # no knot lies within h of these points
            np.testing.assert_allclose(jacobian, differences / (2 * h), rtol=2e-6, atol=2e-7)
        v, w = rng.normal(size=(3, 4)), rng.normal(size=3)
        np.testing.assert_allclose(looked.directions(t, z, v), jacobian @ v, rtol=1e-12, atol=1e-12)
        bend = looked.second(t, z, v[:, 0], w)
        slopes = looked.jacobian(t, z + h * w) - looked.jacobian(t, z - h * w)
        np.testing.assert_allclose(bend, slopes @ v[:, 0] / (2 * h), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("outside", ["hold", "extend"])
@pytest.mark.parametrize("kind", ["linear", "hold", "cubic", "pchip"])
def test_outside(kind, outside):
    looked = Looked(Table(KNOTS, VALUES, kind=kind, outside=outside), two_arguments("linear")[0])
    spline = reference(kind, KNOTS, VALUES)
    for x in (-3.0, 6.0, 8.0):
        held = VALUES[0] if x < 0 else VALUES[-1]
        if outside == "hold" or kind == "hold":
            expected = held
        elif kind == "linear":
            expected = held + (x + 1) * 1.0 if x < 0 else held + (x - 6.0) * (1.0 - 3.0) / 2.25
        else:
            expected = float(spline(x))
        # y1 = 0: the second summand of the first component alone
        assert looked.value(x, np.array([0.0, 0.0, 1.0]))[0] == pytest.approx(expected, rel=1e-12)


def test_what_is_outside_is_refused_and_noted():
    looked = Looked(Table(KNOTS, VALUES), two_arguments("linear")[0])
    looked.u[1 + REFUSED] = np.nan
    z = np.array([0.0, 0.0, 1.0])
    assert np.isfinite(looked.value(-1.0, z)[0])
    assert np.isfinite(looked.value(6.0, z)[0])
    assert np.isnan(looked.u[1 + REFUSED])
    assert np.isnan(looked.value(6.5, z)[0])
    assert looked.u[1 + REFUSED] == 6.5
    assert np.isfinite(looked.jacobian(6.5, z)).all()  # in a branch that is not taken no NaN may spread
    assert np.isnan(looked.value(np.nan, z)[0])


def test_the_result_does_not_depend_on_what_was_remembered():
    rng = np.random.default_rng(0)
    knots = np.cumsum(rng.uniform(0.1, 1.0, 200))
    table = Table(knots, rng.normal(size=200), kind="pchip", outside="hold")
    looked, z = Looked(table, two_arguments("linear")[0]), np.array([0.0, 0.0, 1.0])
    for x in (*rng.uniform(-5.0, knots[-1] + 5.0, 30), *knots[:5], knots[-1]):
        found = []
        for remembered in (0, 1, 57, 199, 200):
            looked.u.view(np.int64)[1 + REMEMBERED] = remembered
            found.append(looked.value(x, z)[0])
        assert len(set(found)) == 1
    assert 0 <= looked.u.view(np.int64)[1 + REMEMBERED] <= 200


def test_corners():
    jumps, kinks = corners(Table([0, 1, 2, 3], [1.0, 1.0, 2.0, 2.0], kind="hold"), 0)
    assert (jumps.tolist(), kinks.tolist()) == ([0.0, 2.0], [])
    assert corners(Table([0, 1, 2, 3], [0.0, 1.0, 2.0, 1.0]), 0)[1].tolist() == [2.0]
    assert corners(Table([0, 1, 2], [0.0, 1.0, 2.0], outside="hold"), 0)[1].tolist() == [0.0, 2.0]
    assert corners(Table([0, 1, 2], ["a", 1.0, 2.0]), 0)[1].tolist() == [0.0, 1.0, 2.0]
    assert corners(Table([0, 1, 2], [0.0, 1.0, 2.0], kind="cubic"), 0)[1].size == 0
