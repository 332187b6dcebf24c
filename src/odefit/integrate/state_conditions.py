"""Conditions on states: what no step knows of beforehand, in words."""

from __future__ import annotations

from odefit.compile import CompiledProblem


def conditions_on_states(compiled: CompiledProblem) -> tuple[str, ...]:
    """Return the conditions on states in the equations of all experiments, as text, each once."""
    experiments = range(len(compiled.structure.experiment_starts))
    return tuple(dict.fromkeys(text for e in experiments for text in compiled.model(e).on_states))


def words_for_state_conditions(compiled: CompiledProblem) -> str:
    """Return a sentence about them; an empty one if there are none."""
    found = conditions_on_states(compiled)
    if not found:
        return ""
    listed = ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
    return (
        f"The equations are not smooth where states cross a border ({listed}): steps may miss the moment, and "
        "derivatives do not know it; see whether a small max_step in [integrator] changes the result."
    )
