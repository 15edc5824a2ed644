"""The listening socket of a service stays open when processes die."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlsched.serve import listener


@pytest.fixture
def node() -> Iterator[subprocess.Popen[bytes]]:
    """Stands for the raylet."""
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def begin(sock: socket.socket, path: Path, node: int) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-I", "-S", listener.__file__, str(sock.fileno()), str(path), str(node)]
    return subprocess.Popen(words, pass_fds=[sock.fileno()])


def asked(path: Path) -> socket.socket:
    until = time.monotonic() + 30
    while (found := listener.held(str(path))) is None:
        assert time.monotonic() < until
        time.sleep(0.05)
    return found


def test_connections_wait_until_somebody_takes_them(tmp_path: Path, node: subprocess.Popen[bytes]) -> None:
    first = listener.opened("127.0.0.1", 0)
    port = first.getsockname()[1]
    path = tmp_path / "held.sock"
    holding = begin(first, path, node.pid)
    second = asked(path)
    assert path.stat().st_mode & 0o777 == 0o600
    first.close()  # as where a manager is killed
    second.close()
    with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
        client.sendall(b"hello")
        with asked(path) as third:
            third.settimeout(5)
            taken, _ = third.accept()
            assert taken.recv(5) == b"hello"
            taken.close()
    node.kill()
    node.wait()
    assert holding.wait(timeout=30) == 0
    assert listener.held(str(path)) is None
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def test_a_holder_takes_the_place_of_one_that_was_killed(
    tmp_path: Path, node: subprocess.Popen[bytes]
) -> None:
    sock, path = listener.opened("127.0.0.1", 0), tmp_path / "held.sock"
    for _ in range(2):
        holding = begin(sock, path, node.pid)
        asked(path).close()
        holding.kill()
        holding.wait()
    assert path.exists()
    sock.close()


def test_a_port_that_is_taken_is_refused() -> None:
    with listener.opened("*", 0) as first:
        assert first.getsockname()[0] == "0.0.0.0"
        with pytest.raises(OSError, match="in use"):
            listener.opened("127.0.0.1", first.getsockname()[1])
    assert listener.held(f"/proc/{os.getpid()}/none") is None
