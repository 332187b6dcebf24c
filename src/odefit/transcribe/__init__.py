"""From a compiled problem to an objective that a solver can minimise."""

from odefit.transcribe.single import SingleShooting

__all__ = ["SingleShooting"]
