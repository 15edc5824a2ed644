"""The formulation of a served policy."""

from __future__ import annotations

from dataclasses import dataclass

from rlsched.scenario import Scenario
from rlsched.sim.priorities import Priority, priority


@dataclass(frozen=True, eq=False)
class Formulation:
    """Formulation of a policy, which says what states it accepts.

    Attributes:
        scenario: decision rules, observations, penalty multipliers and plant.
        num_resources: resource types.
        priority: priority rule of the fallback heuristic.
    """

    scenario: Scenario
    num_resources: int
    priority: Priority

    @classmethod
    def of(cls, scenario: Scenario, num_resources: int, priority_rule: str) -> Formulation:
        """By the name of the priority rule.

        Raises:
            BadInputError: an unknown priority rule.
        """
        return cls(scenario, num_resources, priority(priority_rule))

    @property
    def horizon(self) -> int:
        """Planning horizon, ticks; 0: none."""
        return self.scenario.decision.horizon or 0

    @property
    def tick_s(self) -> int:
        """Seconds per tick."""
        return self.scenario.cluster.tick_s
