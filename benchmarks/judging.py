"""Whether policies can be ranked by a dataset alone: fitted Q evaluation against what they do earn.

Six orders of known value, three of which are among those who recorded, are judged by what qos, sjf, fcfs, hvf
and random decisions recorded on green-10, and then played: 24 episodes that nobody has seen. Told is the rank
correlation [Spearman] between what is estimated and the share of the submitted value that is earned.
Run: `python -m benchmarks.judging`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from scipy import stats

from rlsched.envs.episodes import EpisodeFeed
from rlsched.learn.config.sections import Network
from rlsched.learn.networks.policies import build_policy
from rlsched.learn.networks.priority import PriorityNet
from rlsched.learn.policy import NetworkPolicy
from rlsched.scenario import Scenario, load
from rlsched.sim.layout import Layout

ORDERS = {
    "packing": {"match": 1.0},
    "first": {"wait": 1.0},
    "shortest": {"requested": -1.0},
    "urgent": {"qos": 1.0},
    "longest": {"requested": 1.0},
    "worst-fit": {"match": -1.0},
}
"""Weights of job features; the best legal job is taken."""

REWARD = "objective.reward={started_value: 1}"
RECORDERS = "qos,sjf,fcfs,hvf,random"
EPISODES = 24


def rlsched(*words: str) -> None:
    """Run a command."""
    subprocess.run([sys.executable, "-m", "rlsched", *words], check=True)


def policy(scenario: Scenario, units: list[int], weights: dict[str, float], folder: Path) -> Path:
    """Write a policy that takes jobs by these weights, those that fit before waiting."""
    layout = Layout.of(scenario.observation, scenario.decision, len(units))
    network = Network(kind="priority")
    net = build_policy(layout, network).eval()
    assert isinstance(net, PriorityNet)
    scores = weights | {"fits": 3.0}
    net.weights.data = torch.tensor([scores.get(name, 0.0) for name in layout.features("jobs")])
    NetworkPolicy(scenario, network, net, len(units), {}).save(folder)
    return folder


def read(path: Path) -> dict[str, Any]:
    """What a command wrote."""
    result: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return result


def main() -> None:
    """Record, judge, play, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300_000, help="decisions of the dataset")
    parser.add_argument("--gamma", type=float, default=0.998, help="discount per tick")
    parser.add_argument("--reward", default=REWARD)
    parser.add_argument("--out", type=Path, default=Path("runs/judging"))
    requested = parser.parse_args()
    if requested.out.exists():
        parser.error(f"--out {requested.out}: is there already")
    data, assessed, played = (requested.out / name for name in ("data", "judged.json", "played.json"))
    words = ["--scenario", "green-10", "--policy", RECORDERS, "--set", requested.reward]
    words += ["--set", f"objective.gamma={requested.gamma}", "--steps", str(requested.steps)]
    rlsched("collect", *words, "--out", str(data))
    feed = EpisodeFeed(load("green-10"))
    runs = {
        name: str(policy(feed.scenario, feed.units, weights, requested.out / name))
        for name, weights in ORDERS.items()
    }
    rlsched("dataset", "judge", str(data), *runs.values(), "--json", str(assessed))
    words = ["--scenario", "green-10", "--against", "packing", "--episodes", str(EPISODES)]
    rlsched("evaluate", *runs.values(), *words, "--json", str(played))
    fqe = {name: read(assessed)["policies"][run]["fqe"] for name, run in runs.items()}
    earned: dict[str, list[float]] = {name: [] for name in runs}
    names = {run: name for name, run in runs.items()}
    for episode in read(played)["episodes"]:
        if episode["policy"] in names:
            earned[names[episode["policy"]]].append(episode["metrics"]["job_value_ratio"])
    true = {name: sum(values) / len(values) for name, values in earned.items()}
    for name in sorted(true, key=lambda name: -true[name]):
        mean, low, high = (fqe[name][part] for part in ("mean", "low", "high"))
        print(f"{name:<10} {true[name]:.1%}  fqe {mean:,.0f} [{low:,.0f}, {high:,.0f}]")
    result = stats.spearmanr([true[name] for name in runs], [fqe[name]["mean"] for name in runs])
    print(f"rank correlation {result.statistic:.3f} of {len(runs)} policies")


if __name__ == "__main__":
    main()
