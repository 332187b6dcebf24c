"""Run cases, and say how far they came."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.fuzz import __doc__ as words
from benchmarks.fuzz import case, run, sources
from benchmarks.fuzz.processes import run_all


def main() -> None:
    parser = argparse.ArgumentParser(description=(words or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=25_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--only", type=int, help="repeat one case here, and print it")
    parser.add_argument("--reading", action="store_true", help="load only")
    options = parser.parse_args()
    if options.only is not None:
        files = case(options.only, options.seed, sources())
        for content in (files.toml, b"---", files.csv):
            print(content.decode("utf-8", "backslashreplace"))
        with tempfile.TemporaryDirectory() as name:
            print("came to:", run(files, Path(name), fitting=not options.reading))
        return
    numbers = list(range(options.first, options.first + options.cases))
    tally = run_all(numbers, options.seed, options.processes, not options.reading)
    print(tally)
    sys.exit(bool(tally.faults))


if __name__ == "__main__":
    main()
