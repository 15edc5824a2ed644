"""The service as people start it, among clients that are slow and processes that die."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rlsched.serve.process import listener
from rlsched.serve.process.interim import INSTANCE
from rlsched.serve.process.node import children_of, is_alive
from rlsched.serve.process.ports import check_port, instance_at

from .service import example
from .test_service import Running, until

pytestmark = [pytest.mark.slow, pytest.mark.long]

HEAD = "POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
SECONDS = 7.0  # longer than a request has to arrive
SLOW = {
    "nothing": b"",
    "half a header": HEAD[:30].encode(),
    "half a body": f"{HEAD}Content-Length: 1000\r\n\r\n{{       ".encode(),
}


@pytest.fixture(scope="module")
def service(hpc: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    result = Running(tmp_path_factory.mktemp("service"), hpc, "--replicas", 2, "--set", "scaling.cpus=0.5")
    try:
        result.ready()
        yield result
    finally:
        if result.process.poll() is None:
            result.end()
    check_port("127.0.0.1", result.port)  # HAProxy has gone, too


class Good:
    """A client that asks as one should; what became of it."""

    def __init__(self, port: int, body: bytes) -> None:
        self.port = port
        self.request = f"{HEAD}Content-Length: {len(body)}\r\n\r\n".encode() + body
        self.came: list[str] = []

    async def ask(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(self.request)
            self.came.append((await asyncio.wait_for(reader.read(12), 60.0))[9:].decode())
        finally:
            writer.close()

    async def ask_on(self, until: Callable[[], bool]) -> None:
        while not until():
            try:
                await self.ask()
            except OSError as error:
                self.came.append(type(error).__name__)
            await asyncio.sleep(0.02)


async def stay(port: int, sends: bytes, until: float) -> str:
    """A slow client: what it is told."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sends)
    try:
        return (await asyncio.wait_for(reader.read(12), until - time.monotonic()))[9:].decode()
    except TimeoutError:
        return "nothing"
    finally:
        writer.close()


@pytest.mark.parametrize("kind", SLOW)
def test_slow_clients_hold_nobody_up(service: Running, hpc: Path, kind: str) -> None:
    end = time.monotonic() + 2 * SECONDS
    good = Good(service.port, json.dumps(example(hpc)).encode())

    async def scene() -> list[str]:
        slow = [asyncio.create_task(stay(service.port, SLOW[kind], end)) for _ in range(100)]
        await asyncio.sleep(0.5)
        clients = [good.ask_on(lambda: all(item.done() for item in slow)) for _ in range(8)]
        await asyncio.gather(*clients)
        return [await item for item in slow]

    content = asyncio.run(scene())
    assert set(good.came) == {"200"}
    assert len(good.came) > 100
    assert set(content) <= {"408", ""}, kind  # not one has stayed


@asynccontextmanager
async def steady_requests(service: Running, hpc: Path) -> AsyncIterator[Good]:
    """Somebody asks meanwhile, and a while after it is whole again."""
    good, over = Good(service.port, json.dumps(example(hpc)).encode()), asyncio.Event()
    clients = asyncio.create_task(good.ask_on(over.is_set))
    await asyncio.sleep(0.5)
    yield good
    over.set()
    await clients


@pytest.mark.parametrize("name", ["HAProxyManager", "ServeController", "ServeReplica:rlsched:decisions"])
def test_no_request_fails_where_a_process_is_killed(service: Running, hpc: Path, name: str) -> None:
    async def scene() -> Good:
        async with steady_requests(service, hpc) as good:
            before = service.processes(name)
            os.kill(before[0], signal.SIGKILL)

            def whole() -> bool:
                now = service.processes(name)
                return len(now) >= len(before) and before[0] not in now

            await asyncio.to_thread(until, whole, f"another {name}")
            await asyncio.sleep(1.0)
        return good

    good = asyncio.run(scene())
    failed = [came for came in good.came if came != "200"]
    # What a replica was answering when it died may be lost.
    assert len(failed) <= (1 if "Replica" in name else 0), failed


def test_haproxy_is_started_again(service: Running, hpc: Path) -> None:
    async def scene() -> Good:
        async with steady_requests(service, hpc) as good:
            (process,) = service.processes("bin/haproxy")
            os.kill(process, signal.SIGKILL)
            await asyncio.to_thread(until, lambda: bool(service.processes("bin/haproxy")), "another HAProxy")
            count = len(good.came)
            await asyncio.to_thread(until, lambda: "200" in good.came[count:], "an answer")
        return good

    good = asyncio.run(scene())
    # What was in flight at HAProxy is lost; who comes meanwhile waits, and is not refused.
    failed = [came for came in good.came if came != "200"]
    assert set(failed) <= {"", "ConnectionResetError"}
    assert len(failed) <= 1
    assert good.came[-1] == "200"


def test_a_frozen_replica_fails_no_request(service: Running, hpc: Path) -> None:
    async def scene() -> Good:
        async with steady_requests(service, hpc) as good:
            frozen = service.replicas()[0]
            os.kill(frozen, signal.SIGSTOP)
            try:
                await asyncio.sleep(6.0)
            finally:
                os.kill(frozen, signal.SIGCONT)
        return good

    good = asyncio.run(scene())
    assert set(good.came) == {"200"}


def test_no_request_waits_longer_than_it_may(hpc: Path, tmp_path: Path) -> None:
    """Where the only replica is frozen."""
    options = ("--set", "limits.answer_s=4", "--set", "limits.timeout_s=0.25")
    running = Running(tmp_path, hpc, *options)
    try:
        running.ready()
        good = Good(running.port, json.dumps(example(hpc)).encode())
        asyncio.run(good.ask())
        (frozen,) = running.replicas()
        os.kill(frozen, signal.SIGSTOP)
        try:
            began = time.monotonic()
            asyncio.run(good.ask())
            waited = time.monotonic() - began
        finally:
            os.kill(frozen, signal.SIGCONT)
        assert good.came[0] == "200"
        assert good.came[1] in {"503", "504"}
        assert waited < 4.0 + 2.0  # seconds for a busy machine
    finally:
        running.end()


def test_strangers_learn_nothing(service: Running) -> None:
    async def status_of(request: str) -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
        writer.write(f"{request}\r\nConnection: close\r\n\r\n".encode())
        return (await reader.read(12))[9:].decode()

    for path in ("/-/routes", "/%2d/routes", "/-%2Froutes"):
        assert asyncio.run(status_of(f"GET {path} HTTP/1.1\r\nHost: localhost")) == "404"
    assert asyncio.run(status_of("GET /v1/policy HTTP/1.1\r\nHost: evil.example")) == "403"
    assert asyncio.run(status_of("GET /v1/policy HTTP/1.1\r\nHost: localhost")) == "200"


def agents_of(service: Running) -> tuple[int, ...]:
    """Processes that the raylet of a service needs."""
    (raylet,) = service.processes("raylet/raylet")
    return tuple(item for item in children_of(raylet) if os.getpgid(item) != item)


def second_of(service: Running) -> int:
    """The process of a service that runs Ray."""
    return next(item for item in children_of(service.process.pid) if item in service.processes("rlsched"))


PROCESSES: dict[str, Callable[[Running], int]] = {
    "Ray's gcs_server": lambda service: service.processes("gcs/gcs_server")[0],
    "Ray's raylet": lambda service: service.processes("raylet/raylet")[0],
    "Ray's agent": lambda service: agents_of(service)[-1],
    "the process that runs Ray": second_of,
}


@pytest.mark.parametrize("name", PROCESSES)
def test_without_its_node_of_ray_a_service_starts_again(service: Running, hpc: Path, name: str) -> None:
    document = service.document.read_bytes()
    waits: list[float] = []
    until(lambda: is_whole(service), "the start before")

    def ended(processes: Iterable[int]) -> Callable[[], bool]:
        return lambda: not any(map(is_alive, processes))

    async def scene() -> Good:
        async with steady_requests(service, hpc) as good:
            agents = agents_of(service)
            assert len(agents) == 2
            before = {*service.processes(""), *agents} - {service.process.pid}
            if PROCESSES[name] is second_of:
                before -= {*agents}  # which end later, since nobody ends them
            os.kill(PROCESSES[name](service), signal.SIGKILL)
            killed = time.monotonic()
            line = f"{name} has died; starting again"
            await asyncio.to_thread(until, lambda: line in service.output(), "its end")
            await asyncio.to_thread(until, lambda: by_interim(service) is True, "an answer")
            waits.append(time.monotonic() - killed)
            await asyncio.to_thread(until, lambda: by_interim(service) is False, "an answer of replicas")
            waits.append(time.monotonic() - killed)
            await asyncio.to_thread(until, ended(before), "the end of all processes before")
        return good

    good = asyncio.run(scene())
    # What was in flight is lost; who comes meanwhile waits.
    failed = [came for came in good.came if came != "200"]
    assert set(failed) <= {"", "ConnectionResetError", "502", "503"}
    assert len(failed) <= (0 if "gcs" in name else 1)
    assert good.came[-1] == "200"
    assert waits[0] < waits[1] / 2  # long before Ray has started
    assert service.document.read_bytes() == document  # that of the first start


def is_whole(service: Running) -> bool:
    """Whether the newest start has come to its end."""
    lines = service.output()
    return lines.count("end it") > lines.count("has died; starting again")


def by_interim(service: Running) -> bool | None:
    """Whether the process answers that does so until replicas do; None: nobody answers."""
    instance = instance_at("127.0.0.1", service.port)
    return None if instance is None else instance == INSTANCE


def test_under_systemd_a_service_that_is_killed_answers_again(hpc: Path, tmp_path: Path) -> None:
    """A socket that systemd has opened outlives `rlsched serve`, and the next one answers in it."""
    with listener.opened("127.0.0.1", 0) as listening:
        good = Good(listening.getsockname()[1], json.dumps(example(hpc)).encode())
        killed = Running(tmp_path, hpc, passed=listening)
        try:
            killed.ready()
            asyncio.run(good.ask())
            processes = killed.processes("")
        finally:
            killed.process.kill()
            killed.process.wait()
        until(lambda: not any(map(is_alive, processes)), "the end of all of its processes")
        (tmp_path / "again").mkdir()
        again = Running(tmp_path / "again", hpc, passed=listening)
        try:
            asyncio.run(good.ask())
            assert by_interim(again)
            again.ready()
            assert by_interim(again) is False
            asyncio.run(good.ask())
        finally:
            again.end()
    assert good.came == ["200"] * 3
