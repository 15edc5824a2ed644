"""SIGTERM while a command starts: it says one line, and leaves neither processes nor files."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import yaml

from rlsched.serve.artefact import export_policy
from rlsched.serve.process.ports import free_ports

from ..processes import Command
from ..serve.conftest import feed_of, untrained

pytestmark = pytest.mark.long

TRAINING = {"scenario": "green-10", "algo": "ppo", "steps": 10**6}


def arguments_of(command: str, folder: Path) -> list[object]:
    """What makes the command run for long."""
    out = ["--out", folder / "out"]
    if command == "collect":
        return ["collect", "--scenario", "green-10", "--policy", "sjf", *out]
    if command == "serve":
        untrained(feed_of("green-10").scenario).save(folder / "run")
        export_policy(folder / "run", folder / "policy")
        return ["serve", folder / "policy", "--port", free_ports(1)[0]]
    values = {"base": TRAINING, "space": {"ppo.epochs": {"values": [1, 2]}}}
    (folder / "file.yaml").write_text(yaml.safe_dump(TRAINING if command == "train" else values), "utf-8")
    return [command, folder / "file.yaml", *out]


@pytest.mark.parametrize(
    ("command", "stage"),
    [
        ("train", "libtorch"),
        ("train", "gcs_server"),
        ("tune", "_raylet"),
        ("tune", "gcs_server"),
        ("tune", "raylet/raylet"),
        ("collect", "libarrow"),
        ("serve", "_raylet"),
        ("serve", "gcs_server"),
        ("serve", "ServeController"),
        ("serve", "haproxy"),
    ],
)
def test_a_start_ends_in_order(command: str, stage: str, tmp_path: Path) -> None:
    """At the moment when a library is loaded, or a process of Ray is there."""
    started = Command(tmp_path, *arguments_of(command, tmp_path))
    try:
        started.until(
            lambda: started.has_loaded(stage) or any(stage in state for state in started.processes()), stage
        )
        assert started.end(signal.SIGTERM) == 130
    finally:
        started.kill()
    assert started.err.splitlines()[-1] == "interrupted"
    for wrong in ("Traceback", "***", "Error", "Exception"):
        assert wrong not in started.err
    assert started.out == ""
    remaining = {path.name for path in started.temporary.iterdir()}
    assert remaining <= {"ray"}, "which keeps the logs of its sessions"
    assert not (tmp_path / "out").exists()


def collecting(folder: Path) -> Command:
    """A recording that has written something."""
    command = Command(folder, *arguments_of("collect", folder))
    command.until(lambda: (folder / "out" / "part-00000.parquet").exists(), "a shard")
    return command


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_recording_ends_in_order(number: signal.Signals, tmp_path: Path) -> None:
    recording = collecting(tmp_path)
    try:
        assert recording.end(number) == 130
    finally:
        recording.kill()
    assert "decisions are safe" in recording.out
    assert f"resume       rlsched collect --resume --out {tmp_path / 'out'}" in recording.out.splitlines()
    assert recording.err == "interrupted\n"
    assert not list((tmp_path / "out").glob(".*.part"))


def test_a_recording_goes_on_under_nohup(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # which a new process inherits
    try:
        recording = collecting(tmp_path)
    finally:
        signal.signal(signal.SIGHUP, before)
    try:
        recording.process.send_signal(signal.SIGHUP)
        recording.until(lambda: (tmp_path / "out" / "part-00002.parquet").exists(), "another shard")
        assert recording.end(signal.SIGTERM) == 130
    finally:
        recording.kill()
