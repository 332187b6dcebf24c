"""Models whose right-hand side is a function of numbers: what they consist of, pickles, and what is refused."""

from __future__ import annotations

import ctypes
import pickle

import numba
import numpy as np
import pytest

from odefit.errors import LanguageError, ModelError
from odefit.model import Model
from odefit.model.conserved_totals import checked_totals, eliminated
from odefit.model.table_calls import calls_in

POINTER = ctypes.POINTER(ctypes.c_double)


def decay(t, y, p):
    return [-p[0] * y[0], p[0] * y[0]]


@numba.njit
def native_decay(t, y, p, out):
    out[0] = -p[0] * y[0]
    out[1] = p[0] * y[0]


@ctypes.CFUNCTYPE(None, ctypes.c_double, POINTER, POINTER, POINTER)
def c_decay(t, y, p, out):
    out[0] = -p[0] * y[0]
    out[1] = p[0] * y[0]


def model(function=decay, **options) -> Model:
    given = {"initial": {"A": "2*A0", "B": 0}, "observables": {"s": "f*(A + B)", "r": "s/A(0)"}, **options}
    return Model.from_callable(function, ["A", "B"], ["k"], further_parameters=["A0", "f"], **given)


def test_what_it_consists_of():
    made = model()
    assert (made.states, made.parameters, tuple(made.definitions)) == (("A", "B"), ("k", "A0", "f"), ("s", "r"))
    (foreign,) = made.foreign
    assert (foreign.states, foreign.parameters) == (("A", "B"), ("k",))  # all that the function is given
    assert made.source is None
    assert calls_in(made.rhs["A"]) == []  # no table


def test_observables_may_be_traced():
    made = model(observables=lambda t, y, p: {"z": y.A * p.f + t})
    assert tuple(made.definitions) == ("z",)


@pytest.mark.parametrize("function", [decay, native_decay], ids=["python", "numba"])
def test_pickles_hold_the_function(function):
    found = pickle.loads(pickle.dumps(model(function, autonomous=True)))
    (foreign,) = found.foreign
    assert foreign.autonomous
    np.testing.assert_array_equal(foreign.native.call(0.0, np.array([2.0, 1.0]), np.array([3.0])), [-6.0, 6.0])
    assert found.with_rates(("A",)).foreign == found.foreign


def test_functions_that_have_no_place_cannot_be_pickled():
    def inner(t, y, p):
        return y

    for function in (inner, lambda t, y, p: y):
        with pytest.raises(ModelError, match="cannot be sent to another process.*define it at the top of a module"):
            pickle.dumps(model(function))
    with pytest.raises(ModelError, match="is known by its address alone, which means nothing in another process"):
        pickle.dumps(model(c_decay))


def mistaken(words, error=ModelError, function=decay, states=("A", "B"), parameters=("k",), initial=None, **options):
    with pytest.raises(error, match=words):
        Model.from_callable(function, states, parameters, initial or {"A": 1, "B": 0}, **options)


def test_mistakes_in_the_arguments():
    mistaken("needs a state of which it gives the derivative", states=())
    mistaken("initial gives no value for 'B'", initial={"A": 1})
    mistaken("the name 'k' is given twice", further_parameters=["k"])
    mistaken("states are given as a list of names", states="AB")
    mistaken("has to be a function, got a str", function="A' = -k*A")
    mistaken("depends on 'A', which varies in time", initial={"A": 1, "B": "A"})
    mistaken("'q'", LanguageError, observables={"z": "q*A"})
    mistaken("observable 'z' has to be an expression or a number, got a list", observables={"z": [1]})
    mistaken("'A' is given twice", observables={"A": "k"})


def test_conserved_totals_are_put_into_the_equations():
    totals = [{"A": 1, "B": 1, "C": 1}, {"B": 2, "C": 1}]
    found = eliminated(checked_totals(totals, ["A", "B", "C"]), ["A", "B", "C"])
    # C = -2 B, and A = -B - C = B
    assert found == {"C": {"A": 2.0}, "B": {"A": -1.0}}


def test_mistakes_in_conserved_totals():
    mistaken("names 'X', which is no state", conserved=[{"X": 1}])
    mistaken("the weight of 'A' in a conserved total is 0", conserved=[{"A": 0}])
    mistaken("conserved is a list of totals", conserved={"A": 1})
    mistaken("one of the conserved totals follows from the others", conserved=[{"A": 1, "B": 1}, {"A": 2, "B": 2}])


def test_a_dict_of_derivatives_is_for_functions_that_are_traced():
    made = Model.from_callable(lambda t, y, p: {"A": 1.0}, ["A"], [], {"A": 0})
    assert made.foreign[0].native.fault(0.0, np.zeros(1), np.zeros(0)) == "returned a dict that is no array of numbers"
