"""The command line: ``odefit COMMAND``; one file a command.

Exit codes: 0 converged, 2 bad input, 3 not converged; 128 and the number of the signal if one ended the program.  With
``--json`` standard output is one JSON document; everything else goes to standard error.
"""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from odefit.errors import OdefitError


def main() -> None:
    """Run the command line; bad input ends in one sentence and exit code 2, never in a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without Greek letters must not lose a result
            stream.reconfigure(errors="backslashreplace")
    with _ended_by_interrupts():
        from odefit.cli.app import app
        from odefit.native.stop import end_on_signals
    try:
        with end_on_signals():
            app()
    except OdefitError as error:
        print(f"odefit: {error}", file=sys.stderr)
        sys.exit(2)


@contextmanager
def _ended_by_interrupts() -> Iterator[None]:
    """Let Ctrl-C end the process at once and without a word: imports take a while, and there is nothing to keep."""
    listening = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if listening:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        if listening:
            signal.signal(signal.SIGINT, signal.default_int_handler)
