"""Scenario: everything that shapes an experiment, in one frozen and checked object.

Written into every run folder and checkpoint, so that each can be run again from itself. Units are
part of the field names or of their descriptions; a key that is not known here is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from rlsched.errors import BadInputError
from rlsched.scenario.bounds import (
    MOST,
    MOST_EPISODE_JOBS,
    MOST_EPISODE_TICKS,
    MOST_ROW,
    MOST_SECONDS,
    MOST_SLOTS,
    MOST_TICKS,
    MOST_UNITS,
)
from rlsched.scenario.objective import OBJECTIVE_PRESETS, Limit, Objective, RelativeLimit
from rlsched.scenario.power import Battery, Power, PowerColumns
from rlsched.scenario.terms import CostTerm, Term, terms_that_need
from rlsched.scenario.workload import (
    Enrichment,
    Estimates,
    ExactEstimates,
    GaussianEstimates,
    LublinWorkload,
    MaoWorkload,
    MixtureWorkload,
    ModelWorkload,
    Part,
    PoissonWorkload,
    SwfWorkload,
    TsafrirEstimates,
    Workload,
)
from rlsched.settings import Frozen, SettingError, as_written, validate
from rlsched.settings_files import read_text, read_yaml

__all__ = [
    "OBJECTIVE_PRESETS",
    "PRIVILEGED",
    "Admission",
    "Battery",
    "Cluster",
    "CostTerm",
    "Decision",
    "Enrichment",
    "Episode",
    "Estimates",
    "ExactEstimates",
    "GaussianEstimates",
    "Limit",
    "LublinWorkload",
    "MaoWorkload",
    "MixtureWorkload",
    "ModelWorkload",
    "Objective",
    "Observation",
    "ObservationBlock",
    "Part",
    "PoissonWorkload",
    "Power",
    "PowerColumns",
    "RelativeLimit",
    "Resource",
    "Scenario",
    "SwfWorkload",
    "Term",
    "TsafrirEstimates",
    "Workload",
    "files",
    "given",
    "load",
    "names",
    "parse",
    "rooted",
]

ObservationBlock = Literal[
    "jobs", "event_horizon", "queue", "history", "outlook", "coming", "image", "profile", "supply"
]
Admission = Literal["fcfs", "sjf", "qos", "hvf"]

PRIVILEGED: frozenset[ObservationBlock] = frozenset({"outlook", "coming"})
"""Blocks that show what lies ahead: true runtimes and jobs to come. Only critics see them, in training."""


class Resource(Frozen):
    """One resource type of the cluster."""

    name: str = Field("processors", description="resource type, as in cpu or gpu")
    units: int | None = Field(None, ge=1, description="units in the cluster; left out: the trace's header")
    units_per_node: int | None = Field(
        None, ge=1, description="demand is rounded up to whole nodes of this size; left out: one unit"
    )
    price: float = Field(0.5, ge=0, le=MOST, description="value of one unit for one tick")
    idle_w: float = Field(100.0, ge=0, le=MOST, description="watts of a unit that is on and idle")
    full_w: float = Field(200.0, gt=0, le=MOST, description="watts of a unit at full load")

    @field_validator("units", "units_per_node")
    @classmethod
    def _at_most(cls, units: int | None) -> int | None:
        if units is not None and units > MOST_UNITS:
            raise SettingError("", f"value {units}", f"use at most {MOST_UNITS}")
        return units

    @model_validator(mode="after")
    def _watts(self) -> Resource:
        if self.idle_w > self.full_w:
            raise SettingError(
                "idle_w", f"value {self.idle_w:g} is more than full_w {self.full_w:g}", "set at most that"
            )
        return self


class Cluster(Frozen):
    """The machine that jobs run on."""

    tick_s: int = Field(1, ge=1, le=MOST_SECONDS, description="seconds per tick")
    resources: tuple[Resource, ...] = Field((Resource(),), min_length=1)
    kill_at_requested: bool = Field(
        False, description="end jobs at the time they asked for, whatever is left of their runtime"
    )


class Decision(Frozen):
    """What the agent may do and when it is asked."""

    action_rule: Literal["commit", "fit", "hold"] = Field(
        "commit",
        description="commit: a job that does not fit gets a reservation, and only behind one may be waited; "
        "hold: the same, and waiting is always legal; fit: only jobs that fit, or waiting",
    )
    time_rule: Literal["smdp", "sparse", "tick"] = Field(
        "smdp",
        description="what the no-op lets pass, and is rewarded for: tick: one tick; sparse: up to the next "
        "choice, its first tick; smdp: up to the next choice, all of it",
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
    admission: Admission = Field("fcfs", description="who enters the ready pool first")
    suspend: bool = Field(False, description="whether the agent may suspend running jobs")
    suspend_pool: int = Field(
        48, ge=1, le=MOST_SLOTS, description="suspended jobs at most, by the agent's choice"
    )
    expiry: int | None = Field(
        None,
        ge=0,
        le=MOST_TICKS,
        description="ticks after its qos violation time at which a waiting job is given up",
    )
    skip_forced: bool = Field(
        True,
        description="take a decision with one legal action without asking; false under time_rule tick: the "
        "agent is asked at every tick",
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
            ):
                if (given := getattr(self, name)) != value:
                    problem = f"value {as_written(given)} means nothing without a horizon"
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
            raise SettingError("", f"value {list(blocks)} names a block twice", "name each once")
        if PRIVILEGED.issuperset(blocks):
            raise SettingError("", f"value {list(blocks)} shows a policy nothing", "add 'jobs' or 'queue'")
        return blocks

    @property
    def public(self) -> Observation:
        """The same without the privileged blocks: what a policy sees."""
        seen = tuple(block for block in self.blocks if block not in PRIVILEGED)
        return self if seen == self.blocks else self.model_copy(update={"blocks": seen})


class Episode(Frozen):
    """How long an episode is and where it is cut from."""

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
    name: str = Field("custom", description="shown in tables and stored in run folders")
    description: str = Field("", description="one line for `rlsched scenarios`")
    cluster: Cluster = Cluster()
    power: Power | None = Field(None, description="null: all units are always on, and energy is not counted")
    workload: Workload = Field(description="trace or model of jobs")
    decision: Decision = Decision()
    observation: Observation = Observation()
    objective: Objective = Objective()
    episode: Episode = Episode()

    @property
    def linked(self) -> bool:
        """Whether jobs may be submitted when others end."""
        return getattr(self.workload, "dependencies", "ignore") == "follow"

    @model_validator(mode="after")
    def _together(self) -> Scenario:
        self._horizon_for_all()
        self._horizon_for_every_job()
        self._sizes_of_clusters()
        self._history_of_whole_runs()
        self._terms_that_are_counted()
        if self.power is not None and self.power.may_fail and self.episode.end != "max_ticks":
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
        if not self.decision.tick_driven:
            if self.power is not None:
                raise SettingError("power", "means nothing without a horizon", remedy)
            for block in self.observation.blocks:
                if block in {"image", "profile", "coming", "supply"}:
                    raise SettingError(
                        "observation.blocks", f"{block!r} means nothing without a horizon", remedy
                    )
        if self.power is None and "supply" in self.observation.blocks:
            raise SettingError(
                "observation.blocks",
                "'supply' means nothing without power",
                "add power ('power: {}' has it always there), or leave it out",
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
        models: dict[str, Workload] = {"workload": workload}
        if isinstance(workload, MixtureWorkload):
            models = {f"workload.parts.{k}.workload": part.workload for k, part in enumerate(workload.parts)}
        for where, model in models.items():
            if horizon is None or not isinstance(model, PoissonWorkload | MaoWorkload):
                continue
            name = "long" if model.long[1] > model.short[1] else "short"
            longest = getattr(model, name)[1]
            if longest > horizon:
                raise SettingError(
                    "decision.horizon",
                    f"value {horizon} is shorter than the longest job, {longest} ticks ({where}.{name}), "
                    "which could never be planned",
                    f"set at least {longest}, or shorter jobs",
                )

    @property
    def public(self) -> Scenario:
        """The same without the privileged blocks of the observation: what a policy sees."""
        seen = self.observation.public
        return self if seen is self.observation else self.model_copy(update={"observation": seen})

    @property
    def sizes(self) -> tuple[tuple[int | None, ...], ...]:
        """For each resource the units that clusters have, each size once; None: as the trace says."""
        units = [resource.units for resource in self.cluster.resources]
        if isinstance(self.workload, MixtureWorkload) and len(units) == 1:
            return (self.workload.sizes(units[0]),)
        return tuple((each,) for each in units)

    def _history_of_whole_runs(self) -> None:
        """What is left of a job that was suspended tells nothing of what its user asked for."""
        if "history" in self.observation.blocks and self.decision.suspend:
            raise SettingError(
                "observation.blocks",
                "value history does not go with decision.suspend, where jobs run in parts",
                "leave one of them out",
            )

    def _sizes_of_clusters(self) -> None:
        """What is planned ahead, fed and drawn is of one size in all episodes."""
        parts = self.workload.parts if isinstance(self.workload, MixtureWorkload) else ()
        for k, part in enumerate(parts):
            if part.units is not None and self.decision.tick_driven:
                raise SettingError(
                    f"workload.parts.{k}.units",
                    "does not go with decision.horizon, under which all episodes are of one cluster",
                    "leave one of them out",
                )

    def _terms_that_are_counted(self) -> None:
        objective = self.objective
        terms = [("reward", term) for term in objective.reward] + [
            ("costs", term) for term in objective.costs
        ]
        for kind, term in terms:
            if not self.decision.tick_driven and term in terms_that_need("horizon"):
                remedy = "set decision.horizon=N, in ticks, or take another term"
                raise SettingError(f"objective.{kind}.{term}", "is counted only with a horizon", remedy)
            if self.power is None and term in terms_that_need("power"):
                remedy = "add power ('power: {}' has it always there), or take another term"
                raise SettingError(f"objective.{kind}.{term}", "is counted only with power", remedy)


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
    """Check plain values (of a YAML file, of a run folder) and make them a Scenario, see `validate`."""
    return validate(Scenario, values, where, overrides)


def given(scenario: Scenario | Mapping[str, Any] | str | Path) -> Scenario:
    """A scenario by whatever says which one: itself, its plain values, its name or its file.

    Raises:
        BadInputError: see `load`.
    """
    if isinstance(scenario, Scenario):
        return scenario
    return parse(scenario, "scenario") if isinstance(scenario, Mapping) else load(scenario)


def rooted(scenario: Scenario) -> Scenario:
    """The scenario with its files named from the root, so that what was begun can go on from any folder."""
    found = {
        name: part.model_copy(update={"file": part.file.resolve()})
        for name, part in (("workload", scenario.workload), ("power", scenario.power))
        if isinstance(part, SwfWorkload | Power) and part.file is not None
    }
    return scenario.model_copy(update=found)


def files(scenario: Scenario) -> dict[str, Path]:
    """Data that a scenario takes from files: what it is, and where."""
    found = {}
    if isinstance(scenario.workload, SwfWorkload):
        found["trace"] = scenario.workload.file
    if scenario.power is not None and scenario.power.file is not None:
        found["power series"] = scenario.power.file
    return found
