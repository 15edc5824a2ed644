"""Sessions of `simulate` and `evaluate`: the episodes and the cluster that policies run on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rlsched.errors import BadInputError
from rlsched.evaluate.compare import PROTOCOL_JOBS, PROTOCOL_OFFSETS, Comparison, compare
from rlsched.evaluate.policy import Policy
from rlsched.scenario import EpisodeSettings, ResolvedScenario, Scenario, SwfWorkload
from rlsched.scenario.bounds import MOST_EPISODE_JOBS, MOST_ROW
from rlsched.workloads.episodes import Episode
from rlsched.workloads.source import Source, TraceSource, open_source

DEFAULT_EPISODES = 20
"""Default number of episodes that are drawn."""

MOST_EPISODES = 1_000_000
"""They are drawn before they are played."""

PROTOCOL_SEED = 1


@dataclass(frozen=True)
class Choice:
    """Requested episodes; None: left to the scenario.

    Attributes:
        episodes: how many.
        jobs: in each.
        offsets: trace rows at which they start.
        seed: of all draws.
        protocol: run them as a published simulator did.
        whole: the whole trace is one episode, unless something above says otherwise.
        recent: the episodes are the last ones of the trace, one behind the other, also of rows that training
            saw; where the trace has fewer, all of them.
    """

    episodes: int | None = None
    jobs: int | None = None
    offsets: tuple[int, ...] = ()
    seed: int | None = None
    protocol: Literal["rlscheduler"] | None = None
    whole: bool = False
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
class Session:
    """Episodes, cluster and scenario that policies run on.

    Attributes:
        scenario: as it is run and can be run again: resolved, every job run to its end.
        episodes: the same for all policies.
        seed: of the episodes and of the bootstrap.
        repairs: what was dropped or mended while loading jobs.
        protocol: the published protocol that is followed, if any.
        trace_rows: usable jobs of the trace, None where jobs are drawn.
    """

    scenario: ResolvedScenario
    episodes: list[Episode]
    seed: int
    repairs: dict[str, int]
    protocol: Literal["rlscheduler"] | None
    trace_rows: int | None

    @property
    def units(self) -> list[int]:
        """(resource,) units of the cluster."""
        return self.scenario.cluster.units

    def run(self, policies: Sequence[Policy], progress: Callable[[int], None] = lambda _: None) -> Comparison:
        """Run every policy on every episode and compare."""
        return compare(
            self.scenario,
            self.episodes,
            policies,
            protocol=self.protocol,
            repairs=self.repairs,
            seed=self.seed,
            progress=progress,
        )


def open_session(scenario: Scenario, choice: Choice) -> Session:
    """Read the jobs and cut the episodes.

    Raises:
        BadInputError: the workload cannot be opened, or has no such episodes.
    """
    choice.check()
    scenario = _settled(scenario, choice)
    try:
        source = open_source(scenario.model_copy(update={"episode": _without_offsets(scenario.episode)}))
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
    elif choice.whole and choice.episodes is None and not choice.offsets:
        jobs, offsets = None, ()
    if choice.offsets and not isinstance(workload, SwfWorkload):
        raise BadInputError("--offsets", "are rows of a trace", "name a trace, or draw with --episodes")
    episode = EpisodeSettings(jobs=jobs, offsets=offsets, end=end, max_ticks=max_ticks)
    return scenario.model_copy(update={"episode": episode})


def _without_offsets(episode: EpisodeSettings) -> EpisodeSettings:
    """Settings to open the source with: offsets are checked here, where their option names are known."""
    return episode.model_copy(update={"offsets": ()})


def _episodes(source: Source, scenario: Scenario, choice: Choice, seed: int) -> list[Episode]:
    jobs, offsets = scenario.episode.jobs, scenario.episode.offsets
    if isinstance(source, TraceSource) and choice.recent:
        rows = source.windows.last(choice.episodes or DEFAULT_EPISODES)
        return _at_rows(source, rows, seed)
    if isinstance(source, TraceSource) and offsets:
        return _listed(source, scenario, choice, seed)
    whole = jobs is None and scenario.episode.max_ticks is None
    count = choice.episodes or (1 if whole else DEFAULT_EPISODES)
    if whole and count > 1:
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
    parts = [source.listed(offset, k, seed) for k, offset in enumerate(offsets)]
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
