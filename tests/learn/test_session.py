"""The Ray that a run starts for itself."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray._private import node, services

from rlsched import scenario
from rlsched.cli.main import main
from rlsched.errors import BadInputError
from rlsched.files import ensure_home
from rlsched.learn.config.training import make_config
from rlsched.learn.interrupts import ended_by_signals
from rlsched.learn.rllib import session
from rlsched.learn.rllib.session import bundles, ray_session

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("fresh_ray")]


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, 0)


@pytest.mark.long
def test_ray_keeps_nothing_for_a_dashboard_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its control process would remember every task of a run."""
    monkeypatch.delenv("RAY_task_events_report_interval_ms", raising=False)
    with ray_session(None):
        ray.get([ray.remote(niceness).remote() for _ in range(20)])
        time.sleep(3)  # tasks are told once a second
        assert not ray.timeline()


def test_what_plays_is_as_urgent_as_what_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_worker_niceness", raising=False)
    with ray_session(None):
        theirs = ray.get(ray.remote(niceness).remote())
    assert theirs == niceness()
    assert not ray.is_initialized()


def test_ray_starts_nothing_that_nobody_asks() -> None:
    """Each of them is a Python process for whose start Ray waits."""
    with ray_session(None):
        assert len(control_processes()) == 1
        assert len(control_processes("raylet/raylet")) == 1
        for name in ("dashboard/dashboard.py", "monitor.py"):
            assert not control_processes(name)
        logs = Path(ray._private.worker.global_worker.node.get_logs_dir_path())
        assert "Loaded 0 modules" in (logs / "dashboard_agent.log").read_text()


def test_ray_listens_at_this_machine_alone() -> None:
    """A client of a port of Ray can run code."""
    elsewhere = socket.gethostbyname(socket.gethostname())
    if elsewhere.startswith("127."):
        elsewhere = "127.0.0.9"  # another address that a service which listens at all of them has
    with ray_session(None):
        (node,) = ray.nodes()
        assert node["NodeManagerAddress"] == "127.0.0.1"
        host, _, port = ray.get_runtime_context().gcs_address.rpartition(":")
        for value in (int(port), node["NodeManagerPort"], node["ObjectManagerPort"]):
            socket.create_connection((host, value), timeout=5).close()
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((elsewhere, value), timeout=5)


def test_a_signal_waits_for_the_start_of_ray() -> None:
    """Broken off halfway, it would leave processes; and its own handler would print stacks."""
    ordinary, started = services.start_gcs_server, []

    def start(*arguments: Any, **settings: Any) -> Any:
        signal.raise_signal(signal.SIGTERM)
        started.append(True)
        return ordinary(*arguments, **settings)

    def enter() -> None:
        with ray_session(None):
            pytest.fail("went on")

    with pytest.MonkeyPatch.context() as patch, ended_by_signals():
        patch.setattr(services, "start_gcs_server", start)
        with pytest.raises(KeyboardInterrupt):
            enter()
    assert started
    assert not ray.is_initialized()
    assert not control_processes()


INTERRUPTED = """
import signal
import ray
from rlsched.learn.interrupts import ended_by_signals
from rlsched.learn.rllib.session import start_ray
core = ray._raylet.CoreWorker
def connect(*given, **settings):
    found = core(*given, **settings)
    signal.raise_signal(signal.SIGTERM)
    print("held")
    return found
ray._raylet.CoreWorker = connect
with ended_by_signals():
    start_ray()
"""


def test_sigterm_is_answered_by_our_handler_and_not_by_ray() -> None:
    """One of Ray's is in C++, which replaces ours while Ray starts, and Python does not hear of it."""
    ran = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=300)
    assert "*** SIGTERM received" not in ran.stderr
    assert ran.stderr.splitlines()[-1] == "KeyboardInterrupt"
    assert ran.stdout == "held\n"


def control_processes(name: str = "gcs_server") -> list[Path]:
    """Ray's, that this process has started, by a part of their commands; zombies have none."""
    actual = []
    for pid in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((pid / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and name in (pid / "cmdline").read_text():
                actual.append(pid)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
    return actual


class Busy:
    """A machine on which nodes are not there in time, so often."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, late: int) -> None:
        self.late, self.tried = late, 0
        self.ordinary_node = services.get_node
        monkeypatch.setattr(services, "get_node", self.get_node)
        clock = vars(time) | {"monotonic": lambda: 100 * time.monotonic()}  # who waits for 30 s waits for 0.3
        monkeypatch.setattr(node, "time", SimpleNamespace(**clock))
        monkeypatch.setattr(ray, "init", self.counted(ray.init))

    def counted(self, init: Any) -> Any:
        def counting(**settings: Any) -> Any:
            self.tried += 1
            return init(**settings)

        return counting

    def get_node(self, *of: Any) -> Any:
        if self.tried <= self.late:
            raise RuntimeError("the node has not registered")
        while True:  # in time, by its own clock
            try:
                return self.ordinary_node(*of)
            except RuntimeError:
                time.sleep(0.1)


@pytest.mark.long
def test_a_busy_machine_starts_ray_again(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = Busy(monkeypatch, late=1)
    with ray_session(None):
        assert ray.get(ray.remote(niceness).remote()) == niceness()
        assert len(control_processes()) == 1
    assert busy.tried == 2


def test_a_machine_that_stays_busy_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "STARTS", 1)
    busy = Busy(monkeypatch, late=2)
    with pytest.raises(Exception, match="timed out during startup") as failed, ray_session(None):
        pass
    assert failed.value.__notes__ == ["late 1 times: the machine is too busy, end or wait for something else"]
    assert busy.tried == 1
    assert not control_processes()


def test_what_ray_will_never_have_is_said_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "--scenario", "green-10", "--set", "sampling.runners=1000", "--set", "learners=2"]
    assert main([*words, "--out", str(tmp_path / "run")]) == 2
    assert "run: the training wants 1002 CPUs, and Ray has " in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_learners_take_gpus_instead_where_they_are_to() -> None:
    settings = ["learners=2", "gpus_per_learner=0.5", "sampling.runners=1"]
    config = make_config({}, "test", settings).resolve(scenario.load("green-10"))
    assert bundles(config) == [{"CPU": 1}, {"GPU": 0.5}, {"GPU": 0.5}]


@pytest.mark.parametrize("arguments", ["127.0.0.1:1", "ray://127.0.0.1:1", "[::1]:1", "127.0.0.1:99999"])
def test_an_address_where_nobody_listens_is_refused_at_once(arguments: str) -> None:
    began = time.monotonic()
    with (
        pytest.raises(BadInputError, match="--address: no Ray cluster answers at ") as caught,
        ray_session(arguments),
    ):
        pass
    assert arguments in str(caught.value)
    assert time.monotonic() - began < session.ANSWER_S + 5


def test_a_long_temporary_folder_is_none_for_sockets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    long = tmp_path / ("a" * 90)
    long.mkdir()
    monkeypatch.setenv("RAY_TMPDIR", str(long))
    assert session.short_folder() == {"_temp_dir": "/tmp/ray"}
    monkeypatch.setattr(session, "SHORT", tmp_path / "none" / "ray")
    with pytest.raises(BadInputError, match=r"TMPDIR: .* is too long for Ray: .*RAY_TMPDIR"):
        session.short_folder()
    monkeypatch.setenv("RAY_TMPDIR", "/tmp")
    assert session.short_folder() == {}


def test_without_a_home_there_is_one_for_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray writes a token there, and fails without."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "none"))
    ensure_home()
    home = tmp_path / f"rlsched-{os.getuid()}"
    assert (os.environ["HOME"], home.stat().st_mode & 0o777) == (str(home), 0o700)
    monkeypatch.setenv("HOME", str(tmp_path))
    ensure_home()
    assert os.environ["HOME"] == str(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "none"))
    home.chmod(0o777)
    with pytest.raises(BadInputError, match="HOME: is no folder that can be written to"):
        session.open_session(None)
