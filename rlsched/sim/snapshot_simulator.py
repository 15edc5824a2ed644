"""SnapshotSimulator: snapshots of N clusters of one scenario, decided about in compiled calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rlsched.jobs import IntArray
from rlsched.scenario import Scenario
from rlsched.sim.backfill import QueueHeuristic
from rlsched.sim.compiled import direct
from rlsched.sim.heuristics import BACKFILL
from rlsched.sim.kernel_arguments import KernelArguments
from rlsched.sim.priorities import priority
from rlsched.sim.rules import NO_LIMIT
from rlsched.sim.simulator import VectorSimulator
from rlsched.sim.snapshot import BY_POLICY, Decisions, Snapshot
from rlsched.sim.snapshot_decide import decide_all, pass_idle_all


class SnapshotSimulator:
    """Decides about snapshots of N clusters, one decision after the other, while no time passes.

    Args:
        scenario: decision rules and observations; a forecast that is put in has its errors already.
        units: (resource,) units of each cluster.
        num_envs: clusters at once.
        max_jobs: of a cluster, running and waiting.
        heuristic: a name in `PRIORITIES` and one in `PLACEMENTS`: they decide; None: the caller does.

    Attributes:
        obs: (env, size) float32, where a decision is pending.
        mask: (env, action) int8, likewise.
        decisions: those made so far.

    Raises:
        BadInputError: an unknown heuristic.
    """

    def __init__(
        self,
        scenario: Scenario,
        units: Sequence[int],
        num_envs: int,
        max_jobs: int,
        *,
        heuristic: tuple[str, str] | None = None,
    ) -> None:
        if scenario.power is not None:
            exact = scenario.power.model_copy(update={"forecast_error": 0.0})
            scenario = scenario.model_copy(update={"power": exact})
        self.sim = VectorSimulator(scenario, units, num_envs, max_jobs + 1)
        self.sim.make_room(self.sim.layout.horizon)
        self.num_envs, self.max_jobs = num_envs, max_jobs
        self.obs, self.mask = self.sim.obs, self.sim.mask
        self.decisions = Decisions.room(num_envs, max_jobs + 1, scenario.decision.window)
        if heuristic is None:
            self._heuristic = QueueHeuristic(np.zeros((0, 0)), BY_POLICY, 0, False, 0, NO_LIMIT)
        else:
            name, placement = heuristic
            keys = np.zeros((num_envs, max_jobs + 1))
            self._heuristic = QueueHeuristic(
                keys, priority(name).moving, 0, False, BACKFILL[placement], NO_LIMIT
            )
        self._envs = np.arange(num_envs, dtype=np.uint64)
        self._no_actions = np.zeros(0, np.int64)

    def load(self, snapshot: Snapshot) -> None:
        """Put the clusters of a snapshot into the first environments and advance to their first decisions.

        Args:
            snapshot: of at most `num_envs` clusters with at most `max_jobs` jobs each, all of them within the
                cluster, and running ones together.
        """
        clusters, most = len(snapshot.now), int(np.diff(snapshot.first).max(initial=0))
        if clusters > self.num_envs or most > self.max_jobs:  # which compiled code would not notice
            raise ValueError(
                f"{clusters} clusters of {most} jobs; room for {self.num_envs} of {self.max_jobs}"
            )
        self._snapshot = snapshot
        self._decide_all(
            self.sim.arguments,
            snapshot,
            self.decisions,
            self._heuristic,
            self._envs[:clusters],
            self._no_actions,
            True,
        )

    def act(self, envs: NDArray[np.integer], actions: IntArray) -> None:
        """Take an action in some clusters, and advance to their next decisions.

        Args:
            envs: (cluster,) environments in which a decision is pending.
            actions: (cluster,) each legal under `mask`; the no-op ends the decisions.

        Raises:
            ValueError: an action is illegal.
        """
        illegal = np.flatnonzero(self.mask[envs, actions] == 0)
        if len(illegal):
            raise ValueError(f"action {actions[illegal[0]]} of cluster {envs[illegal[0]]} is illegal")
        self._decide_all(
            self.sim.arguments,
            self._snapshot,
            self.decisions,
            self._heuristic,
            envs.astype(np.uint64),
            np.ascontiguousarray(actions, np.int64),
            False,
        )

    def pass_idle(self, env: int, ticks: int) -> None:
        """Let time pass over a cluster that was decided about, in which nothing happens.

        Args:
            env: which environment.
            ticks: how many; terms of the outcome say what was earned since the snapshot.
        """
        pass_idle_all(self.sim.arguments, self._envs[env : env + 1], np.array([ticks], np.int64))

    @cached_property
    def _decide_all(
        self,
    ) -> Callable[
        [KernelArguments, Snapshot, Decisions, QueueHeuristic, NDArray[np.uint64], IntArray, bool], None
    ]:
        arguments = (
            self.sim.arguments,
            self._snapshot,
            self.decisions,
            self._heuristic,
            self._envs,
            self._no_actions,
            True,
        )
        return direct(decide_all, *arguments)
