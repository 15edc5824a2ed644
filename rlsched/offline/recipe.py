"""Recipes of datasets: behavior policies, their shares, and the number of decisions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path

from pydantic import Field

from rlsched.errors import BadInputError
from rlsched.evaluate.policy_names import is_checkpoint, parse_spec
from rlsched.offline.behavior import Behavior
from rlsched.settings import Frozen
from rlsched.sim.heuristics import PLACEMENTS


class Recipe(Frozen):
    """Settings of a recording, without its scenario."""

    behaviors: tuple[Behavior, ...] = Field(min_length=1, description="behavior policies and their shares")
    steps: int = Field(
        1_000_000, ge=1, description="least number of decisions; episodes are recorded to their end"
    )
    seed: int = Field(0, ge=0, description="of episodes and noise")

    def rooted(self) -> Recipe:
        """Copy with absolute paths of trained policies, so that any working folder can resume it."""
        behaviors = [
            behavior.model_copy(update={"policy": str(Path(behavior.policy).resolve())})
            if is_checkpoint(behavior.policy)
            else behavior
            for behavior in self.behaviors
        ]
        return self.model_copy(update={"behaviors": tuple(behaviors)})


def parse_behaviors(option: str, texts: Iterable[str]) -> tuple[Behavior, ...]:
    """Behaviours from `NAME[:RULE][:SHARE]`, as on the command line.

    Raises:
        BadInputError: a share is no number above 0, nor a rule.
    """
    behaviors = []
    for text in texts:
        name, rule, share = parse_spec(option, text, shares=True)
        if rule is not None and rule not in PLACEMENTS:
            known = ", ".join(PLACEMENTS)
            problem = f"{text!r}: a recorded heuristic has no rule {rule!r}"
            remedy = f"remove it: decision.action_rule decides; with a horizon use one of {known}"
            raise BadInputError(option, problem, remedy)
        settings = {"policy": name, "rule": rule, "share": 1.0 if share is None else share}
        behaviors.append(Behavior.model_validate(settings))
    return tuple(behaviors)


def parse_share(option: str, text: str) -> tuple[str, float]:
    """The name of a dataset and its share from `NAME[:SHARE]`; 1 where there is none.

    Raises:
        BadInputError: the share is no number above 0.
    """
    name, colon, share = text.rpartition(":")
    if not colon:
        return text, 1.0
    try:
        number = float(share)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        problem = f"{text!r}: share {share!r} is no number above 0"
        raise BadInputError(option, problem, "write NAME[:SHARE], as in runs/a:0.5")
    return name, number


def turns(behaviors: Sequence[Behavior]) -> Iterator[int]:
    """The behavior policy of each episode, without end: indices in proportion to the shares.

    The next episode goes to the policy furthest below its share, so that shares hold at any length.
    """
    total = sum(behavior.share for behavior in behaviors)
    parts = [behavior.share / total for behavior in behaviors]
    played = [0] * len(behaviors)
    for number in count(1):
        # rounded: sums of shares like 0.1 must not decide between equals
        behind = [round(part * number - episodes, 9) for part, episodes in zip(parts, played, strict=True)]
        next_behavior = behind.index(max(behind))
        played[next_behavior] += 1
        yield next_behavior
