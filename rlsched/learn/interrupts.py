"""Ctrl-C while something is learned: to stop where it can go on later."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted:
    """Whether somebody asked the run to stop."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self) -> bool:
        """Whether to stop."""
        return self.asked


@contextmanager
def interrupts(answer: Callable[[], None]) -> Iterator[Interrupted]:
    """Turn Ctrl-C and SIGTERM into a request to stop after the iteration; a second Ctrl-C does not wait.

    Args:
        answer: to the first of them, at once.
    """
    state = Interrupted()

    def ask(number: int, frame: FrameType | None) -> None:
        if not state.asked:
            state.asked = True
            answer()
        elif number == signal.SIGINT:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield state
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
