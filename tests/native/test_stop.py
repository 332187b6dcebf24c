from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest
from tests.uncached import uncached

from odefit.native.stop import StopFlag, raise_on_interrupt, stop_on_interrupt

LIMIT = 10**11  # far more rounds than a test would wait for


@uncached
def _rounds_until(stop, limit, began):
    """Count until the flag is set; `began` tells that the loop runs."""
    for i in range(limit):
        began[0] = i + 1
        if stop[0] != 0:
            return i
    return limit


def test_new_flag_is_not_set():
    flag = StopFlag()
    assert flag.is_set() is False
    assert flag.array.tolist() == [0]
    assert flag.array.dtype == np.int64


@pytest.mark.parametrize("times", [1, 2])
def test_set(times):
    flag = StopFlag()
    for _ in range(times):
        flag.set()
    assert flag.is_set() is True
    assert flag.array.tolist() == [1]


def test_flags_are_independent():
    one, other = StopFlag(), StopFlag()
    one.set()
    assert not other.is_set()


def test_flag_has_no_other_attributes():
    with pytest.raises(AttributeError, match="no attribute 'stopped'"):
        StopFlag().stopped = True  # pyright: ignore


def test_kernel_sees_a_flag_set_before():
    flag, began = StopFlag(), np.zeros(1, dtype=np.int64)
    flag.set()
    assert _rounds_until(flag.array, LIMIT, began) == 0


def test_kernel_ends_without_a_flag():
    assert _rounds_until(StopFlag().array, 1000, np.zeros(1, dtype=np.int64)) == 1000


def test_running_kernel_stops():
    flag, began = StopFlag(), np.zeros(1, dtype=np.int64)
    _rounds_until(flag.array, 1, began)  # compiled
    began[0] = 0
    rounds: list[int] = []
    thread = threading.Thread(target=lambda: rounds.append(_rounds_until(flag.array, LIMIT, began)), daemon=True)
    thread.start()
    while not began[0] and thread.is_alive():
        time.sleep(0.001)  # the kernel holds no GIL, so that this thread goes on
    flag.set()
    thread.join(timeout=60)
    assert not thread.is_alive()
    assert 0 <= rounds[0] < LIMIT


# ---------------------------------------------------------------------------------------------------- Ctrl-C


@pytest.fixture
def default_handler():
    """Python's own handler of Ctrl-C, whatever the test runner has set."""
    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, old)


def interrupt() -> None:
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


def wakeup_descriptor() -> int:
    current = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(current)
    return current


@pytest.mark.usefixtures("default_handler")
def test_interrupt_sets_the_flag_and_does_not_raise():
    flag = StopFlag()
    with stop_on_interrupt(flag):
        assert not flag.is_set()
        interrupt()
        assert flag.is_set()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("default_handler")
def test_second_interrupt_raises():
    flag = StopFlag()
    with stop_on_interrupt(flag):
        interrupt()
        with pytest.raises(KeyboardInterrupt, match="^$"):
            interrupt()
    assert flag.is_set()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("default_handler")
def test_interrupt_afterwards_raises_as_usual():
    flag = StopFlag()
    with stop_on_interrupt(flag):
        pass
    with pytest.raises(KeyboardInterrupt, match="^$"):
        interrupt()
    assert not flag.is_set()


@pytest.mark.usefixtures("default_handler")
def test_each_computation_has_its_own_interrupt():
    flags = []
    for _ in range(20):
        first, second = StopFlag(), StopFlag()
        with stop_on_interrupt(first):
            interrupt()
        with stop_on_interrupt(second):
            time.sleep(0.002)  # time for the interrupt of the first one to arrive late
        flags.append((first.is_set(), second.is_set()))
    assert flags == [(True, False)] * 20


@pytest.mark.usefixtures("default_handler")
def test_interrupt_stops_a_kernel_of_the_main_thread():
    flag, began = StopFlag(), np.zeros(1, dtype=np.int64)
    _rounds_until(flag.array, 1, began)  # compiled
    began[0] = 0

    def interrupt_once_running() -> None:
        while not began[0]:
            time.sleep(0.001)
        interrupt()

    thread = threading.Thread(target=interrupt_once_running)
    with stop_on_interrupt(flag):
        thread.start()
        rounds = _rounds_until(flag.array, LIMIT, began)
        thread.join()
    assert 0 <= rounds < LIMIT
    assert flag.is_set()


@pytest.mark.usefixtures("default_handler")
def test_interrupt_is_raised_once_the_kernels_have_returned():
    flag, heard = StopFlag(), []

    def compute() -> None:
        with raise_on_interrupt(flag):
            interrupt()
            heard.append(flag.is_set())

    with pytest.raises(KeyboardInterrupt, match="^$"):
        compute()
    assert heard == [True]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("default_handler")
def test_without_interrupt_nothing_is_raised():
    with raise_on_interrupt(StopFlag()):
        pass
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("default_handler")
def test_error_inside_restores_the_handler():
    before = wakeup_descriptor()
    with pytest.raises(ZeroDivisionError, match="inside"), stop_on_interrupt(StopFlag()):
        raise ZeroDivisionError("inside")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert wakeup_descriptor() == before


@pytest.mark.parametrize("kind", ["own", "ignored"])
def test_handler_of_the_program_is_left_alone(kind):
    seen: list[int] = []
    handler = signal.SIG_IGN if kind == "ignored" else lambda number, frame: seen.append(number)
    old = signal.signal(signal.SIGINT, handler)
    flag = StopFlag()
    try:
        with stop_on_interrupt(flag):
            assert signal.getsignal(signal.SIGINT) is handler
            interrupt()
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, old)
    assert not flag.is_set()
    assert seen == ([] if kind == "ignored" else [signal.SIGINT])


@pytest.mark.usefixtures("default_handler")
def test_nothing_changes_in_another_thread():
    handlers = []

    def run() -> None:
        with stop_on_interrupt(StopFlag()):
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert handlers == [signal.default_int_handler]


@pytest.mark.usefixtures("default_handler")
def test_nested_computations_stop_at_the_outer_flag():
    outer, inner = StopFlag(), StopFlag()
    with stop_on_interrupt(outer):
        with stop_on_interrupt(inner):
            interrupt()
        assert outer.is_set()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork processes")
def test_a_shared_flag_reaches_processes_forked_before_it_was_set():
    flag, plain = StopFlag.shared(), StopFlag()
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(reads, 1)
        os._exit(2 * flag.is_set() + plain.is_set())
    flag.set()
    plain.set()
    os.write(writes, b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    os.close(reads)
    os.close(writes)
