"""The stop flag that every long kernel polls once a step, and how Ctrl-C and other signals set it.

Python runs a signal handler only when the main thread gets back to the interpreter, which a kernel may
put off for minutes.  The C part of the handler, however, writes to a wake-up socket at once; a
sleeping thread reads it and sets the flag, while the main thread keeps computing.  This costs a few
microseconds a fit; handing the whole fit to a worker thread costs a hundred and fifty.

A program that is asked to end (SIGTERM: by a batch system, say; SIGHUP: its terminal was closed) has results to
keep, too.  What these signals do is the program's choice, so they are left alone unless it asks for `end_on_signals`,
as the command line does.
"""

from __future__ import annotations

import mmap
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from types import FrameType
from typing import Any

import numpy as np

# behind `signal`, without its enumerations: these take longer than an evaluation of a small model
_signals: Any = import_module("_signal")


class StopFlag:
    """One integer in shared memory: set it from any thread and running kernels return soon.

    A kernel that sees it returns its "stopped" status; results up to there are valid.  The flag is
    owned by whoever starts a computation (one flag a fit), never global.
    """

    __slots__ = ("array",)

    def __init__(self) -> None:
        self.array = np.zeros(1, dtype=np.int64)

    @classmethod
    def shared(cls) -> StopFlag:
        """Return a flag that processes forked from now on share with this one."""
        flag = cls()
        flag.array = np.frombuffer(mmap.mmap(-1, flag.array.nbytes), dtype=np.int64)
        return flag

    def set(self) -> None:
        """Ask all kernels that hold this flag to stop."""
        self.array[0] = 1

    def is_set(self) -> bool:
        """Tell whether a stop was asked for."""
        return bool(self.array[0])


class _Watcher:
    """A thread that sleeps until a signal writes to its socket."""

    def __init__(self) -> None:
        self.flag: StopFlag | None = None
        self.numbers: set[int] = set()  # signals that set it
        self.received = 0  # interrupts read so far
        self._receive, self._send = socket.socketpair()
        self._send.setblocking(False)
        self.wakeup = self._send.fileno()
        threading.Thread(target=self._watch, name="odefit-interrupt", daemon=True).start()

    def _watch(self) -> None:
        while True:
            signals = self._receive.recv(64)
            if self.flag is not None and not self.numbers.isdisjoint(signals):
                self.flag.set()
            self.received += signals.count(signal.SIGINT)


_ending: set[int] = set()  # signals that end this program
_received: list[int] = []  # those of them that came


@cache
def _watcher() -> _Watcher:
    return _Watcher()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_watcher.cache_clear)  # threads do not survive a fork


@contextmanager
def stop_on_interrupt(flag: StopFlag) -> Iterator[None]:
    """Let Ctrl-C set `flag` instead of raising; a second Ctrl-C raises `KeyboardInterrupt` as usual.

    Signals reach the main thread only; elsewhere, or where the program ignores or handles SIGINT
    itself, nothing changes.  Signals that end the program (`end_on_signals`) set the flag as well.
    """
    present = threading.current_thread() is threading.main_thread()
    listening = present and _signals.getsignal(signal.SIGINT) is signal.default_int_handler
    if not listening and not (present and _ending and _watcher().flag is None):
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if seen:
            signal.default_int_handler(number, frame)
        seen.append(number)
        flag.set()

    seen: list[int] = []
    watcher = _watcher()
    watcher.numbers = {*_ending, signal.SIGINT} if listening else _ending
    watcher.flag = flag
    before = watcher.received
    old_wakeup = signal.set_wakeup_fd(watcher.wakeup, warn_on_full_buffer=False)
    if listening:
        _signals.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        if listening:
            _signals.signal(signal.SIGINT, signal.default_int_handler)
        signal.set_wakeup_fd(old_wakeup)
        for _ in range(1000):  # an interrupt still on its way must not reach the next computation
            if watcher.received - before >= len(seen):
                break
            time.sleep(1e-4)
        watcher.flag = None


@contextmanager
def raise_on_interrupt(flag: StopFlag) -> Iterator[None]:
    """Let Ctrl-C stop the kernels that hold `flag`, and raise `KeyboardInterrupt` once they have returned."""
    with stop_on_interrupt(flag):
        yield
    if flag.is_set():
        raise KeyboardInterrupt


@contextmanager
def end_on_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP stop a computation as Ctrl-C does; where nothing is computed, they raise `SystemExit`.

    The program ends with `exit_code` when it has kept what was found.
    """
    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    numbers = [number for name in names if signal.getsignal(number := getattr(signal, name)) is signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        numbers = []

    def handle(number: int, frame: FrameType | None) -> None:
        _received.append(number)
        flag = _watcher().flag
        if flag is None or len(_received) > 1:
            raise SystemExit(128 + number)
        flag.set()

    _received.clear()
    _ending.update(numbers)
    for number in numbers:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
        _ending.difference_update(numbers)


def exit_code() -> int | None:
    """Return the exit code of a program that was ended by a signal (128 and its number); None if none came."""
    return 128 + _received[0] if _received else None
