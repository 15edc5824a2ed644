"""Scenarios: what an experiment simulates, one module per section.

`scenario` has the whole object, `loading` reads it.
"""

from rlsched.scenario.cluster import Cluster, ResolvedCluster, ResolvedResource, Resource
from rlsched.scenario.decision import Admission, Decision
from rlsched.scenario.episode import EpisodeSettings
from rlsched.scenario.loading import as_scenario, files, load, names, parse, parse_with_base, rooted
from rlsched.scenario.objective import OBJECTIVE_PRESETS, Limit, Objective, RelativeLimit
from rlsched.scenario.observation import PRIVILEGED, Observation, ObservationBlock
from rlsched.scenario.power import Battery, Power, PowerColumns
from rlsched.scenario.scenario import ResolvedScenario, Scenario
from rlsched.scenario.terms import CostTerm, Term
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

__all__ = [
    "OBJECTIVE_PRESETS",
    "PRIVILEGED",
    "Admission",
    "Battery",
    "Cluster",
    "CostTerm",
    "Decision",
    "Enrichment",
    "EpisodeSettings",
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
    "ResolvedCluster",
    "ResolvedResource",
    "ResolvedScenario",
    "Resource",
    "Scenario",
    "SwfWorkload",
    "Term",
    "TsafrirEstimates",
    "Workload",
    "as_scenario",
    "files",
    "load",
    "names",
    "parse",
    "parse_with_base",
    "rooted",
]
