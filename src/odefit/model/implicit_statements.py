"""Algebraic unknowns in the text: their guesses and equations become blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from casadi import SX

from odefit.errors import UnsupportedError
from odefit.model.dependencies import path_to
from odefit.model.implicit import Block, StructureFault, implicit_definitions
from odefit.model.lowering import Namespace, lower
from odefit.model.nodes import Name, walk
from odefit.model.statements import Statement
from odefit.model.tokens import error_at, unsupported_at


def read_unknowns(
    text: str,
    algebraic: Mapping[str, Statement],
    equations: Sequence[Statement],
    definitions: Mapping[str, SX],
    needs: Mapping[str, Sequence[str]],
    before: Namespace,
    namespace: Namespace,
) -> tuple[tuple[Block, ...], dict[str, SX]]:
    """Return the blocks of the algebraic unknowns of a text, and the calls that are their values.

    Parameters
    ----------
    definitions, needs
        The explicit definitions, and the names in each.
    before, namespace
        What names mean at the start, which guesses may use, and in equations.
    """
    if not algebraic and not equations:
        return (), {}
    if not algebraic:
        advice = "declare the unknown, algebraic x ~ 0.5 say"
        raise error_at(text, equations[0].name, f"this equation has no algebraic unknown; {advice}")
    check_guesses(text, algebraic, needs, namespace)
    guesses = {name: lower(text, one.right, before) for name, one in algebraic.items()}
    lowered = [(lower(text, one.right, namespace), one.written) for one in equations]
    try:
        return implicit_definitions(guesses, lowered, definitions, namespace.symbols)
    except StructureFault as fault:
        place = next(iter(algebraic.values()))
        if fault.equation is not None:
            place = equations[fault.equation]
        elif fault.unknown:
            place = algebraic[fault.unknown]
        raise error_at(text, place.name, str(fault)) from None
    except UnsupportedError as error:
        raise unsupported_at(text, equations[0].name, str(error.args[0])) from None


def check_guesses(
    text: str, algebraic: Mapping[str, Statement], needs: Mapping[str, Sequence[str]], namespace: Namespace
) -> None:
    """Refuse guesses that depend on what changes along the trajectory."""
    varying = {namespace.time, *namespace.states, *algebraic}
    for name, one in algebraic.items():
        for node in walk(one.right):
            chain = path_to([node.token.value], varying, needs) if isinstance(node, Name) else []
            if chain:
                through = f" through {' -> '.join(chain[:-1])}" if len(chain) > 1 else ""
                raise error_at(
                    text,
                    node.token,
                    f"the guess of '{name}' depends on '{chain[-1]}'{through}; use numbers, parameters and definitions "
                    "of these only",
                )
