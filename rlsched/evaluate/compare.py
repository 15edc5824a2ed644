"""Paired comparison: every policy, learned or heuristic, runs the same episodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from rlsched.evaluate.costs import episode_cost
from rlsched.evaluate.limits import LimitCheck, check_limits
from rlsched.evaluate.policies import LearnedPolicies
from rlsched.evaluate.policy import Policy
from rlsched.evaluate.policy_names import COMMITTED
from rlsched.evaluate.results import Result
from rlsched.evaluate.statistics import EpisodeResult
from rlsched.scenario import ResolvedScenario
from rlsched.sim.metrics import Played, job_metrics, rlscheduler_metrics
from rlsched.sim.simulator import effective_prices
from rlsched.workloads.episodes import Episode

# Ten sequences of 1,024 jobs with which published figures were made [Zhang et al. 2020].
PROTOCOL_OFFSETS = (1981, 2756, 4299, 8850, 3316, 2714, 5228, 7762, 4022, 7085)
PROTOCOL_JOBS = 1024


@dataclass(frozen=True, eq=False)
class Comparison:
    """The result, and the outcome of each episode for pictures.

    Attributes:
        result: metrics per episode and their summary.
        runs: (policy, backfill) -> outcome of each episode; of several seeds, that of the first.
    """

    result: Result
    runs: dict[tuple[str, str], list[Played]]


def compare(
    scenario: ResolvedScenario,
    episodes: Sequence[Episode],
    policies: Sequence[Policy],
    *,
    protocol: Literal["rlscheduler"] | None = None,
    repairs: dict[str, int] | None = None,
    seed: int = 0,
    progress: Callable[[int], None] = lambda _: None,
) -> Comparison:
    """Run every policy on every episode and compare.

    Args:
        scenario: to be simulated.
        episodes: the same for all.
        policies: to compare.
        protocol: under rlscheduler, utilization is that of its rules.
        repairs: what was dropped or mended while loading jobs, for the record.
        seed: of the bootstrap.
        progress: called with 1 after each episode of each policy and seed.
    """
    tick_s, units = scenario.cluster.tick_s, scenario.cluster.units
    results: list[EpisodeResult] = []
    prices = effective_prices(scenario)
    runs: dict[tuple[str, str], list[Played]] = {}
    limits: list[LimitCheck] = []
    for policy in policies:
        played = {seed: member.run(episodes, units, progress) for seed, member in policy.members.items()}
        runs[policy.name, policy.backfill] = next(iter(played.values()))
        window = None
        if isinstance(policy, LearnedPolicies):
            limits += check_limits(policy.name, policy.scenario, units, episodes, played, seed)
            window = policy.scenario.decision.window
        for training_seed, run in played.items():
            for episode, outcome in zip(episodes, run, strict=True):
                metrics = job_metrics(outcome, units, tick_s, prices)
                metrics |= {
                    f"cost.{name}": episode_cost(scenario, units, name, outcome)
                    for name in scenario.objective.costs
                }
                if protocol == COMMITTED:
                    metrics |= rlscheduler_metrics(outcome, units[0])
                results.append(
                    EpisodeResult(
                        policy.name,
                        policy.backfill,
                        episode.number,
                        episode.seed,
                        episode.offset,
                        metrics,
                        policy.learned,
                        episode.jobs.cluster(units).tolist(),
                        window,
                        training_seed,
                    )
                )
    result = Result.of(scenario, results, protocol=protocol, repairs=repairs, limits=limits, seed=seed)
    return Comparison(result, runs)
