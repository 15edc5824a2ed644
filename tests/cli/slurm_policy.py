"""An untrained policy, and sample output of Slurm for it."""

from __future__ import annotations

from pathlib import Path

import torch

from rlsched import scenario
from rlsched.learn.config.sections import Network
from rlsched.learn.networks.policies import build_policy
from rlsched.learn.policy import NetworkPolicy
from rlsched.serve.artefact import export_policy
from rlsched.sim.layout import Layout

ROOT = Path(__file__).parents[2]
FILES = ROOT / "tests" / "integrations" / "slurm"
NOW = 1_760_000_000
SQUEUE, SINFO = FILES / "squeue-24.11.5.json", FILES / "sinfo-24.11.5.json"
TOKEN = "0123456789abcdef"
MAY_START = {"200_2", 301, 302, 303, 311, 312}


def exported(folder: Path, *overrides: str, lstm: int = 0) -> Path:
    """A policy that was never trained."""
    made = scenario.load("lublin-256", ["decision.window=32", *overrides])
    resources = len(made.cluster.resources)
    torch.manual_seed(0)
    network = Network(kind="job_scorer", hidden=(16,), lstm=lstm)
    net = build_policy(Layout.of(made.observation, made.decision, resources), network)
    NetworkPolicy(made, network, net, resources, {"algo": "ppo"}).save(folder / "raw")
    export_policy(folder / "raw", folder / "policy")
    return folder / "policy"
