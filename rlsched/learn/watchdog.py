"""An end to waiting for what does not come."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

AGAIN_S = 5.0
"""Between barks: one may fall into something that swallows exceptions."""


class StalledError(RuntimeError):
    """Something took far longer than it may."""


@contextmanager
def watchdog(minutes: float | None, title: str) -> Iterator[None]:
    """Raise where what is inside takes too long, whatever it waits for: a process that hangs, a lost message.

    Works by a signal, so only in the main thread. It raises there what Ctrl-C does: no other exception ends a
    wait inside Ray.

    Args:
        minutes: that it may take; None: for ever.
        title: it is, for the message.

    Raises:
        StalledError: it took longer.
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
