"""Accounts of a replica, and the ledger in which those of all come together, with what was decided lately.

A replica sends its accounts as they stand, so that nothing is counted twice and nothing is lost where the
ledger is begun anew; what was decided it sends once, and drops it, counted, where the ledger cannot keep up.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec import Struct, msgpack
from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client import Counter as Counted
from prometheus_client.metrics_core import Metric

from rlsched.serve.api.schema import Answer, Cluster, ClusterState, DecisionRequest, PolicyName

if TYPE_CHECKING:
    from rlsched.serve.api.requests import Sent

LATENCIES_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
LATELY = 300
"""Decided states that are kept to be shown, of each cluster."""

AT_ONCE = 32
"""Of these, that a request may add: whoever sends more of a cluster at once plays something again."""

LATELY_JOBS = 50_000
"""Jobs in these: of large clusters fewer states are kept."""

TOLD_JOBS = 1_000_000
"""Of all states that a replica keeps for a log until it can tell of them: some 200 MB."""

CLUSTERS = 20
"""Clusters of which they are."""


class Noted(Struct, frozen=True, gc=False):
    """What was decided about a state, for the page and the log.

    Attributes:
        at: seconds since the epoch.
        policy: who was asked.
        version: of it.
        state: the cluster.
        answer: what was decided.
    """

    at: float
    policy: str
    version: str
    state: ClusterState
    answer: Answer


class AskedState(DecisionRequest, frozen=True, kw_only=True, omit_defaults=True):
    """A state that may have come with what else was asked; written again, it says no more than it said."""


class Reread(Noted, frozen=True, gc=False):
    """The same, read again."""

    state: AskedState


class Accounts:
    """What a replica counts, in Prometheus' terms."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

        def counter(name: str, doc: str, *labels: str) -> Counted:
            return Counted(name, doc, labels, namespace="rlsched", registry=self.registry)

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
        self._going_on = Gauge(
            "requests_in_progress",
            "Requests that are worked at",
            namespace="rlsched",
            registry=self.registry,
        )

    @contextmanager
    def timed(self, policy: str) -> Iterator[None]:
        """Time a request, and count it if it is answered."""
        began = time.perf_counter()
        self._going_on.inc()
        try:
            yield
        finally:
            self._going_on.dec()
        self._latency.labels(policy).observe(time.perf_counter() - began)
        self._requests.labels("200").inc()

    def refused(self, status: HTTPStatus) -> None:
        """Count a request that was not answered."""
        self._requests.labels(str(int(status))).inc()

    def dropped(self, states: int) -> None:
        """Count states that the ledger could not take."""
        self._dropped.inc(states)

    def answered(self, policy: str, answers: Sequence[Answer]) -> None:
        """Count what was decided."""
        decided: dict[str, int] = {}
        actions: dict[str, int] = {}
        failed: dict[str, int] = {}
        compared = agreed = 0
        for answer in answers:
            decided[answer.decided_by] = decided.get(answer.decided_by, 0) + 1
            for decision in answer.decisions:
                actions[decision.action] = actions.get(decision.action, 0) + 1
            if answer.agrees is not None:
                compared += 1
                agreed += answer.agrees
            elif answer.because is not None:
                kind = answer.because.partition(":")[0]
                failed[kind] = failed.get(kind, 0) + 1
        for counter, counts in (
            (self._states, decided),
            (self._decisions, actions),
            (self._fallbacks, failed),
        ):
            for name, count in counts.items():
                counter.labels(policy, name).inc(count)
        self._compared.labels(policy).inc(compared)
        self._agreed.labels(policy).inc(agreed)

    def samples(self) -> list[Metric]:
        """As they stand."""
        return list(self.registry.collect())


@dataclass(eq=False)
class Lately:
    """What was decided about a cluster lately.

    Attributes:
        noted: the newest last; where states come faster than they are told of, not all.
        states: since the ledger was begun.
        agreed: of those that both decided about.
        compared: these.
        fallbacks: that the policy failed.
        jobs: of the states that are kept.
    """

    noted: deque[Noted] = field(default_factory=deque)
    states: int = 0
    agreed: int = 0
    compared: int = 0
    fallbacks: int = 0
    jobs: int = 0

    def count(self, answer: Answer) -> None:
        """One more."""
        self.states += 1
        self.compared += answer.agrees is not None
        self.agreed += answer.agrees is True
        self.fallbacks += answer.agrees is None

    def keep(self, one: Noted) -> None:
        """Keep it, and of older ones no more states and jobs than are shown."""
        self.jobs += _jobs(one)
        while self.noted and (len(self.noted) >= LATELY or self.jobs > LATELY_JOBS):
            self.jobs -= _jobs(self.noted.popleft())
        self.noted.append(one)

    def add(self, other: Lately) -> None:
        """Of another who counted since."""
        for one in other.noted:
            self.keep(one)
        self.states += other.states
        self.agreed += other.agreed
        self.compared += other.compared
        self.fallbacks += other.fallbacks


_PACKED = msgpack.Decoder(list[tuple[str, list[Reread], int, int, int, int, int]])


def packed(news: Mapping[str, Lately]) -> bytes:
    """What was decided about clusters, by name, to be sent: Ray's pickle takes twenty times as long."""
    return msgpack.encode(
        [
            (name, list(one.noted), one.states, one.agreed, one.compared, one.fallbacks, one.jobs)
            for name, one in news.items()
        ]
    )


def unpacked(told: bytes) -> dict[str, Lately]:
    """What `packed` was given."""
    return {name: Lately(deque(noted), *counts) for name, noted, *counts in _PACKED.decode(told)}


def _jobs(noted: Noted) -> int:
    state = noted.state
    return len(state.running) + len(state.waiting) + len(state.planned) + len(state.suspended)


class News:
    """What a replica has decided and not told yet.

    Args:
        most: states that are kept to be told of; None: so many as are shown of each cluster.
    """

    def __init__(self, most: int | None) -> None:
        self._most = most
        self.clusters: dict[str, Lately] = {}
        self.kept = self._jobs = 0

    def note(self, policy: PolicyName, sent: Sent, answers: Sequence[Answer]) -> int:
        """Take down what was decided.

        Args:
            policy: who was asked.
            sent: clusters.
            answers: (cluster,) about them.

        Returns:
            States that a log will miss, since too many were kept already, or of too many jobs; they are
            counted all the same.
        """
        now, dropped = time.time(), 0
        names = sent.clusters.told.get("cluster", [Cluster(now=0).cluster] * len(answers))
        counts = sent.counts.sum(axis=0).tolist()
        to_come = Counter(names)
        for k, (name, answer) in enumerate(zip(names, answers, strict=True)):
            lately = self.clusters.get(name)
            if lately is None:
                if self._most is None and len(self.clusters) >= CLUSTERS:
                    del self.clusters[next(iter(self.clusters))]  # as the ledger would
                lately = Lately()
                self.clusters[name] = lately
            lately.count(answer)
            to_come[name] -= 1
            if self._most is None and to_come[name] >= AT_ONCE:
                self.kept += 1
                continue
            if self._most is not None and (self.kept >= self._most or self._jobs + counts[k] > TOLD_JOBS):
                dropped += 1
                continue
            one = Noted(now, policy.name, policy.version, sent.state(k), answer)
            if self._most is None:
                lately.keep(one)
            else:
                lately.noted.append(one)
                self._jobs += counts[k]
            self.kept += 1
        return dropped


class LedgerAwayError(RuntimeError):
    """The ledger does not answer."""


class Ledger(Protocol):
    """Where the accounts of all replicas come together, as a replica sees it."""

    def note(self, policy: PolicyName, sent: Sent, answers: Sequence[Answer]) -> None:
        """Take down what was decided; never waits."""

    async def metrics(self) -> bytes:
        """All accounts, in Prometheus' text format."""

    async def shown(self, cluster: str | None) -> Shown:
        """What was decided lately.

        Raises:
            LedgerAwayError: it does not answer.
        """


class Shown(NamedTuple):
    """What a page shows."""

    clusters: list[str]  # all that were asked about, the newest first
    cluster: str | None  # that is shown
    lately: Lately
    replicas: int


ALIVE_S = 10.0
"""Seconds for which a replica counts as there that has told nothing."""


class Book:
    """The ledger itself, in one process; see `Ledger`."""

    def __init__(self) -> None:
        self._samples: dict[str, tuple[float, list[Metric]]] = {}
        self._clusters: dict[str, Lately] = {}

    def take(self, replica: str, samples: list[Metric], news: dict[str, Lately]) -> None:
        """Take down how a replica stands, and what it has decided since.

        Args:
            replica: its name.
            samples: its accounts as they stand.
            news: cluster -> what was decided about it.
        """
        self._samples[replica] = (time.time(), samples)
        for cluster, lately in news.items():
            known = self._clusters.pop(cluster, None) or Lately()
            self._clusters[cluster] = known  # the newest last
            known.add(lately)
        while len(self._clusters) > CLUSTERS:
            del self._clusters[next(iter(self._clusters))]

    def metrics(self, lost: int = 0) -> bytes:
        """The sum of all accounts in Prometheus' text format; what replicas counted that are gone stays.

        Args:
            lost: states that are missing in the log.
        """
        now = time.time()
        standing = [
            [metric for metric in samples if metric.type != "gauge" or now - at < ALIVE_S]
            for at, samples in self._samples.values()
        ]
        missing = Metric("rlsched_log_lost", "States that are missing in the log", "counter")
        missing.add_sample("rlsched_log_lost_total", {}, lost)
        return summed([*standing, [missing]])

    def shown(self, cluster: str | None) -> Shown:
        """What was decided lately about a cluster, or the newest."""
        names = list(reversed(self._clusters))
        chosen = cluster if cluster in self._clusters else next(iter(names), None)
        lately = self._clusters[chosen] if chosen is not None else Lately()
        now = time.time()
        return Shown(names, chosen, lately, sum(now - at < ALIVE_S for at, _ in self._samples.values()))


def summed(standing: Sequence[Sequence[Metric]]) -> bytes:
    """The sum of several accounts, in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(_Sum(standing))
    return generate_latest(registry)


class _Sum:
    """Collects the sum of several accounts."""

    def __init__(self, standing: Sequence[Sequence[Metric]]) -> None:
        self._standing = standing

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        sums: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = {}
        for metrics in self._standing:
            for metric in metrics:
                families.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type))
                found = sums.setdefault(metric.name, {})
                for sample in metric.samples:
                    if sample.name.endswith("_created"):
                        continue
                    key = (sample.name, tuple(sample.labels.items()))
                    found[key] = found.get(key, 0.0) + sample.value
        for name, family in families.items():
            for (sampled, labels), value in sums[name].items():
                family.add_sample(sampled, dict(labels), value)
            yield family
