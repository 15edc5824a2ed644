"""Handling of Ctrl-C and other signals during training, so that a run stops where it can resume."""

from __future__ import annotations

import os
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

AGAIN_S = 0.1
"""Seconds after which an ignored interrupt is raised again."""


class Interrupted:
    """Flag of a request to stop the run."""

    def __init__(self) -> None:
        self.requested = False

    def __call__(self) -> bool:
        """Whether to stop."""
        return self.requested


@contextmanager
def interrupts(answer: Callable[[], None]) -> Iterator[Interrupted]:
    """Turn Ctrl-C, SIGTERM and SIGHUP into a request to stop after the iteration.

    A second Ctrl-C does not wait. SIGHUP stays ignored where it is, as under nohup. Python handles signals in
    its main thread only: in another one, as of a notebook or of Ray Tune, nothing is changed.

    Args:
        answer: called at once at the first signal.
    """
    state = Interrupted()

    def ask(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            leave_terminal()
        if not state.requested:
            state.requested = True
            answer()
        elif number == signal.SIGINT:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield state
        return
    with _handled_by(ask, signal.SIGINT, signal.SIGTERM):
        yield state


@contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], None], *numbers: signal.Signals) -> Iterator[None]:
    """Handle these signals, and SIGHUP unless it is ignored."""
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers = (*numbers, signal.SIGHUP)
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def leave_terminal() -> None:
    """Redirect output that goes to a terminal to /dev/null: writing to a closed terminal is an error."""
    null = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        if stat.S_ISCHR(os.fstat(descriptor).st_mode):
            os.dup2(null, descriptor)
    os.close(null)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the block as Ctrl-C does, by KeyboardInterrupt.

    SIGHUP stays ignored where it is, as under nohup. It counts once: a closed terminal and its shell both
    send it. A KeyboardInterrupt that Python ignores is raised again: in callbacks of LLVM and in finalizers
    it is only printed, and LLVM's compilation then fails. In another thread than the main one nothing is
    changed.

    Raises:
        KeyboardInterrupt: there was a signal, also if the block failed otherwise.
    """
    again: list[threading.Timer] = []

    def end(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            leave_terminal()
        raise KeyboardInterrupt

    def end_later(ignored: sys.UnraisableHookArgs) -> None:
        if not issubclass(ignored.exc_type, KeyboardInterrupt):
            return hook(ignored)
        main = threading.main_thread().ident
        assert main is not None
        number = signal.SIGINT if callable(signal.getsignal(signal.SIGINT)) else signal.SIGTERM
        again.append(threading.Timer(AGAIN_S, signal.pthread_kill, (main, number)))
        again[-1].start()
        return None

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with _handled_by(end, signal.SIGTERM):
        hook, sys.unraisablehook = sys.unraisablehook, end_later
        try:
            yield
        except Exception:
            if again:
                raise KeyboardInterrupt from None
            raise
        else:
            if again:
                raise KeyboardInterrupt
        finally:
            for timer in again:
                timer.cancel()
                timer.join()
            sys.unraisablehook = hook


@contextmanager
def held_signals() -> Iterator[None]:
    """Defer Ctrl-C, SIGTERM and SIGHUP during a start that must not be interrupted.

    The signals arrive at the end of the block. Processes that are started inside never get Ctrl-C and SIGHUP:
    this process ends them in order. In another thread than the main one nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []
    before = {
        number: signal.signal(number, lambda number, frame: held.append(number))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    # In this process handlers defer signals in any thread. Processes that start meanwhile have no handlers,
    # but inherit blocked signals. They must receive SIGTERM.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: not set by Python
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        if held:
            signal.raise_signal(held[0])


def keep_sigterm() -> None:
    """Restore Python's handler of SIGTERM after C++ code has replaced it without Python's knowledge."""
    handler = signal.getsignal(signal.SIGTERM)
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)
