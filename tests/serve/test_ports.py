"""Which service answers at a port, where two were started for it at once."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from rlsched.errors import BadInputError
from rlsched.serve.process import listener
from rlsched.serve.process.deployment import wait_for
from rlsched.serve.process.launch import listening
from rlsched.serve.process.ports import INSTANCE, check_port, free_ports, instance_at


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


def test_services_at_one_port_are_distinguished(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert instance_at("127.0.0.1", port) == "first"
    assert instance_at("0.0.0.0", port) == "first"
    wait_for("127.0.0.1", port, Future(), "first")
    with pytest.raises(BadInputError, match=f"--port: another service has taken 127.0.0.1:{port}; name"):
        wait_for("127.0.0.1", port, Future(), "second")
    monkeypatch.setattr(Ready, "status", 503)
    assert instance_at("127.0.0.1", port) is None
    assert instance_at("127.0.0.1", free_ports(1)[0]) is None


def test_a_port_that_is_taken_is_refused(port: int) -> None:
    with pytest.raises(BadInputError, match="cannot listen on"):
        check_port("127.0.0.1", port)


def test_a_port_that_was_taken_meanwhile_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where another service came after the first check of the port."""
    monkeypatch.setattr("rlsched.serve.process.launch.has_haproxy", lambda: True)
    with listener.opened("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        line = f"--port: another service has taken 127.0.0.1:{port}; name another --port or --host"
        with pytest.raises(BadInputError, match=line), listening("127.0.0.1", port, None, None):
            pass


def test_processes_with_one_seed_get_different_ports() -> None:
    """As test workers have, whose random numbers are seeded alike."""
    state = random.getstate()
    ports = []
    for _ in range(2):
        random.seed(0)
        ports.append(free_ports(8))
    random.setstate(state)
    assert ports[0] != ports[1]
