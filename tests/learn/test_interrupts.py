"""Signals as requests to stop, where they are the caller's."""

from __future__ import annotations

import ctypes
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rlsched.learn.interrupts import ended_by_signals, held_signals, interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_ask_to_stop_and_are_given_back(number: signal.Signals) -> None:
    answered: list[bool] = []
    before = signal.getsignal(number)
    with interrupts(lambda: answered.append(True)) as interrupted:
        assert not interrupted()
        os.kill(os.getpid(), number)
        assert interrupted()
        if number == signal.SIGINT:
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), number)
        else:
            os.kill(os.getpid(), number)
    assert answered == [True]
    assert signal.getsignal(number) is before


def test_a_closed_terminal_is_nothing_under_nohup() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interrupts(lambda: None) as interrupted:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not interrupted()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_other_threads_leave_signals_alone() -> None:
    recorded: list[object] = []

    def trains() -> None:
        with interrupts(lambda: None) as interrupted:
            recorded.extend([interrupted(), signal.getsignal(signal.SIGINT)])

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=trains)
    thread.start()
    thread.join()
    assert recorded == [False, before]


TRAINS = """
import sys, time
from pathlib import Path
from rlsched.learn.interrupts import interrupts
with interrupts(lambda: print("stopping", flush=True)) as interrupted:
    print("ready", flush=True)
    while not interrupted():
        time.sleep(0.01)
    print("iteration", flush=True)
Path(sys.argv[1]).write_text("checkpoint")
"""


def test_a_closed_terminal_lets_an_iteration_end(tmp_path: Path) -> None:
    """Writing to it is an error (EIO)."""
    number, terminal = pty.fork()
    if number == 0:
        os.execv(sys.executable, [sys.executable, "-c", TRAINS, str(tmp_path / "saved")])
    assert b"ready" in os.read(terminal, 100)
    os.close(terminal)
    _, status = os.waitpid(number, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert (tmp_path / "saved").read_text() == "checkpoint"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_end_a_command_as_ctrl_c(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), ended_by_signals():
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before


@ctypes.CFUNCTYPE(None)
def callback() -> None:
    """Called from C, as LLVM does while it compiles; Python ignores what it raises."""
    os.kill(os.getpid(), signal.SIGTERM)


def sleeps() -> None:
    time.sleep(30.0)


def fails() -> None:
    raise RuntimeError("no compiled object yet")


def ends() -> None:
    """At once."""


@pytest.mark.parametrize("then", [sleeps, fails, ends])
def test_an_interrupt_that_python_ignores_is_raised_again(then: Callable[[], None]) -> None:
    hook = sys.unraisablehook

    def command() -> None:
        with ended_by_signals():
            callback()
            then()

    with pytest.raises(KeyboardInterrupt):
        command()
    time.sleep(0.3)  # nothing comes later
    assert sys.unraisablehook is hook


def test_a_closed_terminal_and_its_shell_count_once() -> None:
    """The second must not break off what ends in order."""
    with ended_by_signals():
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGHUP)


def test_commands_go_on_under_nohup() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ended_by_signals():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_start_is_not_broken_off(number: signal.Signals) -> None:
    """Whichever thread gets it."""
    started: list[signal.Signals] = []
    over = threading.Event()
    second = threading.Thread(target=over.wait)
    second.start()

    def start() -> None:
        with held_signals():
            os.kill(os.getpid(), number)
            time.sleep(0.01)
            started.append(number)

    try:
        with ended_by_signals(), pytest.raises(KeyboardInterrupt):
            start()
    finally:
        over.set()
        second.join()
    assert started == [number]


def test_what_is_started_never_hears_of_a_closed_terminal() -> None:
    with held_signals():
        output = subprocess.run(
            ["cat", "/proc/self/status"], capture_output=True, text=True, check=True
        ).stdout
    (blocked,) = [int(line.split()[1], 16) for line in output.splitlines() if line.startswith("SigBlk")]
    heard = {number: not blocked >> number - 1 & 1 for number in (signal.SIGHUP, signal.SIGTERM)}
    assert heard == {signal.SIGHUP: False, signal.SIGTERM: True}
    assert signal.SIGHUP not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_second_ctrl_c_that_python_ignores_does_not_wait_either() -> None:
    second = ctypes.CFUNCTYPE(None)(lambda: os.kill(os.getpid(), signal.SIGINT))

    def command() -> None:
        with ended_by_signals(), interrupts(lambda: None) as interrupted:
            os.kill(os.getpid(), signal.SIGINT)
            assert interrupted()
            second()
            sleeps()

    with pytest.raises(KeyboardInterrupt):
        command()
