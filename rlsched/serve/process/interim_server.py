"""The process that answers while replicas start; see `interim`.

It has no HAProxy before it, so `api.admission` alone limits slow clients.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from rlsched.errors import BadInputError
from rlsched.serve.api.http import Application
from rlsched.serve.api.schema import Answer, BatchRequest, PolicyName
from rlsched.serve.api.tokens import Tokens
from rlsched.serve.decide.batching_queue import BatchingQueue
from rlsched.serve.decide.policy_store import PolicyStore, keep_current
from rlsched.serve.ledger.ledger import Ledger, PageData, ReplicaMetrics
from rlsched.serve.ledger.records import RecordBatch
from rlsched.serve.log.service_log import ServiceLog
from rlsched.serve.process.interim import INSTANCE
from rlsched.serve.process.listener import BACKLOG
from rlsched.serve.process.proxy import REQUEST_S
from rlsched.serve.settings import ServeConfig

LOOK_S = 0.05
LAST_S, LONGEST_END_S = 0.5, 10
"""Seconds for requests that are on their way at the end, and for their answers."""

HEADER_BYTES = 1 << 17  # longest head of a request, as with HAProxy


class LocalLedgerClient:
    """The ledger of a service of one process, with its log, if any; see `LedgerClient`."""

    def __init__(self, metrics: ReplicaMetrics, log: ServiceLog | None) -> None:
        self._metrics, self._ledger, self._logged = metrics, Ledger(log), log is not None

    def record(self, policy: PolicyName, request: BatchRequest, answers: Sequence[Answer]) -> None:
        """See `LedgerClient.record`."""
        batch = RecordBatch(len(answers) if self._logged else None)
        self._metrics.count_dropped(batch.add(policy, request, answers))
        self._ledger.add(INSTANCE, [], batch.clusters)

    async def metrics(self) -> bytes:
        """See `LedgerClient.metrics`."""
        self._ledger.add(INSTANCE, self._metrics.samples(), {})
        return self._ledger.metrics()

    async def page_data(self, cluster: str | None) -> PageData:
        """See `LedgerClient.page_data`."""
        return self._ledger.page_data(cluster)


class Protocol(H11Protocol):
    """A connection that closes if no request comes in time, as HAProxy would close it."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        self.loop.call_later(REQUEST_S, self._close_if_idle)

    def _close_if_idle(self) -> None:
        request: RequestResponseCycle | None = self.cycle
        if request is None:
            self.transport.close()


class Server(uvicorn.Server):
    """A server that answers requests on their way when it ends."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See `uvicorn.Server.shutdown`, which closes connections before their request has come."""
        for server in self.servers:
            server.close()
        await asyncio.sleep(LAST_S)
        await super().shutdown(sockets)


async def serve_until_stdin_ends(config: ServeConfig, listening: socket.socket) -> None:
    """Answer at a listening socket until stdin ends.

    Raises:
        BadInputError: a policy cannot be served.
    """
    store, queue = PolicyStore(config), BatchingQueue(config.limits)
    metrics, tokens = ReplicaMetrics(), Tokens(config.token_file)
    log = None if config.log is None else ServiceLog(config, config.log)
    application = Application(store, queue, metrics, LocalLedgerClient(metrics, log), tokens, INSTANCE)
    server = Server(
        uvicorn.Config(
            application,
            http=Protocol,
            h11_max_incomplete_event_size=HEADER_BYTES,
            backlog=BACKLOG,
            lifespan="off",
            ws="none",
            log_config=None,
            access_log=False,
            headers=[("connection", "close")],  # the next request shall reach replicas
            timeout_graceful_shutdown=LONGEST_END_S,
        )
    )

    def end_with_stdin() -> None:
        sys.stdin.buffer.read()  # until its parent closes it, or dies
        server.should_exit = True

    async def report_ready() -> None:
        while not server.started:
            await asyncio.sleep(LOOK_S)
        os.write(sys.stdout.fileno(), b"ready\n")

    gc.freeze()
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # clients may send anything
    threading.Thread(target=end_with_stdin, name="rlsched-end", daemon=True).start()
    closing = threading.Event()
    keep = partial(keep_current, tokens, store, closing)
    threading.Thread(target=keep, name="rlsched-watch", daemon=True).start()
    report = asyncio.create_task(report_ready())
    try:
        await server.serve(sockets=[listening])
    finally:
        report.cancel()
        closing.set()
        queue.close()
        if log is not None:
            await asyncio.to_thread(log.close)


def main() -> None:
    """Serve with the configuration in the arguments and the socket that the parent process has opened."""
    config = ServeConfig.model_validate_json(sys.argv[1])
    with suppress(BadInputError, OSError):  # replicas report it
        asyncio.run(serve_until_stdin_ends(config, socket.socket(fileno=int(sys.argv[2]))))
