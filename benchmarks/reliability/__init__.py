"""Is what a fit says true?  On the gallery from perturbed starts, and on families of problems made to deceive it.

python -m benchmarks.reliability                                        the gallery, every solver
python -m benchmarks.reliability --families --out DIR                   the families; raw results into DIR
python -m benchmarks.reliability --families --out DIR --against BEFORE  the same, beside the results of another run
"""

from benchmarks.reliability.gallery import (
    BEST,
    FALSE,
    OTHER,
    PROBLEMS,
    End,
    best_known,
    false_share,
    judged,
    main,
    run,
    threshold,
    warned_share,
)

__all__ = [
    "BEST",
    "FALSE",
    "OTHER",
    "PROBLEMS",
    "End",
    "best_known",
    "false_share",
    "judged",
    "main",
    "run",
    "threshold",
    "warned_share",
]
