"""Settings of one piece of advice: the resources that a policy counts, and the jobs and nodes it is shown."""

from __future__ import annotations

from dataclasses import dataclass

from rlsched.errors import BadInputError

CPUS, NODES = "cpus", "nodes"
UNITS = (CPUS, NODES)

NAMES = {
    **dict.fromkeys(("processors", "processor", "cpus", "cpu", "cores", "core", "units"), CPUS),
    **dict.fromkeys(("nodes", "node"), NODES),
    **dict.fromkeys(("gpus", "gpu"), "gpu"),
}
"""Resource of a scenario -> Slurm's resource; any other name is a generic resource (GRES) of that name."""


@dataclass(frozen=True)
class AdviceSettings:
    """The policy's resources, and the options of the command line."""

    resources: tuple[str, ...]  # the policy's resources, in its order
    trained_units: tuple[int, ...] = ()  # units of each that it was trained for; empty: unknown
    horizon: int | None = None  # the policy's planning horizon, ticks; None: it does not plan
    first_resource: str | None = None  # cpus or nodes, as --units has it; None: by the name of the resource
    partition: str | None = None  # only its jobs and nodes; None: all partitions
    default_limit_s: int | None = None  # time limit of jobs without one, seconds; None: such jobs are refused
    max_jobs: int = 20_000  # most jobs in a request, running and waiting
    policy: str | None = None  # name of the policy, where a service has several

    def kinds(self) -> tuple[str, ...]:
        """(resource,) Slurm's resource for each: cpus, nodes, or the name of a generic resource.

        Raises:
            BadInputError: the policy needs a power forecast, or two of its resources are the same in Slurm.
        """
        if self.horizon is not None:
            raise BadInputError(
                "the policy",
                f"plans {self.horizon} ticks ahead and needs a power forecast, which Slurm does not have",
                "send cluster states with a forecast to rlsched serve instead",
            )
        kinds = [NAMES.get(name.lower(), name) for name in self.resources]
        if self.first_resource is not None:
            position = next((k for k, kind in enumerate(kinds) if kind in UNITS), None)
            if position is None:
                problem = f"value {self.first_resource!r}, but the policy counts {', '.join(self.resources)}"
                raise BadInputError("--units", problem, "remove it")
            kinds[position] = self.first_resource
        repeated = next((kind for kind in kinds if kinds.count(kind) > 1), None)
        if repeated is not None:
            problem = f"resources {', '.join(self.resources)} would both count {repeated}"
            raise BadInputError("the policy", problem, "train one whose resources are named as Slurm's")
        return tuple(kinds)
