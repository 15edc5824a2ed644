"""What a policy is asked about: which units it counts, of which nodes and jobs."""

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
"""Resource of a scenario -> what is counted for it; any other name is a generic resource of that name."""


@dataclass(frozen=True)
class Asked:
    """What is to be decided about, and by whom.

    Attributes:
        resources: names of the policy's, in its order.
        units: that it was trained for; empty where it does not say.
        horizon: ticks that it plans ahead; None: none.
        counted: --units; None: by the name of the first resource.
        partition: whose jobs and nodes; None: all.
        default_limit_s: of jobs without a limit; None: none.
        most: jobs that a cluster may have.
        policy: who is asked, where several are served.
    """

    resources: tuple[str, ...]
    units: tuple[int, ...] = ()
    horizon: int | None = None
    counted: str | None = None
    partition: str | None = None
    default_limit_s: int | None = None
    most: int = 20_000
    policy: str | None = None

    def kinds(self) -> tuple[str, ...]:
        """(resource,) what is counted for each: cpus, nodes, or the name of a generic resource.

        Raises:
            BadInputError: the policy plans ahead, or one thing would be counted twice.
        """
        if self.horizon is not None:
            raise BadInputError(
                "the policy",
                f"plans {self.horizon} ticks ahead of power that Slurm does not tell of",
                "send its states to rlsched serve instead, with what is forecast",
            )
        kinds = [NAMES.get(name.lower(), name) for name in self.resources]
        if self.counted is not None:
            at = next((k for k, kind in enumerate(kinds) if kind in UNITS), None)
            if at is None:
                problem = f"value {self.counted!r}, but the policy counts {', '.join(self.resources)}"
                raise BadInputError("--units", problem, "leave it out")
            kinds[at] = self.counted
        twice = next((kind for kind in kinds if kinds.count(kind) > 1), None)
        if twice is not None:
            problem = f"resources {', '.join(self.resources)} would both count {twice}"
            raise BadInputError("the policy", problem, "train one whose resources are named as Slurm's")
        return tuple(kinds)
