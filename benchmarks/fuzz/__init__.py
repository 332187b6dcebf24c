"""Mutated problem files through load, check and fit: ``python -m benchmarks.fuzz --cases 25000 --seed 1``.

A case is a problem of the gallery, or a small one that uses much of the language, which was changed: as text (tokens
and bytes cut out, doubled, exchanged, replaced by what programs stumble over; `text.py`), or in what it says (other
values, formulas, keys, cells; `content.py`).  Case `i` of a seed depends on nothing else, so that
``--only i`` repeats it.

Nothing but an `OdefitError` may come out, no warning, no crash; no case may take longer than 10 s or 2 GB.  The cases
are run by processes that do several and report each when it is done: one that ends or hangs is known by its case.
"""

from benchmarks.fuzz.cases import STAGES, case, run
from benchmarks.fuzz.sources import WRITTEN, Files, sources

__all__ = ["STAGES", "WRITTEN", "Files", "case", "run", "sources"]
