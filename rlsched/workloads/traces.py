"""Episodes cut from a trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rlsched.errors import BadInputError
from rlsched.jobs import IntArray, JobTable
from rlsched.scenario import Cluster
from rlsched.workloads.days import Days
from rlsched.workloads.episodes import (
    EpisodeJobs,
    Source,
    Supply,
    all_repairs,
    episode,
    evaluation_power_rng,
    evaluation_rng,
)
from rlsched.workloads.swf import Trace


@dataclass(frozen=True, eq=False)
class Windows:
    """How much of a trace an episode is: so many jobs, all jobs of so many ticks, or all there are.

    Attributes:
        submit: (rows,) ticks of the trace; in ascending order where `ticks` counts.
        jobs: in an episode, or None.
        ticks: where `jobs` is None: from the first submit on; None is all rows.
    """

    submit: IntArray
    jobs: int | None
    ticks: int | None = None

    @property
    def everything(self) -> bool:
        """Whether an episode is all rows that there are."""
        return self.jobs is None and self.ticks is None

    def end(self, row: int) -> int:
        """The row after the last one of the episode that starts at a row."""
        if self.jobs is not None:
            return row + self.jobs
        if self.ticks is None:
            return len(self.submit)
        return int(np.searchsorted(self.submit, self.submit[row] + self.ticks))

    def starts(self, end: int) -> int:
        """How many rows, counted from 0, an episode can start at that is whole and over before row `end`.

        One of so many ticks is whole where its last tick is not after the last submit of the trace, and
        over where the job of row `end` does not come before its last tick is.
        """
        if self.jobs is not None:
            return max(0, end - self.jobs + 1)
        if self.ticks is None:
            return int(end == len(self.submit))
        return int(np.searchsorted(self.submit, self._over(end) - self.ticks, side="right"))

    def last(self, count: int) -> list[int]:
        """(episode,) rows at which the last whole episodes start, of which none overlap, in rising order.

        Args:
            count: how many; fewer where the trace has no more.
        """
        found: list[int] = []
        end = len(self.submit)
        while len(found) < count and (starts := self.starts(end)):
            end = starts - 1
            found.append(end)
        return found[::-1]

    def length(self, first: int, end: int) -> int:
        """What rows [first, end) hold, in jobs or ticks, whichever episodes are measured in."""
        if self.ticks is None:
            return end - first
        return self._over(end) - int(self.submit[first]) if first < end else 0

    @property
    def measure(self) -> str:
        """The length of an episode in words."""
        return f"{self.jobs} jobs" if self.ticks is None else f"{self.ticks} ticks"

    @cached_property
    def most(self) -> int:
        """Jobs of the longest episode, wherever it starts."""
        if self.jobs is not None:
            return self.jobs
        if self.ticks is None:
            return len(self.submit)
        ends = np.searchsorted(self.submit, self.submit + self.ticks)
        return int((ends - np.arange(len(ends))).max())

    def _over(self, end: int) -> int:
        """The first tick that no longer belongs to the rows before `end`."""
        return int(self.submit[end]) if end < len(self.submit) else int(self.submit[-1]) + 1


@dataclass(frozen=True, eq=False)
class TraceSource:
    """Episodes cut from a trace.

    Attributes:
        cluster: the machine.
        trace: jobs in loaded order, those over the limits left out or cut down.
        name: what errors call the trace.
        windows: how much of it an episode is. Everything means the training rows in training, the whole
            trace in evaluation.
        training_rows: rows [from, to) that training sees.
        offsets: rows at which evaluation episodes start; may lie in the training rows, since published
            figures are for such ones. Empty: random rows outside the training rows.
        supply: draws the power, if there is any.
        days: of the trace, from which episodes of training are put together; None: they are cut out.
        resample_evaluation: whether those of evaluation that are not listed are, too.
    """

    cluster: Cluster
    trace: Trace
    name: str
    windows: Windows
    training_rows: tuple[int, int]
    offsets: tuple[int, ...]
    supply: Supply | None = None
    days: Days | None = None
    resample_evaluation: bool = False

    @property
    def repairs(self) -> dict[str, int]:
        """What was dropped or put right on reading."""
        return all_repairs(self.trace.repairs, self.supply)

    @property
    def max_jobs(self) -> int:
        """The most jobs that an episode can have."""
        if self.days is None or self.windows.ticks is None:
            return self.windows.most
        return self.days.most_jobs(self.windows.ticks)

    @property
    def parts(self) -> Sequence[tuple[float, Source]]:
        """This alone."""
        return [(1.0, self)]

    def rows(self, offset: int, jobs: int) -> JobTable:
        """So many jobs from a row on, in loaded order: what the replay of rlscheduler starts from."""
        return self.trace.jobs.take(slice(offset, offset + jobs))

    def training(self, rng: np.random.Generator) -> EpisodeJobs:
        """A random window that lies wholly in the training rows."""
        first, end = self.training_rows
        if self.windows.everything:
            return self._episode(first, end, rng)
        if self.days is not None:
            return self._resampled(self.days, "training", rng, rng)
        row = self._random_row(rng, [(first, end)], "training")
        return self._episode(row, self.windows.end(row), rng)

    def evaluation(self, index: int, seed: int) -> EpisodeJobs:
        """The listed window number `index`, or a random one that training does not touch."""
        if self.windows.everything:
            return self.listed(0, index, seed)
        if not self.offsets:
            first, end = self.training_rows
            outside = [(0, first), (end, len(self.trace.jobs))]
            if self.days is not None and self.resample_evaluation:
                streams = evaluation_rng(index, seed), evaluation_power_rng(index, seed)
                return self._resampled(self.days, "evaluation", *streams)
            row = self._random_row(evaluation_rng(index, seed), outside, "evaluation")
            return self.listed(row, index, seed)
        if index >= len(self.offsets):
            raise BadInputError(
                "episode.offsets",
                f"lists {len(self.offsets)} episodes, asked for number {index + 1}",
                "list more, or evaluate fewer episodes",
            )
        return self.listed(self.offsets[index], index, seed)

    def listed(self, offset: int, index: int, seed: int) -> EpisodeJobs:
        """The window at a row, with the power of evaluation episode number `index` of a seed."""
        return self._episode(offset, self.windows.end(offset), evaluation_power_rng(index, seed))

    def _random_row(self, rng: np.random.Generator, spans: list[tuple[int, int]], purpose: str) -> int:
        """A row at which an episode within one of the spans of rows starts, all with the same chance."""
        windows = self.windows
        counts = [max(0, windows.starts(end) - first) for first, end in spans]
        if not sum(counts):
            key, unit = ("jobs", "jobs") if windows.ticks is None else ("max_ticks", "ticks")
            raise BadInputError(
                self.name,
                f"{max(windows.length(*span) for span in spans)} {unit} in a row for {purpose} are less than "
                f"an episode of {windows.measure}",
                f"set a smaller episode.{key} or other workload.training_jobs",
            )
        place = int(rng.integers(sum(counts)))
        for (first, _), count in zip(spans, counts, strict=True):
            if place < count:
                return first + place
            place -= count
        raise AssertionError("a place lies in one of the spans")

    def check_days(self) -> None:
        """Refuse to resample a part of the trace that has no whole day.

        Raises:
            BadInputError: as said.
        """
        if self.days is not None:
            self._days_of(self.days, "training")
            if self.resample_evaluation and not self.offsets:
                self._days_of(self.days, "evaluation")

    def _days_of(self, days: Days, purpose: str) -> IntArray:
        """(day,) that lie in the rows for training, or in the others."""
        first, end = self.training_rows
        spans = [(first, end)] if purpose == "training" else [(0, first), (end, len(self.trace.jobs))]
        found = days.within(spans)
        if not np.diff(days.edges)[found].any():
            raise BadInputError(
                self.name,
                f"has no whole day with a job for {purpose}, as workload.resample needs",
                "set workload.resample=never, or other workload.training_jobs",
            )
        return found

    def _resampled(
        self, days: Days, purpose: str, rng: np.random.Generator, power: np.random.Generator
    ) -> EpisodeJobs:
        """An episode of days."""
        found = self._days_of(days, purpose)
        jobs = days.draw(rng, found, self.windows.jobs, self.windows.ticks)
        return episode(jobs, -1, self.supply, power)

    def _episode(self, first: int, end: int, rng: np.random.Generator) -> EpisodeJobs:
        return episode(self.rows(first, end - first).in_submit_order(), first, self.supply, rng)
