"""Training speed relative to a plain torch loop, and to MaskablePPO of sb3-contrib where it is installed.

Measures what `rlsched bench train` does, and lets the other trainers take turns with it. MaskablePPO has a
network of its own and runs twice: with the settings of rlsched, and with its defaults. It needs
`pip install 'rlsched[bench]'`.
Run: `python -m benchmarks.train_speed --scenario green-10 --set sampling.fragment=256`.
"""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path

from benchmarks.plain_ppo import PlainPPO
from rlsched.cli import bench_train, output
from rlsched.cli.bench import show_train
from rlsched.cli.train_settings import settings_given
from rlsched.envs.episodes import EpisodeFeed
from rlsched.learn.config.training import TrainConfig

PLAIN_LOOP = "plain loop"
MASKABLE, MASKABLE_DEFAULTS = "MaskablePPO", "MaskablePPO with its defaults"


def other_trainers(config: TrainConfig, feed: EpisodeFeed) -> dict[str, bench_train.Trainer]:
    """The trainers beside rlsched and RLlib, by name."""
    trainers: dict[str, bench_train.Trainer] = {PLAIN_LOOP: PlainPPO(config, feed)}
    if find_spec("sb3_contrib") is not None:
        from benchmarks.maskable_ppo import Maskable

        trainers[MASKABLE] = Maskable(feed.scenario, config, same_settings=True)
        trainers[MASKABLE_DEFAULTS] = Maskable(feed.scenario, config, same_settings=False)
    return trainers


def main() -> None:
    """Measure, and show the figures as a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario")
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--turns", type=int, default=5, help="measured iterations of each trainer")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", metavar="KEY=VALUE", action="append", default=[])
    parser.add_argument("--json", metavar="FILE|-")
    arguments = parser.parse_args()
    named = arguments.scenario or (None if arguments.trace is not None else "lublin-256")
    simulated, training = settings_given(None, named, arguments.trace, arguments.set)
    training = training.model_copy(update={"algo": "ppo", "seed": arguments.seed})
    speeds = bench_train.measure_training(simulated, training, arguments.turns, other_trainers)
    show_train(simulated.name, speeds, PLAIN_LOOP, output.Targets(arguments.json).check())


if __name__ == "__main__":
    main()
