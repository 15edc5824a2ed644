"""The listening socket of a service stays open when processes die."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rlsched.serve import listener, proxy

TAKES = """
import sys
from rlsched.serve import listener
with listener.received(sys.argv[1]) as taken:
    taken.setblocking(True)
    client, _ = taken.accept()
    with client:
        client.sendall(client.recv(5).upper())
"""


def test_connections_wait_until_another_process_takes_them(tmp_path: Path) -> None:
    path = str(tmp_path / "listener.sock")
    with listener.opened("127.0.0.1", 0) as opened, listener.shared(opened, path):
        assert Path(path).stat().st_mode & 0o777 == 0o600
        with listener.received(path):  # as a manager that is killed
            pass
        with socket.create_connection(opened.getsockname(), timeout=60) as client:
            client.sendall(b"hello")
            assert subprocess.run([sys.executable, "-c", TAKES, path], timeout=60).returncode == 0
            assert client.recv(5) == b"HELLO"
    with pytest.raises(FileNotFoundError):
        listener.received(path)


def test_who_asks_and_goes_away_ends_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "listener.sock")
    with listener.opened("127.0.0.1", 0) as opened, listener.shared(opened, path):
        for _ in range(3):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(path)
        with listener.received(path) as found:
            assert found.getsockname() == opened.getsockname()


def test_a_port_that_is_taken_is_refused() -> None:
    with listener.opened("*", 0) as first:
        assert first.getsockname()[0] == "0.0.0.0"
        with pytest.raises(OSError, match="in use"):
            listener.opened("127.0.0.1", first.getsockname()[1])


HAPROXY = """
import os, socket, sys
with socket.socket(socket.AF_UNIX) as answering:
    answering.bind(sys.argv[1])
    answering.listen()
    print("listens", flush=True)
    client, _ = answering.accept()
    assert client.recv(100) == b"show info\\n"
    client.sendall(f"Name: HAProxy\\nPid: {os.getpid()}\\n".encode())
    client.recv(1)
"""


def test_an_haproxy_is_killed_by_its_socket(tmp_path: Path) -> None:
    path = tmp_path / "admin.sock"
    proxy.kill_haproxy(path)  # there is none
    process = subprocess.Popen([sys.executable, "-c", HAPROXY, str(path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"listens\n"
    proxy.kill_haproxy(path)
    assert process.wait(timeout=60) == -signal.SIGKILL
    process.stdout.close()
