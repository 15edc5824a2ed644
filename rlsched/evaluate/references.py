"""The heuristics that learned policies are compared with, in validation and in evaluation alike."""

from __future__ import annotations

from rlsched.evaluate.statistics import PolicyLabel
from rlsched.scenario import Scenario

HEURISTICS = tuple(
    PolicyLabel(name, rule)
    for rule, names in (
        ("greedy", ("fcfs", "sjf", "smallest", "area", "xfactor", "wfp3", "f1")),
        ("easy", ("sjf", "area", "f1")),
        ("conservative", ("sjf", "area", "f1")),
    )
    for name in names
)
"""The best heuristics known without a horizon, under every kind of backfilling."""

HEURISTICS_WITH_HORIZON = tuple(
    PolicyLabel(name, rule)
    for name in ("packing", "sjf", "qos", "hvf", "fcfs", "random")
    for rule in ("now", "horizon")
)
"""Priority rules under both placements."""


GREEDY_SJF, GREEDY_SJF_WITH_HORIZON = PolicyLabel("sjf", "greedy"), PolicyLabel("sjf", "now")
"""Heuristics that hoarding is measured against, one of each set."""


def heuristics(scenario: Scenario) -> tuple[PolicyLabel, ...]:
    """The heuristics that policies of a scenario are compared with."""
    return HEURISTICS if not scenario.decision.tick_driven else HEURISTICS_WITH_HORIZON


def greedy_sjf(scenario: Scenario) -> PolicyLabel:
    """The heuristic that hoarding is measured against."""
    return GREEDY_SJF if not scenario.decision.tick_driven else GREEDY_SJF_WITH_HORIZON
