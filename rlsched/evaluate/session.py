"""Sessions of `simulate` and `evaluate`: paired comparison of policies on the same episodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rlsched.errors import BadInputError
from rlsched.evaluate.costs import episode_cost
from rlsched.evaluate.limits import LimitCheck, check_limits
from rlsched.evaluate.policies import LearnedPolicies
from rlsched.evaluate.policy import Policy
from rlsched.evaluate.policy_names import COMMITTED
from rlsched.evaluate.results import Result
from rlsched.evaluate.statistics import EpisodeResult
from rlsched.scenario import EpisodeSettings, ResolvedScenario, Scenario, SwfWorkload
from rlsched.scenario.bounds import MOST_EPISODE_JOBS, MOST_ROW
from rlsched.sim.metrics import Played, job_metrics, rlscheduler_metrics
from rlsched.sim.simulator import effective_prices
from rlsched.workloads.episodes import Episode, evaluation_power_rng
from rlsched.workloads.source import Source, TraceSource, open_source

DEFAULT_EPISODES = 20
"""Default number of episodes that are drawn."""

MOST_EPISODES = 1_000_000
"""They are drawn before they are played."""

# Ten sequences of 1,024 jobs with which published figures were made [Zhang et al. 2020].
PROTOCOL_OFFSETS = (1981, 2756, 4299, 8850, 3316, 2714, 5228, 7762, 4022, 7085)
PROTOCOL_JOBS = 1024
PROTOCOL_SEED = 1


@dataclass(frozen=True)
class Choice:
    """Requested episodes; None: left to the scenario.

    Recent episodes are the last ones of the trace, one behind the other, also of rows that training saw;
    where the trace has fewer, all of them.
    """

    episodes: int | None = None  # number
    jobs: int | None = None  # in each
    offsets: tuple[int, ...] = ()  # trace rows at which they start
    seed: int | None = None  # of all draws
    protocol: Literal["rlscheduler"] | None = None  # run them as a published simulator did
    whole_trace: bool = False  # it is one episode, unless something above says otherwise
    recent: bool = False

    def check(self) -> None:
        """Refuse what does not go together, in the names of the command line.

        Raises:
            BadInputError: two options contradict each other, or one has too large a number.
        """
        for option, value, most in (
            ("--episodes", self.episodes or 0, MOST_EPISODES),
            ("--jobs", self.jobs or 0, MOST_EPISODE_JOBS),
            ("--offsets", max(self.offsets, default=0), MOST_ROW),
        ):
            if value > most:
                raise BadInputError(option, f"value {value}", f"use at most {most}")
        if self.offsets and self.episodes is not None:
            raise BadInputError("--episodes", "given together with --offsets", "one offset is one episode")
        if self.protocol is None:
            return
        fixed = f"goes with --protocol {self.protocol} only as"
        if self.jobs not in {None, PROTOCOL_JOBS}:
            raise BadInputError("--jobs", f"value {self.jobs} {fixed} {PROTOCOL_JOBS}", "leave it out")
        if self.seed not in {None, PROTOCOL_SEED}:
            raise BadInputError("--seed", f"value {self.seed} {fixed} {PROTOCOL_SEED}", "leave it out")
        if self.episodes is not None:
            raise BadInputError(
                "--episodes",
                f"given together with --protocol {self.protocol}",
                "name the sequences with --offsets, or leave it out for the published ten",
            )


@dataclass(frozen=True, eq=False)
class Comparison:
    """The result, and the outcome of each episode for pictures."""

    result: Result
    runs: dict[tuple[str, str], list[Played]]  # (policy, backfill) -> of several seeds, that of the first


@dataclass(frozen=True, eq=False)
class Session:
    """Episodes, cluster and scenario that policies run on."""

    scenario: ResolvedScenario  # as it can be run again: every job runs to its end
    episodes: list[Episode]  # the same for all policies
    seed: int  # of the episodes and of the bootstrap
    repairs: dict[str, int]  # what was dropped or mended while loading jobs
    protocol: Literal["rlscheduler"] | None  # published protocol that is followed
    trace_rows: int | None  # usable jobs of the trace; None: jobs are drawn

    @property
    def units(self) -> list[int]:
        """(resource,) units of the cluster."""
        return self.scenario.cluster.units

    def run(self, policies: Sequence[Policy], progress: Callable[[int], None] = lambda _: None) -> Comparison:
        """Run every policy on every episode and compare; progress is 1 per episode, policy and seed."""
        scenario, episodes, units = self.scenario, self.episodes, self.units
        prices = effective_prices(scenario)
        results: list[EpisodeResult] = []
        runs: dict[tuple[str, str], list[Played]] = {}
        limits: list[LimitCheck] = []
        for policy in policies:
            played = {seed: member.run(episodes, units, progress) for seed, member in policy.members.items()}
            runs[policy.name, policy.backfill] = next(iter(played.values()))
            window = None
            if isinstance(policy, LearnedPolicies):
                limits += check_limits(policy.name, policy.scenario, units, episodes, played, self.seed)
                window = policy.scenario.decision.window
            for training_seed, run in played.items():
                for episode, outcome in zip(episodes, run, strict=True):
                    metrics = job_metrics(outcome, units, scenario.cluster.tick_s, prices)
                    metrics |= {
                        f"cost.{name}": episode_cost(scenario, units, name, outcome)
                        for name in scenario.objective.costs
                    }
                    if self.protocol == COMMITTED:
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
        result = Result.of(
            scenario, results, protocol=self.protocol, repairs=self.repairs, limits=limits, seed=self.seed
        )
        return Comparison(result, runs)


def open_session(scenario: Scenario, choice: Choice) -> Session:
    """Read the jobs and cut the episodes.

    Raises:
        BadInputError: the workload cannot be opened, or has no such episodes.
    """
    choice.check()
    scenario = _settled(scenario, choice)
    try:
        # Offsets are checked here, where their option names are known.
        anywhere = scenario.episode.model_copy(update={"offsets": ()})
        source = open_source(scenario.model_copy(update={"episode": anywhere}))
        seed = PROTOCOL_SEED if choice.protocol else choice.seed or 0
        episodes = _episodes(source, scenario, choice, seed)
    except BadInputError as error:
        raise _as_typed(error, choice) from None
    return Session(
        scenario=scenario.resolve(source.cluster),
        episodes=episodes,
        seed=seed,
        repairs=source.repairs,
        protocol=choice.protocol,
        trace_rows=len(source.trace.jobs) if isinstance(source, TraceSource) else None,
    )


def _settled(scenario: Scenario, choice: Choice) -> Scenario:
    """The scenario with the episodes that were chosen; without a horizon every job is run to its end."""
    jobs, offsets = scenario.episode.jobs, choice.offsets or scenario.episode.offsets
    workload = scenario.workload
    end, max_ticks = "all_finished", None
    if scenario.decision.tick_driven:
        end, max_ticks = scenario.episode.end, scenario.episode.max_ticks
    if choice.protocol:
        if not isinstance(workload, SwfWorkload):
            raise BadInputError(
                "--protocol",
                f"{choice.protocol} replays rows of a trace, but scenario {scenario.name!r} draws its jobs",
                "name a trace with --trace",
            )
        jobs, offsets = PROTOCOL_JOBS, choice.offsets or PROTOCOL_OFFSETS
        scenario = scenario.model_copy(
            update={
                "workload": workload.model_copy(update={"rules": choice.protocol}),
                "cluster": scenario.cluster.model_copy(update={"tick_s": 1}),
            }
        )
    elif choice.jobs is not None:
        jobs = choice.jobs
    elif choice.whole_trace and choice.episodes is None and not choice.offsets:
        jobs, offsets = None, ()
    if choice.offsets and not isinstance(workload, SwfWorkload):
        raise BadInputError("--offsets", "are rows of a trace", "name a trace, or draw with --episodes")
    episode = EpisodeSettings(jobs=jobs, offsets=offsets, end=end, max_ticks=max_ticks)
    return scenario.model_copy(update={"episode": episode})


def _episodes(source: Source, scenario: Scenario, choice: Choice, seed: int) -> list[Episode]:
    jobs, offsets = scenario.episode.jobs, scenario.episode.offsets
    if isinstance(source, TraceSource) and choice.recent:
        rows = source.windows.last(choice.episodes or DEFAULT_EPISODES)
        return _at_rows(source, rows, seed)
    if isinstance(source, TraceSource) and offsets:
        return _listed(source, scenario, choice, seed)
    whole_trace = jobs is None and scenario.episode.max_ticks is None
    count = choice.episodes or (1 if whole_trace else DEFAULT_EPISODES)
    if whole_trace and count > 1:
        raise BadInputError(
            "--episodes", f"{count} times the same whole trace", "set their length with --jobs"
        )
    return [replace(source.evaluation(k, seed), number=k, seed=seed) for k in range(count)]


def _listed(source: TraceSource, scenario: Scenario, choice: Choice, seed: int) -> list[Episode]:
    """Episodes from the rows that were named, kept in trace order beside."""
    windows = source.windows
    offsets = scenario.episode.offsets[: choice.episodes]
    where = "--offsets" if choice.offsets else "--protocol" if choice.protocol else "episode.offsets"
    if len(set(offsets)) < len(offsets):
        raise BadInputError(where, f"names a row twice in {_joined(offsets)}", "name each once")
    if choice.episodes is not None and choice.episodes > len(offsets):
        raise BadInputError(
            "--episodes", f"value {choice.episodes}: the scenario lists {len(offsets)} offsets", "list more"
        )
    for offset in offsets:
        total = len(source.trace.jobs)
        if not 0 <= offset < windows.starts(total):
            raise BadInputError(
                where,
                f"no {windows.measure} from row {offset} on: {source.name} has {total} usable jobs",
                f"use {'--offsets' if choice.protocol else 'rows'} 0 to {windows.starts(total) - 1}",
            )
    return _at_rows(source, offsets, seed)


def _at_rows(source: TraceSource, offsets: Sequence[int], seed: int) -> list[Episode]:
    """The episodes that start at these rows."""
    parts = [source.starting_at(offset, evaluation_power_rng(k, seed)) for k, offset in enumerate(offsets)]
    return [
        replace(part, number=k, seed=seed, rows=source.rows(offset, len(part.jobs)))
        for k, (offset, part) in enumerate(zip(offsets, parts, strict=True))
    ]


def _joined(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def _as_typed(error: BadInputError, choice: Choice) -> BadInputError:
    """The error with the option that was typed in place of the scenario key that it sets."""
    if "episode.jobs" not in str(error):
        return error
    if choice.protocol:
        problem = f"its sequences are of {PROTOCOL_JOBS} jobs: {error.where}: {error.problem}"
        return BadInputError("--protocol", problem, "give a longer trace")
    if choice.jobs is None:
        return BadInputError(error.where, error.problem, error.remedy.replace("episode.jobs", "--jobs"))
    remedy = "use fewer, or choose rows with --offsets"
    return BadInputError("--jobs", f"value {choice.jobs}: {error.where}: {error.problem}", remedy)
