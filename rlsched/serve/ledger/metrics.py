"""Metrics of replicas in Prometheus' terms, and their sum."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import Metric

from rlsched.serve.api.schema import Answer

LATENCIES_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class ReplicaMetrics:
    """Metrics of one replica."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

        def counter(name: str, doc: str, *labels: str) -> Counter:
            return Counter(name, doc, labels, namespace="rlsched", registry=self.registry)

        self._requests = counter("requests", "Requests by status", "status")
        self._states = counter("states", "Clusters decided about", "policy", "decided_by")
        self._decisions = counter("decisions", "Jobs started, reserved, planned", "policy", "action")
        self._fallbacks = counter("fallbacks", "Clusters that the policy failed", "policy", "because")
        self._compared = counter("shadow_states", "Clusters that both decided about", "policy")
        self._agreed = counter("shadow_agreed", "Those about which they agreed", "policy")
        self._dropped = counter("log_dropped", "States that the ledger could not take")
        self._latency = Histogram(
            "request_seconds",
            "Time to answer a request",
            ["policy"],
            namespace="rlsched",
            buckets=LATENCIES_S,
            registry=self.registry,
        )
        self._in_progress = Gauge(
            "requests_in_progress",
            "Requests that are worked at",
            namespace="rlsched",
            registry=self.registry,
        )

    @contextmanager
    def timed(self, policy: str) -> Iterator[None]:
        """Time a request, and count it if it is answered."""
        began = time.perf_counter()
        self._in_progress.inc()
        try:
            yield
        finally:
            self._in_progress.dec()
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
        deciders: dict[str, int] = {}
        actions: dict[str, int] = {}
        failures: dict[str, int] = {}
        compared = agreed = 0
        for answer in answers:
            deciders[answer.decided_by] = deciders.get(answer.decided_by, 0) + 1
            for decision in answer.decisions:
                actions[decision.action] = actions.get(decision.action, 0) + 1
            if answer.agrees is not None:
                compared += 1
                agreed += answer.agrees
            elif answer.because is not None:
                kind = answer.because.partition(":")[0]
                failures[kind] = failures.get(kind, 0) + 1
        for counter, counts in (
            (self._states, deciders),
            (self._decisions, actions),
            (self._fallbacks, failures),
        ):
            for name, count in counts.items():
                counter.labels(policy, name).inc(count)
        self._compared.labels(policy).inc(compared)
        self._agreed.labels(policy).inc(agreed)

    def samples(self) -> list[Metric]:
        """The present values."""
        return list(self.registry.collect())


def sum_metrics(samples: Sequence[Sequence[Metric]]) -> bytes:
    """The sum of the metrics of several replicas, in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(_SumCollector(samples))
    return generate_latest(registry)


class _SumCollector:
    """Collects the sum of several samples."""

    def __init__(self, samples: Sequence[Sequence[Metric]]) -> None:
        self._samples = samples

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        sums: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = {}
        for metrics in self._samples:
            for metric in metrics:
                families.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type))
                totals = sums.setdefault(metric.name, {})
                for sample in metric.samples:
                    if sample.name.endswith("_created"):
                        continue
                    key = (sample.name, tuple(sample.labels.items()))
                    totals[key] = totals.get(key, 0.0) + sample.value
        for name, family in families.items():
            for (sample_name, labels), value in sums[name].items():
                family.add_sample(sample_name, dict(labels), value)
            yield family
