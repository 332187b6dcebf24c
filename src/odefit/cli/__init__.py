"""The command line: ``odefit COMMAND``; one file a command.

Exit codes: 0 converged, 2 bad input, 3 not converged.  With ``--json`` standard output is one JSON
document; everything else goes to standard error.
"""

from __future__ import annotations

import io
import sys

from odefit.cli.app import app
from odefit.errors import OdefitError


def main() -> None:
    """Run the command line; bad input ends in one sentence and exit code 2, never in a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without Greek letters must not lose a result
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except OdefitError as error:
        print(f"odefit: {error}", file=sys.stderr)
        sys.exit(2)
