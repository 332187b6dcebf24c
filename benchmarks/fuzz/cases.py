"""A case: its files, and its way through load, check, fit and report."""

from __future__ import annotations

import json
import random
import warnings
from pathlib import Path

from benchmarks.fuzz.content import changed_content
from benchmarks.fuzz.sources import Files
from benchmarks.fuzz.text import changed_text

STAGES = ("load", "check", "fit", "report", "all")
"""Where a case was refused; "all": nowhere."""
_ITERATIONS, _STEPS, _STARTS = 20, 2000, 2  # fits are short


def case(number: int, seed: int, problems: list[Files]) -> Files:
    """Return case `number` of a seed."""
    draw = random.Random(f"{seed}-{number}")
    change = draw.choice((changed_text, changed_content, changed_content))
    return change(draw.choice(problems), draw)


def run(files: Files, folder: Path, *, fitting: bool = True) -> str:
    """Take a case through load, check and fit; return how far it came. What is wrong is raised."""
    import odefit as of
    from odefit.errors import plain
    from odefit.report.check import check

    (folder / "p.toml").write_bytes(files.toml)
    (folder / "p.csv").write_bytes(files.csv)
    reached = "load"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            problem = of.load(folder / "p.toml")
            settings = problem.settings
            problem = problem.with_settings(
                max_iterations=min(settings.max_iterations, _ITERATIONS),
                max_steps=min(settings.max_steps, _STEPS),
                starts=min(settings.starts, _STARTS),
            )
            reached = "check"
            if not fitting:
                return reached
            check(problem)
            reached = "fit"
            result = of.fit(problem, workers=1)
            reached = "report"
            json.dumps(result.to_dict(), allow_nan=False)
            result.summary()
            reached = "all"
        except of.OdefitError as error:
            text = str(error)
            assert text, "an error without words"
            assert text == plain(text), repr(text)
    return reached
