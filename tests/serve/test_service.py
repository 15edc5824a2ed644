"""The service as people start it: on Ray Serve, under load, while versions are swapped and replicas die."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import rlsched
from rlsched.offline.check import check
from rlsched.offline.manifest import read_manifest
from rlsched.serve.artefact import export_policy
from rlsched.serve.load import LoadJob, load_of
from rlsched.serve.process.ports import check_port, free_ports

from .conftest import HPC, feed_of, untrained
from .service import TOKEN, example

pytestmark = pytest.mark.slow

PATIENCE_S = 120.0
ROOT = Path(rlsched.__file__).parents[1]


def until(done: Callable[[], bool], field: str) -> None:
    began_at = time.monotonic()
    while not done():
        assert time.monotonic() - began_at < PATIENCE_S, field
        time.sleep(0.2)


AS_SYSTEMD = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ |= {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())}
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Passes a socket to a command: arguments are its descriptor and the command."""


class Running:
    """`rlsched serve` in a process.

    Args:
        tmp: folder for what it says.
        arguments: of the command.
        environment: variables beside those of this process.
        passed: a listening socket that it is started with, as systemd does.
    """

    def __init__(
        self,
        tmp: Path,
        *arguments: object,
        environment: Mapping[str, str] | None = None,
        passed: socket.socket | None = None,
    ) -> None:
        self.port = free_ports(1)[0] if passed is None else passed.getsockname()[1]
        self.document = tmp / "service.json"
        self.mark = uuid.uuid4().hex
        self.log = (tmp / "log.txt").open("w+b")
        command = [
            "-m",
            "rlsched",
            "serve",
            *map(str, arguments),
            "--port",
            str(self.port),
            "--json",
            str(self.document),
        ]
        if passed is not None:
            command = ["-c", AS_SYSTEMD, str(passed.fileno()), sys.executable, *command]
        self.process = subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {}), "RLSCHED_MARK": self.mark},
            start_new_session=True,
            pass_fds=[] if passed is None else [passed.fileno()],
        )

    def ready(self) -> None:
        until(lambda: self.document.exists() or self.process.poll() is not None, "starting")
        assert self.process.poll() is None, self.output()

    def output(self) -> str:
        self.log.seek(0)
        return self.log.read().decode("utf-8", "replace")

    def get(self, path: str, body: dict[str, Any] | None = None) -> tuple[int, bytes]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, reply.read()

    def replicas(self) -> list[int]:
        """Processes that decide, of this service."""
        return self.processes("ServeReplica:rlsched:decisions")

    def processes(self, part: str) -> list[int]:
        """Those of this service with that in their command."""
        result = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                name = (path / "cmdline").read_bytes()
                environment = (path / "environ").read_bytes()
            except OSError:  # it has ended
                continue
            if part.encode() in name and self.mark.encode() in environment:
                result.append(int(path.name))
        return result

    def end(self) -> int:
        os.killpg(self.process.pid, signal.SIGHUP)  # as a terminal that is closed does, to Ray's, too
        return self.process.wait(timeout=PATIENCE_S)


@pytest.mark.long
def test_nothing_is_lost_while_versions_are_swapped_and_replicas_die(tmp_path: Path) -> None:
    settled = feed_of(*HPC).scenario
    for seed in (1, 2):
        untrained(settled, seed=seed).save(tmp_path / f"run-{seed}")
    folder = tmp_path / "policy"
    first = export_policy(tmp_path / "run-1", folder).fingerprint[:16]
    (tmp_path / "tokens").write_text(f"{TOKEN}\n")
    options = ("--replicas", 2, "--token-file", tmp_path / "tokens", "--log", tmp_path / "served")
    service = Running(tmp_path, folder, *options, "--set", "reload_s=0.5", "--set", "scaling.cpus=0.5")
    try:
        service.ready()

        def version() -> str:
            result: str = json.loads(service.get("/v1/decisions", example(folder))[1])["policy"]["version"]
            return result

        assert version() == first
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"http://127.0.0.1:{service.port}/v1/policy")
        body = folder.parent / "body.json"
        body.write_text(json.dumps(example(folder)))
        job = LoadJob("127.0.0.1", service.port, "/v1/decisions", [str(body)], 8, 25.0, None, TOKEN)
        (tmp_path / "job.json").write_text(json.dumps(asdict(job)))
        load = subprocess.Popen(
            [sys.executable, "-m", "rlsched.serve.load", str(tmp_path / "job.json")],
            cwd=ROOT,
            stdout=subprocess.PIPE,
        )

        def ledger_known() -> bool:
            """To both replicas; a new one looks for it once it answers."""
            return all(b"log_lost" in service.get("/metrics")[1] for _ in range(6))

        # What a replica has told nobody dies with it, and the ledger comes after the service.
        until(ledger_known, "the ledger")
        second = export_policy(tmp_path / "run-2", folder).fingerprint[:16]
        until(lambda: {version() for _ in range(6)} == {second}, "the new version")
        before = service.replicas()
        assert len(before) == 2
        os.kill(before[0], signal.SIGKILL)
        until(lambda: len(service.replicas()) == 2 and before[0] not in service.replicas(), "another replica")
        lines, _ = load.communicate(timeout=PATIENCE_S)
        came = load_of(json.loads(lines))
        assert came.failed == 0, came
        assert came.answered > 300
        assert {version() for _ in range(6)} == {second}
        until(ledger_known, "the ledger of the new replica")
        page = service.get("/")[1].decode()
        assert second[:8] in page
        assert 'rlsched_requests_total{status="401"} 1.0' in service.get("/metrics")[1].decode()
        assert service.end() == 0, service.output()
        check_port("127.0.0.1", service.port)  # HAProxy has gone, too
    finally:
        if service.process.poll() is None:
            service.process.kill()
    assert "Traceback" not in service.output()
    datasets = [path for path in (tmp_path / "served").iterdir() if path.is_dir()]
    assert {path.name for path in datasets} == {f"default-{first[:8]}", f"default-{second[:8]}"}
    for path in datasets:
        assert check(path, read_manifest(path)) == []


@pytest.mark.long
def test_what_cannot_be_served_is_said_in_one_line(tmp_path: Path) -> None:
    policy = untrained(feed_of(*HPC).scenario)
    policy.save(tmp_path / "run")
    export_policy(tmp_path / "run", tmp_path / "policy")
    weights = tmp_path / "policy" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    service = Running(tmp_path, tmp_path / "policy")
    assert service.process.wait(timeout=PATIENCE_S) == 2
    (line,) = [line for line in service.output().splitlines() if line.startswith("error")]
    assert line.startswith(f"error: {tmp_path / 'policy'}: is damaged or of another version")


@pytest.mark.long
def test_a_start_is_broken_off_as_ctrl_c_would(hpc: Path, tmp_path: Path) -> None:
    service = Running(tmp_path, hpc)
    until(lambda: bool(service.replicas()), "a replica")
    service.process.send_signal(signal.SIGTERM)
    assert service.process.wait(timeout=PATIENCE_S) == 130
    assert service.output().splitlines() == ["interrupted"]
    until(lambda: not service.replicas(), "the end of its replicas")
    check_port("127.0.0.1", service.port)  # HAProxy has gone, too
