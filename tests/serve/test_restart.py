"""A service whose Ray has died starts again in the same process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from rlsched.serve.restart import LISTENING, MOST_RESTARTS, RESTARTS, STEADY_S, Restart

STARTS = f"""
import os, signal, sys
from rlsched.serve import listener
from rlsched.serve.restart import Restart
restart = Restart.of_process()
port = restart.listening.getsockname()[1] if restart.listening else None
inherits = [name for name in os.environ if name in ({LISTENING!r}, {RESTARTS!r})]
assert not os.path.exists("/proc/self/fd/50")
print(os.getpid(), restart.count, port, sys.argv[1:], os.environ.get("SET_FOR_RAY"), inherits, flush=True)
if restart.allowed(0.0):
    os.environ["SET_FOR_RAY"] = "yes"
    os.dup2(1, 50)  # which Ray leaves open, too
    unless = (lambda: os.kill(os.getpid(), signal.SIGTERM)) if "signal" in sys.argv else (lambda: False)
    restart.now(0.0, restart.listening or listener.opened("127.0.0.1", 0), unless=unless)
"""


def test_it_keeps_its_number_its_arguments_and_its_socket() -> None:
    command = [sys.executable, "-c", STARTS, "serve", "two words"]
    first = MOST_RESTARTS - 2
    environment = os.environ | {RESTARTS: str(first)}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert (ran.returncode, ran.stderr) == (0, "")
    lines = ran.stdout.splitlines()
    process, count, port, rest = lines[1].split(" ", 3)
    assert rest == "['serve', 'two words'] None []"
    assert [line.split(" ", 3)[:3] for line in lines] == [
        [process, str(first), "None"],
        *([process, str(number), port] for number in range(first + 1, MOST_RESTARTS + 1)),
    ]
    assert (count, int(port) > 0) == (str(first + 1), True)


def test_a_signal_meanwhile_ends_the_next_start() -> None:
    command = [sys.executable, "-c", STARTS, "serve", "signal"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (ran.returncode, ran.stderr) == (-signal.SIGTERM, "")
    assert len(ran.stdout.splitlines()) == 1


def test_who_is_to_end_does_not_start_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "execve", lambda *_: pytest.fail("it has started again"))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        Restart({}, 0, None).now(0.0, None, unless=lambda: True)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@pytest.mark.parametrize("count", [0, MOST_RESTARTS - 1, MOST_RESTARTS])
def test_a_service_that_dies_at_once_again_and_again_is_given_up(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not Restart({}, count, None).allowed(STEADY_S)  # it is pytest that would start again
    monkeypatch.setattr(sys, "argv", ["rlsched", "serve"])
    restart = Restart(dict(os.environ), count, None)
    assert restart.allowed(STEADY_S / 2) == (count < MOST_RESTARTS)
    assert restart.allowed(STEADY_S)


def test_restarts_are_counted_anew_after_a_steady_time(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    monkeypatch.setattr(os, "execve", lambda path, words, variables: started.append(variables[RESTARTS]))
    monkeypatch.setattr(os, "set_inheritable", lambda *_: None)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        for ran_s in (STEADY_S / 2, STEADY_S):
            Restart({}, 2, None).now(ran_s, None, unless=lambda: False)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert started == ["3", "1"]
