"""The process that answers while replicas start."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from rlsched.serve.process import interim, interim_server, listener
from rlsched.serve.process.interim import INSTANCE, Interim
from rlsched.serve.process.ports import instance_at
from rlsched.serve.settings import ServeConfig

from .service import example

PATIENCE_S = 60.0


@contextmanager
def started(config: ServeConfig) -> Iterator[tuple[Interim, socket.socket]]:
    with listener.opened("127.0.0.1", 0) as listening:
        process = Interim(config.at("127.0.0.1"), listening)
        try:
            process.wait()
            yield process, listening
        finally:
            if process.is_alive():  # else the test has ended it
                process.end()


def connected(listening: socket.socket) -> socket.socket:
    return socket.create_connection(listening.getsockname(), timeout=PATIENCE_S)


def exchange(client: socket.socket, request: bytes) -> bytes:
    client.sendall(request)
    with client.makefile("rb") as answer:
        return answer.read()  # until it closes the connection


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def decide(folder: Path) -> bytes:
    body = json.dumps(example(folder)).encode()
    head = "POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def test_it_answers_all_that_a_service_does_until_it_is_ended(hpc: Path, tmp_path: Path) -> None:
    config = ServeConfig(policies={"default": hpc}, log=tmp_path / "log")
    with started(config) as (process, listening):
        assert process.is_alive()
        assert instance_at("127.0.0.1", listening.getsockname()[1]) == INSTANCE
        with connected(listening) as client:
            head, _, body = exchange(client, decide(hpc)).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        assert b"connection: close" in head
        assert json.loads(body)["decided_by"] == "policy"
        with connected(listening) as client:
            metrics = exchange(client, get("/metrics"))
        assert b'rlsched_requests_total{status="200"} 1.0' in metrics
        assert b"rlsched_log_lost_total 0.0" in metrics
        with connected(listening) as client:
            assert b"HTTP/1.1 200" in exchange(client, get("/"))

        with connected(listening) as stranger:
            head = b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * (1 << 18)
            with suppress(ConnectionError):
                assert not exchange(stranger, head).startswith(b"HTTP/1.1 200")
        assert process.is_alive()

        with connected(listening) as late:  # it has been accepted when the process is ended
            ending = threading.Timer(0.1, process.end)
            ending.start()
            ending.join(0.3)
            assert exchange(late, decide(hpc)).startswith(b"HTTP/1.1 200")
        ending.join()
        assert not process.is_alive()
        with connected(listening):
            pass  # the socket is open, and the client waits for replicas
    (journal,) = (tmp_path / "log").glob("journal-*.jsonl")
    assert len(journal.read_bytes().splitlines()) == 2
    assert list((tmp_path / "log").glob("default-*/dataset.json"))  # closed, so that replicas may go on


def test_a_client_that_sends_no_request_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interim_server, "REQUEST_S", 0.05)

    async def scene() -> None:
        config = interim_server.uvicorn.Config(lambda: None, http=interim_server.Protocol, lifespan="off")
        server = interim_server.Server(config)
        with listener.opened("127.0.0.1", 0) as listening:
            serving = asyncio.create_task(server.serve(sockets=[listening]))
            reader, writer = await asyncio.open_connection(*listening.getsockname())
            writer.write(b"GET / HTTP")
            assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b""
            writer.close()
            server.should_exit = True
            await serving

    asyncio.run(scene())


def test_where_it_cannot_answer_it_ends_and_says_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with started(ServeConfig(policies={"default": tmp_path / "missing"})) as (process, _):
        process.process.wait(PATIENCE_S)
        assert not process.is_alive()
        process.end()
    assert capfd.readouterr() == ("", "")


def test_one_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interim, "CODE", "import time; print(flush=True); time.sleep(600)")
    monkeypatch.setattr(interim, "ENDING_S", 0.2)
    with started(ServeConfig(policies={"default": Path("any")})) as (process, _):
        process.end()
        assert not process.is_alive()
