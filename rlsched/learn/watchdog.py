"""Time limit for blocks of code that may hang."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

AGAIN_S = 5.0
"""Seconds between repeated interrupts: the first may be raised where exceptions are swallowed."""


class StalledError(RuntimeError):
    """A block exceeded its time limit."""


@contextmanager
def watchdog(minutes: float | None, title: str) -> Iterator[None]:
    """Interrupt the block where it takes too long, as with a hung process or a lost message.

    A signal interrupts it, so this works only in the main thread. The signal raises KeyboardInterrupt: no
    other exception ends a wait inside Ray.

    Args:
        minutes: time limit; None: no limit.
        title: of the block, for the message.

    Raises:
        StalledError: the block took longer.
    """
    if minutes is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    barked = False

    def bark(number: int, frame: FrameType | None) -> None:
        nonlocal barked
        barked = True
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, bark)
    around = signal.setitimer(signal.ITIMER_REAL, 60 * minutes, AGAIN_S)
    try:
        yield
    except BaseException:
        if not barked:
            raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *around)
    if barked:
        raise StalledError(f"{title} took more than {minutes:g} minutes")
