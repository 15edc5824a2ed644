"""Requests from strangers, of other kinds, and that are sent slowly."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from rlsched.serve.api import admission, http
from rlsched.serve.api.admission import Bodies, GoneError, Hosts, RefusedError
from rlsched.serve.settings import ServeLimits

from .service import Service, example


@pytest.fixture(scope="module")
def service(hpc: Path) -> Iterator[Service]:
    result = Service(hpc, hosts=["cluster.example"])
    yield result
    result.close()


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("localhost:8000", None, 200),
        ("127.0.0.1:8000", None, 200),
        ("10.0.0.7", None, 200),
        ("[::1]:8000", None, 200),
        ("[::1]", None, 200),
        ("cluster.example", None, 200),
        ("CLUSTER.example.:8000", None, 200),
        ("localhost:8000", "http://localhost:8000", 200),
        ("evil.example:8000", None, 403),  # a name that resolves to this service
        ("evil.example", "http://evil.example", 403),
        ("localhost:8000", "http://evil.example", 403),
        ("localhost:8000", "null", 403),
        ("localhost:8000", "http://localhost:9000", 403),
        ("", None, 403),
    ],
)
def test_pages_of_other_sites_ask_nothing(
    service: Service, hpc: Path, host: str, origin: str | None, status: int
) -> None:
    headers = {"host": host} | ({} if origin is None else {"origin": origin})
    for path, body in (("/v1/decisions", example(hpc)), ("/", None)):
        reply = service.ask(path, body, **headers)
        assert reply.status == status, reply.body
        if status == 403:
            assert reply.json["error"].startswith(("host: ", "origin: "))


def test_any_host_where_settings_allow_it() -> None:
    Hosts(["*"]).check({b"host": b"anything.example"})
    Hosts(["sched.example:8080"]).check({b"host": b"sched.example"})
    Hosts([]).check({})  # no browser leaves it out


def test_probes_may_use_any_name(service: Service) -> None:
    assert service.ask("/readyz", host="pod.example:8000").status == 200
    assert service.ask("/v1/policy", host="pod.example:8000").status == 403


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "multipart/x"])
def test_only_json_is_read(service: Service, hpc: Path, kind: str) -> None:
    """A page of another site may send these without asking."""
    reply = service.ask("/v1/decisions", example(hpc), content_type=kind)
    assert reply.status == 415
    assert reply.json["error"].endswith("is not read here; send 'content-type: application/json'")
    reply = service.ask("/v1/decisions", example(hpc), content_type="Application/JSON; charset=utf-8")
    assert reply.status == 200


def test_a_name_of_megabytes_is_neither_compared_nor_echoed(
    service: Service, hpc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[int] = []
    close = http.get_close_matches

    def spy(word: str, *rest: Any, **settings: Any) -> list[str]:
        compared.append(len(word))
        return close(word, *rest, **settings)

    monkeypatch.setattr(http, "get_close_matches", spy)
    state = example(hpc)
    for body in (state | {"x" * 8_000_000: 1}, state | {"policy": "y" * 8_000_000}):
        reply = service.ask("/v1/decisions", body)
        assert reply.status in (404, 422)
        assert len(reply.body) < 3000
    assert all(length <= http.MAX_PROBLEM for length in compared)
    reply = service.ask("/v1/decisions", state | {"waitin": []})
    assert "did you mean 'waiting'?" in reply.json["error"]


# bodies


class Client:
    """Sends parts of a body, and the rest when it is told to.

    Args:
        bodies: that read it.
        parts: that are sent at once.
        length: that is announced; None: of these parts.
    """

    def __init__(self, bodies: Bodies, *parts: bytes, length: int | None = None) -> None:
        self.parts = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
        self.more = asyncio.Event()
        self.headers = {b"content-length": b"%d" % (sum(map(len, parts)) if length is None else length)}
        self.task = asyncio.create_task(bodies.read(self.headers, self.receive))

    async def receive(self) -> dict[str, Any]:
        while not self.parts:
            self.more.clear()
            await self.more.wait()
        return self.parts.pop(0)

    def send(self, part: bytes, *, last: bool = True) -> None:
        self.parts.append({"type": "http.request", "body": part, "more_body": not last})
        self.more.set()

    async def status(self) -> HTTPStatus:
        """Of the refusal."""
        with pytest.raises(RefusedError) as caught:
            await self.task
        return caught.value.status


def played(scene: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(scene(), 20.0))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who takes a fifth of a second is slow."""
    monkeypatch.setattr(admission, "AT_ONCE_S", 0.01)
    monkeypatch.setattr(admission, "SLOW_S", 0.2)


def test_the_slowest_gives_way(quick: None) -> None:
    async def scene() -> None:
        bodies = Bodies(ServeLimits(concurrency=3))
        slow = [Client(bodies, b"{") for _ in range(3)]
        await asyncio.sleep(0.1)
        assert await Client(bodies, b"{").status() == HTTPStatus.TOO_MANY_REQUESTS  # nobody is slow yet
        await asyncio.sleep(0.2)
        late = Client(bodies, b"{")
        assert await slow[0].status() == HTTPStatus.REQUEST_TIMEOUT
        late.send(b"}")
        assert await late.task == b"{}"
        for client in slow[1:]:
            client.send(b"}")
            assert await client.task == b"{}"
        assert not bodies._incomplete

    played(scene)


def test_what_was_sent_whole_needs_no_place(quick: None) -> None:
    async def scene() -> None:
        bodies = Bodies(ServeLimits(concurrency=1))
        slow = Client(bodies, b"{")
        await asyncio.sleep(0.05)
        whole = Client(bodies)
        whole.send(b"{}")
        assert await whole.task == b"{}"
        slow.send(b"}")
        assert await slow.task == b"{}"

    played(scene)


def test_a_body_has_to_be_whole_in_time(quick: None) -> None:
    async def scene() -> None:
        bodies = Bodies(ServeLimits(body_s=0.2))
        client = Client(bodies, b"{")
        for _ in range(3):  # however often it says something
            await asyncio.sleep(0.05)
            client.send(b" ", last=False)
        assert await client.status() == HTTPStatus.REQUEST_TIMEOUT

    played(scene)


def test_the_bytes_of_all_are_bounded(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "FREE_BYTES", 100)
    monkeypatch.setattr(admission, "HELD_BODIES", 4)

    async def scene() -> None:
        bodies = Bodies(ServeLimits(body_bytes=1024))
        slow = [Client(bodies, b"x" * 1000) for _ in range(4)]  # 3,600 that count, of 4,096
        await asyncio.sleep(0.05)
        assert await Client(bodies, b"x" * 1000).status() == HTTPStatus.TOO_MANY_REQUESTS
        small = Client(bodies, b"x" * 90)
        await asyncio.sleep(0.25)
        large = Client(bodies, b"x" * 1000)
        assert await slow[0].status() == HTTPStatus.REQUEST_TIMEOUT
        for client in (small, large, *slow[1:]):
            client.send(b"y")
            assert (await client.task).endswith(b"xy")
        over = Client(bodies, b"x" * 1000)
        over.send(b"y" * 25)
        assert await over.status() == HTTPStatus.REQUEST_ENTITY_TOO_LARGE

    played(scene)


def test_what_was_announced_counts_before_it_is_here(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a hundred bodies of the greatest size would be read in part, only to be refused."""
    monkeypatch.setattr(admission, "FREE_BYTES", 100)

    async def scene() -> None:
        bodies = Bodies(ServeLimits(body_bytes=1024))
        large = [Client(bodies, b"{", length=1024) for _ in range(admission.HELD_BODIES)]
        await asyncio.sleep(0.05)
        refused = Client(bodies, b"{", length=500)
        assert await refused.status() == HTTPStatus.TOO_MANY_REQUESTS
        small = Client(bodies, b"{", length=100)
        for client in (small, *large):
            client.send(b"}")
            assert await client.task == b"{}"

    played(scene)


def test_who_has_gone_is_forgotten(quick: None) -> None:
    async def scene() -> None:
        bodies = Bodies(ServeLimits())
        client = Client(bodies, b"{")
        await asyncio.sleep(0.05)
        client.parts.append({"type": "http.disconnect"})
        client.more.set()
        with pytest.raises(GoneError):
            await client.task
        assert not bodies._incomplete

    played(scene)
