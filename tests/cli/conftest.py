"""Running commands in this process."""

from __future__ import annotations

import logging
import sys

import pytest

from odefit.cli import main


@pytest.fixture
def quiet_afterwards():
    """The command line sets up a logger for its process, which here belongs to other tests as well."""
    loggers = [logging.getLogger(name) for name in ("odefit.compile", "odefit.study")]
    before = [(logger, logger.level, list(logger.handlers)) for logger in loggers]
    yield
    for logger, level, handlers in before:
        logger.setLevel(level)
        logger.handlers[:] = handlers


@pytest.fixture
def command(monkeypatch, capsys, quiet_afterwards):
    """Run `odefit ...` in this process; returns exit code, standard output, standard error."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["odefit", *map(str, arguments)])
        with pytest.raises(SystemExit, match=r"^[0-9]$") as ended:
            main()
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return int(ended.value.code), out, err

    return run
