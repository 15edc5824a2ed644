"""Episodes from the records of a service: what each decision led to, cluster by cluster.

The next state of a cluster completes a decision. The core books the rewards in between, as in a simulation,
with requested times instead of run times, and jobs that run no more count as finished. The reward scale of a
baseline is unknown and left out. An action of the heuristic that the policy's rules do not have ends an
episode.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlsched.jobs import IntArray
from rlsched.offline.record import shape_of
from rlsched.scenario.terms import FINISHED_VALUE, ON_TIME_VALUE, TERMS, THROUGHPUT
from rlsched.serve.api.schema import BatchRequest, Decision
from rlsched.serve.decide.batch import Batch
from rlsched.serve.decide.inference import MIN_JOBS, BatchInference
from rlsched.serve.ledger.records import Record
from rlsched.sim.snapshot import RUNNING
from rlsched.sim.snapshot_simulator import SnapshotSimulator
from rlsched.sim.state import JOB_MASK

EPISODE_ROWS = 512  # decisions of an episode: a cluster never ends, but training needs episodes
MAX_STREAMS = 64  # clusters that are followed at a time; the one with the oldest state is dropped
GAP_S = 7 * 86_400  # longest time between two states of an episode


@dataclass(eq=False)
class OpenDecision:
    """A decision whose next state is not known yet; fields are columns of the dataset."""

    obs: NDArray[np.float32]  # observation vector
    action_mask: NDArray[np.int8]
    actions: int  # the decision
    behavior: str  # name of the policy or heuristic that decided
    rewards: float  # since the decision
    costs: NDArray[np.float64]  # likewise
    elapsed: int = 0  # ticks, likewise


@dataclass(eq=False)
class ClusterStream:
    """Consecutive states of one cluster."""

    simulator: SnapshotSimulator  # at the newest state
    batch: Batch  # of the newest state
    rows: list[dict[str, Any]] = field(default_factory=list)  # completed decisions of the open episode
    open: OpenDecision | None = None  # the last decision


class EpisodeBuilder:
    """Builds episodes from records; the policy's scenario gives observations, actions and rewards."""

    def __init__(self, inference: BatchInference) -> None:
        self.scenario = inference.policy.scenario
        self.shape = shape_of(self.scenario, inference.policy.num_resources)
        self.episodes: list[list[dict[str, Any]]] = []  # completed, each a list of rows
        self.open_rows, self.row_bytes = 0, 1  # rows of open episodes, and bytes of a row
        self.unfollowed = 0  # actions that the policy's rules do not have
        self._inference = inference
        self._costs = [TERMS.index(name) for name in self.shape.costs]
        self._max_gap = GAP_S // self.scenario.cluster.tick_s
        self._streams: dict[str, ClusterStream] = {}

    def add(self, record: Record) -> None:
        """Add a state and the decisions about it.

        Raises:
            BadInputError: the state is invalid.
        """
        state = record.state
        stream = self._streams.pop(state.cluster, None)
        if stream is not None:
            self._streams[state.cluster] = stream  # the newest last
        (batch,) = self._inference.batches([BatchRequest(states=[state])])
        if stream is not None and not self._continues(stream, batch):
            self._end(stream)
            stream = None
        if stream is not None:
            self._pass_time(stream, batch)
        if stream is None or batch.max_jobs > stream.simulator.max_jobs:
            stream = self._with_room(stream, batch)
            self._streams[state.cluster] = stream
            while len(self._streams) > MAX_STREAMS:
                self._end(self._streams.pop(next(iter(self._streams))))
        stream.batch = batch
        stream.simulator.load(batch.snapshot)
        by_policy = record.answer.decided_by == "policy"
        behavior = record.policy if by_policy else str(self._inference.heuristic)
        self._follow(stream, record.answer.decisions, behavior, by_policy)
        if len(stream.rows) >= EPISODE_ROWS:
            self._cut(stream)

    def cut_longest(self) -> None:
        """End the longest open episode; its last decision begins the next one."""
        self._cut(max(self._streams.values(), key=lambda stream: len(stream.rows)))

    def end(self) -> None:
        """End all open episodes."""
        for stream in self._streams.values():
            self._end(stream)
        self._streams.clear()

    def _continues(self, stream: ClusterStream, batch: Batch) -> bool:
        """Whether a state continues the episode: soon enough, and on the same cluster."""
        gap = batch.snapshot.now[0] - stream.batch.snapshot.now[0]
        same_units: bool = (stream.simulator.sim.state.most == batch.units).all()
        return 0 <= gap <= self._max_gap and same_units

    def _with_room(self, stream: ClusterStream | None, batch: Batch) -> ClusterStream:
        """A stream, new or not, with room for a state."""
        size = max(MIN_JOBS, 1 << batch.max_jobs.bit_length())
        simulator = SnapshotSimulator(self.scenario, batch.units.tolist(), 1, size)
        return ClusterStream(simulator, batch) if stream is None else replace(stream, simulator=simulator)

    def _follow(
        self, stream: ClusterStream, decisions: Sequence[Decision], behavior: str, by_policy: bool
    ) -> None:
        """Take the decisions about a state in the simulator."""
        simulator, sim = stream.simulator, stream.simulator.sim
        remaining = deque(d for d in decisions if d.score is not None or not by_policy)
        while simulator.decisions.pending[0]:
            obs, mask = simulator.obs[0].copy(), simulator.mask[0].copy()
            if stream.open is not None:  # its next observation and mask complete it
                stream.rows.append(vars(stream.open) | {"new_obs": obs, "new_action_mask": mask})
                self.row_bytes = obs.nbytes + mask.nbytes
                self.open_rows += 1
            if stream.rows and stream.rows[-1]["behavior"] != behavior:
                self._cut(stream)  # an episode has one behaviour
            action = _next_action(stream, remaining)
            if action is None:  # an action of the heuristic that the policy's rules do not have
                self.unfollowed += 1
                self._end(stream)
                return
            stream.open = OpenDecision(obs, mask, action, behavior, 0.0, np.zeros(len(self._costs)))
            before = sim.terms[0].copy()
            simulator.act(np.array([0]), np.array([action]))
            self._add_terms(stream, sim.terms[0] - before)

    def _pass_time(self, stream: ClusterStream, batch: Batch) -> None:
        """Book the rewards until the next state."""
        if stream.open is None:
            return
        sim = stream.simulator.sim
        ticks = int(batch.snapshot.now[0] - stream.batch.snapshot.now[0])
        before = sim.terms[0].copy()
        stream.simulator.pass_idle(0, ticks)
        terms = sim.terms[0] - before
        self._add_finished(stream, batch, terms)
        self._add_terms(stream, terms)
        stream.open.elapsed += ticks

    def _add_finished(self, stream: ClusterStream, batch: Batch, terms: NDArray[np.float64]) -> None:
        """Add the terms of jobs that ran and are in the next state no more."""
        sim, ids, snapshot = stream.simulator.sim, stream.batch.ids[0], stream.batch.snapshot
        listed = {*batch.ids[0], *(large.job for large in batch.too_large[0])}
        now = int(batch.snapshot.now[0])
        discount = self.scenario.objective.gamma ** (now - int(snapshot.now[0]))
        begin = _run_begins(stream.batch, self.scenario.cluster.tick_s)
        e = sim.state.episodes[0]
        for row in sim.state.started[0, sim.state.ends[0, : e["num_running"]] & JOB_MASK].tolist():
            if ids[row] in listed:
                continue
            terms[THROUGHPUT] += discount
            if sim.layout.horizon:
                job_value, job = sim.state.job_values[0, row], sim.state.jobs[0, row]
                value = discount * float(job_value["value_rate"]) * max(1, now - int(begin[row]))
                terms[FINISHED_VALUE] += value
                if min(now, job["expected_end"]) <= job_value["due"]:
                    terms[ON_TIME_VALUE] += value

    def _add_terms(self, stream: ClusterStream, terms: NDArray[np.float64]) -> None:
        """Add terms to reward and costs of the open decision."""
        if stream.open is not None:
            discount = self.scenario.objective.gamma**stream.open.elapsed
            stream.open.rewards += discount * float(stream.simulator.sim.rules.weights @ terms)
            stream.open.costs -= discount * terms[self._costs]

    def _end(self, stream: ClusterStream) -> None:
        """End an episode; the open decision has no next state and is left out."""
        self._cut(stream)
        stream.open = None

    def _cut(self, stream: ClusterStream) -> None:
        """End an episode; the open decision is the first of the next one."""
        if stream.rows:
            self.episodes.append(stream.rows)
            self.open_rows -= len(stream.rows)
        stream.rows = []


def _next_action(stream: ClusterStream, decisions: deque[Decision]) -> int | None:
    """The action of the next decision that is legal; None if there is none.

    Args:
        stream: whose simulator waits for an action.
        decisions: remaining ones; those before the next legal one are removed.
    """
    sim, ids, mask = stream.simulator.sim, stream.batch.ids[0], stream.simulator.mask[0]
    suspend, noop = sim.layout.window, sim.layout.num_actions - 1
    queue = [ids[row] for row in sim.queue(0)[: sim.layout.window]]
    while decisions:
        decision = decisions.popleft()
        if decision.action == "suspend":
            if mask[suspend]:
                return suspend
        elif decision.job in queue and mask[queue.index(decision.job)]:
            return queue.index(decision.job)
    return noop if mask[noop] else None


def _run_begins(batch: Batch, tick_s: int) -> IntArray:
    """(job,) tick at which each job of a single cluster began to run, by rank.

    A job that was suspended and resumed at the same tick has run all the while.
    """
    snapshot, running = batch.snapshot, batch.snapshot.place == RUNNING
    # Requested ticks of a running job beyond its present run.
    beyond = np.maximum(0, snapshot.requested - (snapshot.expected_end - snapshot.begin))
    ran_before = np.where(running, beyond, batch.clusters.jobs.ran // tick_s)
    begin = np.where(running, snapshot.begin, snapshot.now[0]) - ran_before
    return begin[np.argsort(snapshot.rank)]
