"""Names of policies on the command line: `NAME[:RULE][:SHARE]`, where NAME is a priority rule or a folder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from math import inf
from pathlib import Path
from typing import NamedTuple

from rlsched.errors import BadInputError
from rlsched.scenario import Scenario
from rlsched.sim.backfill import BACKFILLS
from rlsched.sim.heuristics import PLACEMENTS
from rlsched.sim.priorities import PRIORITIES

COMMITTED = "rlscheduler"
"""The backfilling rule and the protocol of the RLScheduler simulator."""

BACKFILL_RULES = (*BACKFILLS, COMMITTED)


class PolicySpec(NamedTuple):
    """A policy as a command line names it."""

    name: str  # a priority rule, or the folder of a trained policy
    rule: str | None = None  # backfilling or placement rule; None: not set, or a folder
    share: float | None = None  # of the episodes (`rlsched collect`)


def backfill_rules(scenario: Scenario) -> tuple[str, ...]:
    """The backfilling or placement rules that priority rules can follow in a scenario."""
    return BACKFILL_RULES if not scenario.decision.tick_driven else tuple(PLACEMENTS)


def parse_spec(option: str, text: str, *, shares: bool = False) -> PolicySpec:
    """Read `NAME[:RULE][:SHARE]`.

    Args:
        option: the command-line option, for messages.
        text: its value. A folder keeps the part after a colon unless that is a rule or a number.
        shares: whether a share is allowed.

    Raises:
        BadInputError: the share is not a number above 0, or is not allowed here.
    """
    name, share, rule = text, None, None
    if "/" in text and Path(text).is_dir():
        return PolicySpec(text)
    rest, colon, last = name.rpartition(":")
    if colon and (share := _number(last)) is not None:
        name = rest
        if not shares:
            problem = f"{text!r} has a share, {last}, which is not supported here"
            raise BadInputError(option, problem, "write NAME[:RULE]; shares are for rlsched collect")
        if not 0 < share < inf:
            problem = f"{text!r}: share {last!r} is no number above 0"
            raise BadInputError(option, problem, "write NAME[:RULE][:SHARE], as in sjf:0.5")
    rest, colon, last = name.rpartition(":")
    if colon and (last in {*BACKFILL_RULES, *PLACEMENTS} or not is_checkpoint(name)):
        name, rule = rest, last
    return PolicySpec(name, rule, share)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def check_policies(option: str, policies: Iterable[str]) -> None:
    """Refuse names that are neither priority rules nor folders; their rules are not checked.

    Raises:
        BadInputError: an unknown name.
    """
    for text in policies:
        if not is_checkpoint(text):
            name = parse_spec(option, text).name
            check_name(option, "policy", name, PRIORITIES, "or the folder of a trained policy")


def policy_specs(
    option: str, policies: Iterable[str], backfills: Sequence[str], rules: Sequence[str] = BACKFILL_RULES
) -> list[PolicySpec]:
    """Every policy under every rule; `NAME:RULE` sets the rule of one, and folders have none.

    Args:
        option: the command-line option, for messages.
        policies: names, `NAME:RULE`, or folders of trained policies.
        backfills: rules for the priority rules given without one.
        rules: allowed in the scenario, see `backfill_rules`.

    Raises:
        BadInputError: an unknown name or rule.
    """
    policies = list(policies)
    check_policies(option, policies)
    specs: list[PolicySpec] = []
    for rule in backfills:
        _check_rule("--backfill", rule, rules)
    for text in policies:
        if is_checkpoint(text):
            specs.append(PolicySpec(text.rstrip("/") or text))
            continue
        name, given_rule, _ = parse_spec(option, text)
        if given_rule is not None:
            _check_rule(option, given_rule, rules)
        specs += [PolicySpec(name, rule) for rule in (backfills if given_rule is None else [given_rule])]
    return list(dict.fromkeys(specs))


def _check_rule(option: str, rule: str, rules: Sequence[str]) -> None:
    if rule in {*BACKFILL_RULES, *PLACEMENTS} and rule not in rules:
        side = "with" if rule in BACKFILL_RULES else "without"
        problem = f"value {rule!r} is not supported {side} a horizon"
        raise BadInputError(option, problem, f"use one of {', '.join(rules)}")
    check_name(option, "backfilling rule", rule, rules)


def is_checkpoint(text: str) -> bool:
    """Whether a name on the command line is a folder and not a priority rule."""
    return "/" in text or (text not in PRIORITIES and Path(text).is_dir())


def check_name(option: str, kind: str, name: str, known: Iterable[str], also: str = "") -> None:
    """Refuse an unknown name and suggest a similar one.

    Raises:
        BadInputError: the name is not a known one.
    """
    names = list(known)
    if name not in names:
        raise BadInputError(option, f"unknown {kind} {name!r}", f"{suggestion(name, names)} {also}")


def suggestion(name: str, known: Sequence[str]) -> str:
    """The known name that is most like a misspelt one, and all known names."""
    close = get_close_matches(name.lower(), known, n=1)
    meant = f"did you mean {close[0]!r}? " if close else ""
    return f"{meant}use one of {', '.join(known)}"
