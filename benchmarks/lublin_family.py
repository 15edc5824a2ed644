"""Members of a wide family of clusters, each with its own size, load, users and parameters of the model.

Those of one seed are in the scenario `lublin-family`, which policies for unseen clusters are trained on;
those of another were never trained on. Run: `python -m benchmarks.lublin_family > FILE` writes it.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import yaml

from rlsched.scenario import load

TRAINING_MEMBERS, TRAINING_SEED = 96, 0
UNSEEN_SEEDS = {"member": 1, "other": 3}
"""Of two sets of members that no training saw. Settings were chosen with the first in view."""

UNITS = (64, 4096)
LOAD = (0.5, 1.1)
ESTIMATES = ("exact", "gaussian", "tsafrir", "tsafrir")
MEAN_LOG_GAP = 4.98
"""Of the model: shape times scale of the gamma distribution of ln(gap in s)."""


def member(rng: np.random.Generator) -> dict[str, Any]:
    """One cluster and its users, as a part of a mixture."""

    def around(value: float, low: float, high: float) -> float:
        return round(float(value * rng.uniform(low, high)), 4)

    units = round(float(2 ** rng.uniform(*np.log2(UNITS))))
    spread = float(rng.uniform(1.2, 2.4))  # of ln(gap), 1.56 in the model: the more, the more bursts
    parameters = {
        "serial": around(0.244, 0.3, 1.6),
        "power_of_two": around(0.5, 0.5, 1.2),
        "size_low": around(0.8, 0.5, 1.5),
        "size_first": around(0.86, 0.85, 1.12),
        "runtime_first": [around(4.2, 0.8, 1.3), around(0.94, 0.8, 1.2)],
        "runtime_second": [around(312.0, 0.93, 1.05), 0.03],
        "runtime_mix": [round(-0.0054 * 256 / units, 8), around(0.78, 0.6, 1.15)],
        "arrival": [round((MEAN_LOG_GAP / spread) ** 2, 4), round(spread**2 / MEAN_LOG_GAP, 4)],
    }
    kind = str(rng.choice(ESTIMATES))
    workload = {"kind": "lublin", "load": round(float(rng.uniform(*LOAD)), 3), "parameters": parameters}
    if kind == "tsafrir":
        workload["estimates"] = {"kind": kind}
    elif kind == "gaussian":
        workload["estimates"] = {"kind": kind, "nu": round(float(rng.uniform(0.5, 4.0)), 2), "side": "over"}
    return {"units": units, "workload": workload}


def family(seed: int, members: int) -> list[dict[str, Any]]:
    """So many members of the family, the same for the same seed."""
    rng = np.random.default_rng(seed)
    return [member(rng) for _ in range(members)]


def main() -> None:
    """Write the scenario."""
    parts = family(TRAINING_SEED, TRAINING_MEMBERS)
    arguments = load("lublin-sizes").model_dump(mode="json", exclude_unset=True)
    arguments |= {
        "name": "lublin-family",
        "description": f"{TRAINING_MEMBERS} clusters of 64 to 4,096 processors with models of their jobs, "
        "calm to overloaded; policies for unseen clusters are trained on it.",
        "cluster": {
            "tick_s": 1,
            "resources": [{"name": "processors", "units": max(part["units"] for part in parts)}],
        },
        "workload": {"kind": "mixture", "parts": parts},
        "decision": {"action_rule": "commit"},
    }
    sys.stdout.write("# Written by benchmarks/lublin_family.py.\n")
    yaml.safe_dump(arguments, sys.stdout, sort_keys=False, default_flow_style=None, width=118)


if __name__ == "__main__":
    main()
