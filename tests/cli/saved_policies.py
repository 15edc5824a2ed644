"""Saved policies for tests of commands: plain Python ones, and small networks."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from rlsched.learn import policy as artefact
from rlsched.learn.config.sections import Network
from rlsched.learn.networks.policies import build_policy
from rlsched.scenario import Scenario, load
from rlsched.sim.columns import JOB_FEATURES
from rlsched.sim.layout import Layout
from tests.policies import Forgetful

SMALL = ("decision.window=16", "episode.jobs=40")


@dataclass(frozen=True)
class ByLength(Forgetful):
    """A policy that takes the legal job with the shortest requested time, or the longest."""

    scenario: Scenario
    num_resources: int
    longest: bool

    def decide(self, obs: NDArray[np.float32], mask: NDArray[np.int8]) -> NDArray[np.int64]:
        layout = Layout.of(self.scenario.observation, self.scenario.decision, self.num_resources)
        requested = layout.view(obs, "jobs")[..., JOB_FEATURES.names(1).index("requested")]
        key = np.where(mask[:, :-1] == 1, -requested if self.longest else requested, np.inf)
        return np.where(np.isinf(key).all(axis=1), layout.num_actions - 1, key.argmin(axis=1))


def save_policy(folder: Path, *overrides: str, longest: bool = False, resources: int = 1) -> Path:
    """A folder that `loader_of_plain_policies` loads."""
    folder.mkdir()
    settings = {"overrides": overrides, "longest": longest, "resources": resources}
    (folder / "by_length.json").write_text(json.dumps(settings))
    return folder


def loader_of_plain_policies() -> Callable[..., object]:
    """A replacement for `load_policy` that also loads what `save_policy` saved."""
    real = artefact.load_policy

    def load_policy(path: Path, *, sample: bool = False) -> object:
        if not (path / "by_length.json").is_file():
            return real(path, sample=sample)
        settings = json.loads((path / "by_length.json").read_text())
        scenario = load("lublin-256", [*SMALL, *settings["overrides"]])
        return ByLength(scenario, settings["resources"], settings["longest"])

    return load_policy


def save_network(folder: Path, kind: str = "mlp") -> Path:
    """A real artefact, of a network that knows nothing."""
    torch.manual_seed(0)
    scenario, network = load("lublin-256", SMALL), Network.model_validate({"kind": kind, "hidden": (8,)})
    layout = Layout.of(scenario.observation, scenario.decision, 1)
    net = build_policy(layout, network)
    artefact.NetworkPolicy(scenario, network, net, 1, {}).save(folder)
    return folder
