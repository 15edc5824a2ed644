"""What a service decided, as a dataset to learn from: rows as of `rlsched collect`, of a real cluster.

A row is a question and its answer. How it went on is known when the next state of the same cluster comes:
what was earned in between is booked by the core, as in a simulation, with what jobs asked for in the place of
what they will really take, and jobs that run no more count as finished. The scale of rewards that a baseline
gives an episode is not known and left out. What a heuristic does that the policy's own rules have no word for
ends an episode.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlsched.errors import BadInputError
from rlsched.files import Alone
from rlsched.learn.policy import TrainedPolicy
from rlsched.offline.columns import Names, table
from rlsched.offline.folder import PACKAGES, publish
from rlsched.offline.manifest import MANIFEST, Doings, Manifest, read_manifest
from rlsched.offline.record import EpisodeEntry, episode_name, shape_of
from rlsched.offline.shards import Shard, ShardWriter, episodes_of, shard_name
from rlsched.serve.api.requests import States
from rlsched.serve.api.schema import Decision
from rlsched.serve.decide.columns import Columns
from rlsched.serve.decide.decider import LEAST_ROOM, Heuristic
from rlsched.serve.decide.reading import Read, Site, read_states
from rlsched.serve.ledger.ledger import Noted
from rlsched.sim.rules import FINISHED_VALUE, ON_TIME_VALUE, TERMS, THROUGHPUT
from rlsched.sim.snapshot import RUNNING
from rlsched.sim.standstill import Standstill
from rlsched.sim.state import JOB_MASK
from rlsched.versions import versions

EPISODE_ROWS = 512
"""Decisions of an episode: what a cluster does has no end, but what learns from it wants some."""

SHARD_ROWS = 8192
SHARD_BYTES, OPEN_BYTES = 32 << 20, 128 << 20
"""A shard has so many decisions at most, or as many as have so many bytes; writing it takes three times that.
Episodes that go on have so many bytes together."""

KEPT_EPISODES = 64
"""Of those that could not be written, to be tried again."""

STREAMS = 64
"""Clusters that are followed at a time: whose name was told longest ago is forgotten."""

GAP_S = 7 * 86_400
"""Between states of a cluster after which another episode begins."""

SHARD_S = 600.0
"""A shard is written once it has so many rows, or its first is so old."""


@dataclass(eq=False)
class Question:
    """A question that was answered, and what came of it so far.

    Attributes:
        obs: observation vector.
        mask: of legal actions.
        action: the answer.
        behavior: who gave it.
        reward: since.
        costs: likewise.
        ticks: likewise.
    """

    obs: NDArray[np.float32]
    mask: NDArray[np.int8]
    action: int
    behavior: str
    reward: float
    costs: NDArray[np.float64]
    ticks: int = 0


@dataclass(eq=False)
class Stream:
    """The states of one cluster, one after the other.

    Attributes:
        room: where the newest stands.
        read: the newest.
        finished: rows of the open episode.
        open: the question whose end is not known.
    """

    room: Standstill
    read: Read
    finished: list[dict[str, Any]] = field(default_factory=list)
    open: Question | None = None


class Logbook:
    """Writes the dataset of one policy.

    Args:
        folder: of the dataset; one that is there goes on.
        policy: whose scenario says what is seen, done and earned.
        units: (resource,) of clusters that do not say theirs.
        heuristic: beside it.

    Raises:
        BadInputError: a dataset of another kind is there, or another process writes it.
    """

    def __init__(
        self, folder: Path, policy: TrainedPolicy, units: Sequence[int], heuristic: Heuristic
    ) -> None:
        self.folder, self.policy = folder, policy
        self.scenario = policy.scenario
        self._heuristic = str(heuristic)
        self._units = np.array(units, np.int64)
        self._site = Site.of(policy.scenario, policy.num_resources, heuristic.order)
        self.shape = shape_of(policy.scenario, policy.num_resources)
        self._costs = [TERMS.index(name) for name in self.shape.costs]
        self._longest = GAP_S // self._site.tick_s
        self._streams: dict[str, Stream] = {}
        self._episodes: list[list[dict[str, Any]]] = []
        self._since: float | None = None
        self._row_bytes, self._unfinished = 1, 0
        self.unfollowed = 0
        folder.mkdir(parents=True, exist_ok=True)
        try:
            self._held = Alone(folder)
        except BlockingIOError:
            raise BadInputError(
                str(folder), "is being written by another process", "name another --log"
            ) from None
        self._shards: list[Shard] = []
        self._doings = Doings()
        if (folder / MANIFEST).exists():
            self._go_on(read_manifest(folder))

    def _go_on(self, before: Manifest) -> None:
        if before.shape != self.shape:
            problem = "holds decisions of a policy that sees or does something else"
            raise BadInputError(str(self.folder), problem, "name another --log")
        self._shards = list(before.shards)
        for shard in before.shards:
            self._doings.add(episodes_of(self.folder / shard.file))

    @property
    def rows(self) -> int:
        """Decisions in its shards."""
        return sum(shard.rows for shard in self._shards)

    def take(self, noted: Noted) -> None:
        """Take down a state and what was decided about it.

        Raises:
            OSError: the disk is full or gone.
        """
        state = noted.state
        stream = self._streams.pop(state.cluster, None)
        if stream is not None:
            self._streams[state.cluster] = stream  # the newest last
        units = self._units if state.units is None else np.array(state.units, np.int64)
        sent = States([state], [""])
        read = read_states(self._site, sent.clusters, Columns.of(sent, self._site.num_resources), units)
        jobs = int(read.shot.first[-1])
        gone = stream is not None and (
            not 0 <= read.shot.now[0] - stream.read.shot.now[0] <= self._longest
            or not (stream.room.sim.state.most == units).all()
        )
        if stream is not None and gone:
            self._end(stream)
            stream = None
        if stream is not None:
            self._go_by(stream, read)
        if stream is None or jobs > stream.room.max_jobs:
            room = Standstill(self.scenario, units.tolist(), 1, max(LEAST_ROOM, 1 << jobs.bit_length()))
            stream = Stream(room, read) if stream is None else replace(stream, room=room)
            self._streams[state.cluster] = stream
            while len(self._streams) > STREAMS:
                self._end(self._streams.pop(next(iter(self._streams))))
        stream.read = read
        stream.room.load(read.shot)
        by_policy = noted.answer.decided_by == "policy"
        behavior = noted.policy if by_policy else self._heuristic
        self._follow(stream, noted.answer.decisions, behavior, by_policy)
        if len(stream.finished) >= EPISODE_ROWS:
            self._cut(stream)
        self._write_if_due()

    def _follow(self, stream: Stream, decisions: Sequence[Decision], behavior: str, by_policy: bool) -> None:
        """Answer the questions about a state as they were answered."""
        room, sim = stream.room, stream.room.sim
        left = deque(decision for decision in decisions if decision.score is not None or not by_policy)
        while room.course.asked[0]:
            obs, mask = room.obs[0].copy(), room.mask[0].copy()
            self._close(stream, obs, mask)
            if stream.finished and stream.finished[-1]["behavior"] != behavior:
                self._cut(stream)  # an episode has one behaviour
            action = self._action(stream, left)
            if action is None:  # a rule of the heuristic that the policy's have no word for
                self.unfollowed += 1
                self._end(stream)
                return
            stream.open = Question(obs, mask, action, behavior, 0.0, np.zeros(len(self._costs)))
            before = sim.terms[0].copy()
            room.answer(np.array([0]), np.array([action]))
            self._book(stream, sim.terms[0] - before)

    def _action(self, stream: Stream, left: deque[Decision]) -> int | None:
        """The number of the next decision that can be one here; None where there is none."""
        sim, ids = stream.room.sim, stream.read.ids[0]
        idle = sim.layout.num_actions - 1
        mask = stream.room.mask[0]
        queue = [ids[row] for row in sim.queue(0)[: sim.layout.window]]
        while left:
            decision = left.popleft()
            if decision.action == "suspend":
                if mask[sim.layout.window]:
                    return sim.layout.window
            elif decision.job in queue and mask[queue.index(decision.job)]:
                return queue.index(decision.job)
        return idle if mask[idle] else None

    def _go_by(self, stream: Stream, read: Read) -> None:
        """Book what was earned until the next state."""
        if stream.open is None:
            return
        sim = stream.room.sim
        ticks = int(read.shot.now[0] - stream.read.shot.now[0])
        before = sim.terms[0].copy()
        stream.room.spend(0, ticks)
        earned = sim.terms[0] - before
        self._finish(stream, read, earned)
        self._book(stream, earned)
        stream.open.ticks += ticks

    def _finish(self, stream: Stream, read: Read, earned: NDArray[np.float64]) -> None:
        """Book the jobs that ran and are there no more."""
        sim = stream.room.sim
        there, ids = {*read.ids[0], *(large.job for large in read.too_large[0])}, stream.read.ids[0]
        shot, now = stream.read.shot, int(read.shot.now[0])
        discount = self.scenario.objective.gamma ** (now - int(shot.now[0]))
        # One that was suspended and went on at the same tick has run all the while.
        begun = np.where(shot.place == RUNNING, shot.moment, shot.now[0]) - stream.read.before
        begun = begun[np.argsort(shot.rank)]
        e = sim.state.episodes[0]
        for row in sim.state.started[0, sim.state.ends[0, : e["num_running"]] & JOB_MASK].tolist():
            if ids[row] in there:
                continue
            earned[THROUGHPUT] += discount
            if sim.layout.horizon:
                lot, job = sim.state.lots[0, row], sim.state.jobs[0, row]
                value = discount * float(lot["price"]) * max(1, now - int(begun[row]))
                earned[FINISHED_VALUE] += value
                if min(now, job["expected_end"]) <= lot["due"]:
                    earned[ON_TIME_VALUE] += value

    def _book(self, stream: Stream, earned: NDArray[np.float64]) -> None:
        if stream.open is not None:
            discount = self.scenario.objective.gamma**stream.open.ticks
            stream.open.reward += discount * float(stream.room.sim.rules.weights @ earned)
            stream.open.costs -= discount * earned[self._costs]

    def _close(self, stream: Stream, obs: NDArray[np.float32], mask: NDArray[np.uint8]) -> None:
        """The question before led to the one that is asked now, whose arrays both share."""
        done = stream.open
        if done is None:
            return
        stream.finished.append(
            {
                "obs": done.obs,
                "action_mask": done.mask,
                "actions": done.action,
                "rewards": done.reward,
                "costs": done.costs,
                "elapsed": done.ticks,
                "behavior": done.behavior,
                "new_obs": obs,
                "new_action_mask": mask,
            }
        )
        self._row_bytes = obs.nbytes + mask.nbytes
        self._unfinished += 1
        stream.open = None

    def _end(self, stream: Stream) -> None:
        """End an episode; the question that is open is not known to its end, and left out."""
        self._cut(stream)
        stream.open = None

    def _cut(self, stream: Stream) -> None:
        """End an episode; the question that is open is the first of the next one."""
        if stream.finished:
            self._episodes.append(stream.finished)
            self._since = self._since or time.monotonic()
            self._unfinished -= len(stream.finished)
        stream.finished = []

    def _write_if_due(self) -> None:
        while self._unfinished * self._row_bytes > OPEN_BYTES:
            self._cut(max(self._streams.values(), key=lambda stream: len(stream.finished)))
        most = min(SHARD_ROWS, max(1, SHARD_BYTES // self._row_bytes))
        rows = sum(map(len, self._episodes))
        old = self._since is not None and time.monotonic() - self._since > SHARD_S
        if rows >= most or (rows and old):
            self._write()

    def _write(self) -> None:
        """Write a shard of the episodes that have ended, and say that it is there."""
        episodes, self._episodes, self._since = self._episodes, [], None
        writer = ShardWriter(self.folder / shard_name(len(self._shards)), self.shape.columns())
        try:
            begun = self._doings.episodes
            entries = []
            for number, rows in enumerate(episodes, start=begun):
                entries.append(self._write_episode(writer, number, rows))
            shard = writer.close(entries).result()
        except BaseException:
            writer.abort()
            self._episodes = (episodes + self._episodes)[-KEPT_EPISODES:]
            self._since = time.monotonic()
            raise
        self._shards.append(shard)
        self._doings.add(entries)
        self._publish()

    def _write_episode(self, writer: ShardWriter, number: int, rows: list[dict[str, Any]]) -> EpisodeEntry:
        count, behavior = len(rows), rows[0]["behavior"]
        columns: dict[str, NDArray[Any]] = {
            name: np.stack([row[name] for row in rows])
            for name in ("obs", "new_obs", "action_mask", "new_action_mask")
        }
        columns["costs"] = np.array([row["costs"] for row in rows], np.float32).reshape(
            count, len(self._costs)
        )
        columns |= {
            "t": np.arange(count, dtype=np.int32),
            "actions": np.array([row["actions"] for row in rows], np.int64),
            "rewards": np.array([row["rewards"] for row in rows], np.float64),
            "elapsed": np.array([row["elapsed"] for row in rows], np.int32),
            "terminateds": np.zeros(count, np.bool_),
            "truncateds": np.arange(count) == count - 1,
            "action_logp": np.zeros(count, np.float32),  # all of them take the best action that they know
        }
        name = episode_name(number)
        words = {
            "eps_id": Names([name], np.zeros(count, np.int64)),
            "behavior": Names([behavior], np.zeros(count, np.int64)),
        }
        writer.write(table(self.shape, columns, words))
        return EpisodeEntry(
            eps_id=name,
            behavior=behavior,
            rows=count,
            reward=float(columns["rewards"].sum()),
            metrics={},
        )

    def _publish(self) -> None:
        manifest = Manifest(
            scenario=self.scenario,
            shape=self.shape,
            origin="answered by rlsched serve",
            behaviors=self._doings.played(),
            rows=self.rows,
            episodes=self._doings.episodes,
            shards=tuple(self._shards),
            versions=versions(PACKAGES),
        )
        publish(manifest, self.folder)

    def close(self) -> None:
        """Write down what is left, and let others in.

        Raises:
            OSError: the disk is full or gone.
        """
        try:
            for stream in self._streams.values():
                self._end(stream)
            self._streams.clear()
            if self._episodes:
                self._write()
        finally:
            self._held.let_go()
