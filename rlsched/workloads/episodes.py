"""Episodes: what they are, and how they are cut from a trace or drawn from a model."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from rlsched.errors import BadInputError
from rlsched.jobs import JobTable
from rlsched.scenario import Cluster
from rlsched.workloads.lublin import LublinModel
from rlsched.workloads.swf import Trace
from rlsched.workloads.ticks import in_ticks

EVALUATION_STREAM = 0x6576616C
"""Marks the random streams of evaluation episodes.

They are the streams SeedSequence(seed, spawn_key=(EVALUATION_STREAM, index)). Training streams are made
from a seed alone or spawned one after the other, with spawn keys 0, 1, ..., and so never meet them.
"""


@dataclass(frozen=True, eq=False)
class EpisodeJobs:
    """The jobs of one episode.

    Attributes:
        jobs: in submit order; times in ticks, counted as in the trace (the first submit is not 0).
        offset: row of the trace at which the episode starts, -1 where jobs come from a model.
    """

    jobs: JobTable
    offset: int


class Source(Protocol):
    """Where episodes come from."""

    @property
    def cluster(self) -> Cluster:
        """The machine, with the units of every resource known."""

    @property
    def repairs(self) -> dict[str, int]:
        """What was dropped or put right on reading: a name of `swf.REPAIRS` -> count."""

    def training(self, rng: np.random.Generator) -> EpisodeJobs:
        """One random episode to train on.

        Raises:
            BadInputError: the rows that training may see hold no whole episode.
        """

    def evaluation(self, index: int, seed: int) -> EpisodeJobs:
        """Evaluation episode number `index` of a seed: the same at every call, and not for training.

        Raises:
            BadInputError: there are fewer episodes, or no row is left for evaluation.
        """


@dataclass(frozen=True, eq=False)
class ModelSource:
    """Episodes drawn from the Lublin-Feitelson model, each a fresh one.

    The load of the model is that of the processors asked for, before they are rounded up to whole nodes.
    """

    cluster: Cluster
    model: LublinModel
    episode_jobs: int
    repairs: dict[str, int] = field(default_factory=dict)

    def training(self, rng: np.random.Generator) -> EpisodeJobs:
        """One random episode to train on."""
        resource = self.cluster.resources[0]
        node = resource.units_per_node or 1
        units = (resource.units or 0) // node * node  # a part of a node takes no job
        jobs = in_ticks(self.model.draw(rng, self.episode_jobs, units), self.cluster.tick_s)
        return EpisodeJobs(whole_nodes(jobs, node), offset=-1)

    def evaluation(self, index: int, seed: int) -> EpisodeJobs:
        """Evaluation episode number `index` of a seed, from a stream of its own."""
        return self.training(_evaluation_rng(index, seed))


@dataclass(frozen=True, eq=False)
class TraceSource:
    """Episodes cut from a trace.

    Attributes:
        cluster: the machine.
        trace: jobs in loaded order, those over the machine left out.
        name: what errors call the trace.
        episode_jobs: jobs in an episode; None is all there are: the training rows in training, the whole
            trace in evaluation.
        training_rows: rows [from, to) that training sees.
        offsets: rows at which evaluation episodes start; may lie in the training rows, since published
            figures are for such ones. Empty: random rows outside the training rows.
    """

    cluster: Cluster
    trace: Trace
    name: str
    episode_jobs: int | None
    training_rows: tuple[int, int]
    offsets: tuple[int, ...]

    @property
    def repairs(self) -> dict[str, int]:
        """What was dropped or put right on reading."""
        return self.trace.repairs

    def rows(self, offset: int, jobs: int) -> JobTable:
        """So many jobs from a row on, in loaded order: what the replay of rlscheduler starts from."""
        return self.trace.jobs.take(slice(offset, offset + jobs))

    def training(self, rng: np.random.Generator) -> EpisodeJobs:
        """A random window that lies wholly in the training rows."""
        first, end = self.training_rows
        if self.episode_jobs is None:
            return EpisodeJobs(self.rows(first, end - first).in_submit_order(), first)
        return self._random_window(rng, [(first, end)], "training")

    def evaluation(self, index: int, seed: int) -> EpisodeJobs:
        """The listed window number `index`, or a random one that training does not touch."""
        if self.episode_jobs is None:
            return self._window(0)
        if not self.offsets:
            first, end = self.training_rows
            outside = [(0, first), (end, len(self.trace.jobs))]
            return self._random_window(_evaluation_rng(index, seed), outside, "evaluation")
        if index >= len(self.offsets):
            raise BadInputError(
                "episode.offsets",
                f"lists {len(self.offsets)} episodes, asked for number {index + 1}",
                "list more, or evaluate fewer episodes",
            )
        return self._window(self.offsets[index])

    def _random_window(
        self, rng: np.random.Generator, spans: list[tuple[int, int]], purpose: str
    ) -> EpisodeJobs:
        length = self.episode_jobs or 1
        starts = [max(0, end - first - length + 1) for first, end in spans]
        if not sum(starts):
            raise BadInputError(
                self.name,
                f"{max(end - first for first, end in spans)} jobs in a row for {purpose} are less than an "
                f"episode of {length}",
                "set a smaller episode.jobs or other workload.training_jobs",
            )
        place = int(rng.integers(sum(starts)))
        for (first, _), count in zip(spans, starts, strict=True):
            if place < count:
                return self._window(first + place)
            place -= count
        raise AssertionError("a place lies in one of the spans")

    def _window(self, offset: int) -> EpisodeJobs:
        length = len(self.trace.jobs) if self.episode_jobs is None else self.episode_jobs
        return EpisodeJobs(self.rows(offset, length).in_submit_order(), offset)


def whole_nodes(jobs: JobTable, units_per_node: int) -> JobTable:
    """The same jobs with demands rounded up to whole nodes."""
    if units_per_node == 1:
        return jobs
    return replace(jobs, demand=-(-jobs.demand // units_per_node) * units_per_node)


def _evaluation_rng(index: int, seed: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(EVALUATION_STREAM, index)))
