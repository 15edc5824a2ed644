"""What a policy would do about clusters as they stand, and what a heuristic would do beside it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, repeat

import numpy as np
import torch
from msgspec import Struct
from numpy.typing import NDArray

from rlsched.errors import BadInputError
from rlsched.evaluate.policy_names import parse_spec
from rlsched.jobs import FloatArray, IntArray
from rlsched.learn.policy import Player, TrainedPolicy
from rlsched.scenario import Scenario
from rlsched.serve.api.requests import Clusters, Sent
from rlsched.serve.api.schema import Decision, Reason
from rlsched.serve.decide.columns import Columns
from rlsched.serve.decide.memory import pack, unpack
from rlsched.serve.decide.reading import Read, Site, read_states
from rlsched.sim.orders import PLACEMENTS, placed_by
from rlsched.sim.priorities import PRIORITIES
from rlsched.sim.snapshot import (
    BEYOND_WINDOW,
    DELAYS_RESERVATION,
    ENOUGH_DECIDED,
    HOLDS_RESERVATION,
    MAY_START,
    NOT_ENOUGH_FREE,
    NOT_LONG_ENOUGH,
    RUNNING,
)
from rlsched.sim.standstill import Standstill

ACTIONS = ("start", "reserve", "plan", "suspend")
"""By the numbers of the core."""

RESERVE = ACTIONS.index("reserve")

REASONS = {
    MAY_START: ("may_start", "it could start, and was not chosen"),
    BEYOND_WINDOW: ("beyond_window", "too many jobs stand before it"),
    NOT_ENOUGH_FREE: ("not_enough_free", "needs units that are not free"),
    DELAYS_RESERVATION: ("delays_reservation", "would delay the job that units are kept for"),
    HOLDS_RESERVATION: ("reserved", "units are kept for it"),
    NOT_LONG_ENOUGH: ("not_long_enough", "its units are not free until its expected end, as forecast"),
    ENOUGH_DECIDED: ("enough_decided", "too many decisions at one time"),
}
TOO_LARGE = "too_large"

BATCH = 1024
"""Clusters that are decided about side by side."""

JOBS_AT_ONCE = 1 << 18
"""In all environments of a room: where clusters have more jobs, fewer of them are."""

LEAST_ROOM = 64
LEAST_CLUSTERS = 16
ROOMS = 12
"""Rooms that are kept, by units of the cluster, jobs, and clusters."""

SIZES = 16
"""Different clusters in one batch: each wants a room of its own."""

SEEN_BY_ORDERS = 1024
"""Waiting jobs that a heuristic looks at, where there is no ready pool."""

EASY, GREEDY = "easy", "greedy"
RULES = (EASY, GREEDY)
"""Rules of heuristics without a horizon."""


def rules_of(scenario: Scenario) -> tuple[str, ...]:
    """Rules that heuristics beside a policy can follow, the usual one first."""
    return RULES if scenario.decision.horizon is None else tuple(PLACEMENTS)


class NotFiniteError(ArithmeticError):
    """A policy gave scores that are no numbers."""


@dataclass(frozen=True)
class Heuristic:
    """An order of the queue and its rule.

    Attributes:
        order: a name in `PRIORITIES`.
        rule: easy or greedy; with a horizon a name in `PLACEMENTS`.
    """

    order: str
    rule: str

    @classmethod
    def named(cls, text: str | None, scenario: Scenario) -> Heuristic:
        """By `NAME[:RULE]`; left out, fcfs with what the scenario has of EASY backfilling.

        Raises:
            BadInputError: there is no such order, or the scenario knows no such rule.
        """
        rules = rules_of(scenario)
        order, rule, _ = parse_spec("--fallback", text or "fcfs")
        if order not in PRIORITIES:
            raise BadInputError(
                "--fallback", f"unknown order {order!r}", f"use one of {', '.join(PRIORITIES)}"
            )
        if rule and rule not in rules:
            raise BadInputError("--fallback", f"unknown rule {rule!r}", f"use one of {', '.join(rules)}")
        return cls(order, rule or rules[0])

    def __str__(self) -> str:
        return f"{self.order}:{self.rule}"

    def scenario(self, scenario: Scenario) -> Scenario:
        """The scenario under the rules that this heuristic plays by; what would be seen of it is least."""
        least = scenario.observation.model_copy(update={"blocks": ("queue",), "classic": False})
        scenario = scenario.model_copy(update={"observation": least})
        if scenario.decision.horizon is not None:
            return placed_by(scenario, self.rule)
        decision = scenario.decision.model_copy(
            update={
                "action_rule": "commit" if self.rule == EASY else "fit",
                "window": max(scenario.decision.window, SEEN_BY_ORDERS),
            }
        )
        return scenario.model_copy(update={"decision": decision})

    @property
    def core(self) -> tuple[str, str]:
        """As the core knows it: without a horizon the scenario's action rule says what the rule means."""
        return self.order, self.rule if self.rule in PLACEMENTS else "now"


class Rooms:
    """Room for clusters that stand still, of several sizes, made as it is needed.

    Args:
        scenario: decision rules and observations.
        order: that decides; None: whoever calls.
    """

    def __init__(self, scenario: Scenario, order: tuple[str, str] | None) -> None:
        self._scenario, self._order = scenario, order
        self._kept: OrderedDict[tuple[tuple[int, ...], int, int], Standstill] = OrderedDict()

    def of(self, units: IntArray, jobs: int, clusters: int) -> Standstill:
        """Room for so many clusters of these units with so many jobs each, as it is kept."""
        size = max(LEAST_ROOM, 1 << max(0, jobs - 1).bit_length())
        envs = max(LEAST_CLUSTERS, 1 << max(0, clusters - 1).bit_length())
        key = (tuple(units.tolist()), size, envs)
        found = self._kept.get(key)
        if found is None:
            found = Standstill(self._scenario, key[0], envs, size, order=self._order)
            self._kept[key] = found
            if len(self._kept) > ROOMS:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return found


def envs_of(jobs: int) -> int:
    """Clusters of so many jobs that are decided about side by side."""
    return max(1, min(BATCH, JOBS_AT_ONCE // max(LEAST_ROOM, 1 << max(0, jobs - 1).bit_length())))


class Course(Struct, frozen=True, eq=False, gc=False):
    """What was decided about one cluster.

    Attributes:
        decisions: in order.
        moved: what happens to which jobs, whatever the order, to be compared; a reservation is nothing.
        reasons: (job,) numbers of the core, by rank, of jobs that still wait.
        memory: what the policy remembers of it now.
    """

    decisions: list[Decision]
    moved: bytes
    reasons: NDArray[np.int8]
    memory: str | None = None


class Decider:
    """Decides about clusters by a policy, with a heuristic beside it.

    Args:
        policy: who decides.
        units: (resource,) of clusters that do not say theirs.
        heuristic: beside it.
        max_jobs: of a cluster, running and waiting.
    """

    def __init__(
        self, policy: TrainedPolicy, units: Sequence[int], heuristic: Heuristic, max_jobs: int
    ) -> None:
        self.policy, self.heuristic, self.max_jobs = policy, heuristic, max_jobs
        self.units = np.array(units, np.int64)
        self.site = Site.of(policy.scenario, policy.num_resources, heuristic.order)
        self._by_policy = Rooms(policy.scenario, None)
        self._by_order = Rooms(heuristic.scenario(policy.scenario), heuristic.core)

    def again(self) -> Decider:
        """Another one like this one."""
        return Decider(self.policy, self.units.tolist(), self.heuristic, self.max_jobs)

    def read(self, sent: Sent) -> list[Batch]:
        """Check clusters, and put those together that can be decided about side by side.

        Raises:
            BadInputError: one means nothing.
        """
        clusters, counts = sent.clusters, sent.counts.sum(axis=0).tolist()
        units_of = dict(clusters.given("units"))
        found: dict[tuple[tuple[int, ...] | None, int], list[int]] = {}
        for k, count in enumerate(counts):
            if count > self.max_jobs:
                raise BadInputError(
                    f"{sent.where[k]}waiting", f"{count} jobs in all", f"send at most {self.max_jobs}"
                )
            size = max(LEAST_ROOM, 1 << count.bit_length())
            found.setdefault((tuple(units_of[k]) if k in units_of else None, size), []).append(k)
        if len({units for units, _ in found}) > SIZES:
            at = f"{sent.where[next(iter(units_of))]}units"
            problem = f"is one of more than {SIZES} different ones"
            raise BadInputError(at, problem, "send clusters of a size together")
        parts: list[list[int]] = []
        units: list[IntArray] = []
        for (given, size), rows in found.items():
            envs = envs_of(size)
            more = [rows[begin : begin + envs] for begin in range(0, len(rows), envs)]
            parts += more
            units += [self._units_of(given, sent.where[rows[0]])] * len(more)
        jobs = Columns.of(sent, self.site.num_resources).split(parts)
        chosen = [clusters.of(part) for part in parts]
        return [
            Batch(part, some, there, read_states(self.site, some, theirs, there))
            for part, some, there, theirs in zip(parts, chosen, units, jobs, strict=True)
        ]

    def _units_of(self, given: tuple[int, ...] | None, where: str) -> IntArray:
        """Of a cluster, checked."""
        units = self.units
        if given is not None:
            at = f"{where}units"
            if len(given) != len(units):
                raise BadInputError(
                    at, f"{len(given)} entries for {len(units)} resources", "send one for each"
                )
            if min(given) < 1:
                raise BadInputError(at, f"value {list(given)}", "send at least one unit of each")
            units = np.array(given, np.int64)
        if len(units) == 0:
            raise BadInputError(f"{where}units", "is missing: the policy knows no cluster", "send it")
        return units

    def by_policy(self, batch: Batch) -> list[Course]:
        """What the policy does.

        Raises:
            NotFiniteError: a score is no number.
            BadInputError: what it is to remember is not its own.
        """
        still = self._by_policy.of(batch.units, batch.most_jobs, len(batch.clusters))
        player = self._player(batch)
        still.load(batch.read.shot)
        scores = np.ones(still.course.row.shape)
        clusters = len(batch.clusters)
        while len(asked := np.flatnonzero(still.course.asked[:clusters])):
            # At first all of them are asked, and what they see need not be copied.
            chosen = slice(clusters) if len(asked) == clusters else asked
            logits = player.logits(asked, still.obs[chosen], still.mask[chosen])
            if not torch.isfinite(logits).all():
                raise NotFiniteError("the policy gave scores that are no numbers")
            actions = self.policy.actions(logits)
            chance = torch.softmax(logits, dim=1)[torch.arange(len(asked)), torch.from_numpy(actions)]
            scores[asked, still.course.decided[asked]] = chance.numpy()
            still.answer(asked, actions)
        memories = [None] * clusters if player.memory is None else [pack(player, k) for k in range(clusters)]
        return _courses(still, batch, self.site.tick_s, scores, memories)

    def by_heuristic(self, batch: Batch) -> list[Course]:
        """What the heuristic does."""
        still = self._by_order.of(batch.units, batch.most_jobs, len(batch.clusters))
        still.load(batch.read.shot)
        return _courses(still, batch, self.site.tick_s, None, [None] * len(batch.clusters))

    def _player(self, batch: Batch) -> Player:
        player = self.policy.actor(len(batch.clusters))
        for k, memory in batch.clusters.given("memory"):
            unpack(player, k, memory, f"{batch.clusters.where[k]}memory")
        return player

    def waiting(self, batch: Batch, k: int, course: Course) -> list[Reason]:
        """Why the jobs of a cluster that go on waiting do."""
        shot, ids = batch.read.shot, batch.read.ids[k]
        decided = {decision.job: decision for decision in course.decisions}
        begin, end = int(shot.first[k]), int(shot.first[k + 1])
        found = []
        for j in np.flatnonzero(shot.place[begin:end] != RUNNING).tolist():
            rank = int(shot.rank[begin + j])
            job = ids[rank]
            if job in decided and decided[job].action in {"start", "plan"}:
                continue
            reason = int(course.reasons[rank])
            if reason in REASONS:
                found.append(Reason(job, *REASONS[reason]))
        for large in batch.read.too_large[k]:
            problem = f"asks for {large.demand} of {large.units} units in service"
            found.append(Reason(large.job, TOO_LARGE, f"{problem}; are units those of this cluster?"))
        return found


@dataclass(frozen=True, eq=False)
class Batch:
    """Clusters of the same units and about as many jobs.

    Attributes:
        rows: of the clusters that were sent.
        clusters: these.
        units: (resource,)
        read: as the core takes them.
    """

    rows: list[int]
    clusters: Clusters
    units: IntArray
    read: Read

    @property
    def most_jobs(self) -> int:
        """Of a cluster."""
        return int(np.diff(self.read.shot.first).max())


def _courses(
    still: Standstill,
    batch: Batch,
    tick_s: int,
    scores: FloatArray | None,
    memories: Sequence[str | None],
) -> list[Course]:
    """What was decided, in the names of the client."""
    course, clusters = still.course, len(batch.clusters)
    counts = course.decided[:clusters]
    slots = (slice(clusters), slice(int(counts.max())))
    there = np.arange(slots[1].stop) < counts[:, None]
    whose, rows, kinds = there.nonzero()[0], course.row[slots][there], course.kind[slots][there]
    moment, ids = course.moment[slots][there], batch.read.ids
    at = np.where(moment == batch.read.shot.now[whose], batch.clusters.now[whose], moment * tick_s)
    chances: Iterable[float | None] = repeat(None)
    if scores is not None:
        chances = np.where(course.forced[slots][there], np.array(None), scores[slots][there]).tolist()
    decisions = list(
        map(
            Decision,
            [ids[k][row] for k, row in zip(whose.tolist(), rows.tolist(), strict=True)],
            [ACTIONS[kind] for kind in kinds.tolist()],
            at.tolist(),
            chances,
        )
    )
    bounds = [0, *counts.cumsum().tolist()]
    reasons = course.reason[:clusters].copy()
    moved = _moved(course.row[slots], course.kind[slots], there)
    return [
        Course(decisions[begin:end], moved[k], reasons[k], memories[k])
        for k, (begin, end) in enumerate(pairwise(bounds))
    ]


def _moved(rows: NDArray[np.integer], kinds: NDArray[np.integer], there: NDArray[np.bool_]) -> list[bytes]:
    """See `Course.moved`; (cluster, decision) each."""
    counts = there & (kinds != RESERVE)
    none = np.iinfo(np.int64).max
    codes = np.sort(np.where(counts, rows * np.int64(len(ACTIONS)) + kinds, none), axis=1)
    width, told = codes.shape[1] * codes.itemsize, codes.tobytes()
    return [
        told[k * width : k * width + size]
        for k, size in enumerate((counts.sum(axis=1) * codes.itemsize).tolist())
    ]
