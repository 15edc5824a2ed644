"""From names of policies to policies that run the episodes of a session, with all checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rlsched.errors import BadInputError
from rlsched.evaluate.policies import HeuristicPolicy, LearnedPolicies
from rlsched.evaluate.policy import LearnedPolicy, Policy
from rlsched.evaluate.policy_names import COMMITTED, PolicySpec
from rlsched.evaluate.seeds import seed_folder
from rlsched.evaluate.session import Session
from rlsched.scenario import Scenario, SwfWorkload
from rlsched.sim.layout import Layout
from rlsched.workloads.source import TRAINING_SHARE

BySeed = Mapping[int | None, LearnedPolicy]
"""Training seed -> policy, of policies that are compared as one; {None: policy} for a single one."""

Loader = Callable[[str], BySeed]
"""Loads the policies in a folder; an argument, because only the layers above know what a network is."""


def make_policies(
    option: str, specs: Sequence[PolicySpec], session: Session, load: Loader, *, window: int | None = None
) -> list[Policy]:
    """The policies that the specifications name, checked against a session.

    Args:
        option: the command-line option, for messages.
        specs: policies to run.
        session: episodes and cluster that they run on.
        load: loads learned policies.
        window: number of the oldest waiting jobs that heuristics consider; None: all.

    Raises:
        BadInputError: a rule that the session does not support, or a policy for another cluster.
    """
    return [
        heuristic_policy(option, spec.name, spec.rule, session, window)
        if spec.rule is not None
        else learned_policies(spec.name, load(spec.name), session)
        for spec in specs
    ]


def heuristic_policy(
    option: str, policy: str, backfill: str, session: Session, window: int | None
) -> HeuristicPolicy:
    """A priority rule; under the rlscheduler protocol `none` and `rlscheduler` commit to the head."""
    if backfill == COMMITTED and session.protocol != COMMITTED:
        raise BadInputError(
            "--backfill",
            f"{COMMITTED!r} is the rule of --protocol {COMMITTED}",
            f"add --protocol {COMMITTED}, or take easy",
        )
    committed = session.protocol == COMMITTED and backfill in {"none", COMMITTED}
    heuristic = HeuristicPolicy(
        policy, backfill, committed=committed, window=window, scenario=session.scenario
    )
    try:
        heuristic.check(session.units)
    except BadInputError as error:
        raise BadInputError(option, error.problem, error.remedy) from None
    return heuristic


def learned_policies(name: str, policies: BySeed, session: Session) -> LearnedPolicies:
    """Learned policies with the rules they were trained on, on the session's cluster, power and episodes.

    Args:
        name: of all seeds together.
        policies: by training seed.
        session: episodes and cluster that they run on.

    Raises:
        BadInputError: they do not fit the session, or were trained with different settings.
    """
    (first, policy), *further = policies.items()
    for seed, member in further:
        for part in ("decision", "observation", "objective"):
            if getattr(member.scenario, part) != getattr(policy.scenario, part):
                raise BadInputError(
                    name,
                    f"seed {seed} was trained with another {part} than seed {first}",
                    f"name their folders one by one, as in {seed_folder(Path(name), first or 0)}",
                )
    _check_fits(name, policy, session)
    site = session.scenario
    settings = policy.scenario.model_copy(
        update={"cluster": site.cluster, "episode": site.episode, "power": site.power}
    )
    seeds = {seed: member for seed, member in policies.items() if seed is not None}
    return LearnedPolicies(name, policy, settings, seeds=seeds)


def _check_fits(name: str, policy: LearnedPolicy, session: Session) -> None:
    """Refuse a learned policy that cannot run the episodes of a session.

    Raises:
        BadInputError: it has another number of resources, or lacks or needs a horizon.
    """
    if policy.num_resources != len(session.units):
        raise BadInputError(
            name,
            f"was trained on {policy.num_resources} resource types, scenario "
            f"{session.scenario.name!r} has {len(session.units)} (cluster.resources), where it would see "
            f"{_block_differences(policy, len(session.units))}",
            "evaluate it on a cluster with as many",
        )
    site = session.scenario
    if site.power is not None and not policy.scenario.decision.tick_driven:
        raise BadInputError(
            name,
            f"was trained without a horizon, scenario {site.name!r} has power, which needs one",
            "evaluate it where power is always there (power=null), or train one with decision.horizon=N",
        )
    if policy.scenario.decision.tick_driven and any(
        episode.jobs.units is not None for episode in session.episodes
    ):
        raise BadInputError(
            name,
            f"plans ahead (decision.horizon), and clusters of scenario {site.name!r} differ in size "
            "(workload.parts.N.units)",
            "evaluate it on clusters of one size",
        )


def _block_differences(policy: LearnedPolicy, num_resources: int) -> str:
    """Observation blocks that differ with `num_resources` types, as in `jobs 128 x 16, not 128 x 14`."""
    observation, decision = policy.scenario.observation, policy.scenario.decision
    trained, present = (Layout.of(observation, decision, n) for n in (policy.num_resources, num_resources))
    shapes = [
        (before.name, *(" x ".join(map(str, block.shape)) for block in (before, after)))
        for before, after in zip(trained.blocks, present.blocks, strict=True)
    ]
    return ", ".join(f"{name} {after}, not {before}" for name, before, after in shapes if before != after)


def shared_scenario(policies: Sequence[tuple[str, LearnedPolicy]]) -> Scenario:
    """The scenario that all policies were trained for.

    Raises:
        BadInputError: they differ in workload, cluster or episodes.
    """
    first_name, first = policies[0]
    for name, policy in policies[1:]:
        for part in ("workload", "cluster", "episode"):
            if getattr(policy.scenario, part) != getattr(first.scenario, part):
                raise BadInputError(
                    name,
                    f"was trained with another {part} than {first_name}",
                    "say with --scenario or --trace on what to compare them",
                )
    return first.scenario


def training_overlap(policy: LearnedPolicies, session: Session) -> int:
    """Episodes with trace rows on which a policy may have been trained.

    Rows are those of the trace as loaded. Other loading rules shift them by the few jobs that they repair.
    """
    trained, present = policy.scenario.workload, session.scenario.workload
    if not (isinstance(trained, SwfWorkload) and isinstance(present, SwfWorkload)):
        return 0
    if trained.file.resolve() != present.file.resolve() or session.trace_rows is None:
        return 0
    first, end = trained.training_jobs or (0, int(session.trace_rows * TRAINING_SHARE))
    end = session.trace_rows if end is None else end
    resampled = present.resample == "always"  # of days outside the training rows, if both have the same
    if resampled and (trained.training_jobs, trained.load) == (present.training_jobs, present.load):
        return 0
    spans = [(episode.offset or 0, len(episode.jobs)) for episode in session.episodes]
    return sum(offset < end and offset + jobs > first for offset, jobs in spans)
