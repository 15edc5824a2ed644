"""Training speed: all trainers take turns, and the shares of their time add up."""

from __future__ import annotations

import pytest

from benchmarks.train_speed import PLAIN_LOOP, other_trainers
from rlsched.cli import bench_train
from rlsched.learn.config.training import make_config
from rlsched.scenario import load

SETTINGS = ("sampling.envs_per_runner=4", "sampling.fragment=32", "ppo.minibatch=32")


@pytest.mark.slow
@pytest.mark.long
def test_all_trainers_take_turns() -> None:
    scenario = load("lublin-256", ["episode.jobs=24", "decision.window=16"])
    speeds = bench_train.measure_training(scenario, make_config({}, "test", SETTINGS), 2, other_trainers)
    names = [speed.name for speed in speeds]
    assert names[:3] == ["rlsched", "RLlib", PLAIN_LOOP]
    for speed in speeds:
        assert sum(speed.shares.values()) == pytest.approx(1.0)
        assert speed.sampled > speed.decisions > 0
    figures = bench_train.figures("lublin-256", speeds, PLAIN_LOOP)
    assert {figure.name for figure in figures} == {"train_decisions_per_s", "sampled_decisions_per_s"}
    assert {figure.case for figure in figures} == {f"lublin-256, {name}" for name in names}
    for figure in figures:
        assert figure.against == PLAIN_LOOP
        assert (figure.ratio == 1) == figure.case.endswith(PLAIN_LOOP)
