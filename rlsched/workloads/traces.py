"""Episodes cut from a trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rlsched.errors import BadInputError
from rlsched.jobs import IntArray, JobTable
from rlsched.scenario import ResolvedCluster
from rlsched.workloads.days import Days
from rlsched.workloads.episodes import (
    Episode,
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
    """The length of an episode: a number of jobs, a number of ticks, or the whole trace.

    Attributes:
        submit: (rows,) submit times of the trace, ticks; ascending if `ticks` is used.
        jobs: in an episode; None: see `ticks`.
        ticks: of an episode from its first submit, if `jobs` is None; None: all rows.
    """

    submit: IntArray
    jobs: int | None
    ticks: int | None = None

    @property
    def everything(self) -> bool:
        """Whether an episode has all rows."""
        return self.jobs is None and self.ticks is None

    def end(self, row: int) -> int:
        """The row after the episode that starts at `row`."""
        if self.jobs is not None:
            return row + self.jobs
        if self.ticks is None:
            return len(self.submit)
        return int(np.searchsorted(self.submit, self.submit[row] + self.ticks))

    def starts(self, end: int) -> int:
        """Number of rows, from 0, at which a whole episode can start that ends before row `end`.

        An episode of ticks is whole if it ends by the last submit of the trace. It ends before row `end` if
        that row's job is submitted after its last tick.
        """
        if self.jobs is not None:
            return max(0, end - self.jobs + 1)
        if self.ticks is None:
            return int(end == len(self.submit))
        return int(np.searchsorted(self.submit, self._over(end) - self.ticks, side="right"))

    def last(self, count: int) -> list[int]:
        """(episode,) ascending rows at which the last whole episodes start, without overlap.

        Args:
            count: number of episodes; the trace may have fewer.
        """
        rows: list[int] = []
        end = len(self.submit)
        while len(rows) < count and (starts := self.starts(end)):
            end = starts - 1
            rows.append(end)
        return rows[::-1]

    def length(self, first: int, end: int) -> int:
        """Length of rows [first, end), in the unit of episodes: jobs or ticks."""
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
        """The first tick after the rows before `end`."""
        return int(self.submit[end]) if end < len(self.submit) else int(self.submit[-1]) + 1


@dataclass(frozen=True, eq=False)
class TraceSource:
    """Episodes cut from a trace.

    Attributes:
        trace: jobs in loaded order; limits have dropped or scaled some.
        windows: length of an episode. Everything means the training rows in training, the whole trace in
            evaluation.
        training_rows: rows [from, to) for training.
        offsets: rows at which evaluation episodes start. They may be training rows, as in published
            results. Empty: random rows outside the training rows.
        days: of the trace, from which training episodes are resampled; None: they are windows of the trace.
        resample_evaluation: evaluation episodes without offsets are resampled, too.
    """

    cluster: ResolvedCluster
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
        """Drops and repairs on reading: a key of `swf.REPAIRS` -> count."""
        return all_repairs(self.trace.repairs, self.supply)

    @property
    def max_jobs(self) -> int:
        """Most jobs in an episode."""
        if self.days is None or self.windows.ticks is None:
            return self.windows.most
        return self.days.most_jobs(self.windows.ticks)

    @property
    def parts(self) -> Sequence[tuple[float, Source]]:
        """This source alone."""
        return [(1.0, self)]

    def rows(self, offset: int, jobs: int) -> JobTable:
        """`jobs` jobs from row `offset` on, in loaded order, as the replay of rlscheduler needs them."""
        return self.trace.jobs.take(slice(offset, offset + jobs))

    def training(self, rng: np.random.Generator) -> Episode:
        """Draw a window within the training rows."""
        first, end = self.training_rows
        if self.windows.everything:
            return self.starting_at(first, rng, end)
        if self.days is not None:
            return self._resampled(self.days, "training", rng, rng)
        row = self._random_row(rng, [(first, end)], "training")
        return self.starting_at(row, rng)

    def evaluation(self, index: int, seed: int) -> Episode:
        """The window at offset number `index`, or a random one outside the training rows."""
        power = evaluation_power_rng(index, seed)
        if self.windows.everything:
            return self.starting_at(0, power)
        if not self.offsets:
            first, end = self.training_rows
            outside = [(0, first), (end, len(self.trace.jobs))]
            if self.days is not None and self.resample_evaluation:
                return self._resampled(self.days, "evaluation", evaluation_rng(index, seed), power)
            row = self._random_row(evaluation_rng(index, seed), outside, "evaluation")
            return self.starting_at(row, power)
        if index >= len(self.offsets):
            problem = f"has {len(self.offsets)} episodes, and number {index + 1} is requested"
            raise BadInputError("episode.offsets", problem, "add offsets, or evaluate fewer episodes")
        return self.starting_at(self.offsets[index], power)

    def starting_at(self, row: int, power: np.random.Generator, end: int | None = None) -> Episode:
        """The episode from `row` to before `end`, by default a window, with power drawn from a stream."""
        jobs = self.rows(row, (end or self.windows.end(row)) - row)
        return episode(jobs.in_submit_order(), row, self.supply, power)

    def _random_row(self, rng: np.random.Generator, spans: list[tuple[int, int]], purpose: str) -> int:
        """Draw the first row of an episode within one of the spans of rows, uniformly."""
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
        raise AssertionError("a drawn row lies in one of the spans")

    def check_days(self) -> None:
        """Check that the parts of the trace to resample have a whole day.

        Raises:
            BadInputError: a part has none.
        """
        if self.days is not None:
            self._days_of(self.days, "training")
            if self.resample_evaluation and not self.offsets:
                self._days_of(self.days, "evaluation")

    def _days_of(self, days: Days, purpose: str) -> IntArray:
        """(day,) days in the training rows, or outside them."""
        first, end = self.training_rows
        spans = [(first, end)] if purpose == "training" else [(0, first), (end, len(self.trace.jobs))]
        within = days.within(spans)
        if not np.diff(days.edges)[within].any():
            problem = f"has no whole day with a job for {purpose}, which workload.resample needs"
            remedy = "set workload.resample=never, or other workload.training_jobs"
            raise BadInputError(self.name, problem, remedy)
        return within

    def _resampled(
        self, days: Days, purpose: str, rng: np.random.Generator, power: np.random.Generator
    ) -> Episode:
        """Draw an episode of resampled days."""
        choices = self._days_of(days, purpose)
        jobs = days.draw(rng, choices, self.windows.jobs, self.windows.ticks)
        return episode(jobs, None, self.supply, power)
