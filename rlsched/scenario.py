"""Scenario: everything that shapes an experiment, in one frozen and checked object.

Written into every run folder and checkpoint, so that each can be run again from itself. Units are
part of the field names or of their descriptions; a key that is not known here is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, field_validator, model_validator

from rlsched.errors import BadInputError
from rlsched.settings import Frozen, SettingError, apply_overrides, read_text, read_yaml, shown, validate

Term = Literal[
    "slowdown",
    "bounded_slowdown",
    "wait_time",
    "utilization",
    "makespan",
    "throughput",
    "terminal_bsld",
    "finished_value",
    "on_time_value",
    "running_value",
    "qos_violation",
    "ready_waiting",
    "wait_waiting",
    "long_running",
    "suspension",
    "energy",
    "brown_energy",
    "carbon",
    "curtailment",
    "rejected",
    "delayed_jobs",
    "waiting_value",
    "lost_value",
    "job_starvation",
]
CostTerm = Literal[
    "delayed_jobs",
    "qos_violation",
    "waiting_value",
    "suspension",
    "rejected",
    "lost_value",
    "energy",
    "brown_energy",
    "carbon",
    "job_starvation",
]
EVENT_TERMS = frozenset(get_args(Term)[:7])
"""Terms that are counted without a horizon, too."""
ENERGY_TERMS = frozenset({"energy", "brown_energy", "carbon", "curtailment"})
"""Terms that need `power`."""
ObservationBlock = Literal["jobs", "event_horizon", "queue", "outlook", "image", "profile"]
Admission = Literal["fcfs", "sjf", "qos", "hvf"]

OBJECTIVE_PRESETS: dict[str, dict[str, Any]] = {
    "slowdown": {"reward": {"slowdown": 1.0}},
    "bounded_slowdown": {"reward": {"bounded_slowdown": 1.0}},
    "utilization": {"reward": {"utilization": 1.0}},
    "makespan": {"reward": {"makespan": 1.0}},
    "total_value": {"reward": {"finished_value": 1.0}},
    "total_value_dense": {"reward": {"running_value": 1.0}},
    "value_under_delay": {"reward": {"finished_value": 1.0}, "costs": {"delayed_jobs": None}},
    "value_under_delay_and_carbon": {
        "reward": {"finished_value": 1.0},
        "costs": {"delayed_jobs": None, "carbon": None},
    },
}


class Resource(Frozen):
    """One resource type of the cluster."""

    name: str = "processors"
    units: int | None = Field(None, ge=1, description="units in the cluster; left out: the trace's header")
    units_per_node: int | None = Field(
        None, ge=1, description="demand is rounded up to whole nodes of this size; left out: one unit"
    )
    price: float = Field(0.5, ge=0, description="value of one unit for one tick")
    idle_w: float = Field(100.0, ge=0, description="watts of a unit that is on and idle")
    full_w: float = Field(200.0, gt=0, description="watts of a unit at full load")

    @model_validator(mode="after")
    def _watts(self) -> Resource:
        if self.idle_w > self.full_w:
            raise SettingError(
                "idle_w", f"value {self.idle_w:g} is more than full_w {self.full_w:g}", "set at most that"
            )
        return self


class Cluster(Frozen):
    """The machine that jobs run on."""

    tick_s: int = Field(1, ge=1, description="seconds per tick")
    resources: tuple[Resource, ...] = Field((Resource(),), min_length=1)


class PowerColumns(Frozen):
    """What the columns of a power file are called."""

    time: str = "timestamp"
    wind: str = "WND"
    solar: str = "SUN"
    carbon: str | None = Field("avg_CI", description="gCO2 per kWh of the grid; null: `carbon_g_per_kwh`")


FASTEST_BATTERY = 10.0
"""Highest power over capacity, 1/h: no battery that is sold does more."""


class Battery(Frozen):
    """Storage between the supply and the cluster."""

    capacity_kwh: float = Field(gt=0)
    charge_kw: float = Field(gt=0, description="most that goes in")
    discharge_kw: float = Field(gt=0, description="most that comes out")
    efficiency: float = Field(0.9, gt=0, le=1, description="share of what goes in that is stored")
    initial: float = Field(0.5, ge=0, le=1, description="share of the capacity at the start of an episode")

    @model_validator(mode="after")
    def _physics(self) -> Battery:
        for name, does in (("charge_kw", "fill"), ("discharge_kw", "empty")):
            rate, most = getattr(self, name), FASTEST_BATTERY * self.capacity_kwh
            if rate > most:
                raise SettingError(
                    name,
                    f"value {rate:g} would {does} {self.capacity_kwh:g} kWh in less than "
                    f"{60 / FASTEST_BATTERY:g} minutes, which no battery does",
                    f"set at most {most:g}, or a larger capacity_kwh",
                )
        return self


class Power(Frozen):
    """What feeds the cluster, and what is known of it beforehand."""

    kind: Literal["constant", "synthetic", "series"] = Field(
        "constant",
        description="constant: `level` of the full draw, always; synthetic: `level` in the share "
        "`probability` of the time, all otherwise, drawn per `block`; series: wind and sun of a file",
    )
    level: float = Field(1.0, ge=0, le=1, description="share of the full draw (constant, synthetic)")
    probability: float = Field(1.0, ge=0, le=1, description="share of the time at `level` (synthetic)")
    block: int = Field(6, ge=1, description="ticks between draws (synthetic)")
    file: Path | None = Field(
        None, description="CSV of the series, one row per hour; null: the generated year that is shipped"
    )
    columns: PowerColumns = PowerColumns()
    wind_kw: float | None = Field(
        None, ge=0, description="the site's wind peak, to which the column is scaled; null: the full draw"
    )
    solar_kw: float | None = Field(None, ge=0, description="likewise for sun")
    utilization: float = Field(1.0, ge=0, le=1, description="load of a unit that runs a job")
    battery: Battery | None = None
    grid_kw: float = Field(0.0, ge=0, description="most that may be drawn from the grid, after the battery")
    carbon_g_per_kwh: float = Field(400.0, ge=0, description="of the grid, where the series does not say")
    forecast_error: float = Field(
        0.0,
        ge=0,
        description="standard deviation, as a share of the units, of the forecast of the next tick; grows "
        "with the square root of the lead time. 0: perfect",
    )


class LublinWorkload(Frozen):
    """Jobs drawn from the Lublin-Feitelson model (JPDC 63(11), 2003)."""

    kind: Literal["lublin"]
    load: float | None = Field(
        None,
        gt=0,
        description="offered work / capacity; arrivals are stretched to it; left out: the model's own",
    )
    max_runtime_s: int | None = Field(None, ge=1, description="longer jobs are drawn again")


Ticks = tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]]
Share = Annotated[float, Field(ge=0, le=1)]


def ordered(value: tuple[Any, Any]) -> tuple[Any, Any]:
    """A range whose ends are in order.

    Raises:
        SettingError: they are not.
    """
    if value[0] > value[1]:
        raise SettingError("", f"value {list(value)} ends before it begins", "put the smaller number first")
    return value


class PoissonWorkload(Frozen):
    """Poisson arrivals of short and long jobs with qos [G 4.4.1]."""

    kind: Literal["poisson"]
    load: float = Field(1.0, gt=0, description="offered work / capacity of the most loaded resource")
    short: Ticks = Field((1, 10), description="ticks, uniform, both ends included")
    long: Ticks = Field((10, 30), description="ticks, likewise")
    long_share: Share = 0.3
    max_demand: float = Field(0.5, gt=0, le=1, description="share of a resource's units a job may ask for")
    high_qos: tuple[Share, Share] = Field((0.6, 1.0), description="uniform")
    low_qos: tuple[Share, Share] = Field((0.1, 0.6), description="uniform")
    high_qos_share: Share = 0.6
    value_scale: float = Field(1.0, gt=0, description="factor on every job's value")

    _ordered = field_validator("short", "long", "high_qos", "low_qos")(ordered)


class MaoWorkload(Frozen):
    """Bernoulli arrivals of jobs with one dominant resource [Mao et al. 2016, 4.1]."""

    kind: Literal["mao"]
    rate: float = Field(0.7, gt=0, le=1, description="probability of an arrival per tick")
    short: Ticks = Field((1, 3), description="ticks, uniform, both ends included")
    long: Ticks = Field((10, 15), description="ticks, likewise")
    long_share: Share = 0.2
    dominant: tuple[Share, Share] = Field((0.5, 1.0), description="share of `max_demand`, uniform")
    other: tuple[Share, Share] = Field((0.1, 0.2), description="share of `max_demand`, uniform")
    max_demand: float = Field(0.5, gt=0, le=1, description="share of a resource's units")

    _ordered = field_validator("short", "long", "dominant", "other")(ordered)


class Enrichment(Frozen):
    """What traces lack, drawn from a seed of its own: the same for a job in every episode [G 4.4.2]."""

    seed: int = Field(0, ge=0)
    max_demand: float = Field(
        0.5, gt=0, le=1, description="share of the units of each further resource that a job may ask for"
    )
    high_qos: tuple[Share, Share] = Field((0.6, 1.0), description="uniform")
    low_qos: tuple[Share, Share] = Field((0.1, 0.6), description="uniform")
    high_qos_share: Share = 0.6

    _ordered = field_validator("high_qos", "low_qos")(ordered)


class SwfWorkload(Frozen):
    """Jobs read from a trace in the Standard Workload Format."""

    kind: Literal["swf"]
    file: Path
    rules: Literal["standard", "rlscheduler"] = Field(
        "standard", description="rlscheduler: the loading rules of that simulator, for published figures"
    )
    training_jobs: tuple[int, int | None] | None = Field(
        None, description="rows [from, to) that training may see; left out: the first 80 %"
    )
    enrich: Enrichment | None = Field(None, description="add further resources and qos")
    max_job_duration: int | None = Field(None, ge=1, description="ticks; longer jobs are `oversized`")
    max_job_demand: float = Field(
        1.0, gt=0, le=1, description="share of the units; larger jobs are `oversized`"
    )
    oversized: Literal["reject", "scale"] = Field(
        "reject", description="reject: left out and counted; scale: cut down to what is allowed, and counted"
    )
    value_scale: float = Field(1.0, gt=0, description="factor on every job's value")


Workload = Annotated[
    LublinWorkload | SwfWorkload | PoissonWorkload | MaoWorkload, Field(discriminator="kind")
]


class Decision(Frozen):
    """What the agent may do and when it is asked."""

    action_rule: Literal["commit", "fit"] = Field(
        "commit",
        description="commit: a job that does not fit gets a reservation; fit: only jobs that fit",
    )
    time_rule: Literal["smdp", "sparse", "tick"] = "smdp"
    placement: Literal["now", "horizon"] = Field(
        "now",
        description="now: a job starts at this tick, if it fits until its expected end; horizon: it is "
        "planned at the first tick of the horizon from which it does",
    )
    horizon: int | None = Field(
        None, ge=1, description="ticks that are planned and forecast; null: events only, power always there"
    )
    window: int = Field(128, ge=1, description="slots of the ready pool: waiting jobs that the agent sees")
    wait_pool: int | None = Field(None, ge=0, description="jobs behind the ready pool; null: any number")
    admission: Admission = Field("fcfs", description="who enters the ready pool first")
    suspend: bool = Field(False, description="whether the agent may suspend running jobs")
    suspend_pool: int = Field(48, ge=1, description="suspended jobs at most, by the agent's choice")
    expiry: int | None = Field(
        None, ge=0, description="ticks after its qos violation time at which a waiting job is given up"
    )
    skip_forced: bool = Field(True, description="take a decision with one legal action without asking")

    @property
    def num_actions(self) -> int:
        """One per slot, with a horizon one that suspends, and the no-op, which is last."""
        return self.window + (1 if self.horizon is None else 2)

    @model_validator(mode="after")
    def _together(self) -> Decision:
        if self.horizon is None:
            for name, value in (
                ("placement", "now"),
                ("wait_pool", None),
                ("admission", "fcfs"),
                ("suspend", False),
                ("expiry", None),
            ):
                if (given := getattr(self, name)) != value:
                    problem = f"value {shown(given)} means nothing without a horizon"
                    raise SettingError(name, problem, "set decision.horizon=N, in ticks, or leave it out")
        elif self.action_rule != "fit":
            raise SettingError(
                "action_rule",
                f"value {self.action_rule!r} does not go with a horizon, where plans are the reservations",
                "set decision.action_rule=fit",
            )
        return self


class Observation(Frozen):
    """What the agent sees."""

    blocks: tuple[ObservationBlock, ...] = Field(("jobs", "event_horizon", "queue"), min_length=1)
    classic: bool = Field(False, description="image: ready jobs and backlog are drawn, too [Mao et al. 2016]")
    event_horizon: int = Field(60, ge=1, description="expected releases that are shown")
    time_scale_s: int = Field(5_000_000, ge=2, description="times are log-scaled against this and clipped")

    @field_validator("blocks")
    @classmethod
    def _no_repeats(cls, blocks: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(blocks)) != len(blocks):
            raise SettingError("", f"value {list(blocks)} names a block twice", "name each once")
        return blocks


class Objective(Frozen):
    """What is rewarded, a weighted sum of named terms, and what must stay within limits."""

    reward: dict[Term, float] = Field({"bounded_slowdown": 1.0}, min_length=1)
    costs: dict[CostTerm, float | None] = Field(
        {}, description="cost -> its limit per episode; null: none yet"
    )
    scope: Literal["all", "window"] = Field("all", description="which waiting jobs count")
    gamma: float = Field(1.0, gt=0, le=1, description="discount per tick inside a decision (smdp)")
    baseline: tuple[str, ...] = Field(
        (),
        description="greedy orders; an episode's reward is divided by jobs x the best one's bounded slowdown",
    )
    starvation_s: int = Field(86_400, ge=1, description="a job that waits longer counts for job_starvation")

    @model_validator(mode="before")
    @classmethod
    def _preset(cls, value: object) -> object:
        if isinstance(value, str):
            if value not in OBJECTIVE_PRESETS:
                known = ", ".join(OBJECTIVE_PRESETS)
                raise SettingError(
                    "",
                    f"value {value!r} is no preset",
                    f"use one of {known}, or a mapping with reward and costs",
                )
            return OBJECTIVE_PRESETS[value]
        return value


class Episode(Frozen):
    """How long an episode is and where it is cut from."""

    jobs: int | None = Field(
        1024, ge=1, description="jobs in an episode; null: the whole trace, or a model's max_ticks"
    )
    end: Literal["all_finished", "no_new_job", "max_ticks"] = "all_finished"
    max_ticks: int | None = Field(None, ge=1)
    offsets: tuple[int, ...] = Field((), description="trace rows at which evaluation episodes start")

    @model_validator(mode="after")
    def _ends(self) -> Episode:
        if self.end == "max_ticks" and self.max_ticks is None:
            raise SettingError("max_ticks", "is missing where end is max_ticks", "set episode.max_ticks=N")
        if self.end != "max_ticks" and self.max_ticks is not None:
            raise SettingError(
                "max_ticks",
                f"value {self.max_ticks} means nothing where end is {self.end}",
                "set episode.end=max_ticks, or episode.max_ticks=null",
            )
        return self


class Scenario(Frozen):
    """What is simulated."""

    schema_version: Literal[1] = 1
    name: str = "custom"
    description: str = ""
    cluster: Cluster = Cluster()
    power: Power | None = Field(None, description="null: all units are always on, and energy is not counted")
    workload: Workload
    decision: Decision = Decision()
    observation: Observation = Observation()
    objective: Objective = Objective()
    episode: Episode = Episode()

    @model_validator(mode="after")
    def _together(self) -> Scenario:
        self._horizon_for_all()
        self._horizon_for_every_job()
        self._terms_that_are_counted()
        if self.power is not None:
            _no_idle_settings(self.power)
            if self.episode.end != "max_ticks" and _may_fail(self.power):
                raise SettingError(
                    "episode.end",
                    f"value {self.episode.end!r} does not go with power that may fail: a job may never get "
                    "what it asks for",
                    "set episode.end=max_ticks and episode.max_ticks=N",
                )
        return self

    def _horizon_for_all(self) -> None:
        """What shows or feeds the ticks ahead needs some."""
        remedy = "set decision.horizon=N, in ticks, or leave it out"
        if self.decision.horizon is None:
            if self.power is not None:
                raise SettingError("power", "means nothing without a horizon", remedy)
            for block in self.observation.blocks:
                if block in {"image", "profile"}:
                    raise SettingError(
                        "observation.blocks", f"{block!r} shows the horizon: there is none", remedy
                    )
        if self.observation.classic and "image" not in self.observation.blocks:
            raise SettingError(
                "observation.classic",
                "value true means nothing without an image",
                "add image to observation.blocks, or leave it out",
            )

    def _horizon_for_every_job(self) -> None:
        """A model draws no job that could never be planned; those of a trace are counted when it is read."""
        horizon, workload = self.decision.horizon, self.workload
        if horizon is None or not isinstance(workload, PoissonWorkload | MaoWorkload):
            return
        name = "long" if workload.long[1] > workload.short[1] else "short"
        longest = getattr(workload, name)[1]
        if longest > horizon:
            raise SettingError(
                "decision.horizon",
                f"value {horizon} is shorter than the longest job, {longest} ticks (workload.{name}), which "
                "could never be planned",
                f"set at least {longest}, or shorter jobs",
            )

    def _terms_that_are_counted(self) -> None:
        objective = self.objective
        terms = [("reward", term) for term in objective.reward] + [
            ("costs", term) for term in objective.costs
        ]
        for kind, term in terms:
            if self.decision.horizon is None and term not in EVENT_TERMS:
                remedy = "set decision.horizon=N, in ticks, or take another term"
                raise SettingError(f"objective.{kind}.{term}", "is counted only with a horizon", remedy)
            if self.power is None and term in ENERGY_TERMS:
                remedy = "add power ('power: {}' has it always there), or take another term"
                raise SettingError(f"objective.{kind}.{term}", "is counted only with power", remedy)


_SETTINGS_OF_KINDS: dict[str, tuple[str, ...]] = {
    "level": ("constant", "synthetic"),
    "probability": ("synthetic",),
    "block": ("synthetic",),
    "file": ("series",),
    "columns": ("series",),
    "wind_kw": ("series",),
    "solar_kw": ("series",),
}
"""Settings of `power` that not every kind looks at, and the kinds that do."""


def _no_idle_settings(power: Power) -> None:
    """Refuse what would be ignored: whoever sets it believes that it is used.

    Raises:
        SettingError: a setting that the kind of power does not look at.
    """
    for name, kinds in _SETTINGS_OF_KINDS.items():
        given = getattr(power, name)
        if power.kind in kinds or given == Power.model_fields[name].default:
            continue
        value = "" if isinstance(given, PowerColumns) else f"value {shown(given)} "
        raise SettingError(
            f"power.{name}",
            f"{value}means nothing where kind is {power.kind}",
            f"set power.kind={' or '.join(kinds)}, or all of power anew, as in power={{kind: {power.kind}}}",
        )
    standard = Power.model_fields["carbon_g_per_kwh"].default
    if power.kind == "series" and power.columns.carbon is not None and power.carbon_g_per_kwh != standard:
        raise SettingError(
            "power.carbon_g_per_kwh",
            f"value {power.carbon_g_per_kwh:g} means nothing where the file says it, in column "
            f"{power.columns.carbon!r}",
            "set power.columns.carbon=null, or leave it out",
        )


def _may_fail(power: Power) -> bool:
    """Whether units may be off, or be forecast to be."""
    return power.kind != "constant" or power.level < 1 or power.forecast_error > 0


def names() -> list[str]:
    """Names of the scenarios that come with the package, by size where they differ in that."""
    folder = resources.files("rlsched") / "scenarios"
    found = [entry.name[:-5] for entry in folder.iterdir() if entry.name.endswith(".yaml")]
    return sorted(found, key=_by_size)


def _by_size(name: str) -> list[tuple[bool, int, str]]:
    """What to sort names by: green-50 comes before green-100, and sizes before words."""
    return [(not part.isdigit(), len(part) if part.isdigit() else 0, part) for part in name.split("-")]


def load(name_or_file: str | Path, overrides: Iterable[str] = ()) -> Scenario:
    """Read a scenario by its name or from a YAML file.

    Args:
        name_or_file: one of `names()`, or a path that ends in .yaml or .yml.
        overrides: `key.path=value` assignments, the value in YAML syntax; applied in order.

    Raises:
        BadInputError: no such scenario, not YAML, or a key or value that does not fit.
    """
    text = str(name_or_file)
    if text in names():
        source = (resources.files("rlsched") / "scenarios" / f"{text}.yaml").read_text("utf-8")
        return parse(read_yaml(source, text), text, overrides)
    path = Path(text)
    if path.suffix not in {".yaml", ".yml"}:
        raise BadInputError(
            "--scenario", f"unknown scenario {text!r}", f"use a .yaml file or one of {', '.join(names())}"
        )
    return parse(read_yaml(read_text(path), text), text, overrides)


def parse(values: Mapping[str, Any], where: str, overrides: Iterable[str] = ()) -> Scenario:
    """Check plain values (of a YAML file, of a run folder) and make them a Scenario.

    Overrides apply to all settings, those that the values leave to their defaults, too.
    """
    scenario = validate(Scenario, values, where)
    assignments = list(overrides)
    if not assignments:
        return scenario
    return validate(Scenario, apply_overrides(scenario.model_dump(mode="json"), assignments), "--set")
