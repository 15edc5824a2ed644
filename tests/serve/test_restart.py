"""A service whose Ray has died starts again in the same process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rlsched.serve.restart import LISTENING, MOST_RESTARTS, RESTARTS, STEADY_S, Restart

STARTS = f"""
import os, sys
from rlsched.serve import listener
from rlsched.serve.restart import Restart
restart = Restart.of_process()
port = restart.listening.getsockname()[1] if restart.listening else None
inherits = [name for name in os.environ if name in ({LISTENING!r}, {RESTARTS!r})]
print(os.getpid(), restart.count, port, sys.argv[1:], os.environ.get("SET_FOR_RAY"), inherits, flush=True)
if restart.allowed(0.0):
    os.environ["SET_FOR_RAY"] = "yes"
    restart.now(0.0, restart.listening or listener.opened("127.0.0.1", 0))
"""


def test_it_keeps_its_number_its_arguments_and_its_socket() -> None:
    command = [sys.executable, "-c", STARTS, "with", "two words"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (ran.returncode, ran.stderr) == (0, "")
    lines = ran.stdout.splitlines()
    process, count, port, rest = lines[1].split(" ", 3)
    assert rest == "['with', 'two words'] None []"
    assert [line.split(" ", 3)[:3] for line in lines] == [
        [process, "0", "None"],
        *([process, str(number), port] for number in range(1, MOST_RESTARTS + 1)),
    ]
    assert (count, int(port) > 0) == ("1", True)


@pytest.mark.parametrize("count", [0, MOST_RESTARTS - 1, MOST_RESTARTS])
def test_a_service_that_dies_at_once_again_and_again_is_given_up(count: int) -> None:
    restart = Restart(dict(os.environ), count, None)
    assert restart.allowed(STEADY_S / 2) == (count < MOST_RESTARTS)
    assert restart.allowed(STEADY_S)


def test_restarts_are_counted_anew_after_a_steady_time(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    monkeypatch.setattr(os, "execve", lambda path, words, variables: started.append(variables[RESTARTS]))
    for ran_s in (STEADY_S / 2, STEADY_S):
        Restart({}, 2, None).now(ran_s, None)
    assert started == ["3", "1"]
