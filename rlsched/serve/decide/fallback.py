"""The fallback heuristic: a priority rule and its backfilling or placement rule."""

from __future__ import annotations

from dataclasses import dataclass

from rlsched.errors import BadInputError
from rlsched.evaluate.policy_names import parse_spec
from rlsched.scenario import Scenario
from rlsched.sim.heuristics import PLACEMENTS, placed_by
from rlsched.sim.priorities import PRIORITIES

EASY, GREEDY = "easy", "greedy"
RULES = (EASY, GREEDY)  # rules of heuristics without a horizon
VISIBLE_JOBS = 1024  # waiting jobs that a heuristic looks at, where there is no ready pool


def rules_of(scenario: Scenario) -> tuple[str, ...]:
    """Rules that a fallback heuristic can follow, the default first."""
    return RULES if not scenario.decision.tick_driven else tuple(PLACEMENTS)


@dataclass(frozen=True)
class FallbackHeuristic:
    """A priority rule of the queue and the rule that goes with it."""

    priority_rule: str  # a name in `PRIORITIES`
    rule: str  # easy or greedy; with a horizon a name in `PLACEMENTS`

    @classmethod
    def named(cls, text: str | None, scenario: Scenario) -> FallbackHeuristic:
        """By `NAME[:RULE]`; None: fcfs with the EASY backfilling of the scenario, if any.

        Raises:
            BadInputError: an unknown priority rule, or a rule that the scenario does not know.
        """
        rules = rules_of(scenario)
        name, rule, _ = parse_spec("--fallback", text or "fcfs")
        if name not in PRIORITIES:
            remedy = f"use one of {', '.join(PRIORITIES)}"
            raise BadInputError("--fallback", f"unknown heuristic {name!r}", remedy)
        if rule and rule not in rules:
            raise BadInputError("--fallback", f"unknown rule {rule!r}", f"use one of {', '.join(rules)}")
        return cls(name, rule or rules[0])

    def __str__(self) -> str:
        return f"{self.priority_rule}:{self.rule}"

    def scenario(self, scenario: Scenario) -> Scenario:
        """The scenario under this heuristic's rules, with the smallest observation."""
        smallest = scenario.observation.model_copy(update={"blocks": ("queue",), "classic": False})
        scenario = scenario.model_copy(update={"observation": smallest})
        if scenario.decision.tick_driven:
            return placed_by(scenario, self.rule)
        decision = scenario.decision.model_copy(
            update={
                "action_rule": "commit" if self.rule == EASY else "fit",
                "window": max(scenario.decision.window, VISIBLE_JOBS),
            }
        )
        return scenario.model_copy(update={"decision": decision})

    @property
    def in_core(self) -> tuple[str, str]:
        """Names in the core: without a horizon the scenario's action rule replaces the placement rule."""
        return self.priority_rule, self.rule if self.rule in PLACEMENTS else "now"
