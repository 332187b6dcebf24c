"""Expressions at random points, in whole numbers modulo a prime: exact, so that what is zero there is zero.

Whether an expression vanishes identically cannot be seen from numbers with rounding errors: rates may lie fifteen
decades apart.  Modulo a prime P there is no rounding.  Sums, products and quotients are what they are, and an
expression that is not zero identically is so at a random point with a probability of about 1/P (Schwartz and Zippel).
A floating-point number is taken for the fraction that somebody meant: 0.3 is 3/10, and three times 0.1.

All other functions, `exp(x)` or a table, are *oracles*: a number that looks random but is always the same for the same
function of the same arguments.  So no relation between them is known but that equal ones are equal, and nothing is
taken for zero that is not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import casadi as ca
import numpy as np
import numpy.typing as npt

Residues = npt.NDArray[np.int64]

PRIMES = (2147483647, 2147483629, 2147483587, 2147483579, 2147483563, 2147483549, 2147483543, 2147483497)
"""The largest ones below 2^31: a product of two residues is a number of 64 bits."""

_SMALL_EXPONENT = 64
_LARGEST_DENOMINATOR = 1000  # of a fraction that is taken for what was meant by a number


def residue_of(number: float, prime: int) -> int:
    """Return the residue of the fraction that a number means; of one that is not finite, any number."""
    if not math.isfinite(number):
        return 12345 if math.isnan(number) else 54321
    simple = Fraction(number).limit_denominator(_LARGEST_DENOMINATOR)
    meant = simple if float(simple) == number else Fraction(repr(number))
    return meant.numerator % prime * pow(meant.denominator, -1, prime) % prime


def powers(base: Residues, exponent: int, prime: int) -> Residues:
    """Return ``base^exponent`` for an exponent that is not negative."""
    result, square = np.ones_like(base), base
    while exponent:
        if exponent & 1:
            result = result * square % prime
        square = square * square % prime
        exponent >>= 1
    return result


def inverses(values: Residues, prime: int) -> Residues:
    """Return the reciprocals; 0 for 0."""
    return powers(values, prime - 2, prime)


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return numbers that look random, equal ones for equal ones."""
    with np.errstate(over="ignore"):
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def oracle(operation: int, arguments: Sequence[Residues], prime: int) -> Residues:
    """Return a function of which nothing is known but that it is one."""
    state = np.full(arguments[0].shape, operation + 1, dtype=np.uint64)
    for place, argument in enumerate(arguments):
        with np.errstate(over="ignore"):
            state = _mixed(state * np.uint64(0x9E3779B97F4A7C15) + argument.astype(np.uint64) + np.uint64(place + 1))
    return (state % np.uint64(prime)).astype(np.int64)


def evaluate(function: Any, arguments: Sequence[Residues], prime: int) -> Residues:
    """Evaluate a CasADi function of SX at several points.

    Parameters
    ----------
    function
        With one output.
    arguments
        One for each input, (size of the input, number of points).

    Returns
    -------
    residues
        Of the output, (size of it, number of points).
    """
    points = max(argument.shape[1] for argument in arguments)
    result = np.zeros((function.numel_out(0), points), dtype=np.int64)
    register: dict[int, Residues] = {}
    for k in range(function.n_instructions()):
        operation, places, target = (
            function.instruction_id(k),
            function.instruction_input(k),
            function.instruction_output(k),
        )
        if operation == ca.OP_OUTPUT:
            result[target[1]] = register[places[0]]
        elif operation == ca.OP_CONST:
            register[target[0]] = np.full(points, residue_of(function.instruction_constant(k), prime))
        elif operation == ca.OP_INPUT:
            register[target[0]] = np.broadcast_to(arguments[places[0]][places[1]], (points,))
        else:
            register[target[0]] = _operated(operation, [register[i] for i in places], prime)
    return result


def _operated(operation: int, parts: list[Residues], prime: int) -> Residues:
    """Return what an operation makes of residues."""
    a, b = parts[0], parts[-1]
    if operation == ca.OP_ASSIGN:
        return a
    if operation in _EXACT:
        return _EXACT[operation](a, b) % prime
    if operation in (ca.OP_DIV, ca.OP_INV):
        below = inverses(b, prime)
        quotient = below if operation == ca.OP_INV else a * below % prime
        return np.where(b == 0, oracle(operation, parts, prime), quotient)
    if operation in (ca.OP_POW, ca.OP_CONSTPOW):
        exponent = int(b.flat[0])
        exponent = exponent - prime if exponent > prime // 2 else exponent
        if abs(exponent) <= _SMALL_EXPONENT and np.all(b == b.flat[0]):
            power = powers(a, abs(exponent), prime)
            return power if exponent >= 0 else np.where(a == 0, oracle(operation, parts, prime), inverses(power, prime))
        return np.where(a == 0, 0, oracle(operation, parts, prime))
    if operation == ca.OP_IF_ELSE_ZERO:
        return a * b % prime
    if operation in _ZERO_AT_ZERO:
        return np.where(a == 0, 0, oracle(operation, parts, prime))
    return oracle(operation, parts, prime)


_EXACT = {
    ca.OP_ADD: lambda a, b: a + b,
    ca.OP_SUB: lambda a, b: a - b,
    ca.OP_MUL: lambda a, b: a * b,
    ca.OP_NEG: lambda a, b: -a,
    ca.OP_SQ: lambda a, b: a * a,
    ca.OP_TWICE: lambda a, b: 2 * a,
}
_ZERO_AT_ZERO = frozenset([ca.OP_SQRT, ca.OP_FABS, ca.OP_SIGN, ca.OP_SIN, ca.OP_TAN, ca.OP_SINH, ca.OP_TANH])
