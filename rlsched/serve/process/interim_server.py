"""The process that answers while replicas start; see `rlsched.serve.process.interim`.

It has no HAProxy before it, so slow clients are limited by `rlsched.serve.api.admission` alone.
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
from rlsched.serve.api.requests import Sent
from rlsched.serve.api.schema import Answer, PolicyName
from rlsched.serve.api.tokens import Tokens
from rlsched.serve.decide.batching_queue import Desk
from rlsched.serve.decide.engine import Engine, keep_current
from rlsched.serve.ledger.ledger import Accounts, Book, News, Shown
from rlsched.serve.log.service_log import ServiceLog
from rlsched.serve.process.interim import INSTANCE, LISTENING, LOOK_S
from rlsched.serve.process.listener import BACKLOG
from rlsched.serve.process.proxy import REQUEST_S
from rlsched.serve.settings import ServeConfig

LAST_S, LONGEST_END_S = 0.5, 10
"""For requests that are on their way when it ends, and for their answers."""

HEADER_BYTES = 1 << 17
"""That a client may send before a request is complete but for its body, as with HAProxy."""


class LocalLedger:
    """The ledger of a service of one process; see `rlsched.serve.ledger.ledger.Ledger`.

    Args:
        accounts: of the process.
        log: to which decisions are written, too.
    """

    def __init__(self, accounts: Accounts, log: ServiceLog | None) -> None:
        self._accounts, self._log, self._book = accounts, log, Book()

    def note(self, policy: PolicyName, sent: Sent, answers: Sequence[Answer]) -> None:
        """See `Ledger.note`."""
        news = News(None if self._log is None else len(answers))
        self._accounts.dropped(news.note(policy, sent, answers))
        if self._log is not None:
            for lately in news.clusters.values():
                self._log.take([*lately.noted])
        self._book.take(INSTANCE, [], news.clusters)

    async def metrics(self) -> bytes:
        """See `Ledger.metrics`."""
        self._book.take(INSTANCE, self._accounts.samples(), {})
        return self._book.metrics(0 if self._log is None else self._log.lost)

    async def shown(self, cluster: str | None) -> Shown:
        """See `Ledger.shown`."""
        return self._book.shown(cluster)


class Protocol(H11Protocol):
    """A connection that is closed where no request has come in time: there is no HAProxy that would."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        self.loop.call_later(REQUEST_S, self._close_if_idle)

    def _close_if_idle(self) -> None:
        request: RequestResponseCycle | None = self.cycle
        if request is None:
            self.transport.close()


class Server(uvicorn.Server):
    """A server that answers requests which were on their way when it was ended."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See `uvicorn.Server.shutdown`, which closes connections whose request has not come yet."""
        for server in self.servers:
            server.close()
        await asyncio.sleep(LAST_S)
        await super().shutdown(sockets)


async def answer(config: ServeConfig, listening: socket.socket) -> None:
    """Answer at a listening socket until stdin ends.

    Args:
        config: what is served.
        listening: the socket.

    Raises:
        BadInputError: a policy cannot be served.
    """
    desk, accounts, tokens = Desk(Engine(config)), Accounts(), Tokens(config.token_file)
    log = None if config.log is None else ServiceLog(config, config.log)
    application = Application(desk, accounts, LocalLedger(accounts, log), tokens, INSTANCE)
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
            headers=[("connection", "close")],  # the next request is to find replicas
            timeout_graceful_shutdown=LONGEST_END_S,
        )
    )

    def end_with_stdin() -> None:
        sys.stdin.buffer.read()  # until its parent closes it, or has died
        server.should_exit = True

    async def say_ready() -> None:
        while not server.started:
            await asyncio.sleep(LOOK_S)
        os.write(sys.stdout.fileno(), b"ready\n")

    gc.freeze()
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # of strangers that send anything
    threading.Thread(target=end_with_stdin, name="rlsched-end", daemon=True).start()
    closing = threading.Event()
    current = partial(keep_current, tokens, desk.engine, closing)
    threading.Thread(target=current, name="rlsched-watch", daemon=True).start()
    saying = asyncio.create_task(say_ready())
    try:
        await server.serve(sockets=[listening])
    finally:
        saying.cancel()
        closing.set()
        desk.close()
        if log is not None:
            await asyncio.to_thread(log.close)


def main() -> None:
    """Answer as the parent of this process says: configuration in the arguments, and the socket open."""
    config = ServeConfig.model_validate_json(sys.argv[1])
    with suppress(BadInputError, OSError):  # replicas say so
        asyncio.run(answer(config, socket.socket(fileno=LISTENING)))
