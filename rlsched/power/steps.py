"""Series of constant step, averaged over ticks of another length."""

from __future__ import annotations

import numpy as np

from rlsched.jobs import FloatArray, IntArray


class Steps:
    """Series that hold a value for each step, and start again when they end.

    Args:
        values: (series, steps).
        step_s: seconds of a step.
    """

    def __init__(self, values: FloatArray, step_s: int) -> None:
        self.values = values
        self.step_s = step_s
        self._sums = np.concatenate([np.zeros((len(values), 1)), np.cumsum(values, axis=1)], axis=1)

    def __len__(self) -> int:
        return self.values.shape[1]

    def over_ticks(self, first: int, ticks: int, tick_s: int) -> FloatArray:
        """(series, ticks): means over ticks, each step weighted by how much of it the tick covers.

        A tick within one step has exactly its value.

        Args:
            first: the step with whose beginning the first tick begins.
            ticks: number of ticks.
            tick_s: seconds of a tick.
        """
        begin = first * self.step_s + np.arange(ticks, dtype=np.int64) * tick_s
        end = begin + tick_s
        head, tail = begin // self.step_s, (end - 1) // self.step_s
        at_head, at_tail = self.values[:, head % len(self)], self.values[:, tail % len(self)]
        between = self._sum_before(tail) - self._sum_before(head + 1)
        total = (
            at_head * ((head + 1) * self.step_s - begin)
            + between * self.step_s
            + at_tail * (end - tail * self.step_s)
        )
        return np.where(head == tail, at_head, total / tick_s)

    def _sum_before(self, step: IntArray) -> FloatArray:
        """(series, n): sums of all steps before step, counted on through the repetitions."""
        rounds, within = np.divmod(step, len(self))
        return rounds * self._sums[:, -1:] + self._sums[:, within]
