"""Inference on batches: proposals of a policy and of its fallback heuristic for clusters."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from itertools import pairwise, repeat

import numpy as np
import torch
from msgspec import Struct
from numpy.typing import NDArray
from torch import Tensor

from rlsched.errors import BadInputError
from rlsched.jobs import FloatArray, IntArray
from rlsched.learn.acting import NetworkActor
from rlsched.learn.policy import NetworkPolicy
from rlsched.scenario import Scenario
from rlsched.serve.api.requests import job_counts, joined
from rlsched.serve.api.schema import BatchRequest, Decision, Reason
from rlsched.serve.decide.batch import Batch
from rlsched.serve.decide.checks import Formulation
from rlsched.serve.decide.clusters import Clusters
from rlsched.serve.decide.fallback import FallbackHeuristic
from rlsched.sim.snapshot import (
    BEYOND_WINDOW,
    DELAYS_RESERVATION,
    ENOUGH_DECIDED,
    HOLDS_RESERVATION,
    MAY_START,
    NOT_ENOUGH_FREE,
    NOT_LONG_ENOUGH,
    RESERVE,
    RUNNING,
)
from rlsched.sim.snapshot_simulator import SnapshotSimulator

ACTIONS = ("start", "reserve", "plan", "suspend")  # by the numbers of the core

REASONS = {
    MAY_START: ("may_start", "it could start, and was not chosen"),
    BEYOND_WINDOW: ("beyond_window", "too many jobs stand before it"),
    NOT_ENOUGH_FREE: ("not_enough_free", "needs units that are not free"),
    DELAYS_RESERVATION: ("delays_reservation", "would delay the job that holds the reservation"),
    HOLDS_RESERVATION: ("reserved", "units are reserved for it"),
    NOT_LONG_ENOUGH: ("not_long_enough", "its units are not free until its expected end, as forecast"),
    ENOUGH_DECIDED: ("enough_decided", "too many decisions at one time"),
}

MAX_CLUSTERS = 1024  # clusters of one batch
MAX_BATCH_JOBS = 1 << 18  # jobs of one batch, at the size of its largest cluster

MIN_JOBS, MIN_CLUSTERS = 64, 16  # smallest sizes of simulators that are reused
MAX_SIMULATORS = 12  # simulators that are reused, by units of the cluster, jobs, and clusters
MAX_SIZES = 16  # different clusters in one request: each needs a simulator of its own


class NotFiniteError(ArithmeticError):
    """A policy gave scores that are no numbers."""


class Proposal(Struct, frozen=True, eq=False, gc=False):
    """Decisions of a policy or a heuristic about one cluster."""

    decisions: list[Decision]  # in order
    moves: bytes  # actions with their jobs, without order and reservations, for comparison
    reasons: NDArray[np.int8]  # (job,) numbers of the core, by rank, of jobs that still wait
    memory: str | None = None  # recurrent state of the policy for this cluster


class SimulatorPool:
    """Reusable snapshot simulators of a scenario; heuristic: as of `SnapshotSimulator`."""

    def __init__(self, scenario: Scenario, heuristic: tuple[str, str] | None = None) -> None:
        self._simulator = lru_cache(MAX_SIMULATORS)(partial(SnapshotSimulator, scenario, heuristic=heuristic))

    def load(self, batch: Batch) -> SnapshotSimulator:
        """Load a batch into a simulator with room for it."""
        clusters = max(MIN_CLUSTERS, 1 << max(0, len(batch) - 1).bit_length())
        simulator = self._simulator(tuple(batch.units.tolist()), clusters, _room_for(batch.max_jobs))
        simulator.load(batch.snapshot)
        return simulator


class BatchInference:
    """Inference with a policy and its fallback heuristic; for one thread.

    Args:
        policy, heuristic: a trained policy and its fallback.
        units: (resource,) of clusters that do not give their units; empty: not known.
        max_jobs: of a cluster, running and waiting.
    """

    def __init__(
        self, policy: NetworkPolicy, units: Sequence[int], heuristic: FallbackHeuristic, max_jobs: int
    ) -> None:
        self.policy, self.heuristic, self.max_jobs = policy, heuristic, max_jobs
        self.units = np.array(units, np.int64)
        self.formulation = Formulation(policy.scenario, policy.num_resources, heuristic.priority_rule)
        self.policy_simulators = SimulatorPool(policy.scenario)
        self._heuristic_simulators = SimulatorPool(heuristic.scenario(policy.scenario), heuristic.in_core)

    def copy(self) -> BatchInference:
        """Copy for another thread."""
        return BatchInference(self.policy, self.units.tolist(), self.heuristic, self.max_jobs)

    def batches(self, requests: Sequence[BatchRequest]) -> list[Batch]:
        """Check the clusters of requests and divide them into batches.

        Raises:
            BadInputError: a field is invalid.
        """
        request, path = joined(requests)
        counts = job_counts(request).sum(axis=0).tolist()
        for k, count in enumerate(counts):
            if count > self.max_jobs:
                problem = f"{count} jobs in all"
                raise BadInputError(f"{path(k)}waiting", problem, f"send at most {self.max_jobs}")
        clusters = Clusters.of(request, path, self.formulation.num_resources)
        parts, units = self._parts(clusters, counts)
        divided = zip(clusters.split(parts), units, strict=True)
        return [Batch.of(self.formulation, part, part_units) for part, part_units in divided]

    def _parts(self, clusters: Clusters, counts: list[int]) -> tuple[list[list[int]], list[IntArray]]:
        """Rows of clusters that make up a batch, and the units of each batch."""
        units_of = dict(clusters.optional("units"))
        groups: dict[tuple[tuple[int, ...] | None, int], list[int]] = {}
        for k, count in enumerate(counts):
            units = tuple(units_of[k]) if k in units_of else None
            groups.setdefault((units, max(MIN_JOBS, 1 << count.bit_length())), []).append(k)
        if len({units for units, _ in groups}) > MAX_SIZES:
            problem = f"is one of more than {MAX_SIZES} different ones"
            clusters.refuse(next(iter(units_of)), "units", problem, "send clusters of a size together")
        parts: list[list[int]] = []
        part_units: list[IntArray] = []
        for (units, size), rows in groups.items():
            most = max(1, min(MAX_CLUSTERS, MAX_BATCH_JOBS // _room_for(size)))
            pieces = [rows[begin : begin + most] for begin in range(0, len(rows), most)]
            parts += pieces
            part_units += [self._checked_units(units, clusters, rows[0])] * len(pieces)
        return parts, part_units

    def _checked_units(self, sent_units: tuple[int, ...] | None, clusters: Clusters, k: int) -> IntArray:
        """The units that cluster k gives, or those of the policy."""
        if sent_units is None:
            if len(self.units) == 0:
                clusters.refuse(k, "units", "is missing: the policy knows no cluster", "send it")
            return self.units
        if len(sent_units) != self.formulation.num_resources:
            problem = f"{len(sent_units)} entries for {self.formulation.num_resources} resources"
            clusters.refuse(k, "units", problem, "send one for each")
        if min(sent_units) < 1:
            clusters.refuse(k, "units", f"value {list(sent_units)}", "send at least one unit of each")
        return np.array(sent_units, np.int64)

    def by_policy(self, batch: Batch) -> list[Proposal]:
        """Proposals of the policy.

        Raises:
            NotFiniteError: a score is no number.
            BadInputError: a memory is not of this policy.
        """
        actor, simulator = self._actor(batch), self.policy_simulators.load(batch)
        scores = np.ones(simulator.decisions.row.shape)
        clusters = len(batch)
        while len(pending := np.flatnonzero(simulator.decisions.pending[:clusters])):
            # At first all clusters are pending, and observations need not be copied.
            rows = slice(clusters) if len(pending) == clusters else pending
            logits = actor.logits(pending, simulator.obs[rows], simulator.mask[rows])
            if not torch.isfinite(logits).all():
                raise NotFiniteError("the policy gave scores that are no numbers")
            actions = self.policy.actions(logits)
            probability = torch.softmax(logits, dim=1)[torch.arange(len(pending)), torch.from_numpy(actions)]
            scores[pending, simulator.decisions.num_decided[pending]] = probability.numpy()
            simulator.act(pending, actions)
        memory = None if actor.memory is None else [_packed(actor.memory, k) for k in range(clusters)]
        return _proposals(simulator, batch, self.formulation.tick_s, scores, memory)

    def by_heuristic(self, batch: Batch) -> list[Proposal]:
        """Proposals of the fallback heuristic."""
        return _proposals(self._heuristic_simulators.load(batch), batch, self.formulation.tick_s)

    def _actor(self, batch: Batch) -> NetworkActor:
        """The policy, with the memories that clients send back."""
        actor = self.policy.actor(len(batch))
        for k, text in batch.clusters.optional("memory"):
            path = f"{batch.clusters.path_to(k)}memory"
            if actor.memory is None:
                raise BadInputError(path, "is not supported by a policy without a memory", "leave it out")
            _unpack(text, actor.memory, k, path)
        return actor


def _room_for(jobs: int) -> int:
    return max(MIN_JOBS, 1 << max(0, jobs - 1).bit_length())


def _packed(memory: Sequence[Tensor], k: int) -> str:
    """The recurrent state of cluster k as text, which a client stores and sends back."""
    flat = torch.cat([part[k].flatten() for part in memory])
    return base64.b64encode(flat.numpy().astype("<f4").tobytes()).decode()


def _unpack(text: str, memory: Sequence[Tensor], k: int, path: str) -> None:
    """Restore the recurrent state of cluster k from a text of `_packed`, or refuse the text."""
    remedy = "send back what it said last about this cluster, or leave it out"
    try:
        values = np.frombuffer(base64.b64decode(text, validate=True), "<f4")
    except (binascii.Error, ValueError):
        raise BadInputError(path, "is no text of this service", remedy) from None
    sizes = [part[k].numel() for part in memory]
    if len(values) != sum(sizes) or not np.isfinite(values).all():
        raise BadInputError(path, "is of another policy", remedy)
    parts: Sequence[Tensor] = torch.split(torch.from_numpy(values.copy()), sizes)
    for part, restored in zip(memory, parts, strict=True):
        part[k] = restored.reshape(part[k].shape)


def waiting_reasons(batch: Batch, k: int, proposal: Proposal) -> list[Reason]:
    """Why jobs of cluster k wait under a proposal."""
    snapshot, ids = batch.snapshot, batch.ids[k]
    actions = {decision.job: decision.action for decision in proposal.decisions}
    begin, end = int(snapshot.first[k]), int(snapshot.first[k + 1])
    reasons = []
    for j in np.flatnonzero(snapshot.place[begin:end] != RUNNING).tolist():
        rank = int(snapshot.rank[begin + j])
        number = int(proposal.reasons[rank])
        if number in REASONS and actions.get(ids[rank]) not in {"start", "plan"}:
            reasons.append(Reason(ids[rank], *REASONS[number]))
    return reasons + batch.too_large[k]


def _proposals(
    simulator: SnapshotSimulator,
    batch: Batch,
    tick_s: int,
    scores: FloatArray | None = None,
    memory: Sequence[str] | None = None,
) -> list[Proposal]:
    """The decisions of a simulator under the client's names of jobs."""
    course, clusters = simulator.decisions, len(batch)
    counts = course.num_decided[:clusters]
    slots = (slice(clusters), slice(int(counts.max())))
    used = np.arange(slots[1].stop) < counts[:, None]
    cluster, rows, kinds = used.nonzero()[0], course.row[slots][used], course.kind[slots][used]
    tick, ids = course.tick[slots][used], batch.ids
    at = np.where(tick == batch.snapshot.now[cluster], batch.clusters.now[cluster], tick * tick_s)
    chances: Iterable[float | None] = repeat(None)
    if scores is not None:
        chances = np.where(course.forced[slots][used], np.array(None), scores[slots][used]).tolist()
    decisions = list(
        map(
            Decision,
            [ids[k][row] for k, row in zip(cluster.tolist(), rows.tolist(), strict=True)],
            [ACTIONS[kind] for kind in kinds.tolist()],
            at.tolist(),
            chances,
        )
    )
    bounds = [0, *counts.cumsum().tolist()]
    reasons = course.reason[:clusters].copy()
    moves = _moves(course.row[slots], course.kind[slots], used)
    return [
        Proposal(decisions[begin:end], moves[k], reasons[k], memory[k] if memory else None)
        for k, (begin, end) in enumerate(pairwise(bounds))
    ]


def _moves(rows: NDArray[np.integer], kinds: NDArray[np.integer], used: NDArray[np.bool_]) -> list[bytes]:
    """See `Proposal.moves`; arguments are (cluster, decision)."""
    compared = used & (kinds != RESERVE)
    none = np.iinfo(np.int64).max
    codes = np.sort(np.where(compared, rows * np.int64(len(ACTIONS)) + kinds, none), axis=1)
    width, encoded = codes.shape[1] * codes.itemsize, codes.tobytes()
    return [
        encoded[k * width : k * width + size]
        for k, size in enumerate((compared.sum(axis=1) * codes.itemsize).tolist())
    ]
