"""Decisions of a scenario: action rule, time rule, planning horizon and pools."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from rlsched.scenario.bounds import MOST_EPISODE_JOBS, MOST_SLOTS, MOST_TICKS
from rlsched.settings import Frozen, SettingError, as_written

Admission = Literal["fcfs", "sjf", "qos", "hvf"]


class Decision(Frozen):
    """Actions of the agent, and the times of its decisions."""

    action_rule: Literal["commit", "fit", "hold"] = Field(
        "commit",
        description="commit: a job that does not fit gets a reservation, and waiting is legal only "
        "behind one; hold: the same, and waiting is always legal; fit: only jobs that fit, or waiting",
    )
    time_rule: Literal["smdp", "sparse", "tick"] = Field(
        "smdp",
        description="time that the no-op passes, and its reward; tick: one tick; sparse: up to the next "
        "choice, reward of its first tick; smdp: up to the next choice, reward of all of it",
    )
    placement: Literal["now", "horizon"] = Field(
        "now",
        description="now: a job starts at this tick, if it fits until its expected end; horizon: it is "
        "planned at the first tick of the horizon from which it does",
    )
    horizon: int | None = Field(
        None,
        ge=1,
        le=MOST_SLOTS,
        description="ticks that are planned and forecast; null: events only, power always there",
    )
    window: int = Field(
        128, ge=1, le=MOST_SLOTS, description="slots of the ready pool: waiting jobs that the agent sees"
    )
    wait_pool: int | None = Field(
        None, ge=0, le=MOST_EPISODE_JOBS, description="jobs behind the ready pool; null: any number"
    )
    admission: Admission = Field("fcfs", description="order in which jobs enter the ready pool")
    suspend: bool = Field(False, description="whether the agent may suspend running jobs")
    suspend_pool: int = Field(
        48, ge=1, le=MOST_SLOTS, description="most jobs that the agent may suspend at a time"
    )
    expiry: int | None = Field(
        None,
        ge=0,
        le=MOST_TICKS,
        description="ticks after its qos violation time at which a waiting job expires",
    )
    expiry_rule: Literal["violation", "latest_start"] = Field(
        "violation",
        description="when a waiting job expires; violation: once that time has passed; latest_start: once it "
        "could no longer end by then; such jobs are neither started nor planned",
    )
    skip_forced: bool = Field(
        True,
        description="take the action without the agent where only one is legal; false under time_rule tick: "
        "the agent decides at every tick",
    )

    @property
    def tick_driven(self) -> bool:
        """Whether time goes tick by tick, and jobs are placed on a grid up to the horizon."""
        return self.horizon is not None

    @property
    def num_actions(self) -> int:
        """One per slot, one that suspends in tick-driven scenarios, and the no-op, which is last."""
        return self.window + (2 if self.tick_driven else 1)

    @model_validator(mode="after")
    def _together(self) -> Decision:
        if self.horizon is None:
            for name, value in (
                ("placement", "now"),
                ("wait_pool", None),
                ("admission", "fcfs"),
                ("suspend", False),
                ("expiry", None),
                ("expiry_rule", "violation"),
            ):
                if (setting := getattr(self, name)) != value:
                    problem = f"value {as_written(setting)} has no effect without a horizon"
                    raise SettingError(name, problem, "set decision.horizon=N, in ticks, or remove it")
        elif self.action_rule != "fit":
            raise SettingError(
                "action_rule",
                f"value {self.action_rule!r} does not go with a horizon, where plans are the reservations",
                "set decision.action_rule=fit",
            )
        elif self.expiry is None and self.expiry_rule != "violation":
            raise SettingError(
                "expiry_rule",
                f"value {self.expiry_rule!r} has no effect without decision.expiry",
                "set decision.expiry=0, or remove it",
            )
        elif self.suspend and self.expiry_rule == "latest_start":
            raise SettingError(
                "suspend",
                "value true does not go with expiry_rule='latest_start': suspended jobs do not expire",
                "set decision.expiry_rule=violation, or decision.suspend=false",
            )
        return self
