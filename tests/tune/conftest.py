"""A sweep that takes seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

TINY: dict[str, Any] = {
    "base": {
        "scenario": "green-10",
        "algo": "ppo",
        "steps": 4096,
        "sampling": {"envs_per_runner": 8, "fragment": 64},
        "ppo": {"minibatch": 128},
        "validation": {"episodes": 2, "every": 2},
        "network": {"hidden": [8], "critic_hidden": [8]},
    },
    "set": ["episode.max_ticks=60"],
    "space": {"ppo.learning_rate": {"values": [0.001, 0.0001]}},
    "seeds": [0, 1],
}


@pytest.fixture
def tiny() -> dict[str, Any]:
    return yaml.safe_load(yaml.safe_dump(TINY))


def write(path: Path, sweep: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(sweep), "utf-8")
    return path
