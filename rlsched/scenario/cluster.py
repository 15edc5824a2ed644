"""The cluster of a scenario: its resources and its tick, as written and as resolved."""

from __future__ import annotations

from pydantic import Field, field_validator, model_validator

from rlsched.errors import BadInputError
from rlsched.scenario.bounds import MOST, MOST_SECONDS, MOST_UNITS
from rlsched.settings import Frozen, SettingError


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


class ResolvedResource(Resource):
    """One resource type whose units are known."""

    units: int = Field(ge=1, description="units in the cluster")


class Cluster(Frozen):
    """The machine that jobs run on."""

    tick_s: int = Field(1, ge=1, le=MOST_SECONDS, description="seconds per tick")
    resources: tuple[Resource, ...] = Field((Resource(),), min_length=1)
    kill_at_requested: bool = Field(
        False, description="end jobs at their requested time, even before their runtime is over"
    )

    def resolve(self, known: int | None, where: str) -> ResolvedCluster:
        """The cluster with the units of every resource, from the scenario or else from the workload.

        Args:
            known: units of the first resource in the workload; None: unknown.
            where: name of the workload in errors.

        Raises:
            BadInputError: units are unknown, too many, or less than a node.
        """
        resources = tuple(
            _resolved(resource, k, known if k == 0 else None, where)
            for k, resource in enumerate(self.resources)
        )
        values = dict(self) | {"resources": resources}
        return ResolvedCluster.model_construct(self.model_fields_set | {"resources"}, **values)


class ResolvedCluster(Cluster):
    """The machine, with the units of every resource."""

    resources: tuple[ResolvedResource, ...] = Field(min_length=1)

    @property
    def units(self) -> list[int]:
        """(resource,) units."""
        return [resource.units for resource in self.resources]


def _resolved(resource: Resource, k: int, known: int | None, where: str) -> ResolvedResource:
    key = f"cluster.resources.{k}"
    units = resource.units or known
    if units is None and k > 0:
        problem = f"value None: a workload does not say how much {resource.name} there is"
        raise BadInputError(f"{key}.units", problem, f"add --set {key}.units=N")
    if units is None:
        problem = f"does not say how many {resource.name} the machine has"
        raise BadInputError(where, problem, f"add --set {key}.units=N")
    if units > MOST_UNITS:
        raise BadInputError(f"{key}.units", f"value {units}", f"use at most {MOST_UNITS}")
    if (resource.units_per_node or 1) > units:
        problem = f"value {resource.units_per_node} is more than the {units} units of the machine"
        raise BadInputError(f"{key}.units_per_node", problem, "set a smaller one")
    values = dict(resource) | {"units": units}
    return ResolvedResource.model_construct(resource.model_fields_set | {"units"}, **values)
