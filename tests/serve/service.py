"""The service in this process, without sockets and Ray."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlsched.serve.api.http import Application
from rlsched.serve.api.schema import Answer, BatchRequest, PolicyName
from rlsched.serve.api.tokens import Tokens
from rlsched.serve.decide.batching_queue import BatchingQueue
from rlsched.serve.decide.policy_store import PolicyStore
from rlsched.serve.ledger.ledger import Ledger, PageData, ReplicaMetrics
from rlsched.serve.ledger.records import RecordBatch, pack_records, unpack_records
from rlsched.serve.settings import ServeConfig

TOKEN = "a-token-that-is-long-enough"


@dataclass(frozen=True)
class Reply:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(eq=False)
class LocalLedger:
    """A ledger in this process; see `LedgerClient`."""

    replica_metrics: ReplicaMetrics
    ledger: Ledger = field(default_factory=Ledger)
    batch: RecordBatch = field(default_factory=lambda: RecordBatch(None))

    def record(self, policy: PolicyName, request: BatchRequest, answers: Sequence[Answer]) -> None:
        self.replica_metrics.count_dropped(self.batch.add(policy, request, answers))

    def send(self) -> None:
        batch, self.batch = self.batch, RecordBatch(None)
        clusters = unpack_records(pack_records(batch.clusters))
        self.ledger.add("replica", self.replica_metrics.samples(), clusters)

    async def metrics(self) -> bytes:
        self.send()
        return self.ledger.metrics()

    async def page_data(self, cluster: str | None) -> PageData:
        self.send()
        return self.ledger.page_data(cluster)


class Service:
    """An application to ask.

    Args:
        policies: name -> folder, or one folder.
        settings: further fields of `ServeConfig`.
    """

    def __init__(self, policies: Any, **settings: Any) -> None:
        config = ServeConfig.model_validate({"policies": policies, **settings})
        self.store = PolicyStore(config)
        self.queue = BatchingQueue(config.limits)
        self.metrics = ReplicaMetrics()
        self.ledger = LocalLedger(self.metrics)
        self.tokens = Tokens(config.token_file)
        self.app = Application(self.store, self.queue, self.metrics, self.ledger, self.tokens)
        self.loop = asyncio.new_event_loop()

    def close(self) -> None:
        self.queue.close()
        self.loop.close()

    def ask(self, path: str, body: bytes | dict[str, Any] | None = None, **headers: str) -> Reply:
        """One request, by POST where there is a body."""
        return self.loop.run_until_complete(self.request(path, body, **headers))

    def ask_together(self, requests: Iterable[tuple[str, bytes | dict[str, Any]]]) -> list[Reply]:
        """Some at once."""

        async def all_of_them() -> list[Reply]:
            return await asyncio.gather(*(self.request(path, body) for path, body in requests))

        return self.loop.run_until_complete(all_of_them())

    async def request(
        self, path: str, body: bytes | dict[str, Any] | None = None, method: str | None = None, **headers: str
    ) -> Reply:
        content = json.dumps(body).encode() if isinstance(body, dict) else body
        arguments = {name.replace("_", "-"): value for name, value in headers.items()}
        if content is not None:
            arguments.setdefault("content-length", str(len(content)))
            arguments.setdefault("content-type", "application/json")
        path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method or ("GET" if body is None else "POST"),
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "scheme": "http",
            "server": ("127.0.0.1", 8000),
            "client": ("127.0.0.1", 1),
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in arguments.items()],
        }
        parts = [content[k : k + 65536] for k in range(0, len(content), 65536)] if content else [b""]
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            if not parts:
                await asyncio.sleep(3600)
            part = parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(parts)}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        start = next(message for message in sent if message["type"] == "http.response.start")
        whole = b"".join(message.get("body", b"") for message in sent)
        response_headers = {
            name.decode().lower(): value.decode("latin-1") for name, value in start["headers"]
        }
        return Reply(start["status"], response_headers, whole)


def example(folder: Path) -> dict[str, Any]:
    """The request that comes with a policy."""
    result: dict[str, Any] = json.loads((folder / "example.json").read_text("utf-8"))
    return result


def moved(decisions: list[dict[str, Any]]) -> set[tuple[Any, str]]:
    """What decisions do to which jobs, whatever their order; a reservation is nothing."""
    return {(item["job"], item["action"]) for item in decisions if item["action"] != "reserve"}
