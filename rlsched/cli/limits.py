"""What `rlsched train --limit` may say, and what it comes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from rlsched.errors import BadInputError

if TYPE_CHECKING:
    from rlsched.learn.config import TrainConfig
    from rlsched.learn.run import Display
    from rlsched.scenario import Scenario

AUTO = "auto"


@dataclass(frozen=True)
class Share:
    """A limit as a share of what is paid where nobody keeps any."""

    of_unconstrained: float


Limit = float | Share


def parse_limits(texts: Sequence[str], scenario: Scenario) -> dict[str, Limit]:
    """Cost -> its limit, from `NAME=AMOUNT`, `NAME=auto:SHARE` or, for all costs of a scenario, `auto:SHARE`.

    Raises:
        BadInputError: an unknown cost, or no amount.
    """
    from rlsched.evaluate.contestants import check_name
    from rlsched.scenario import CostTerm

    found: dict[str, Limit] = {}
    for text in texts:
        name, equals, amount = text.partition("=")
        if not equals:
            costs = list(scenario.objective.costs)
            if not text.startswith(f"{AUTO}:") or not costs:
                raise BadInputError(
                    "--limit",
                    f"{text!r} names no cost" + ("" if costs else ", and the scenario has none"),
                    "write NAME=AMOUNT or NAME=auto:SHARE, as in delayed_jobs=7000",
                )
            found |= dict.fromkeys(costs, _limit(text, text))
            continue
        check_name("--limit", "cost", name, get_args(CostTerm))
        if name in found:
            raise BadInputError("--limit", f"{name!r} is given twice", "give each once")
        found[name] = _limit(text, amount)
    return found


def _limit(text: str, amount: str) -> Limit:
    word, colon, share = amount.partition(":")
    try:
        number = float(share if word == AUTO and colon else amount)
    except ValueError:
        number = -1.0
    if not 0 <= number < inf:
        raise BadInputError(
            "--limit", f"{text!r}: {amount!r} is no amount", "give a number from 0 on, or auto:SHARE"
        )
    return Share(number) if word == AUTO else number


def settle(
    scenario: Scenario,
    config: TrainConfig,
    limits: dict[str, Limit],
    *,
    unconstrained: Path | None,
    beside: Path,
    display: Display,
    address: str | None,
) -> Scenario | None:
    """The scenario with limits in amounts; what is paid without any is trained for where nobody names it.

    Args:
        scenario: that is simulated.
        config: of the run that is to begin.
        limits: as they were asked for.
        unconstrained: folder of a policy that keeps none; None: it is trained.
        beside: folder of the run that is to begin.
        display: shows the training.
        address: of a Ray cluster; None: this machine.

    Returns:
        None where that training was interrupted.

    Raises:
        BadInputError: the settings, or a policy, cannot be used.
    """
    from rlsched.learn.folder import RunFolder
    from rlsched.learn.limits import UNCONSTRAINED, costs_of, train_unconstrained, with_limits
    from rlsched.learn.plan import plan

    amounts = {name: limit for name, limit in limits.items() if not isinstance(limit, Share)}
    shares = {name: limit for name, limit in limits.items() if isinstance(limit, Share)}
    scenario = with_limits(scenario, {**amounts, **dict.fromkeys(shares)})
    if not shares:
        return scenario
    # What is wrong with the run itself is found before anything is trained for it.
    plan(with_limits(scenario, dict.fromkeys(shares, 0.0)), config, RunFolder(beside), resume=False)
    if unconstrained is None:
        folder = RunFolder(beside / UNCONSTRAINED)
        if not train_unconstrained(scenario, config, folder, display, address=address):
            return None
        unconstrained = folder.path
    paid = costs_of(scenario, config, unconstrained, shares)
    return with_limits(
        scenario, {name: share.of_unconstrained * paid[name] for name, share in shares.items()}
    )
