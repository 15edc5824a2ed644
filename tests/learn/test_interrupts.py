"""Signals as requests to stop, where they are the caller's."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from rlsched.learn.interrupts import interrupts


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
    seen: list[object] = []

    def trains() -> None:
        with interrupts(lambda: None) as interrupted:
            seen.extend([interrupted(), signal.getsignal(signal.SIGINT)])

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=trains)
    thread.start()
    thread.join()
    assert seen == [False, before]
