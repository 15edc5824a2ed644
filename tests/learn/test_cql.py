"""CQL: conservative about what a dataset does not show, with targets that follow every minibatch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from ray.rllib.core.learner.learner import Learner
from ray.rllib.policy.sample_batch import MultiAgentBatch

from rlsched.cli.main import main
from rlsched.envs.episodes import EpisodeFeed
from rlsched.learn.algorithms.learners.cql import conservative_gap
from rlsched.learn.config.training import make_config
from rlsched.learn.folder import RunFolder
from rlsched.learn.rllib.build import build_config
from rlsched.learn.rllib.dataset import Dataset
from rlsched.offline.manifest import read_manifest
from rlsched.offline.reader import Reader
from rlsched.scenario import Scenario

MODULE = "default_policy"
SMALL = ["cql.rows=2048"]


@given(
    st.lists(st.floats(-3, 3), min_size=2, max_size=6),
    st.floats(0.01, 10),
    st.data(),
)
def test_the_gap_is_that_of_the_soft_maximum(
    worth: list[float], temperature: float, data: st.DataObject
) -> None:
    chosen = data.draw(st.integers(0, len(worth) - 1))
    illegal = torch.tensor([[*worth, -torch.inf]], requires_grad=True)
    gap = conservative_gap(illegal, torch.tensor([chosen]), temperature)
    scaled = np.array(worth) / temperature
    soft = temperature * (np.log(np.exp(scaled - scaled.max()).sum()) + scaled.max())
    assert float(gap) == pytest.approx(soft - worth[chosen], abs=1e-4)
    assert float(gap) >= max(worth) - worth[chosen] - 1e-4
    gap.backward()
    assert illegal.grad is not None
    assert torch.isfinite(illegal.grad).all()
    assert illegal.grad[0, -1] == 0


class Setting:
    """A learner of CQL, and its dataset."""

    def __init__(self, simulated: Scenario, folder: Path, *settings: str) -> None:
        feed = EpisodeFeed(simulated)
        config = make_config({"algo": "cql", "dataset": str(folder)}, "test", [*SMALL, *settings])
        self.config = build_config(feed.scenario, config.resolve(feed.scenario), len(feed.units))
        self.data = Dataset(self.config)
        spaces = {MODULE: (self.config.observation_space, self.config.action_space)}
        self.learner: Learner = self.config.build_learner(env=None, spaces=spaces)
        self.module = self.learner.module[MODULE].unwrapped()

    def update(self, rows: int) -> MultiAgentBatch:
        """Learn from so many."""
        batch = self.data.sample(rows)
        self.learner.update(batch=batch, minibatch_size=256)
        return batch

    def close(self) -> None:
        self.learner.shutdown()
        self.data.reader.close()


def weights(network: torch.nn.Module) -> list[torch.Tensor]:
    return [value.detach().clone() for value in network.parameters()]


def test_targets_follow_every_minibatch(
    short: Scenario, sjf_dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By hand: half of the way after each of four, which RLlib would go once."""
    setting = Setting(short, sjf_dataset, "cql.tau=0.5")
    pairs = setting.module.get_target_network_pairs()
    expected = [weights(target) for _, target in pairs]
    apply = setting.learner.apply_gradients

    def follow(gradients: object) -> None:
        apply(gradients)
        for at, (network, _) in enumerate(pairs):
            expected[at] = [
                0.5 * old + 0.5 * new for old, new in zip(expected[at], weights(network), strict=True)
            ]

    monkeypatch.setattr(setting.learner, "apply_gradients", follow)
    try:
        setting.update(1024)
        for (network, target), by_hand in zip(pairs, expected, strict=True):
            torch.testing.assert_close(weights(target), by_hand)
            assert not all(torch.equal(*pair) for pair in zip(by_hand, weights(network), strict=True))
    finally:
        setting.close()


def test_learners_get_transitions_with_their_time(short: Scenario, sjf_dataset: Path) -> None:
    """Over several decisions each, discounted as the scenario says."""
    setting = Setting(short, sjf_dataset, "cql.n_step=4")
    names = ["obs", "new_obs", "new_action_mask", "rewards", "elapsed", "terminateds", "actions"]
    gamma = short.objective.gamma
    reader = Reader(sjf_dataset, read_manifest(sjf_dataset), names, seed=0, n_step=4, gamma=gamma)
    try:
        rows, batch = reader.take(300), setting.data.sample(300).policy_batches[MODULE]
        size = rows["obs"].shape[1]
        assert (batch["new_obs"][:, :size] == rows["new_obs"]).all()
        assert (batch["new_obs"][:, size:-1] == rows["new_action_mask"]).all()
        assert (batch["new_obs"][:, -1] - batch["obs"][:, -1] == rows["elapsed"]).all()
        assert (batch["rewards"] == rows["rewards"].astype(np.float32)).all()
        assert (batch["terminateds"] == rows["terminateds"]).all()
        assert rows["elapsed"].std() > 0
    finally:
        reader.close()
        setting.close()


@pytest.mark.long
@pytest.mark.slow
def test_conservatism_keeps_to_what_was_shown(short: Scenario, sjf_dataset: Path) -> None:
    """And where it weighs nothing, nothing does."""
    agreed = {}
    for weight in (0.0, 1.0):
        setting = Setting(short, sjf_dataset, f"cql.alpha={weight}", "cql.learning_rate=1e-3")
        try:
            for _ in range(20):
                setting.update(2048)
            fresh = setting.data.sample(2048).policy_batches[MODULE]
            with torch.no_grad():
                best = setting.module.forward_inference({"obs": torch.from_numpy(fresh["obs"])})["actions"]
            agreed[weight] = float((best.numpy() == fresh["actions"]).mean())
        finally:
            setting.close()
    assert agreed[1.0] > 0.85
    assert agreed[1.0] - agreed[0.0] > 0.1


@pytest.mark.slow
def test_a_run_reports_and_goes_on_where_it_was_left(sjf_dataset: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    sets = [word for setting in (*SMALL, "validation.episodes=2") for word in ("--set", setting)]
    words = ["train", "--algo", "cql", "--dataset", str(sjf_dataset), *sets, "--out", str(out)]
    assert main([*words, "--steps", "8000"]) == 0
    assert main(["train", "--resume", "--steps", "10000", "--out", str(out)]) == 0
    rows = RunFolder(out).rows()
    assert [int(row["steps"]) for row in rows] == [0, 2048, 4096, 6144, 8192, 10_240]
    for row in rows[1:]:
        assert float(row["conservative_gap"]) > 0
        assert 0 < float(row["agreement"]) <= 1
