"""Episodes of a scenario: their length and their offsets in a trace."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from rlsched.scenario.bounds import MOST_EPISODE_JOBS, MOST_EPISODE_TICKS, MOST_ROW
from rlsched.settings import Frozen, SettingError


class EpisodeSettings(Frozen):
    """The length of an episode, and where it starts in a trace."""

    jobs: int | None = Field(
        1024,
        ge=1,
        le=MOST_EPISODE_JOBS,
        description="jobs in an episode; null: the whole trace, or a model's max_ticks",
    )
    end: Literal["all_finished", "no_new_job", "max_ticks"] = Field(
        "all_finished",
        description="all_finished: when no job is left; no_new_job: when the last job has arrived; "
        "max_ticks: by the clock",
    )
    max_ticks: int | None = Field(
        None, ge=1, le=MOST_EPISODE_TICKS, description="length of an episode (end: max_ticks)"
    )
    offsets: tuple[Annotated[int, Field(le=MOST_ROW)], ...] = Field(
        (), description="trace rows at which evaluation episodes start"
    )

    @model_validator(mode="after")
    def _ends(self) -> EpisodeSettings:
        if self.end == "max_ticks" and self.max_ticks is None:
            raise SettingError("max_ticks", "is missing where end is max_ticks", "set episode.max_ticks=N")
        if self.end != "max_ticks" and self.max_ticks is not None:
            raise SettingError(
                "max_ticks",
                f"value {self.max_ticks} has no effect where end is {self.end}",
                "set episode.end=max_ticks, or episode.max_ticks=null",
            )
        return self
