"""What a terminal shows while many fits run, and what else stays silent."""

from __future__ import annotations

import io
import json
import re
from contextlib import redirect_stderr

import pytest

import odefit.cli.progress
from odefit.cli.progress import StartsBar
from odefit.study import StartRun


class Terminal(io.StringIO):
    """Standard error that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch):
    stream = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.setattr(odefit.cli.progress, "PATIENCE", 0.0)
    return stream


def run(number: int, status: str, objective: float) -> StartRun:
    return StartRun(number, {}, status, "", objective, {}, 1, 1)


def shown(stream: Terminal) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", stream.getvalue())


def test_the_bar_counts_fits_and_tells_the_best(terminal):
    with redirect_stderr(terminal), StartsBar(3, quiet=False) as progress:
        assert progress is not None
        progress(run(1, "converged", 0.25), 1)
        progress(run(0, "failed", 0.125), 2)
        progress(run(2, "converged", 0.5), 3)
    text = shown(terminal)
    assert "3/3" in text
    assert "2 converged, best objective 0.25" in text
    assert "Ctrl-C stops and keeps the best" in text


def test_without_a_converged_fit_there_is_no_best(terminal):
    with redirect_stderr(terminal), StartsBar(2, quiet=False) as progress:
        assert progress is not None
        progress(run(0, "failed", float("nan")), 1)
    assert "0 converged" in shown(terminal)
    assert "best objective" not in shown(terminal)


@pytest.mark.parametrize(("n", "quiet"), [(1, False), (9, True)])
def test_a_single_fit_and_quiet_ones_show_no_bar(terminal, n, quiet):
    with redirect_stderr(terminal), StartsBar(n, quiet=quiet) as progress:
        assert progress is None
    assert terminal.getvalue() == ""


def test_what_is_not_a_terminal_gets_no_bar(capsys):
    with StartsBar(9, quiet=False) as progress:
        assert progress is None


def test_demo_takes_the_options_of_starts(command):
    code, out, err = command("demo", "barnes", "--starts", 6, "--seed", 3, "--workers", 1, "--json")
    assert code == 0
    record = json.loads(out)["multistart"]
    assert (record["asked"], record["seed"], len(record["runs"])) == (6, 3, 6)
    code, out, err = command("demo", "lotka_volterra_iss", "--start", "auto")
    assert code == 0
    assert "by integral matching" in err
