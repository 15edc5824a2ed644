"""Which requests a replica takes: from whom, of what kind, and how much of them at once.

Clients set the pace of their bodies, so all bodies together are bounded in number, in bytes and in time.
Where too many are being sent, the slowest is refused.
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

AT_ONCE_S = 0.05
"""In which a body that was sent whole is here; others are counted."""

SLOW_S = 1.0
"""After which a body that is still being sent gives way to another one."""

FREE_BYTES = 1 << 17
"""Of a body that are not counted: those of small requests are bounded by their number."""

HELD_BODIES = 2
"""Bodies of the greatest size that may be sent at once, or as many bytes of smaller ones."""

EVERY_HOST = "*"


class RefusedError(Exception):
    """A request that is not answered.

    Args:
        status: of the response.
        problem: in one line.
    """

    def __init__(self, status: HTTPStatus, problem: str) -> None:
        self.status, self.problem = status, problem
        super().__init__(problem)


class GoneError(Exception):
    """The client has gone."""


class Hosts:
    """Names under which a service may be asked.

    A page that a browser shows may ask any address under a name that its owner makes resolve to it (DNS
    rebinding). No other site can have the service's address or the names of its machine.

    Args:
        names: others; `*`: any.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._any = EVERY_HOST in names
        own = ("localhost", socket.gethostname())
        self._names = {_name_of(name) for name in (*names, *own)}

    def check(self, headers: Mapping[bytes, bytes]) -> None:
        """See whether a request was meant for this service, and does not come from a page of another one.

        Raises:
            RefusedError: it was not, or does.
        """
        host = headers.get(b"host")
        if host is not None and not self._knows(host.decode("latin-1")):
            problem = f"host: {_shown(host)} is no name of this service; add it to its setting hosts"
            raise RefusedError(HTTPStatus.FORBIDDEN, problem)
        origin = headers.get(b"origin")
        if origin is not None and origin.partition(b"://")[2] != (host or b""):
            problem = f"origin: {_shown(origin)} is another site; ask from none, or from this service's page"
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
    """See whether a body is JSON, which no browser sends to another site without asking that first.

    Raises:
        RefusedError: it is something else.
    """
    kind = headers.get(b"content-type", b"")
    if kind.partition(b";")[0].strip().lower() != b"application/json":
        problem = f"content-type: {_shown(kind)} is not read here; send 'content-type: application/json'"
        raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, problem)
    coding = headers.get(b"content-encoding", b"identity")
    if coding.lower() != b"identity":
        problem = f"content-encoding: {_shown(coding)} is not read here; send plain JSON"
        raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, problem)


def _shown(value: bytes) -> str:
    return repr(value[:60].decode("latin-1"))


@dataclass(eq=False)
class _Sending:
    """A body that is still being sent.

    Attributes:
        since: the loop's time when it began.
        timeout: ends its reading.
        held: bytes that are here or were announced, beyond those that are not counted.
    """

    since: float
    timeout: asyncio.Timeout
    held: int = 0


class Bodies:
    """Reads bodies, and keeps those that are sent slowly within bounds.

    Args:
        limits: of requests.
    """

    def __init__(self, limits: ServeLimits) -> None:
        self._limits = limits
        self._sending: dict[_Sending, None] = {}  # in the order in which they began

    async def read(self, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
        """The body of a request.

        Raises:
            RefusedError: it is too long or too slow, or too much is being sent at once.
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
            pass  # it is counted from here on
        if message is not None and not message.get("more_body", False):
            return self._part(message, 0)
        part = b"" if message is None else self._part(message, 0)
        # The system takes back all of it at its end, and has what is not written meanwhile. From Python's
        # allocator, pieces of bodies would stay in memory between those of others.
        with mmap(-1, self._limits.body_bytes) as room:
            return await self._rest(room, part, length, receive)

    async def _rest(self, body: mmap, part: bytes, length: int, receive: Receive) -> bytes:
        """All of a body of which a part is here.

        Args:
            body: room for it.
            part: it.
            length: that was announced; 0: none was.
            receive: brings the others.
        """
        now = asyncio.get_running_loop().time()
        self._make_room(now)
        body.write(part)
        more = True
        try:
            async with asyncio.timeout(self._limits.body_s) as timeout:
                sending = _Sending(now, timeout)
                self._sending[sending] = None
                try:
                    while more:
                        # All that was announced counts at once: what would be refused later is not read.
                        sending.held = max(0, length - FREE_BYTES, body.tell() - FREE_BYTES)
                        self._keep_within(sending)
                        message = await receive()
                        body.write(self._part(message, body.tell()))
                        more = message.get("more_body", False)
                finally:
                    del self._sending[sending]
        except TimeoutError:
            raise RefusedError(
                HTTPStatus.REQUEST_TIMEOUT,
                f"body: was not whole in time; send it within {self._limits.body_s:g} s",
            ) from None
        return body[: body.tell()]

    def _part(self, message: Mapping[str, object], size: int) -> bytes:
        """What a message brings, after so many bytes."""
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
        """Let the slowest give way where as many are being sent as may be."""
        if len(self._sending) >= self._limits.concurrency and not self._give_way(now):
            raise RefusedError(
                HTTPStatus.TOO_MANY_REQUESTS, "body: too many are being sent at once; ask again later"
            )

    def _keep_within(self, sending: _Sending) -> None:
        """Let others give way where too many bytes are here, and where none does, this one."""
        now = asyncio.get_running_loop().time()
        while sum(other.held for other in self._sending) > HELD_BODIES * self._limits.body_bytes:
            if not self._give_way(now, sending):
                raise RefusedError(
                    HTTPStatus.TOO_MANY_REQUESTS, "body: too much is being sent at once; ask again later"
                )

    def _give_way(self, now: float, asks: _Sending | None = None) -> bool:
        """End the one that has been sent for longest, if it is slow; whether there was one."""
        oldest = next((one for one in self._sending if one is not asks and one.held >= 0), None)
        if oldest is None or now - oldest.since < SLOW_S:
            return False
        oldest.held = -1  # it is being refused, and counts no more
        oldest.timeout.reschedule(now)
        return True
