"""The process of `rlsched serve` that outlives Ray, with scripts in the place of the process that runs it."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rlsched.serve.process import listener, supervisor
from rlsched.serve.process.supervisor import FAILED, GCS, INTERRUPTED, SUPERVISED, Supervised, Supervisor
from rlsched.serve.settings import ServeConfig

SECOND = f"""
import os, signal, sys, time
from rlsched.serve.process.supervisor import Supervised
me = Supervised.of_process()
assert {SUPERVISED!r} not in os.environ
with open(sys.argv[1], "a+") as file:
    file.seek(0)
    start = len(file.readlines())
    print(start, me.listening and me.listening.getsockname()[1], file=file)
"""
DIES = "os.kill(os.getpid(), signal.SIGKILL)"
ANSWERS = "me.report('answers')"


class Meanwhile:
    """Stands for an interim process, and writes down what becomes of it."""

    def __init__(self, events: list[str]) -> None:
        self.events = events
        events.append("start")

    def is_alive(self) -> bool:
        return True

    def wait(self) -> None:
        self.events.append("wait")

    def end(self) -> None:
        self.events.append("end")


Run = Callable[..., tuple[int, list[str], list[str], list[str]]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a script as the second process: the code, what was said, starts, and interim processes."""

    def run(script: str, *, waiting: bool = False) -> tuple[int, list[str], list[str], list[str]]:
        output: list[str] = []
        events: list[str] = []
        monkeypatch.setattr(supervisor, "Interim", lambda *_: Meanwhile(events))
        command = [sys.executable, "-c", SECOND + script, str(tmp_path / "starts")]
        config = ServeConfig(policies={"default": tmp_path})
        with listener.opened("127.0.0.1", 0) as listening:
            first = Supervisor(
                config, "127.0.0.1", listening, output.append, waiting=waiting, command=command
            )
            code = first.run()
            port = str(listening.getsockname()[1])
        starts = [line.split() for line in (tmp_path / "starts").read_text().splitlines()]
        assert {line[1] for line in starts} == {port}
        return code, output, [line[0] for line in starts], events

    return run


def test_a_process_that_dies_is_started_again(run: Run) -> None:
    code, output, starts, events = run(f"{ANSWERS}\nif start < 2: {DIES}")
    assert (code, starts) == (0, ["0", "1", "2"])
    assert output == ["the process that runs Ray has died; starting again"] * 2
    assert events == ["start", "wait", "end"] * 2


@pytest.mark.parametrize(("name", "waits"), [("raylet", []), (GCS, ["wait"])])
def test_where_ray_dies_something_answers_before_the_rest_is_ended(
    run: Run, name: str, waits: list[str]
) -> None:
    script = f"{ANSWERS}\nif not start: me.report('died', {name!r}, '/logs'); sys.exit(1)"
    code, output, starts, events = run(script)
    assert (code, starts) == (0, ["0", "1"])
    assert output == [f"Ray's {name} has died; starting again"]
    assert events == ["start", *waits, "wait", "end"]


@pytest.mark.parametrize(
    ("script", "code", "line"),
    [
        ("sys.exit(2)", 2, None),
        ("sys.exit(1)", FAILED, None),  # which has said why
        (
            DIES,
            FAILED,
            "failed: the process that runs Ray has died while the service started; "
            "its exit code is -9; start again",
        ),
        (
            "me.report('died', 'raylet', '/logs'); sys.exit(1)",
            FAILED,
            "failed: Ray's raylet has died while the service started; look into /logs, and start again",
        ),
    ],
)
def test_a_start_that_fails_ends_the_command(run: Run, script: str, code: int, line: str | None) -> None:
    lines = [] if line is None else [line]
    assert run(script) == (code, lines, ["0"], [])


def test_clients_that_wait_are_answered_at_once(run: Run) -> None:
    code, output, starts, events = run(f"if not start: {DIES}\n{ANSWERS}", waiting=True)
    assert (code, output, starts) == (
        0,
        ["the process that runs Ray has died; starting again"],
        ["0", "1"],
    )
    assert events == ["start", "wait", "wait", "end"]


def test_a_service_that_dies_again_and_again_is_given_up(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "MAX_RESTARTS", 2)
    code, output, starts, events = run(f"{ANSWERS}\n{DIES}")
    assert (code, starts) == (FAILED, ["0", "1", "2"])
    assert output[-1] == (
        "failed: the service has died 3 times in a row, this time the process that runs Ray; "
        "its exit code is -9; start again"
    )
    assert events[-1] == "end"


def test_restarts_are_counted_anew_after_a_steady_time(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "MAX_RESTARTS", 1)
    monkeypatch.setattr(supervisor, "STEADY_S", 0.0)
    script = f"{ANSWERS}\nif len(open(sys.argv[1]).readlines()) < 4: {DIES}"
    assert run(script)[::2] == (0, ["0", "1", "2", "3"])


def test_a_start_that_fails_slowly_counts(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a time in which replicas answer is steady."""
    monkeypatch.setattr(supervisor, "MAX_RESTARTS", 2)
    monkeypatch.setattr(supervisor, "STEADY_S", 0.0)
    code, output, starts, _ = run(f"if start: {DIES}\n{ANSWERS}\n{DIES}")
    assert (code, starts) == (FAILED, ["0", "1", "2"])
    assert output[-1].startswith("failed: the service has died 3 times in a row")


@pytest.mark.parametrize(("first", "starts"), [(True, ["0"]), (False, ["0", "1", "2"])])
def test_an_error_that_is_no_death_ends_the_first_start(run: Run, first: bool, starts: list[str]) -> None:
    """As of a pipe that nobody reads; later it may be what a death left behind."""
    fails = "me.report('fails'); sys.exit(2)"
    script = f"{ANSWERS}\n{fails}" if first else f"{ANSWERS}\nif not start: {DIES}\nif start == 1: {fails}"
    code, _, result, _ = run(script)
    assert (code, result) == (2 if first else 0, starts)


def test_a_document_is_announced_once(run: Run) -> None:
    code, _, starts, _ = run(
        f"assert me.announced == (start == 2)\n{ANSWERS}\n"
        f"if start == 1: me.report('announced')\nif start < 2: {DIES}"
    )
    assert (code, starts) == (0, ["0", "1", "2"])


def test_a_closed_terminal_does_not_end_it() -> None:
    def closed(text: str) -> None:
        raise OSError(text)

    first = Supervisor(
        ServeConfig(policies={"default": Path("any")}), "", None, closed, waiting=False, command=[]
    )
    first._say("starting again")


@pytest.mark.parametrize(
    ("script", "code"),
    [
        # A process that was asked to end may die of that.
        ("time.sleep(600)", INTERRUPTED),
        (f"{ANSWERS}\ntime.sleep(600)", 0),
        ("signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))\ntime.sleep(600)", INTERRUPTED),
        (f"{ANSWERS}\nsignal.signal(signal.SIGTERM, lambda *_: os._exit(1))\ntime.sleep(600)", 0),
    ],
)
def test_a_signal_ends_both(run: Run, tmp_path: Path, script: str, code: int) -> None:
    def end() -> None:
        while not (tmp_path / "ready").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    script = script.replace("time.sleep", f"open({str(tmp_path / 'ready')!r}, 'w').close(); time.sleep")
    thread = threading.Thread(target=end)
    thread.start()
    try:
        assert run(script)[:2] == (code, [])
    finally:
        thread.join()
    assert signal.getsignal(signal.SIGTERM) is before


def test_without_the_first_process_the_second_is_an_orphan() -> None:
    parent, near_end = socket.socketpair()
    with near_end:
        second = Supervised(
            near_end, None, ServeConfig(policies={"default": Path("any")}), {}, announced=False
        )
        parent.sendall(b".")  # an answer that has not been read
        assert not second._is_orphan()
        parent.close()
        assert second._is_orphan()
        second.report("answers")  # nobody hears it


def test_a_usual_process_is_not_supervised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SUPERVISED, raising=False)
    assert Supervised.of_process() is None


def test_an_interim_process_that_died_is_replaced(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Meanwhile, "is_alive", lambda self: False)
    code, _, starts, events = run(f"if not start: {DIES}\n{ANSWERS}", waiting=True)
    assert (code, starts) == (0, ["0", "1"])
    assert events == ["start", "wait", "end", "start", "wait", "end"]
