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
from collections import deque
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.plain_ppo import PlainPPO
from benchmarks.train_speed import PLAIN_LOOP
from rlsched.cli.bench_train import RLLIB, RLSCHED, RllibTrainer
from rlsched.envs.episodes import EpisodeFeed
from rlsched.learn.config.training import ResolvedConfig, TrainConfig, make_config
from rlsched.learn.rllib.scale import expected_returns
from rlsched.learn.rllib.session import session_for
from rlsched.scenario import load
from rlsched.scenario.combined_file import split_overrides

RUNNER = "RLlib's runner"
"""With our learner."""


class TrackedTrainer(RllibTrainer):
    """PPO by RLlib, with the returns of its last hundred episodes."""

    def __init__(self, config: ResolvedConfig, feed: EpisodeFeed, *, stock: bool) -> None:
        super().__init__(config, feed, stock=stock)
        self.last: deque[float] = deque(maxlen=100)
        scale = expected_returns(feed, config.seed).scale
        vector = self.algorithm.env_runner.env.unwrapped
        returns, step = np.zeros(vector.num_envs), vector.step

        def summed(actions: Any) -> Any:
            transition = step(actions)
            _, rewards, terminated, truncated, _ = transition
            returns[:] += rewards
            for env in np.flatnonzero(terminated | truncated):
                self.last.append(returns[env] / scale)
                returns[env] = 0.0
            return transition

        vector.step = summed


Curve = list[tuple[int, float]]
"""Decisions, and the mean return of the last hundred episodes then."""


def curve(name: str, config: ResolvedConfig, feed: EpisodeFeed) -> Curve:
    """Train until `config.steps`."""
    with ExitStack() as until:
        item: Any
        if name == PLAIN_LOOP:
            item = PlainPPO(config, feed)
        else:
            sampling = config.sampling.model_copy(update={"batched": name == RLSCHED})
            item = TrackedTrainer(config.model_copy(update={"sampling": sampling}), feed, stock=name == RLLIB)
            until.callback(item.stop)
        steps, result = 0, []
        while steps < (config.steps or 0):
            steps += item.iterate().steps
            result.append((steps, float(np.mean(item.last)) if item.last else float("nan")))
        return result


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
    requested = parser.parse_args()
    for_training, for_scenario = split_overrides(TrainConfig, requested.set)
    feed = EpisodeFeed(load(requested.scenario, for_scenario))
    curves: dict[str, list[Curve]] = {name: [] for name in requested.who}
    base = make_config({"steps": requested.steps}, "training_curves", for_training).resolve(feed.scenario)
    with session_for(base, None):
        for seed in range(requested.seeds):
            for actor, result in curves.items():
                began = time.perf_counter()
                result.append(curve(actor, base.model_copy(update={"seed": seed}), feed))
                (first, last), seconds = (result[-1][0][1], result[-1][-1][1]), time.perf_counter() - began
                print(f"seed {seed}  {actor:14}  {first:.5g} -> {last:.5g}  {seconds:.0f} s", flush=True)
                requested.out.write_text(json.dumps(curves) + "\n", "utf-8")
    ends = {actor: [result[-1][1] for result in of] for actor, of in curves.items()}
    for actor, values in ends.items():
        mean, low, high = interval(values)
        extra = ""
        if PLAIN_LOOP in ends and actor != PLAIN_LOOP:
            p = stats.ttest_ind(values, ends[PLAIN_LOOP], equal_var=False).pvalue
            extra = f"  p of no difference to the {PLAIN_LOOP}: {p:.2f}"
        print(f"{actor:14}  {mean:.5g} [{low:.5g}, {high:.5g}]{extra}")


if __name__ == "__main__":
    main()
