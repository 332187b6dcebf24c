"""The stop flag that every long kernel polls once a step, and how Ctrl-C sets it.

Python runs a signal handler only when the main thread gets back to the interpreter, which a kernel may
put off for minutes.  The C part of the handler, however, writes to a wake-up socket at once; a
sleeping thread reads it and sets the flag, while the main thread keeps computing.  This costs a few
microseconds a fit; handing the whole fit to a worker thread costs a hundred and fifty.
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
        self.received = 0  # interrupts read so far
        self._receive, self._send = socket.socketpair()
        self._send.setblocking(False)
        self.wakeup = self._send.fileno()
        threading.Thread(target=self._watch, name="odefit-interrupt", daemon=True).start()

    def _watch(self) -> None:
        while True:
            signals = self._receive.recv(64)
            if signal.SIGINT in signals and self.flag is not None:
                self.flag.set()
            self.received += signals.count(signal.SIGINT)


@cache
def _watcher() -> _Watcher:
    return _Watcher()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_watcher.cache_clear)  # threads do not survive a fork


@contextmanager
def stop_on_interrupt(flag: StopFlag) -> Iterator[None]:
    """Let Ctrl-C set `flag` instead of raising; a second Ctrl-C raises `KeyboardInterrupt` as usual.

    Signals reach the main thread only; elsewhere, or where the program ignores or handles SIGINT
    itself, nothing changes.
    """
    present = threading.current_thread() is threading.main_thread()
    if not present or _signals.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if seen:
            signal.default_int_handler(number, frame)
        seen.append(number)
        flag.set()

    seen: list[int] = []
    watcher = _watcher()
    watcher.flag = flag
    before = watcher.received
    old_wakeup = signal.set_wakeup_fd(watcher.wakeup, warn_on_full_buffer=False)
    _signals.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
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
