"""Index-1 problems: accuracy of the integrators, work and precision beside IDAS, and the forms of algebraic unknowns.

    python -m benchmarks.dae [accuracy | work | forms | large]

Models are compiled before the clock starts.  CPU times are the best of interleaved rounds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from benchmarks.dae import accuracy, forms, large, work

PARTS: dict[str, Callable[[], None]] = {
    "accuracy": accuracy.show,
    "work": work.show,
    "forms": forms.show,
    "large": large.show,
}


def main() -> None:
    """Print all tables, or those that are named."""
    wanted = sys.argv[1:] or list(PARTS)
    for name in wanted:
        if name not in PARTS:
            sys.exit(f"there is no table '{name}'; there are: {', '.join(PARTS)}")
        PARTS[name]()
        sys.stdout.flush()


if __name__ == "__main__":
    main()
