"""Clients of the ledger: what a replica tells it, and what it answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from rlsched.serve.ledger.ledger import PageData, ReplicaMetrics, sum_metrics
from rlsched.serve.ledger.records import RecordBatch, pack_records

if TYPE_CHECKING:
    from ray.serve.handle import DeploymentHandle

    from rlsched.serve.api.schema import Answer, BatchRequest, PolicyName

LOG = logging.getLogger("ray.serve")

SEND_S = 0.5  # seconds between two batches of a replica
MAX_LOGGED = 20_000  # records of a batch for a log that falls behind

TIMEOUT_S, POLL_S = 5.0, 0.1
"""Longest wait for the ledger, and the time between two looks whether it has started."""


class LedgerAwayError(RuntimeError):
    """The ledger does not answer."""


class LedgerClient(Protocol):
    """The ledger as a replica sees it."""

    def record(self, policy: PolicyName, request: BatchRequest, answers: Sequence[Answer]) -> None:
        """Record decided states; never waits."""

    async def metrics(self) -> bytes:
        """Metrics of all replicas, in Prometheus' text format."""

    async def page_data(self, cluster: str | None) -> PageData:
        """Recent records, or a `LedgerAwayError` if the ledger does not answer."""


class RayLedgerClient:
    """The client of a ledger that is a Ray Serve deployment; see `LedgerClient`.

    Args:
        handle: of the ledger; None: it has not started yet, so records wait.
        replica, metrics: name and metrics of this replica.
        logged: whether the ledger wants every record, or only those of the page.
    """

    def __init__(
        self, handle: DeploymentHandle | None, replica: str, metrics: ReplicaMetrics, *, logged: bool
    ) -> None:
        self.handle, self._replica, self._metrics = handle, replica, metrics
        self._max_records = MAX_LOGGED if logged else None
        self._batch = RecordBatch(self._max_records)
        self._sender: asyncio.Task[None] | None = None

    def record(self, policy: PolicyName, request: BatchRequest, answers: Sequence[Answer]) -> None:
        """See `LedgerClient.record`."""
        self._metrics.count_dropped(self._batch.add(policy, request, answers))
        if self._sender is None:
            self._sender = asyncio.get_running_loop().create_task(self._send_later())

    async def _send_later(self) -> None:
        while self._batch.clusters:
            await asyncio.sleep(SEND_S)
            await self.send()
        self._sender = None

    async def send(self) -> None:
        """Send metrics and records."""
        if self.handle is None:
            return
        batch, self._batch = self._batch, RecordBatch(self._max_records)
        try:
            content = pack_records(batch.clusters)
            await asyncio.wait_for(
                self.handle.take.remote(self._replica, self._metrics.samples(), content), TIMEOUT_S
            )
        except Exception as error:
            self._metrics.count_dropped(batch.size)
            LOG.warning("the ledger does not take records: %s", error)

    async def metrics(self) -> bytes:
        """See `LedgerClient.metrics`; without a ledger those of this replica alone."""
        await self.send()
        if self.handle is not None:
            try:
                metrics: bytes = await asyncio.wait_for(self.handle.metrics.remote(), TIMEOUT_S)
            except Exception as error:  # Ray raises many kinds
                LOG.warning("the ledger does not answer: %s", error)
            else:
                return metrics
        return sum_metrics([self._metrics.samples()])

    async def page_data(self, cluster: str | None) -> PageData:
        """See `LedgerClient.page_data`."""
        await self.send()
        deadline = asyncio.get_running_loop().time() + TIMEOUT_S
        while self.handle is None:  # a service is ready before its ledger
            if asyncio.get_running_loop().time() > deadline:
                raise LedgerAwayError("it is being started")
            await asyncio.sleep(POLL_S)
        try:
            data: PageData = await asyncio.wait_for(self.handle.page_data.remote(cluster), TIMEOUT_S)
        except Exception as error:
            raise LedgerAwayError(str(error)) from None
        return data
