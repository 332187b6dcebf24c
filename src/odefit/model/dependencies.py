"""The order in which definitions can be computed."""

from __future__ import annotations

import graphlib
from collections.abc import Collection, Mapping

import casadi as ca
from casadi import SX

from odefit.model.names import state_of_initial


class Cycle(Exception):
    """Definitions that need each other; `names` begins and ends with the same name."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        super().__init__(" -> ".join(names))

    @property
    def words(self) -> str:
        """What they are."""
        plain = all(state_of_initial(name) is None for name in self.names)
        return f"the definitions {self}" if plain else f"{self}"


def evaluation_order(needs: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """Sort names so that each comes after what it needs.

    Parameters
    ----------
    needs
        For each name the names it uses; those that are not keys count as given.

    Raises
    ------
    Cycle
        Beginning with the name of the cycle that comes first in `needs`.
    """
    graph = {name: [other for other in used if other in needs] for name, used in needs.items()}
    try:
        return tuple(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError as error:
        # graphlib lists a cycle from the needed to the needing one
        loop = list(reversed(error.args[1]))[:-1]
        position = {name: index for index, name in enumerate(needs)}
        start = min(range(len(loop)), key=lambda index: position[loop[index]])
        raise Cycle((*loop[start:], *loop[:start], loop[start])) from None


def path_to(start: Collection[str], targets: Collection[str], needs: Mapping[str, Collection[str]]) -> list[str]:
    """Return a shortest chain from `start` through `needs` to one of `targets`; empty if there is none."""
    came_from: dict[str, str | None] = dict.fromkeys(start)
    queue = list(came_from)
    for name in queue:
        if name in targets:
            chain: list[str] = []
            step: str | None = name
            while step is not None:
                chain.append(step)
                step = came_from[step]
            return chain[::-1]
        for used in needs.get(name, ()):
            if used not in came_from:
                came_from[used] = name
                queue.append(used)
    return []


def symbols_in(expression: SX) -> list[SX]:
    """List the symbols an SX depends on, in CasADi's order."""
    return ca.symvar(expression)
