"""Values of `rlsched train --limit`, and the limits that they give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from rlsched.errors import BadInputError

if TYPE_CHECKING:
    from rlsched.learn.config.training import TrainConfig
    from rlsched.learn.folder import RunFolder
    from rlsched.learn.run import Display
    from rlsched.scenario import Limit, Scenario

AUTO = "auto"


@dataclass(frozen=True)
class Share:
    """A limit as a share of what is paid where nobody keeps any."""

    of_unconstrained: float


def parse_limits(texts: Sequence[str], scenario: Scenario) -> dict[str, Limit | Share]:
    """Cost -> its limit.

    From `NAME=AMOUNT`, `NAME=TIMES:HEURISTIC`, `NAME=auto:SHARE` or, for all costs of a scenario,
    `auto:SHARE`.

    Raises:
        BadInputError: an unknown cost, or no amount.
    """
    from rlsched.evaluate.policy_names import check_name
    from rlsched.scenario import CostTerm

    limits: dict[str, Limit | Share] = {}
    costs = list(scenario.objective.costs)
    for text in sorted(texts, key=lambda text: "=" not in text):  # what names no cost is for all others
        name, equals, amount = text.partition("=")
        named = [name] if equals else [cost for cost in costs if cost not in limits]
        if equals:
            check_name("--limit", "cost", name, get_args(CostTerm))
        elif name in get_args(CostTerm):
            raise BadInputError(
                "--limit",
                f"{text!r} names no amount",
                f"write {text}=AMOUNT, {text}=1.6:sjf or {text}=auto:0.8",
            )
        elif not text.startswith(f"{AUTO}:") or not costs:
            raise BadInputError(
                "--limit",
                f"{text!r} names no cost" + ("" if costs else ", and the scenario has none"),
                "write NAME=AMOUNT or NAME=auto:SHARE, as in delayed_jobs=7000",
            )
        if not named or limits.keys() & set(named):
            raise BadInputError("--limit", f"{text!r} is for what has a limit already", "give each once")
        limits |= dict.fromkeys(named, _limit(text, amount if equals else text))
    return limits


def _limit(text: str, amount: str) -> Limit | Share:
    from rlsched.scenario.objective import read_limit
    from rlsched.settings import SettingError

    word, colon, share = amount.partition(":")
    if word == AUTO and share.endswith("%"):
        raise BadInputError("--limit", f"{text!r}: {share!r} is no share", "write it as in auto:0.8")
    refused = BadInputError(
        "--limit", f"{text!r}: {amount!r} is no amount", "give a number from 0 on, 1.6:sjf, or auto:SHARE"
    )
    try:
        limit = read_limit(share if word == AUTO and colon else amount)
    except SettingError:
        raise refused from None
    if word != AUTO:
        return limit
    if not isinstance(limit, float):
        raise refused
    return Share(limit)


def settle(
    scenario: Scenario,
    config: TrainConfig,
    limits: Mapping[str, Limit | Share],
    unconstrained: Path | None,
    folder: RunFolder,
    display: Display,
    address: str | None,
    say: Callable[[str], None],
) -> Scenario | None:
    """The scenario with limits in amounts; for shares, a policy without limits is trained if none is named.

    Faults of the run, and of a named policy, are found before that.

    Args:
        scenario: that is simulated.
        config: of the run that is to begin.
        limits: cost -> amount or share.
        unconstrained: folder of a policy without limits; None: it is trained.
        folder: of the run.
        display: shows the training.
        address: of a Ray cluster; None: this machine.
        say: prints a line after the next training has said what it trains.

    Returns:
        None where that training was interrupted.

    Raises:
        BadInputError: the settings, or a policy, cannot be used.
    """
    from rlsched.learn.folder import RunFolder
    from rlsched.learn.limits import UNCONSTRAINED, check_fits, costs_of, train_unconstrained, with_limits
    from rlsched.learn.plan import plan
    from rlsched.learn.policy import load_policy
    from rlsched.report.words import number

    if not config.algorithm.within_limits:
        raise BadInputError("--limit", f"is not kept by {config.algo}", "use --algo ppo, or remove it")
    amounts = {name: limit for name, limit in limits.items() if not isinstance(limit, Share)}
    shares = {name: limit.of_unconstrained for name, limit in limits.items() if isinstance(limit, Share)}
    scenario = with_limits(scenario, {**amounts, **dict.fromkeys(shares)})
    if unconstrained is not None and not shares:
        problem = "not supported without --limit auto"
        raise BadInputError("--unconstrained", problem, "add --limit NAME=auto:SHARE")
    if not shares:
        return scenario
    planned = plan(with_limits(scenario, dict.fromkeys(shares, 0.0)), config, folder, resume=False)
    reference = folder.path / UNCONSTRAINED if unconstrained is None else unconstrained
    if unconstrained is None:
        say(f"training a policy without limits first, in {reference}; then the one with limits")
        if not train_unconstrained(scenario, config, RunFolder(reference), display, address=address):
            return None
    policy = load_policy(reference)
    check_fits(planned, policy, str(reference))
    costs = costs_of(planned, policy, shares)
    settled = {name: share * costs[name] for name, share in shares.items()}
    for name, share in shares.items():
        part = f"{share:g} of the {number(costs[name])} that {reference} pays in validation"
        say(f"{name}: the limit is {number(settled[name])}, {part}")
    return with_limits(scenario, settled)
