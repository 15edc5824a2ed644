"""Waits without an end, and the watchdog that ends them."""

from __future__ import annotations

import queue
import signal
import time
from collections.abc import Callable

import pytest
import ray

from rlsched.learn.watchdog import StalledError, watchdog

pytestmark = pytest.mark.slow


@ray.remote(num_cpus=0)
def hang() -> None:
    """Something that another process never comes back from."""
    time.sleep(60)


def wait_for_ray() -> None:
    """Waits for that process."""
    ray.get(hang.remote())


@pytest.mark.parametrize(
    "waits", [lambda: time.sleep(60), lambda: queue.Queue[int]().get(timeout=60), wait_for_ray]
)
def test_the_watchdog_ends_a_wait(waits: Callable[[], None], ray_address: str) -> None:
    began = time.monotonic()
    with (
        pytest.raises(StalledError, match="iteration 3 took more than"),
        watchdog(0.02, "iteration 3"),
    ):
        waits()
    assert time.monotonic() - began < 30
    with pytest.raises(KeyboardInterrupt), watchdog(1, "this"):
        raise KeyboardInterrupt  # of somebody at the keyboard
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def listen_late() -> None:
    """Swallows what ends a wait, once."""
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        time.sleep(60)


def wait_inside() -> None:
    """Waits under a watchdog, and goes on waiting without."""
    with pytest.raises(StalledError, match="inner"), watchdog(0.01, "inner"):
        listen_late()
    time.sleep(60)


def test_the_watchdog_barks_again_where_nobody_listened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlsched.learn.watchdog.AGAIN_S", 1.0)
    with pytest.raises(StalledError, match="outer"), watchdog(0.05, "outer"):
        wait_inside()


def test_the_watchdog_lets_be_what_is_in_time() -> None:
    before = signal.getsignal(signal.SIGALRM)
    for minutes in (0.005, None):
        with watchdog(minutes, "this"):
            time.sleep(0.1)
        time.sleep(0.3)
    assert signal.getsignal(signal.SIGALRM) is before
