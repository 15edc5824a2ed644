"""Policies of a comparison: priority rules under backfilling rules, and learned policies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from rlsched.errors import BadInputError
from rlsched.evaluate.play import play
from rlsched.evaluate.policy import LearnedPolicy
from rlsched.evaluate.policy_names import BACKFILL_RULES, COMMITTED
from rlsched.evaluate.seeds import seed_folder
from rlsched.jobs import JobTable
from rlsched.scenario import Scenario
from rlsched.sim.compat import committed_keys, replay_rlscheduler
from rlsched.sim.heuristics import placed_by, run_heuristic
from rlsched.sim.metrics import Played
from rlsched.sim.priorities import priority
from rlsched.sim.replay import replay
from rlsched.workloads.episodes import Episode

LEARNED_BACKFILL = "policy"  # a learned policy decides by itself what to backfill


@dataclass(frozen=True)
class HeuristicPolicy:
    """A priority rule under a backfilling rule, or in a scenario with a horizon under a placement rule."""

    name: str  # in `PRIORITIES`
    backfill: str  # in `BACKFILL_RULES`, or `PLACEMENTS`
    committed: bool = False  # as in the rlscheduler simulator (its protocol, none and rlscheduler only)
    window: int | None = None  # number of the oldest waiting jobs to consider; None: all
    scenario: Scenario | None = None  # with a horizon its pools and plans are part of the rules
    learned: Literal[False] = False

    @property
    def members(self) -> Mapping[int | None, HeuristicPolicy]:
        """Itself alone: nothing was trained."""
        return {None: self}

    @property
    def planned(self) -> Scenario | None:
        """The scenario, where it has a horizon."""
        has_horizon = self.scenario is not None and self.scenario.decision.tick_driven
        return self.scenario if has_horizon else None

    def check(self, units: Sequence[int]) -> None:
        """Refuse unknown names before anything runs.

        Raises:
            BadInputError: an unknown priority rule or backfilling rule.
        """
        priority(self.name)
        if self.planned is not None:
            placed_by(self.planned, self.backfill)
        elif self.backfill not in BACKFILL_RULES:
            raise BadInputError(
                "--backfill", f"unknown rule {self.backfill!r}", f"use one of {', '.join(BACKFILL_RULES)}"
            )
        if self.committed and self.scenario is not None and self.scenario.linked:
            raise BadInputError(
                "workload.dependencies",
                "value 'follow' does not go with a replay as in rlscheduler, which knows every submit time",
                "name another --backfill, or set workload.dependencies=ignore",
            )
        if self.committed:
            committed_keys(self.name, JobTable.build(submit=[0], runtime=[1], demand=[1]), units[0])

    def run(
        self, episodes: Sequence[Episode], units: Sequence[int], progress: Callable[[int], None]
    ) -> list[Played]:
        """Replay each episode."""
        if self.planned is not None:
            seeds = [episode.seed for episode in episodes]
            return run_heuristic(self.planned, units, episodes, self.name, self.backfill, seeds, progress)
        runs = []
        for episode in episodes:
            if self.committed:
                rows = episode.jobs if episode.rows is None else episode.rows
                starts = replay_rlscheduler(rows, units[0], self.name, self.backfill == COMMITTED)
                runs.append(Played.of_starts(rows, starts))
            else:
                starts = replay(
                    episode.jobs, units, self.name, self.backfill, window=self.window, seed=episode.seed
                )
                runs.append(Played.of_starts(episode.jobs, starts))
            progress(1)
        return runs


@dataclass(frozen=True, eq=False)
class LearnedPolicies:
    """A learned policy of one training seed, or of several that are compared as one."""

    name: str  # in tables; of several seeds, their folder
    first: LearnedPolicy  # of the first seed
    scenario: Scenario  # decision rules and observations that it was trained on
    backfill: str = LEARNED_BACKFILL
    learned: Literal[True] = True
    seeds: Mapping[int, LearnedPolicy] = field(default_factory=dict)  # training seed -> one of several

    @property
    def members(self) -> Mapping[int | None, LearnedPolicies]:
        """Each seed by itself, under the name of its own folder."""
        if not self.seeds:
            return {None: self}
        folder = Path(self.name)
        return {
            seed: replace(self, name=str(seed_folder(folder, seed)), first=policy, seeds={})
            for seed, policy in self.seeds.items()
        }

    def run(
        self, episodes: Sequence[Episode], units: Sequence[int], progress: Callable[[int], None]
    ) -> list[Played]:
        """Play all episodes side by side; of several seeds, the first."""
        return play(self.scenario, units, episodes, self.first, progress=progress)
