"""Which service answers at a port, where two were started for it at once."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from rlsched.errors import BadInputError
from rlsched.serve import listener
from rlsched.serve.launch import _refused, _wait_for
from rlsched.serve.ports import INSTANCE, answering, check_port, free_ports
from rlsched.serve.settings import ServeConfig


class Ready(BaseHTTPRequestHandler):
    """A service that is ready, or not yet."""

    status, instance = 200, "first"

    def do_GET(self) -> None:
        """As Python's server has it."""
        self.send_response(self.status if self.path == "/readyz" else 404)
        self.send_header(INSTANCE, self.instance)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    """At which the first service answers."""
    server = HTTPServer(("127.0.0.1", 0), Ready)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def test_a_service_is_told_from_another_at_its_port(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answering("127.0.0.1", port) == "first"
    assert answering("0.0.0.0", port) == "first"
    _wait_for("127.0.0.1", port, Future(), "first")
    with pytest.raises(BadInputError, match=f"--port: another service has taken 127.0.0.1:{port}; name"):
        _wait_for("127.0.0.1", port, Future(), "second")
    monkeypatch.setattr(Ready, "status", 503)
    assert answering("127.0.0.1", port) is None
    assert answering("127.0.0.1", free_ports(1)[0]) is None


def test_a_port_that_is_taken_is_refused(port: int) -> None:
    with pytest.raises(BadInputError, match="cannot listen on"):
        check_port("127.0.0.1", port)


def test_a_port_that_haproxy_finds_taken_is_one_line(hpc: Path) -> None:
    """Where both services passed the first check, and neither answers yet."""
    config = ServeConfig(policies={"default": hpc})
    said = "[ALERT] cannot bind socket (Address already in use) for [127.0.0.1:8000] [ALERT] Exiting."
    error = _refused(config, "127.0.0.1", 8000, RuntimeError(said))
    assert str(error) == ("--port: another service has taken 127.0.0.1:8000; name another --port or --host")
    other = RuntimeError(said)
    assert _refused(config, "127.0.0.1", 8001, other) is other
    with listener.opened("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(OSError, match="cannot bind socket") as caught:
            listener.opened("127.0.0.1", port)
    assert "another service has taken" in str(_refused(config, "127.0.0.1", port, caught.value))


def test_processes_with_one_seed_get_different_ports() -> None:
    """As test workers have, whose random numbers are seeded alike."""
    state = random.getstate()
    ports = []
    for _ in range(2):
        random.seed(0)
        ports.append(free_ports(8))
    random.setstate(state)
    assert ports[0] != ports[1]
