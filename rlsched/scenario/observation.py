"""Observations of a scenario: their blocks and scales."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from rlsched.scenario.bounds import MOST_SECONDS, MOST_SLOTS
from rlsched.settings import Frozen, SettingError

ObservationBlock = Literal[
    "jobs", "event_horizon", "queue", "history", "outlook", "coming", "image", "profile", "supply"
]

PRIVILEGED: frozenset[ObservationBlock] = frozenset({"outlook", "coming"})
"""Blocks with future information: true runtimes and future jobs. Only critics use them, in training."""


class Observation(Frozen):
    """The observation of the agent."""

    blocks: tuple[ObservationBlock, ...] = Field(
        ("jobs", "event_horizon", "queue"), min_length=1, description="parts of an observation, in order"
    )
    classic: bool = Field(False, description="image: ready jobs and backlog are drawn, too [Mao et al. 2016]")
    event_horizon: int = Field(60, ge=1, le=MOST_SLOTS, description="expected releases that are shown")
    time_scale_s: int = Field(
        5_000_000, ge=2, le=MOST_SECONDS, description="times are log-scaled against this and clipped"
    )

    @field_validator("blocks")
    @classmethod
    def _no_repeats(cls, blocks: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(blocks)) != len(blocks):
            raise SettingError("", f"value {list(blocks)} names a block twice", "name every block once")
        if PRIVILEGED.issuperset(blocks):
            raise SettingError("", f"value {list(blocks)} has no block for a policy", "add 'jobs' or 'queue'")
        return blocks

    @property
    def public(self) -> Observation:
        """The observation of a policy: without the privileged blocks."""
        blocks = tuple(block for block in self.blocks if block not in PRIVILEGED)
        return self if blocks == self.blocks else self.model_copy(update={"blocks": blocks})
