"""Whether faster training learns as well: PPO with our runner, with RLlib's, and by a plain loop.

The same environments, network, batch, epochs, minibatches and rates, several seeds of each. Compared is the
mean return of the last hundred episodes of training, after the same number of decisions. RLlib with its own
learner, too, is not held to that: it discounts per decision, which is another objective.
Run: `python -m benchmarks.training_curves --scenario green-10 --steps 300000 --out curves.json`.
"""

from __future__ import annotations

import argparse
import json
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.plain_ppo import PlainPPO
from benchmarks.train_speed import PLAIN_LOOP
from rlsched.cli.bench_train import RLLIB, RLSCHED, RllibTrainer
from rlsched.envs.episodes import EpisodeFeed
from rlsched.learn.config.training import TrainConfig, make_config
from rlsched.learn.rllib.session import session_for
from rlsched.scenario import load
from rlsched.scenario.beside import split_overrides

RUNNER = "RLlib's runner"
"""With our learner."""

Curve = list[tuple[int, float]]
"""Decisions, and the mean return of the last hundred episodes then."""


def curve(who: str, config: TrainConfig, feed: EpisodeFeed) -> Curve:
    """Train until `config.steps`."""
    with ExitStack() as until:
        one: Any
        if who == PLAIN_LOOP:
            one = PlainPPO(config, feed)
        else:
            sampling = config.sampling.model_copy(update={"batched": who == RLSCHED})
            one = RllibTrainer(config.model_copy(update={"sampling": sampling}), feed, stock=who == RLLIB)
            until.callback(one.stop)
        steps, found = 0, []
        while steps < (config.steps or 0):
            steps += one.iterate().steps
            found.append((steps, float(np.mean(one.last)) if one.last else float("nan")))
        return found


def interval(values: list[float]) -> tuple[float, float, float]:
    """Mean, and its 95 % interval [Student]."""
    mean, error = float(np.mean(values)), float(stats.sem(values))
    half = float(stats.t.ppf(0.975, len(values) - 1)) * error
    return mean, mean - half, mean + half


def main() -> None:
    """Train all, and hold them against the plain loop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", default="lublin-256")
    parser.add_argument("--steps", type=int, default=300_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--who", nargs="+", default=[RLSCHED, RUNNER, PLAIN_LOOP, RLLIB])
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--out", type=Path, default=Path("curves.json"))
    asked = parser.parse_args()
    for_training, for_scenario = split_overrides(TrainConfig, asked.set)
    feed = EpisodeFeed(load(asked.scenario, for_scenario))
    curves: dict[str, list[Curve]] = {name: [] for name in asked.who}
    base = make_config({"steps": asked.steps}, "training_curves", for_training).settled(feed.scenario)
    with session_for(base, None):
        for seed in range(asked.seeds):
            for who, found in curves.items():
                began = time.perf_counter()
                found.append(curve(who, base.model_copy(update={"seed": seed}), feed))
                (first, last), seconds = (found[-1][0][1], found[-1][-1][1]), time.perf_counter() - began
                print(f"seed {seed}  {who:14}  {first:.5g} -> {last:.5g}  {seconds:.0f} s", flush=True)
                asked.out.write_text(json.dumps(curves) + "\n", "utf-8")
    ends = {who: [found[-1][1] for found in of] for who, of in curves.items()}
    for who, values in ends.items():
        mean, low, high = interval(values)
        beside = ""
        if PLAIN_LOOP in ends and who != PLAIN_LOOP:
            p = stats.ttest_ind(values, ends[PLAIN_LOOP], equal_var=False).pvalue
            beside = f"  p of no difference to the {PLAIN_LOOP}: {p:.2f}"
        print(f"{who:14}  {mean:.5g} [{low:.5g}, {high:.5g}]{beside}")


if __name__ == "__main__":
    main()
