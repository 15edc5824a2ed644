"""The ledger: metrics of all replicas, and recent records of clusters.

A replica sends the totals of its metrics: nothing counts twice or is lost if the ledger restarts.
It sends each record once. It drops and counts records that the ledger cannot take.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from prometheus_client.metrics_core import Metric

from rlsched.serve.ledger.metrics import sum_metrics
from rlsched.serve.ledger.records import MAX_CLUSTERS, ClusterRecords

ALIVE_S = 10.0  # seconds for which a silent replica counts as alive


class PageData(NamedTuple):
    """Contents of the page."""

    clusters: list[str]  # all known clusters, the newest first
    cluster: str | None  # the cluster on the page
    recent: ClusterRecords
    replicas: int


class Ledger:
    """The ledger of a service, in one process."""

    def __init__(self) -> None:
        self._samples: dict[str, tuple[float, list[Metric]]] = {}
        self._clusters: dict[str, ClusterRecords] = {}

    def add(self, replica: str, samples: list[Metric], clusters: dict[str, ClusterRecords]) -> None:
        """Add the state of a replica.

        Args:
            replica: its name.
            samples: totals of its metrics.
            clusters: its new records by cluster.
        """
        self._samples[replica] = (time.time(), samples)
        for name, newer in clusters.items():
            records = self._clusters.pop(name, None) or ClusterRecords()
            self._clusters[name] = records  # the newest last
            records.merge(newer)
        while len(self._clusters) > MAX_CLUSTERS:
            del self._clusters[next(iter(self._clusters))]

    def metrics(self, lost: int = 0) -> bytes:
        """The sum of all metrics in Prometheus' text format; counts of ended replicas stay.

        Args:
            lost: states that are missing in the log.
        """
        now = time.time()
        samples = [
            [metric for metric in metrics if metric.type != "gauge" or now - at < ALIVE_S]
            for at, metrics in self._samples.values()
        ]
        missing = Metric("rlsched_log_lost", "States that are missing in the log", "counter")
        missing.add_sample("rlsched_log_lost_total", {}, lost)
        return sum_metrics([*samples, [missing]])

    def page_data(self, cluster: str | None) -> PageData:
        """Recent records of a cluster; None: of the newest."""
        names = list(reversed(self._clusters))
        chosen = cluster if cluster in self._clusters else next(iter(names), None)
        recent = self._clusters[chosen] if chosen is not None else ClusterRecords()
        now = time.time()
        return PageData(names, chosen, recent, sum(now - at < ALIVE_S for at, _ in self._samples.values()))
