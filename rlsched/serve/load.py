"""A load on the service: clients that each send the next request after an answer. A process of its own.

    python -m rlsched.serve.load JOB.json

The job holds address, requests and amount; the results go to stdout as JSON. The HTTP client uses asyncio's
streams: client libraries would take more of the two cores than the service leaves.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

LIMIT = 1 << 26  # largest head or body of a reply, bytes


@dataclass(frozen=True)
class LoadJob:
    """Settings of a load."""

    host: str
    port: int
    path: str  # of the requests
    bodies: list[str]  # files with bodies; clients take them in turn, and each begins with another one
    clients: int  # at once
    seconds: float
    requests: int | None = None  # at most; None: no limit
    token: str | None = None  # of the requests


@dataclass(frozen=True)
class Load:
    """Results of a load."""

    answered: int  # requests with status 200
    statuses: dict[int, int]  # other status -> requests
    broken: int  # connections that broke, or were refused, over a request
    seconds: float
    p50_ms: float  # median time to an answer
    p99_ms: float  # time within which 99 of 100 are answered

    @property
    def failed(self) -> int:
        """Requests without an answer of status 200."""
        return self.broken + sum(self.statuses.values())


class _Clients:
    def __init__(self, job: LoadJob) -> None:
        self.job = job
        bearer = f"Authorization: Bearer {job.token}\r\n" if job.token else ""
        self.requests = []
        for path in job.bodies:
            body = Path(path).read_bytes()
            head = (
                f"POST {job.path} HTTP/1.1\r\nHost: {job.host}\r\n{bearer}Content-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n"
            )
            self.requests.append(head.encode() + body)
        self.times: list[float] = []
        self.statuses: dict[int, int] = {}
        self.broken = self.sent = 0
        self.until = time.perf_counter() + job.seconds

    async def send_requests(self, number: int) -> None:
        """One client."""
        reader = writer = None
        while time.perf_counter() < self.until and self.sent < (self.job.requests or sys.maxsize):
            request = self.requests[(number + self.sent) % len(self.requests)]
            self.sent += 1
            began = time.perf_counter()
            try:
                if reader is None or writer is None:
                    reader, writer = await asyncio.open_connection(self.job.host, self.job.port, limit=LIMIT)
                writer.write(request)
                status, keep = await read_reply(reader)
            except (OSError, asyncio.IncompleteReadError, ValueError):
                self.broken += 1
                reader = None
                await asyncio.sleep(0.01)
                continue
            if not keep:
                writer.close()
                reader = None
            if status == 200:
                self.times.append(time.perf_counter() - began)
            else:
                self.statuses[status] = self.statuses.get(status, 0) + 1
        if writer is not None:
            writer.close()


async def read_reply(reader: asyncio.StreamReader) -> tuple[int, bool]:
    """Read a reply: its status, and whether the connection stays open.

    Raises:
        ValueError: the reply has no length.
    """
    head = await reader.readuntil(b"\r\n\r\n")
    status = int(head.split(b" ", 2)[1])
    fields = dict(
        (name.strip().lower(), value.strip())
        for name, _, value in (line.partition(b":") for line in head.split(b"\r\n")[1:])
    )
    if fields.get(b"transfer-encoding", b"").lower() == b"chunked":
        while size := int(await reader.readline(), 16):
            await reader.readexactly(size + 2)
        await reader.readline()
    else:
        await reader.readexactly(int(fields.get(b"content-length", b"none")))
    return status, fields.get(b"connection", b"").lower() != b"close"


async def run(job: LoadJob) -> Load:
    """Run a load."""
    clients = _Clients(job)
    began = time.perf_counter()
    await asyncio.gather(*(clients.send_requests(number) for number in range(job.clients)))
    seconds = time.perf_counter() - began
    times = sorted(clients.times) or [0.0]
    return Load(
        answered=len(clients.times),
        statuses=clients.statuses,
        broken=clients.broken,
        seconds=seconds,
        p50_ms=1e3 * times[len(times) // 2],
        p99_ms=1e3 * times[min(len(times) - 1, int(0.99 * len(times)))],
    )


def load_of(values: dict[str, Any]) -> Load:
    """Results as a process wrote them."""
    statuses = {int(status): count for status, count in values["statuses"].items()}
    return Load(**{**values, "statuses": statuses})


if __name__ == "__main__":
    settings = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    print(json.dumps(asdict(asyncio.run(run(LoadJob(**settings))))))
