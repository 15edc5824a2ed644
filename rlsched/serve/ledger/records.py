"""Records of decided states, for the page and the log, and the batches in which replicas send them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from msgspec import Struct, msgpack

from rlsched.serve.api.requests import cluster_names, job_counts, state_getter
from rlsched.serve.api.schema import Answer, BatchRequest, ClusterState, DecisionRequest, PolicyName

MAX_RECORDS = 300  # records of each cluster for the page

MAX_RECORDS_PER_REQUEST = 32
"""Records of a cluster from one request: a client that sends more states of it at once replays them."""

MAX_RECORDED_JOBS = 50_000  # jobs in the records of a cluster: large clusters have fewer records
MAX_BATCH_JOBS = 1_000_000  # jobs of all states in a batch for a log: some 200 MB
MAX_CLUSTERS = 20  # clusters with records for the page


class Record(Struct, frozen=True, gc=False):
    """A state and the answer about it."""

    at: float  # seconds since the epoch
    policy: str  # its name
    version: str
    state: ClusterState
    answer: Answer


class StoredState(DecisionRequest, frozen=True, kw_only=True, omit_defaults=True):
    """A state with or without the other fields of its request; writing it again adds no field."""


class StoredRecord(Record, frozen=True, gc=False):
    """A record that was read again."""

    state: StoredState


Stored = TypeVar("Stored", bound=Record)


class ClusterRecords(Struct, Generic[Stored], array_like=True, eq=False):
    """Recent records of a cluster, and counts of all its states."""

    records: list[Stored] = []  # the newest last; not all, if states come faster than replicas send them
    states: int = 0  # since the start of the ledger
    agreed: int = 0  # compared states in which policy and heuristic agree
    compared: int = 0  # states that both decided about
    fallbacks: int = 0  # states in which the policy failed
    jobs: int = 0  # in `records`

    def count(self, answer: Answer) -> None:
        """Count a state."""
        self.states += 1
        self.compared += answer.agrees is not None
        self.agreed += answer.agrees is True
        self.fallbacks += answer.agrees is None

    def add(self, record: Stored) -> None:
        """Add a record, and drop old ones beyond the limits of the page."""
        self.jobs += _num_jobs(record)
        while self.records and (len(self.records) >= MAX_RECORDS or self.jobs > MAX_RECORDED_JOBS):
            self.jobs -= _num_jobs(self.records.pop(0))
        self.records.append(record)

    def merge(self, newer: ClusterRecords[Stored]) -> None:
        """Add newer records and counts."""
        for record in newer.records:
            self.add(record)
        self.states += newer.states
        self.agreed += newer.agreed
        self.compared += newer.compared
        self.fallbacks += newer.fallbacks


_DECODER = msgpack.Decoder(dict[str, ClusterRecords[StoredRecord]])


def pack_records(clusters: Mapping[str, ClusterRecords[Record]]) -> bytes:
    """Encode records of clusters by name; Ray's pickle takes twenty times as long."""
    return msgpack.encode(clusters)


def unpack_records(content: bytes) -> dict[str, ClusterRecords[Any]]:
    """Decode the result of `pack_records`."""
    clusters: dict[str, Any] = _DECODER.decode(content)
    return clusters


def _num_jobs(record: Record) -> int:
    state = record.state
    return len(state.running) + len(state.waiting) + len(state.planned) + len(state.suspended)


class RecordBatch:
    """Records that a replica has not sent yet.

    Args:
        max_records: records for a log; None: as many as the page shows of each cluster.
    """

    def __init__(self, max_records: int | None) -> None:
        self._max_records = max_records
        self.clusters: dict[str, ClusterRecords[Record]] = {}
        self.size = self._jobs = 0  # records that were added, and their jobs

    def add(self, policy: PolicyName, request: BatchRequest, answers: Sequence[Answer]) -> int:
        """Add the states of a request, with the (cluster,) answers about them.

        Returns:
            States that a log will miss, since the batch has too many records or jobs; they are counted
            all the same.
        """
        now, dropped, logged = time.time(), 0, self._max_records is not None
        names, state_of = cluster_names(request), state_getter(request)
        jobs = job_counts(request).sum(axis=0).tolist()
        remaining = Counter(names)
        for k, (name, answer) in enumerate(zip(names, answers, strict=True)):
            cluster = self.clusters.get(name)
            if cluster is None:
                if not logged and len(self.clusters) >= MAX_CLUSTERS:
                    del self.clusters[next(iter(self.clusters))]  # as the ledger would
                cluster = self.clusters[name] = ClusterRecords()
            cluster.count(answer)
            remaining[name] -= 1
            if not logged and remaining[name] >= MAX_RECORDS_PER_REQUEST:
                self.size += 1
                continue
            if logged and self._is_full(jobs[k]):
                dropped += 1
                continue
            record = Record(now, policy.name, policy.version, state_of(k), answer)
            if logged:
                cluster.records.append(record)
                self._jobs += jobs[k]
            else:
                cluster.add(record)
            self.size += 1
        return dropped

    def _is_full(self, jobs: int) -> bool:
        full = self._max_records is not None and self.size >= self._max_records
        return full or self._jobs + jobs > MAX_BATCH_JOBS
