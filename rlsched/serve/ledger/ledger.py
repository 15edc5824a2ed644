"""The ledger: metrics of all replicas in Prometheus' terms, and recent records of clusters.

A replica sends the totals of its metrics: nothing counts twice or is lost if the ledger restarts.
It sends each record once. It drops and counts records that the ledger cannot take.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from rlsched.serve.api.schema import Answer
from rlsched.serve.ledger.records import MAX_CLUSTERS, ClusterRecords, Record

if TYPE_CHECKING:
    from rlsched.serve.log.service_log import ServiceLog

ALIVE_S = 10.0  # seconds for which a silent replica counts as alive
LATENCIES_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class ReplicaMetrics:
    """Metrics of one replica."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        common: dict[str, Any] = {"namespace": "rlsched", "registry": self.registry}

        def counter(name: str, doc: str, *labels: str) -> Counter:
            return Counter(name, doc, labels, **common)

        self._requests = counter("requests", "Requests by status", "status")
        self._states = counter("states", "Clusters decided about", "policy", "decided_by")
        self._decisions = counter("decisions", "Jobs started, reserved, planned", "policy", "action")
        self._fallbacks = counter("fallbacks", "Clusters that the policy failed", "policy", "because")
        self._compared = counter("shadow_states", "Clusters that both decided about", "policy")
        self._agreed = counter("shadow_agreed", "Those about which they agreed", "policy")
        self._dropped = counter("log_dropped", "States that the ledger could not take")
        doc = "Time to answer a request"
        self._latency = Histogram("request_seconds", doc, ["policy"], buckets=LATENCIES_S, **common)
        self._in_progress = Gauge("requests_in_progress", "Requests that are worked at", **common)

    @contextmanager
    def timed(self, policy: str) -> Iterator[None]:
        """Time a request, and count it if it is answered."""
        began = time.perf_counter()
        with self._in_progress.track_inprogress():
            yield
        self._latency.labels(policy).observe(time.perf_counter() - began)
        self._requests.labels("200").inc()

    def count_refusal(self, status: HTTPStatus) -> None:
        """Count a request that was not answered."""
        self._requests.labels(str(int(status))).inc()

    def count_dropped(self, states: int) -> None:
        """Count states that the ledger could not take."""
        self._dropped.inc(states)

    def count_answers(self, policy: str, answers: Sequence[Answer]) -> None:
        """Count decisions, fallbacks and agreement."""
        agreement = [answer.agrees for answer in answers if answer.agrees is not None]
        failures = [
            a.because.partition(":")[0] for a in answers if a.agrees is None and a.because is not None
        ]
        for counter, names in (
            (self._states, [answer.decided_by for answer in answers]),
            (self._decisions, [decision.action for answer in answers for decision in answer.decisions]),
            (self._fallbacks, [because.partition(":")[0] for because in failures]),
        ):
            for name, count in collections.Counter(names).items():
                counter.labels(policy, name).inc(count)
        self._compared.labels(policy).inc(len(agreement))
        self._agreed.labels(policy).inc(sum(agreement))

    def samples(self) -> list[Metric]:
        """The present values."""
        return list(self.registry.collect())


def sum_metrics(samples: Iterable[Sequence[Metric]]) -> bytes:
    """The sum of the metrics of several replicas, in Prometheus' text format."""
    families: dict[str, Metric] = {}
    sums: dict[tuple[str, str, tuple[tuple[str, str], ...]], float] = {}
    for metric in chain.from_iterable(samples):
        families.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type))
        for sample in metric.samples:
            if not sample.name.endswith("_created"):
                key = (metric.name, sample.name, tuple(sample.labels.items()))
                sums[key] = sums.get(key, 0.0) + sample.value
    for (family, name, labels), value in sums.items():
        families[family].add_sample(name, dict(labels), value)
    return generate_latest(_Families(families.values()))


class _Families(Collector):
    """Metrics that are known already."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


class PageData(NamedTuple):
    """Contents of the page."""

    clusters: list[str]  # all known clusters, the newest first
    cluster: str | None  # the cluster on the page
    recent: ClusterRecords[Record]
    replicas: int


class Ledger:
    """The ledger of a service, in one process.

    Args:
        log: takes all records; None: there is no log.
    """

    def __init__(self, log: ServiceLog | None = None) -> None:
        self._log = log
        self._samples: dict[str, tuple[float, list[Metric]]] = {}
        self._clusters: dict[str, ClusterRecords[Record]] = {}

    def add(self, replica: str, samples: list[Metric], clusters: dict[str, ClusterRecords[Record]]) -> None:
        """Add the totals of a replica's metrics, and its new records by cluster."""
        self._samples[replica] = (time.time(), samples)
        if self._log is not None:
            for newer in clusters.values():
                self._log.add([*newer.records])
        for name, newer in clusters.items():
            records = self._clusters.pop(name, None) or ClusterRecords()
            self._clusters[name] = records  # the newest last
            records.merge(newer)
        while len(self._clusters) > MAX_CLUSTERS:
            del self._clusters[next(iter(self._clusters))]

    def metrics(self) -> bytes:
        """The sum of all metrics in Prometheus' text format; counts of ended replicas stay."""
        now = time.time()
        samples = [
            [metric for metric in metrics if metric.type != "gauge" or now - at < ALIVE_S]
            for at, metrics in self._samples.values()
        ]
        missing = Metric("rlsched_log_lost", "States that are missing in the log", "counter")
        missing.add_sample("rlsched_log_lost_total", {}, 0 if self._log is None else self._log.lost)
        return sum_metrics([*samples, [missing]])

    def page_data(self, cluster: str | None) -> PageData:
        """Recent records of a cluster; None: of the newest."""
        names = list(reversed(self._clusters))
        chosen = cluster if cluster in self._clusters else next(iter(names), None)
        recent = self._clusters[chosen] if chosen is not None else ClusterRecords()
        now = time.time()
        return PageData(names, chosen, recent, sum(now - at < ALIVE_S for at, _ in self._samples.values()))
