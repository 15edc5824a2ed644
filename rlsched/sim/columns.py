"""The layout table: every feature of an observation, its place in its block and what it means.

A feature is written and read by its `Column`; nothing else knows numbers of columns. To add one, add it to
the table of its block and write it in `observe`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Mode = Literal["both", "events", "ticks", "supply"]
"""Scenarios with a feature: all (both), event- or tick-driven ones, or those with the `supply` block."""

GREEN_WITHIN = (0, 6, 24)
"""Ticks that a start is put off at most, of the `green` columns of the `jobs` block."""

COMING_JOBS = (8, 16, 32, 64, 128, 256, 512)
"""Jobs that the `coming` block looks ahead."""


class Column(NamedTuple):
    """Place of a feature in its block: base + groups x resource types + stride x number of its repetition."""

    base: int
    groups: int
    stride: int


@dataclass(frozen=True)
class Feature:
    """One feature of a block.

    Attributes:
        name: without the number of its repetition.
        meaning: its description and scaling.
        mode: scenarios in which it is observed.
        repeats: numbers behind its name (NAME_0, NAME_1); () : it occurs once; None: one per resource type.
    """

    name: str
    meaning: str
    mode: Mode = "both"
    repeats: tuple[int, ...] | None = ()


class FeatureTable:
    """The features of a block, in the order of its columns."""

    def __init__(self) -> None:
        self._groups: list[tuple[Feature, ...]] = []
        self._next = {"events": (0, 0), "ticks": (0, 0)}  # base and groups of the next column

    def add(self, name: str, meaning: str, mode: Mode = "both") -> Column:
        """Add a feature that occurs once."""
        return self.repeat((), mode, (name, meaning))[0]

    def flat(self, name: str, meaning: str) -> int:
        """Add a feature to a block without features per resource type, and return its column."""
        base, groups, _ = self.add(name, meaning)
        assert groups == 0, name
        return base

    def per_resource(self, *features: tuple[str, str], mode: Mode = "both") -> list[Column]:
        """Add features (name, meaning) of every resource type: all of the first type, then the next."""
        return self.repeat(None, mode, *features)

    def repeat(self, repeats: tuple[int, ...] | None, mode: Mode, *features: tuple[str, str]) -> list[Column]:
        """Add features (name, meaning) once per number: all of the first number, then the next."""
        self._groups.append(tuple(Feature(name, meaning, mode, repeats) for name, meaning in features))
        modes = {"both": ["events", "ticks"], "supply": ["ticks"]}.get(mode, [mode])
        base, groups = self._next[modes[-1]]
        assert all(self._next[variant] == (base, groups) for variant in modes), features
        size = len(features)
        after = (base, groups + size) if repeats is None else (base + size * max(1, len(repeats)), groups)
        self._next |= dict.fromkeys(modes, after)
        return [Column(base + k, groups, size) for k in range(size)]

    def features(self, *, ticks: bool = False, supply: bool = False) -> list[Feature]:
        """Those that are observed, in tick-driven scenarios or not, and beside the `supply` block or not."""
        return [feature for group in self._observed(ticks, supply) for feature in group]

    def names(self, num_resources: int, *, ticks: bool = False, supply: bool = False) -> tuple[str, ...]:
        """Names of the columns; the other arguments as of `features`."""
        names: list[str] = []
        for group in self._observed(ticks, supply):
            repeats: Sequence[int] | None = group[0].repeats
            if repeats is None:
                repeats = range(num_resources)
            elif not repeats:
                names += [feature.name for feature in group]
                continue
            names += [f"{feature.name}_{number}" for number in repeats for feature in group]
        return tuple(names)

    def _observed(self, ticks: bool, supply: bool) -> list[tuple[Feature, ...]]:
        modes = {"both", "ticks" if ticks else "events", *(("supply",) if supply else ())}
        return [group for group in self._groups if group[0].mode in modes]


JOB_FEATURES = FeatureTable()
"""Columns of the `jobs` block; all in [0, 1], times and work log-scaled and clipped."""

JOB_PRESENT = JOB_FEATURES.add("present", "1 where the slot holds a job")
JOB_REQUESTED = JOB_FEATURES.add("requested", "requested time")
JOB_SHARE, JOB_LOG_DEMAND = JOB_FEATURES.per_resource(
    ("share", "demand / units of the cluster"), ("log_demand", "log demand / log units")
)
JOB_QUEUE_AT_SUBMIT = JOB_FEATURES.add("queue_at_submit", "jobs waiting when it was submitted")
JOB_WORK_AT_SUBMIT = JOB_FEATURES.add(
    "work_at_submit", "their demand x requested time per unit of the cluster"
)
JOB_FREE_AT_SUBMIT = JOB_FEATURES.add("free_at_submit", "share of units free then, of the first resource")
# From here on columns follow the clock.
JOB_WAIT = JOB_FEATURES.add("wait", "time since submit")
JOB_RESPONSE = JOB_FEATURES.add("response", "wait + requested time: its response time if it started now")
JOB_FITS = JOB_FEATURES.add("fits", "1 where its demand is free now")
JOB_LEGAL = JOB_FEATURES.add("legal", "1 where choosing it is legal now")
JOB_RESERVED = JOB_FEATURES.add("reserved", "1 where it holds the reservation")
JOB_DELAY = JOB_FEATURES.add("delay", "time until its demand is expected to be free", "events")
# These four do not change while a job waits.
JOB_DURATION = JOB_FEATURES.add("duration", "requested time / horizon", "ticks")
JOB_QOS = JOB_FEATURES.add("qos", "quality of service", "ticks")
JOB_VALUE_RATE = JOB_FEATURES.add(
    "value_rate", "value per tick, as a share of the most valuable job that fits the cluster", "ticks"
)
JOB_DENSITY = JOB_FEATURES.add("density", "value per unit-tick / highest price", "ticks")
JOB_SLACK = JOB_FEATURES.add(
    "slack",
    "time to the qos violation beyond the requested time; 0.5 none left, scaled by the horizon",
    "ticks",
)
JOB_START = JOB_FEATURES.add(
    "start", "first row from which it fits / horizon; 1 where it fits nowhere", "ticks"
)
JOB_MATCH = JOB_FEATURES.add(
    "match", "mean over resources of demand x free now, as shares [Grandl et al. 2014]", "ticks"
)
(JOB_FILL,) = JOB_FEATURES.per_resource(
    ("fill", "share that would be used in the row of its start"), mode="ticks"
)
(JOB_TAIL,) = JOB_FEATURES.per_resource(
    ("tail", "share free in the row after its expected end"), mode="ticks"
)
(JOB_GREEN,) = JOB_FEATURES.repeat(
    GREEN_WITHIN,
    "supply",
    (
        "green",
        "share of its draw that wind and sun leave over, mean over its run, by the forecast and the plans, "
        "at the best start within so many ticks of the first one",
    ),
)

EVENT_FEATURES = FeatureTable()
"""Columns of the `event_horizon` block, one row per expected release [Cunha 2022, fig. 4.5]."""

EVENT_TIME = EVENT_FEATURES.add("time", "time until the release, log-scaled; 1 beyond the last one")
EVENT_USED, EVENT_FREE = EVENT_FEATURES.per_resource(
    ("used", "share of units used after it"), ("free", "share of units free after it")
)

QUEUE_FEATURES = FeatureTable()
"""Entries of the `queue` block; all in [0, 1]."""

QUEUE_LENGTH = QUEUE_FEATURES.add("queue_length", "waiting jobs, log-scaled")
QUEUE_BACKLOG = QUEUE_FEATURES.add("backlog", "waiting jobs beyond the window, log-scaled")
QUEUE_WORK = QUEUE_FEATURES.add(
    "queued_work", "demand x requested time of the waiting jobs per unit, log-scaled time"
)
QUEUE_REMAINING_WORK = QUEUE_FEATURES.add(
    "remaining_work", "demand x remaining requested time of the running jobs per unit, likewise"
)
QUEUE_NEXT_RELEASE = QUEUE_FEATURES.add("next_release", "time to the next expected release, log-scaled")
QUEUE_RESERVATION = QUEUE_FEATURES.add("reservation", "1 while a reservation stands")
QUEUE_SHADOW = QUEUE_FEATURES.add("shadow", "time until the reserved job is expected to start, log-scaled")
(QUEUE_FREE,) = QUEUE_FEATURES.per_resource(("free", "share of units free now"))
(QUEUE_EXTRA,) = QUEUE_FEATURES.per_resource(("extra", "share free beside the reserved job at its start"))
(QUEUE_ON,) = QUEUE_FEATURES.per_resource(("on", "share of units on now"), mode="ticks")
(QUEUE_ON_NEXT,) = QUEUE_FEATURES.per_resource(
    ("on_next", "that share, forecast for the next tick"), mode="ticks"
)
QUEUE_PLANNED = QUEUE_FEATURES.add("planned", "planned jobs, log-scaled", "ticks")
QUEUE_SUSPENDED = QUEUE_FEATURES.add("suspended", "suspended jobs, log-scaled", "ticks")
QUEUE_BATTERY = QUEUE_FEATURES.add("battery", "level of the battery / its capacity", "ticks")

HISTORY_FEATURES = FeatureTable()
"""Entries of the `history` block, all in [0, 1]: accounting data of the jobs of an episode so far.

They distinguish clusters that look alike now: by how well users estimate runtimes, and by whether more work
is submitted than can be done.
"""

HISTORY_ARRIVED = HISTORY_FEATURES.flat("arrived", "jobs, log-scaled")
HISTORY_FINISHED = HISTORY_FEATURES.flat("finished", "jobs, log-scaled")
HISTORY_USED_REQUESTS = HISTORY_FEATURES.flat(
    "used_requests", "runtime / requested time, at most 1, mean of the finished jobs; 1 before the first"
)
HISTORY_GAP = HISTORY_FEATURES.flat("gap", "time between arrivals on average, log-scaled")
HISTORY_WORK = HISTORY_FEATURES.flat(
    "work", "demand x requested time of a job on average, per unit, log-scaled time"
)
HISTORY_LOAD = HISTORY_FEATURES.flat(
    "load", "work w per unit and time that arrived, as w / (w + 1): 0.5 where all units would be in use"
)

OUTLOOK_FEATURES = FeatureTable()
"""Entries of the `outlook` block: what no scheduler can know and only a critic may use in training.

It is privileged, as `coming` is: see `rlsched.scenario.PRIVILEGED`.
"""

OUTLOOK_TO_ARRIVE = OUTLOOK_FEATURES.flat("to_arrive", "share of the episode's jobs that have not arrived")
OUTLOOK_WORK_TO_ARRIVE = OUTLOOK_FEATURES.flat("work_to_arrive", "their true work per unit, log-scaled time")
OUTLOOK_ARRIVALS_END = OUTLOOK_FEATURES.flat("arrivals_end", "time to the last arrival, log-scaled")
OUTLOOK_QUEUED_WORK = OUTLOOK_FEATURES.flat(
    "true_queued_work", "true work of the waiting jobs per unit, log-scaled time"
)
OUTLOOK_REMAINING_WORK = OUTLOOK_FEATURES.flat(
    "true_remaining_work", "true remaining work of the running jobs per unit, likewise"
)
OUTLOOK_RATE = OUTLOOK_FEATURES.flat(
    "rate", "sum of 1 / max(runtime, 10 s) over the waiting jobs, log-scaled"
)
OUTLOOK_SCALED_RATE = OUTLOOK_FEATURES.flat(
    "scaled_rate", "the same times the episode's reward scale and an hour, log-scaled"
)
OUTLOOK_SCALE = OUTLOOK_FEATURES.flat(
    "scale",
    "the episode's reward scale per job: 1 / the baseline's bounded slowdown ** its exponent",
)

COMING_FEATURES = FeatureTable()
"""Entries of the `coming` block: jobs that no scheduler sees yet, and only a critic may see in training.

For each number in `COMING_JOBS`, of as many jobs from the next one to enter the ready pool: under admission
fcfs those that enter next, if all are let in. Fewer at the end of an episode, 0 where there is none.
"""

COMING_DENSITY, COMING_WORK = COMING_FEATURES.repeat(
    COMING_JOBS,
    "both",
    ("density", "value of so many jobs / their unit-ticks / the highest price"),
    ("work", "unit-ticks of a job on average / those of the whole cluster in the horizon"),
)

PROFILE_FEATURES = FeatureTable()
"""Rows of the `profile` block, of each resource type: units in every tick of the horizon."""

PROFILE_USED = PROFILE_FEATURES.flat("used", "share of units that running and planned jobs hold")
PROFILE_FREE = PROFILE_FEATURES.flat("free", "share of units on and not held")
PROFILE_OFF = PROFILE_FEATURES.flat("off", "share of units that are off")
PROFILE_ROWS = 3

SUPPLY_FEATURES = FeatureTable()
"""Rows of the `supply` block: forecasts for every tick of the horizon."""

SUPPLY_RENEWABLE = SUPPLY_FEATURES.flat(
    "renewable",
    "wind and sun as a share of the full draw, at most 1, with the errors of the forecast of the units that "
    "are on (power.forecast_error)",
)
SUPPLY_CARBON = SUPPLY_FEATURES.flat("carbon", "what the grid emits, kg/kWh, at most 1")

TABLES: dict[str, FeatureTable] = {
    "jobs": JOB_FEATURES,
    "event_horizon": EVENT_FEATURES,
    "queue": QUEUE_FEATURES,
    "history": HISTORY_FEATURES,
    "outlook": OUTLOOK_FEATURES,
    "coming": COMING_FEATURES,
    "profile": PROFILE_FEATURES,
    "supply": SUPPLY_FEATURES,
}
"""Block to its features; the `image` says in units what `profile` says in shares."""
