"""Paired comparison: every policy, learned or heuristic, runs the same episodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Protocol

from rlsched.errors import BadInputError
from rlsched.evaluate.costs import episode_cost
from rlsched.evaluate.limits import Keeping, keeping
from rlsched.evaluate.play import Policy, play
from rlsched.evaluate.results import Result
from rlsched.evaluate.seeds import seed_folder
from rlsched.evaluate.statistics import EpisodeResult
from rlsched.jobs import JobTable
from rlsched.power.series import PowerSeries
from rlsched.scenario import Scenario
from rlsched.sim.backfill import BACKFILLS
from rlsched.sim.compat import committed_keys, replay_rlscheduler
from rlsched.sim.metrics import Played, job_metrics, rlscheduler_metrics
from rlsched.sim.orders import placed_by, play_order
from rlsched.sim.priorities import priority
from rlsched.sim.replay import replay
from rlsched.sim.simulator import effective_prices

COMMITTED = "rlscheduler"  # the backfilling rule, and the protocol, of that simulator
BACKFILL_RULES = (*BACKFILLS, COMMITTED)
LEARNED_BACKFILL = "policy"  # a learned policy decides by itself what to backfill

# Ten sequences of 1,024 jobs with which published figures were made [Zhang et al. 2020].
PROTOCOL_OFFSETS = (1981, 2756, 4299, 8850, 3316, 2714, 5228, 7762, 4022, 7085)
PROTOCOL_JOBS = 1024


@dataclass(frozen=True, eq=False)
class EvaluationEpisode:
    """One episode that all policies run.

    Attributes:
        number: policies are paired by it.
        seed: it was drawn with.
        offset: trace row at which it begins, None where jobs are drawn.
        jobs: in submit order.
        rows: the same jobs as loaded, for the replay that keeps trace order; `jobs` where there is no other.
        power: what feeds the cluster, where the scenario has power.
    """

    number: int
    seed: int
    offset: int | None
    jobs: JobTable
    rows: JobTable
    power: PowerSeries | None = None


class Contestant(Protocol):
    """A policy that can run an episode from its first to its last job."""

    @property
    def policy(self) -> str:
        """Its name."""

    @property
    def backfill(self) -> str:
        """The backfilling rule around it."""

    @property
    def learned(self) -> bool:
        """Whether it was learned."""

    @property
    def members(self) -> Mapping[int | None, Contestant]:
        """Training seed -> its policy, where several seeds are compared as one; else {None: itself}."""

    def run(
        self, episodes: Sequence[EvaluationEpisode], units: Sequence[int], progress: Callable[[int], None]
    ) -> list[Played]:
        """How each episode went."""


@dataclass(frozen=True)
class Heuristic:
    """An order of the queue under a backfilling rule.

    Attributes:
        policy: a name in `PRIORITIES`.
        backfill: a name in `BACKFILL_RULES`.
        committed: follow the semantics of the rlscheduler simulator (protocol, none and rlscheduler only).
        window: only so many of the oldest waiting jobs are looked at; None: all.
        scenario: where it has a horizon, its pools and plans are part of the rules, and `backfill` is one of
            `orders.PLACEMENTS`.
    """

    policy: str
    backfill: str
    committed: bool = False
    window: int | None = None
    scenario: Scenario | None = None
    learned: Literal[False] = False

    @property
    def members(self) -> Mapping[int | None, Heuristic]:
        """Itself alone: nothing was trained."""
        return {None: self}

    @property
    def planned(self) -> Scenario | None:
        """The scenario, where it has a horizon."""
        has_horizon = self.scenario is not None and self.scenario.decision.horizon is not None
        return self.scenario if has_horizon else None

    def check(self, units: Sequence[int]) -> None:
        """Refuse unknown names before anything runs.

        Raises:
            BadInputError: an unknown order or rule.
        """
        priority(self.policy)
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
            committed_keys(self.policy, JobTable.build(submit=[0], runtime=[1], demand=[1]), units[0])

    def run(
        self, episodes: Sequence[EvaluationEpisode], units: Sequence[int], progress: Callable[[int], None]
    ) -> list[Played]:
        """Replay each episode."""
        if self.planned is not None:
            seeds = [episode.seed for episode in episodes]
            return play_order(self.planned, units, episodes, self.policy, self.backfill, seeds, progress)
        runs = []
        for episode in episodes:
            if self.committed:
                starts = replay_rlscheduler(episode.rows, units[0], self.policy, self.backfill == COMMITTED)
                runs.append(Played.of_starts(episode.rows, starts))
            else:
                starts = replay(
                    episode.jobs, units, self.policy, self.backfill, window=self.window, seed=episode.seed
                )
                runs.append(Played.of_starts(episode.jobs, starts))
            progress(1)
        return runs


@dataclass(frozen=True, eq=False)
class Learned:
    """A learned policy, of one seed or several, with the decision rules and observations it was trained on.

    Attributes:
        policy: what it is called in tables; of several seeds, their folder.
        acts: the policy itself; of several seeds, that of the first.
        scenario: whose decision rules and observations it knows.
        seeds: seed of the training -> its policy, where several are one contestant.
    """

    policy: str
    acts: Policy
    scenario: Scenario
    backfill: str = LEARNED_BACKFILL
    learned: Literal[True] = True
    seeds: Mapping[int, Policy] = field(default_factory=dict)

    @property
    def members(self) -> Mapping[int | None, Learned]:
        """Each seed by itself, under the name of its own folder."""
        if not self.seeds:
            return {None: self}
        folder = Path(self.policy)
        return {
            seed: replace(self, policy=str(seed_folder(folder, seed)), acts=acts, seeds={})
            for seed, acts in self.seeds.items()
        }

    def run(
        self, episodes: Sequence[EvaluationEpisode], units: Sequence[int], progress: Callable[[int], None]
    ) -> list[Played]:
        """Play all episodes side by side; of several seeds, the first."""
        return play(self.scenario, units, episodes, self.acts, progress=progress)


@dataclass(frozen=True, eq=False)
class Comparison:
    """What came out: the result, and how the episodes went, which pictures are drawn from.

    Attributes:
        result: metrics per episode and their summary.
        runs: contestant's (policy, backfill) -> how each episode went, of several seeds under the first.
    """

    result: Result
    runs: dict[tuple[str, str], list[Played]]


def compare(
    scenario: Scenario,
    units: Sequence[int],
    episodes: Sequence[EvaluationEpisode],
    contestants: Sequence[Contestant],
    *,
    protocol: Literal["rlscheduler"] | None = None,
    repairs: dict[str, int] | None = None,
    seed: int = 0,
    progress: Callable[[int], None] = lambda _: None,
) -> Comparison:
    """Run every contestant on every episode and compare.

    Args:
        scenario: what is simulated.
        units: (resource,) units of the cluster.
        episodes: the same for all.
        contestants: who runs them.
        protocol: under rlscheduler, utilization is that of its rules.
        repairs: what was dropped or mended while loading jobs, for the record.
        seed: of the bootstrap.
        progress: called with 1 after each episode of each contestant, or of each of its seeds.
    """
    tick_s = scenario.cluster.tick_s
    results: list[EpisodeResult] = []
    prices = effective_prices(scenario)
    runs: dict[tuple[str, str], list[Played]] = {}
    limits: list[Keeping] = []
    for contestant in contestants:
        played = {seed: member.run(episodes, units, progress) for seed, member in contestant.members.items()}
        runs[contestant.policy, contestant.backfill] = next(iter(played.values()))
        window = None
        if isinstance(contestant, Learned):
            limits += keeping(contestant.policy, contestant.scenario, units, episodes, played, seed)
            window = contestant.scenario.decision.window
        for training_seed, run in played.items():
            for episode, one in zip(episodes, run, strict=True):
                metrics = job_metrics(one, units, tick_s, prices)
                metrics |= {
                    f"cost.{name}": episode_cost(scenario, units, name, one)
                    for name in scenario.objective.costs
                }
                if protocol == COMMITTED:
                    metrics |= rlscheduler_metrics(one, units[0])
                results.append(
                    EpisodeResult(
                        contestant.policy,
                        contestant.backfill,
                        episode.number,
                        episode.seed,
                        episode.offset,
                        metrics,
                        contestant.learned,
                        episode.jobs.cluster(units).tolist(),
                        window,
                        training_seed,
                    )
                )
    result = Result.of(scenario, results, protocol=protocol, repairs=repairs, limits=limits, seed=seed)
    return Comparison(result, runs)
