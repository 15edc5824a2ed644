"""Admission of requests: host and origin, content type, and the number, bytes and time of bodies.

Clients set the pace of their bodies, so all bodies together are limited in number, bytes and time. If too
many arrive at once, the slowest is refused.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from mmap import mmap

from starlette.types import Receive

from rlsched.serve.settings import ServeLimits

AT_ONCE_S = 0.05  # seconds in which a complete body arrives; slower bodies count
SLOW_S = 1.0  # seconds after which an incomplete body may be refused in favour of another one
FREE_BYTES = 1 << 17  # bytes of each body that do not count: the number of bodies limits them
HELD_BODIES = 2  # bodies of the largest size that may arrive at once, or as many bytes of smaller ones

EVERY_HOST = "*"


class RefusedError(Exception):
    """A refused request, with the problem in one line."""

    def __init__(self, status: HTTPStatus, problem: str) -> None:
        self.status, self.problem = status, problem
        super().__init__(problem)


class GoneError(Exception):
    """The client has gone."""


class Hosts:
    """Host names of a service.

    A web page can send requests to any address under a host name that its owner resolves to that address (DNS
    rebinding). No other site can have the service's address or the names of its machine.

    Args:
        names: further host names; `*`: any.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._any = EVERY_HOST in names
        local = ("localhost", socket.gethostname())
        self._names = {_name_of(name) for name in (*names, *local)}

    def check(self, headers: Mapping[bytes, bytes]) -> None:
        """Check that a request is for this service, and not from a page of another site.

        Raises:
            RefusedError: wrong host or origin.
        """
        host = headers.get(b"host")
        if host is not None and not self._knows(host.decode("latin-1")):
            problem = f"host: {_quoted(host)} is no name of this service; add it to its setting hosts"
            raise RefusedError(HTTPStatus.FORBIDDEN, problem)
        origin = headers.get(b"origin")
        if origin is not None and origin.partition(b"://")[2] != (host or b""):
            problem = f"origin: {_quoted(origin)} is another site; ask from none, or from this service's page"
            raise RefusedError(HTTPStatus.FORBIDDEN, problem)

    def _knows(self, host: str) -> bool:
        name = _name_of(host)
        if self._any or name in self._names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def _name_of(host: str) -> str:
    """A name or address without port, brackets and final dot."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).removesuffix(".").lower()


def check_json(headers: Mapping[bytes, bytes]) -> None:
    """Check that a body is JSON, which no browser sends to another site without a preflight request.

    Raises:
        RefusedError: it is of another type.
    """
    kind = headers.get(b"content-type", b"")
    if kind.partition(b";")[0].strip().lower() != b"application/json":
        problem = f"content-type: {_quoted(kind)} is not read here; send 'content-type: application/json'"
        raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, problem)
    coding = headers.get(b"content-encoding", b"identity")
    if coding.lower() != b"identity":
        problem = f"content-encoding: {_quoted(coding)} is not read here; send plain JSON"
        raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, problem)


def _quoted(value: bytes) -> str:
    return repr(value[:60].decode("latin-1"))


@dataclass(eq=False)
class _IncompleteBody:
    """A body that has not arrived completely."""

    since: float  # the loop's time when it began
    timeout: asyncio.Timeout  # ends its reading
    held: int = 0  # bytes that have arrived or were announced, beyond those that do not count


class Bodies:
    """Reads bodies, and limits slow ones."""

    def __init__(self, limits: ServeLimits) -> None:
        self._limits = limits
        self._incomplete: dict[_IncompleteBody, None] = {}  # the oldest first

    async def read(self, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
        """The body of a request.

        Raises:
            RefusedError: it is too long or too slow, or too much arrives at once.
            GoneError: the client has gone.
        """
        text = headers.get(b"content-length", b"0")
        length = int(text) if text.isdigit() else 0
        if length > self._limits.body_bytes:
            raise self._too_long()
        message = None
        try:
            async with asyncio.timeout(AT_ONCE_S):
                message = await receive()
        except TimeoutError:
            pass  # it counts from here on
        if message is not None and not message.get("more_body", False):
            return self._part(message, 0)
        part = b"" if message is None else self._part(message, 0)
        # The system takes back this memory at the end, and pages that are not written before. In memory of
        # Python's allocator, pieces of bodies would remain between others.
        with mmap(-1, self._limits.body_bytes) as buffer:
            return await self._read_rest(buffer, part, length, receive)

    async def _read_rest(self, body: mmap, part: bytes, length: int, receive: Receive) -> bytes:
        """Read the rest of a body after its first part; length: announced bytes, or 0."""
        now = asyncio.get_running_loop().time()
        self._make_room(now)
        body.write(part)
        more = True
        try:
            async with asyncio.timeout(self._limits.body_s) as timeout:
                incomplete = _IncompleteBody(now, timeout)
                self._incomplete[incomplete] = None
                try:
                    while more:
                        # Announced bytes count at once: a body that would be refused later is not read.
                        incomplete.held = max(0, length - FREE_BYTES, body.tell() - FREE_BYTES)
                        self._limit_bytes(incomplete)
                        message = await receive()
                        body.write(self._part(message, body.tell()))
                        more = message.get("more_body", False)
                finally:
                    del self._incomplete[incomplete]
        except TimeoutError:
            problem = f"body: was not whole in time; send it within {self._limits.body_s:g} s"
            raise RefusedError(HTTPStatus.REQUEST_TIMEOUT, problem) from None
        return body[: body.tell()]

    def _part(self, message: Mapping[str, object], size: int) -> bytes:
        """Bytes of a message that follows `size` earlier bytes."""
        if message["type"] == "http.disconnect":
            raise GoneError
        part = message.get("body", b"")
        assert isinstance(part, bytes)
        if size + len(part) > self._limits.body_bytes:
            raise self._too_long()
        return part

    def _too_long(self) -> RefusedError:
        problem = f"body: more than {self._limits.body_bytes} bytes; send fewer states or jobs"
        return RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, problem)

    def _make_room(self, now: float) -> None:
        """Refuse the slowest body if their number is at the limit."""
        if len(self._incomplete) >= self._limits.concurrency and not self._refuse_slowest(now):
            problem = "body: too many are being sent at once; ask again later"
            raise RefusedError(HTTPStatus.TOO_MANY_REQUESTS, problem)

    def _limit_bytes(self, body: _IncompleteBody) -> None:
        """Refuse other bodies if there are too many bytes; if none is slow, refuse this one."""
        now = asyncio.get_running_loop().time()
        while sum(incomplete.held for incomplete in self._incomplete) > HELD_BODIES * self._limits.body_bytes:
            if not self._refuse_slowest(now, body):
                problem = "body: too much is being sent at once; ask again later"
                raise RefusedError(HTTPStatus.TOO_MANY_REQUESTS, problem)

    def _refuse_slowest(self, now: float, exempt: _IncompleteBody | None = None) -> bool:
        """Refuse the oldest incomplete body, if it is slow; whether there was one."""
        candidates = (body for body in self._incomplete if body is not exempt and body.held >= 0)
        oldest = next(candidates, None)
        if oldest is None or now - oldest.since < SLOW_S:
            return False
        oldest.held = -1  # it is refused, and counts no more
        oldest.timeout.reschedule(now)
        return True
