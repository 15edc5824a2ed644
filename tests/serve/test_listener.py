"""The listening socket of a service stays open when processes die."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rlsched.errors import BadInputError
from rlsched.serve.process import listener, proxy
from rlsched.serve.process.ports import check_port

TAKES = """
import sys
from rlsched.serve.process import listener
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
        with listener.received(path) as result:
            assert result.getsockname() == opened.getsockname()


def test_a_port_that_is_taken_is_refused() -> None:
    with listener.opened("*", 0) as first:
        assert first.getsockname()[0] == "0.0.0.0"
        with pytest.raises(OSError, match="in use"):
            listener.opened("127.0.0.1", first.getsockname()[1])


PASSES = """
import os, socket, sys
made = [socket.socket() for _ in range(2)]
made[0].bind(("127.0.0.1", 0))
if sys.argv[1] == "1":
    made[0].listen()
os.dup2(made[0].fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=sys.argv[2], LISTEN_FDNAMES="http")
code = '''
import os, sys
from rlsched.errors import BadInputError
from rlsched.serve.process.listener import passed
try:
    found = passed("127.0.0.1", int(sys.argv[1]))
except BadInputError as error:
    print(error)
else:
    print(found.getsockname()[1], found.getblocking(), [name for name in os.environ if "LISTEN_" in name])
'''
print(made[0].getsockname()[1], flush=True)
port = int(sys.argv[3]) or made[0].getsockname()[1]
os.execv(sys.executable, [sys.executable, "-c", code, str(port)])
"""


@pytest.mark.parametrize(
    ("listens", "count", "address", "problem"),
    [
        ("1", "1", "0", None),
        ("1", "2", "0", "LISTEN_FDS: systemd passes 2 sockets"),
        ("0", "1", "0", "LISTEN_FDS: systemd passes no socket that listens"),
        ("1", "1", "7", "--port: systemd passes a socket that listens at"),
    ],
)
def test_a_socket_that_systemd_passes_is_taken(
    listens: str, count: str, address: str, problem: str | None
) -> None:
    command = [sys.executable, "-c", PASSES, listens, count, address]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (ran.returncode, ran.stderr) == (0, "")
    port, line = ran.stdout.splitlines()
    if problem is None:
        assert line == f"{port} False []"
    else:
        assert line.startswith(problem)


HAPROXY = """
import os, signal, socket, sys
signal.signal(signal.SIGUSR1, signal.SIG_IGN if sys.argv[2] == "hangs" else lambda *_: os._exit(7))
with socket.socket(socket.AF_UNIX) as answering:
    answering.bind(sys.argv[1])
    answering.listen()
    print("listens", flush=True)
    client, _ = answering.accept()
    assert client.recv(100) == b"show info\\n"
    client.sendall(f"Name: HAProxy\\nPid: {os.getpid()}\\n".encode())
    while True:
        signal.pause()
"""


@pytest.mark.parametrize(("kind", "code"), [("answers", 7), ("hangs", -signal.SIGKILL)])
def test_an_haproxy_is_ended_by_its_socket(tmp_path: Path, kind: str, code: int) -> None:
    path = tmp_path / "admin.sock"
    proxy.end_haproxy(path)  # there is none
    process = subprocess.Popen([sys.executable, "-c", HAPROXY, str(path), kind], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"listens\n"
    proxy.end_haproxy(path)
    assert process.wait(timeout=60) == code
    process.stdout.close()


def test_a_star_is_refused_before_anything_starts() -> None:
    """HAProxy takes it for all addresses; Serve's own proxy fails on it minutes later."""
    with pytest.raises(BadInputError, match=r"--host: '\*' is not an address; use 0\.0\.0\.0"):
        check_port("*", 0)
