"""A learner that dies ends the run with its reason; RLlib's own APPO would wait for it for ever."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ray import cloudpickle
from ray.rllib.core.learner.training_data import TrainingData
from torch import Tensor

from rlsched.cli.main import main
from rlsched.learn.algorithms.base import ALGORITHMS, RllibAlgorithm
from rlsched.learn.algorithms.learners.appo import TimedAPPOLearner
from rlsched.learn.algorithms.learners.ppo import TimedPPOLearner

pytestmark = pytest.mark.slow


class Dying:
    """Learns for a while."""

    updates = 0

    def compute_loss_for_module(self, **kwargs: Any) -> Tensor:
        self.updates += 1
        if self.updates > 12:
            raise FloatingPointError(f"at {time.time()}")
        loss: Tensor = super().compute_loss_for_module(**kwargs)  # type: ignore[misc]
        return loss


class DyingAPPO(Dying, TimedAPPOLearner):
    """Learns in a thread of its own, for a while."""


class DyingPPO(Dying, TimedPPOLearner):
    """Learns between fragments, for a while."""


BROKEN = {"appo": DyingAPPO, "ppo": DyingPPO}


@pytest.fixture(scope="module")
def pickled() -> Iterator[None]:
    """Dying is pickled whole: other processes do not know this file."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def test_nothing_is_learned_from_fragments_that_are_gone_with_their_node() -> None:
    learner = TimedAPPOLearner.__new__(TimedAPPOLearner)  # any use of what it is built with would fail
    assert learner.update(training_data=TrainingData(episodes=[]), timesteps={}) == {}


@pytest.mark.long
@pytest.mark.parametrize(("algo", "learners"), [("appo", 0), ("appo", 1), ("ppo", 0)])
def test_the_run_ends_with_the_reason_and_can_go_on(
    algo: str,
    learners: int,
    pickled: None,
    ray_address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    algorithm = ALGORITHMS[algo]
    assert isinstance(algorithm, RllibAlgorithm)
    parts = algorithm.parts
    settings = (
        *("sampling.envs_per_runner=8", "sampling.fragment=32", "appo.fragment=16", f"learners={learners}"),
        *("ppo.minibatch=64", "ppo.epochs=2"),  # dies after a number of minibatches
        *("validation.episodes=2", "validation.every=1", "episode.max_ticks=100"),
    )
    words = ["train", "--scenario", "green-10", "--algo", algo, "--out", str(tmp_path / "run")]
    for setting in settings:
        words += ["--set", setting]
    with monkeypatch.context() as patch:
        patch.setattr(algorithm, "parts", lambda: replace(parts(), learner=BROKEN[algo]))
        assert main([*words, "--steps", "1000000"]) == 1
    ended, output = time.time(), capsys.readouterr().err
    actual = re.search(
        r"failed: (?:LearnerDiedError: the learner died of )?FloatingPointError: at (\S+)", output
    )
    assert actual is not None, output
    assert ended - float(actual[1]) < 60
    if algo == "appo":  # out of another thread or process, where --debug would not show where
        assert "in compute_loss_for_module" in output
    assert f"resume from its last checkpoint: rlsched train --resume --out {tmp_path / 'run'}" in output
    if learners == 0:
        saved = len((tmp_path / "run" / "metrics.csv").read_text().splitlines())
        assert main(["train", "--resume", "--out", str(tmp_path / "run"), "--steps", "3000"]) == 0
        assert len((tmp_path / "run" / "metrics.csv").read_text().splitlines()) > saved
