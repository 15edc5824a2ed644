"""Standstill: N clusters of one scenario as they stand, decided about in compiled calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rlsched.jobs import IntArray
from rlsched.scenario import Scenario
from rlsched.sim.backfill import Order
from rlsched.sim.compiled import direct
from rlsched.sim.kept import Kept
from rlsched.sim.orders import BACKFILL
from rlsched.sim.priorities import priority
from rlsched.sim.rules import NO_LIMIT
from rlsched.sim.simulator import VectorSimulator
from rlsched.sim.snapshot import BY_POLICY, Course, Snapshot, decide_all, spend_all


class Standstill:
    """N clusters that stand still: what is to be decided about them now, one question after the other.

    Args:
        scenario: decision rules and observations; a forecast that is put in has its errors already.
        units: (resource,) units of each cluster.
        num_envs: clusters at once.
        max_jobs: of a cluster, running and waiting.
        order: an order of the queue that decides, with its rule in `PLACEMENTS`; None: whoever calls.

    Attributes:
        obs: (env, size) float32, where there is a question.
        mask: (env, action) int8, likewise.
        course: what was decided so far.

    Raises:
        BadInputError: an unknown order.
    """

    def __init__(
        self,
        scenario: Scenario,
        units: Sequence[int],
        num_envs: int,
        max_jobs: int,
        *,
        order: tuple[str, str] | None = None,
    ) -> None:
        if scenario.power is not None:
            exact = scenario.power.model_copy(update={"forecast_error": 0.0})
            scenario = scenario.model_copy(update={"power": exact})
        self.sim = VectorSimulator(scenario, units, num_envs, max_jobs + 1)
        self.sim.make_room(self.sim.layout.horizon)
        self.num_envs, self.max_jobs = num_envs, max_jobs
        self.obs, self.mask = self.sim.obs, self.sim.mask
        self.course = Course.room(num_envs, max_jobs + 1, scenario.decision.window)
        if order is None:
            self._order = Order(np.zeros((0, 0)), BY_POLICY, 0, False, 0, NO_LIMIT)
        else:
            name, rule = order
            keys = np.zeros((num_envs, max_jobs + 1))
            self._order = Order(keys, priority(name).moving, 0, False, BACKFILL[rule], NO_LIMIT)
        self._envs = np.arange(num_envs, dtype=np.uint64)
        self._no_actions = np.zeros(0, np.int64)

    def load(self, shot: Snapshot) -> None:
        """Put the clusters of a snapshot into the first environments and go on to their first questions.

        Args:
            shot: of at most `num_envs` clusters with at most `max_jobs` jobs each, all of them within the
                cluster, and running ones together.
        """
        clusters, most = len(shot.now), int(np.diff(shot.first).max(initial=0))
        if clusters > self.num_envs or most > self.max_jobs:  # which compiled code would not notice
            raise ValueError(
                f"{clusters} clusters of {most} jobs; room for {self.num_envs} of {self.max_jobs}"
            )
        self._shot = shot
        self._decide_all(
            self.sim.kept, shot, self.course, self._order, self._envs[:clusters], self._no_actions, True
        )

    def answer(self, envs: NDArray[np.integer], actions: IntArray) -> None:
        """Answer the questions about some clusters, and go on to their next.

        Args:
            envs: (asked,) of which there is a question.
            actions: (asked,) each legal under `mask`; the no-op ends the matter.

        Raises:
            ValueError: an action is illegal.
        """
        illegal = np.flatnonzero(self.mask[envs, actions] == 0)
        if len(illegal):
            raise ValueError(f"action {actions[illegal[0]]} of cluster {envs[illegal[0]]} is illegal")
        self._decide_all(
            self.sim.kept,
            self._shot,
            self.course,
            self._order,
            envs.astype(np.uint64),
            np.ascontiguousarray(actions, np.int64),
            False,
        )

    def spend(self, env: int, ticks: int) -> None:
        """Let time pass over a cluster that was decided about, in which nothing happens.

        Args:
            env: which environment.
            ticks: how many; terms of the outcome tell what was earned since the snapshot.
        """
        spend_all(self.sim.kept, self._envs[env : env + 1], np.array([ticks], np.int64))

    @cached_property
    def _decide_all(
        self,
    ) -> Callable[[Kept, Snapshot, Course, Order, NDArray[np.uint64], IntArray, bool], None]:
        arguments = (self.sim.kept, self._shot, self.course, self._order, self._envs, self._no_actions, True)
        return direct(decide_all, *arguments)
