"""From names on the command line to contestants: queue orders, backfilling rules and checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from math import inf
from pathlib import Path
from typing import NamedTuple, Protocol

from rlsched.errors import BadInputError
from rlsched.evaluate.compare import BACKFILL_RULES, COMMITTED, Contestant, Heuristic, Learned
from rlsched.evaluate.play import Policy
from rlsched.evaluate.seeds import seed_folder
from rlsched.evaluate.session import Session
from rlsched.scenario import Scenario, SwfWorkload
from rlsched.sim.layout import Layout
from rlsched.sim.orders import PLACEMENTS
from rlsched.sim.priorities import PRIORITIES
from rlsched.workloads.source import TRAINING_SHARE


class Trained(Policy, Protocol):
    """A policy that knows what it was trained for."""

    @property
    def scenario(self) -> Scenario:
        """Its decision rules and observations."""

    @property
    def num_resources(self) -> int:
        """Resource types of the cluster it was trained on."""


BySeed = Mapping[int | None, Trained]
"""Seed of the training -> its policy, for policies that are compared as one; {None: policy}: one alone."""

Loader = Callable[[str], BySeed]
"""Loads what is at a path; handed in, because only the layers above know what a network is."""


class Entry(NamedTuple):
    """One thing to run: an order of the queue under a backfilling rule, or a checkpoint (no rule)."""

    policy: str
    backfill: str | None


def rules_of(scenario: Scenario) -> tuple[str, ...]:
    """The rules that orders of the queue can follow in a scenario."""
    return BACKFILL_RULES if scenario.decision.horizon is None else tuple(PLACEMENTS)


class Named(NamedTuple):
    """A policy as it is named on every command line: `NAME[:RULE][:SHARE]`."""

    name: str
    rule: str | None = None
    share: float | None = None


def parse_named(option: str, text: str, *, shares: bool = False) -> Named:
    """A policy, the rule of its queue order and its share of the episodes; None where it says neither.

    Args:
        option: where it was given, for messages.
        text: what was given. A folder keeps what follows a colon, where that is no rule and no number.
        shares: a share means something there.

    Raises:
        BadInputError: a share is no number above 0, or means nothing.
    """
    name, share, rule = text, None, None
    if "/" in text and Path(text).is_dir():
        return Named(text)
    rest, colon, last = name.rpartition(":")
    if colon and (share := _number(last)) is not None:
        name = rest
        if not shares:
            problem = f"{text!r} has a share, {last}, which means nothing here"
            raise BadInputError(option, problem, "write NAME[:RULE]; shares are for rlsched collect")
        if not 0 < share < inf:
            problem = f"{text!r}: share {last!r} is no number above 0"
            raise BadInputError(option, problem, "write NAME[:RULE][:SHARE], as in sjf:0.5")
    rest, colon, last = name.rpartition(":")
    if colon and (last in {*BACKFILL_RULES, *PLACEMENTS} or not is_checkpoint(name)):
        name, rule = rest, last
    return Named(name, rule, share)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def check_policies(option: str, policies: Iterable[str]) -> None:
    """Refuse policies that are neither orders of the queue nor folders, whatever rule they name.

    Raises:
        BadInputError: a name that is not known.
    """
    for text in policies:
        if not is_checkpoint(text):
            name = parse_named(option, text).name
            check_name(option, "policy", name, PRIORITIES, "or the folder of a trained policy")


def entries(
    option: str, policies: Iterable[str], backfills: Sequence[str], rules: Sequence[str] = BACKFILL_RULES
) -> list[Entry]:
    """Every policy under every rule; `policy:rule` says its own, and checkpoints need none.

    Args:
        option: where the policies were named, for messages.
        policies: names, `name:rule`, or paths of checkpoints.
        backfills: rules for the policies that do not say their own.
        rules: that the scenario knows, see `rules_of`.

    Raises:
        BadInputError: a name that is not known.
    """
    policies = list(policies)
    check_policies(option, policies)
    found: list[Entry] = []
    for rule in backfills:
        _check_rule("--backfill", rule, rules)
    for text in policies:
        if is_checkpoint(text):
            found.append(Entry(text.rstrip("/") or text, None))
            continue
        name, own, _ = parse_named(option, text)
        if own is not None:
            _check_rule(option, own, rules)
        found += [Entry(name, rule) for rule in (backfills if own is None else [own])]
    return list(dict.fromkeys(found))


def _check_rule(option: str, rule: str, rules: Sequence[str]) -> None:
    if rule in {*BACKFILL_RULES, *PLACEMENTS} and rule not in rules:
        side = "with" if rule in BACKFILL_RULES else "without"
        raise BadInputError(
            option, f"value {rule!r} means nothing {side} a horizon", f"use one of {', '.join(rules)}"
        )
    check_name(option, "backfilling rule", rule, rules)


def is_checkpoint(text: str) -> bool:
    """Whether a name on the command line means a folder and not an order of the queue."""
    return "/" in text or (text not in PRIORITIES and Path(text).is_dir())


def check_name(option: str, kind: str, name: str, known: Iterable[str], also: str = "") -> None:
    """Refuse an unknown name, and say what it may have been meant to be.

    Raises:
        BadInputError: it is not among the known ones.
    """
    names = list(known)
    if name not in names:
        raise BadInputError(option, f"unknown {kind} {name!r}", f"{suggestion(name, names)} {also}")


def suggestion(name: str, known: Sequence[str]) -> str:
    """What a misspelt name may have been meant to be, and all that are allowed."""
    close = get_close_matches(name.lower(), known, n=1)
    meant = f"did you mean {close[0]!r}? " if close else ""
    return f"{meant}use one of {', '.join(known)}"


def contestants(
    option: str, chosen: Sequence[Entry], session: Session, load: Loader, *, window: int | None = None
) -> list[Contestant]:
    """What the entries mean in a session; everything that can be wrong with them is found here.

    Args:
        option: where they were named, for messages.
        chosen: what to run.
        session: where it is run.
        load: for checkpoints.
        window: heuristics look at so many of the oldest waiting jobs; None: all.

    Raises:
        BadInputError: a rule or order that the session has no use for, or a policy for another cluster.
    """
    return [
        heuristic(option, entry.policy, entry.backfill, session, window)
        if entry.backfill is not None
        else learned(entry.policy, load(entry.policy), session)
        for entry in chosen
    ]


def heuristic(option: str, policy: str, backfill: str, session: Session, window: int | None) -> Heuristic:
    """An order of the queue; under the rlscheduler protocol `none` and `rlscheduler` commit to the head."""
    if backfill == COMMITTED and session.protocol != COMMITTED:
        raise BadInputError(
            "--backfill",
            f"{COMMITTED!r} is the rule of --protocol {COMMITTED}",
            f"add --protocol {COMMITTED}, or take easy",
        )
    committed = session.protocol == COMMITTED and backfill in {"none", COMMITTED}
    found = Heuristic(policy, backfill, committed=committed, window=window, scenario=session.scenario)
    try:
        found.check(session.units)
    except BadInputError as error:
        raise BadInputError(option, error.problem, error.remedy) from None
    return found


def learned(name: str, policies: BySeed, session: Session) -> Learned:
    """Trained policies under their own rules and observations, on cluster, power and episodes of the session.

    Args:
        name: what they are called, as one.
        policies: by the seed of their training.
        session: where they play.

    Raises:
        BadInputError: they cannot play there, or are no seeds of the same settings.
    """
    (first, policy), *others = policies.items()
    for seed, other in others:
        for part in ("decision", "observation", "objective"):
            if getattr(other.scenario, part) != getattr(policy.scenario, part):
                raise BadInputError(
                    name,
                    f"seed {seed} was trained with another {part} than seed {first}",
                    f"name their folders one by one, as in {seed_folder(Path(name), first or 0)}",
                )
    _check_fits(name, policy, session)
    here = session.scenario
    settings = policy.scenario.model_copy(
        update={"cluster": here.cluster, "episode": here.episode, "power": here.power}
    )
    seeds = {seed: each for seed, each in policies.items() if seed is not None}
    return Learned(name, policy, settings, seeds=seeds)


def _check_fits(name: str, policy: Trained, session: Session) -> None:
    """See whether a trained policy can play in a session.

    Raises:
        BadInputError: it cannot.
    """
    if policy.num_resources != len(session.units):
        raise BadInputError(
            name,
            f"was trained on {policy.num_resources} resource types, scenario "
            f"{session.scenario.name!r} has {len(session.units)} (cluster.resources), where it would see "
            f"{_other_blocks(policy, len(session.units))}",
            "evaluate it on a cluster with as many",
        )
    here = session.scenario
    if here.power is not None and policy.scenario.decision.horizon is None:
        raise BadInputError(
            name,
            f"was trained without a horizon, scenario {here.name!r} has power, which needs one",
            "evaluate it where power is always there (power=null), or train one with decision.horizon=N",
        )
    if policy.scenario.decision.horizon is not None and any(
        episode.jobs.units is not None for episode in session.episodes
    ):
        raise BadInputError(
            name,
            f"plans ahead (decision.horizon), and clusters of scenario {here.name!r} differ in size "
            "(workload.parts.N.units)",
            "evaluate it on clusters of one size",
        )


def _other_blocks(policy: Trained, num_resources: int) -> str:
    """Blocks of a policy of another shape with so many resource types, as jobs 128 x 16, not 128 x 14."""
    observation, decision = policy.scenario.observation, policy.scenario.decision
    trained, here = (Layout.of(observation, decision, n) for n in (policy.num_resources, num_resources))
    shapes = [
        (own.name, *(" x ".join(map(str, block.shape)) for block in (own, other)))
        for own, other in zip(trained.blocks, here.blocks, strict=True)
    ]
    return ", ".join(f"{name} {other}, not {own}" for name, own, other in shapes if own != other)


def with_reference(chosen: Sequence[Entry], reference: Entry) -> list[Entry]:
    """The entries and, at the end, the reference if nobody named it."""
    return [*chosen, *([] if reference in chosen else [reference])]


def shared_scenario(policies: Sequence[tuple[str, Trained]]) -> Scenario:
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


def seen_in_training(contestant: Learned, session: Session) -> int:
    """Episodes with rows that a policy may have been trained on.

    Rows are those of the trace as loaded; under other loading rules they are shifted by the few jobs that
    these treat differently.
    """
    own, here = contestant.scenario.workload, session.scenario.workload
    if not (isinstance(own, SwfWorkload) and isinstance(here, SwfWorkload)):
        return 0
    if own.file.resolve() != here.file.resolve() or session.trace_rows is None:
        return 0
    first, end = own.training_jobs or (0, int(session.trace_rows * TRAINING_SHARE))
    end = session.trace_rows if end is None else end
    resampled = here.resample == "always"  # of days outside the training rows, if both have the same
    if resampled and (own.training_jobs, own.load) == (here.training_jobs, here.load):
        return 0
    spans = [(episode.offset or 0, len(episode.jobs)) for episode in session.episodes]
    return sum(offset < end and offset + jobs > first for offset, jobs in spans)
