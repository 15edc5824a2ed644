"""A learner of RARE with a batch, and its losses computed by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.learner import Learner

from rlsched.envs.episodes import EpisodeFeed
from rlsched.learn.config.training import make_config
from rlsched.learn.networks.actor_critic import RareModule
from rlsched.learn.rllib.build import build_config
from rlsched.learn.rllib.dataset import TRANSITIONS, learned_from
from rlsched.offline.manifest import read_manifest
from rlsched.offline.reader import Reader
from rlsched.scenario import Scenario

MODULE = "default_policy"
GAMMA = 0.998
LIFETIME = "num_env_steps_sampled_lifetime"


class Setting:
    """A learner, and transitions for it."""

    def __init__(self, simulated: Scenario, folder: Path, *settings: str) -> None:
        feed = EpisodeFeed(simulated)
        config = make_config(
            {"algo": "launchpad", "dataset": str(folder)},
            "test",
            ["launchpad.rows=1000", "rare.imitate=500", *settings],
        )
        self.config = build_config(feed.scenario, config.resolve(feed.scenario), len(feed.units))
        reader = Reader(folder, read_manifest(folder), TRANSITIONS, seed=0)
        columns = learned_from(reader.take(200), 1.0)
        reader.close()
        self.batch = {name: torch.from_numpy(np.ascontiguousarray(of)) for name, of in columns.items()}
        self.batch[Columns.TERMINATEDS] = torch.arange(200) % 7 == 0
        width = self.batch[Columns.OBS].shape[1]
        spaces = {
            MODULE: (
                gym.spaces.Box(-np.inf, np.inf, (width,), np.float32),
                gym.spaces.Discrete(feed.scenario.decision.window + 2),
            )
        }
        self.learner: Learner = self.config.build_learner(env=None, spaces=spaces)
        self.module: RareModule = self.learner.module[MODULE].unwrapped()
        torch.manual_seed(0)
        with torch.no_grad():
            for value in self.module.parameters():
                value.add_(0.05 * torch.randn_like(value))  # all networks differ
        factor, offset = self.module.popart.update(torch.linspace(1.0, 2.0, 50))  # so does the scale from 1
        for critic in self.module.every_critic():
            critic.rescale(factor, offset)

    def loss(self, decisions: int) -> tuple[float, dict[str, Any]]:
        """So far into a run; with gradients."""
        self.learner.before_gradient_based_update(timesteps={LIFETIME: decisions})
        self.module.zero_grad()
        output = self.learner.module[MODULE].forward_train(self.batch)
        loss = self.learner.compute_loss_for_module(
            module_id=MODULE, config=self.config, batch=self.batch, fwd_out=output
        )
        loss.backward()
        for name, value in self.module.named_parameters():
            assert value.grad is None or torch.isfinite(value.grad).all(), name
        return float(loss.detach()), output


ROLLOUT_TEMPERATURE = 3.0  # of play
TRUST = 1000.0  # in what was shown, of critics that know nothing yet


def huber(errors: torch.Tensor) -> torch.Tensor:
    """Their mean, in spreads of what is expected, 20 to a unit; those beyond 1 count by their size alone."""
    error = 20 * errors.abs()
    return torch.where(error < 1, 0.5 * error**2, error - 0.5).mean()


def assert_moves_critics(setting: Setting, loss: torch.Tensor) -> None:
    """It alone: what the last loss asks of the critics."""
    weights = list(setting.module.critics.parameters())
    actual = torch.cat([weight.grad.flatten() for weight in weights if weight.grad is not None])
    expected = torch.cat([gradient.flatten() for gradient in torch.autograd.grad(loss, weights)])
    torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-5 * float(expected.abs().max()))


def pieces(setting: Setting, temperature: float = 1.0) -> dict[str, torch.Tensor]:
    """What the losses are made of, row by row, from the networks alone; critics' with gradients."""
    module, batch = setting.module, setting.batch
    (vector, mask), (vector2, mask2) = (
        module._split({Columns.OBS: batch[name]}) for name in (Columns.OBS, Columns.NEXT_OBS)
    )
    means = module.policy.encode(vector, mask)
    output = torch.stack([critic(critic.value.look(vector), mask, means) for critic in module.critics])
    with torch.no_grad():
        twins, legal, legal2 = output.detach(), mask > 0.5, mask2 > 0.5
        pi = torch.softmax(module.policy(vector, mask) / temperature, 1)
        pi2 = torch.softmax(module.target_policy(vector2, mask2) / temperature, 1)
        means2 = module.target_policy.encode(vector2, mask2)
        older = torch.stack(
            [critic(critic.value.look(vector2), mask2, means2) for critic in module.target_critics]
        )
        careful, careful2 = module.popart.undo(twins.min(0).values), module.popart.undo(older.min(0).values)
        targets = []
        for row in range(len(vector)):
            choices = legal2[row]
            p, q = pi2[row][choices], careful2[row][choices]
            following = float((p * q).sum())
            ticks = float(batch[Columns.NEXT_OBS][row, -1] - batch[Columns.OBS][row, -1])
            over = bool(batch[Columns.TERMINATEDS][row])
            targets.append(float(batch[Columns.REWARDS][row]) + (0 if over else GAMMA**ticks * following))
        wanted = (torch.tensor(targets) - module.popart.mean) / module.popart.unit
        actions = batch[Columns.ACTIONS].long()
        entropy = torch.stack([-(p[ok] * p[ok].log()).sum() for p, ok in zip(pi, legal, strict=True)])
        actions_taken = actions[:, None]
        advantages = (careful.gather(1, actions_taken) - (pi * careful).sum(1, keepdim=True))[:, 0]
        most = legal.sum(1).float().log()
        chosen = pi.gather(1, actions_taken)[:, 0].log()
    return {
        "critics": huber(output.gather(2, actions.expand(2, -1)[..., None])[..., 0] - wanted),
        "chosen": chosen,
        "advantages": advantages,
        "entropy": entropy,
        "most": most,
        "worth": (pi * careful).sum(1),
        "expected": (pi * output).sum(2),
        "twins": module.popart.undo(output).masked_fill(~legal, -torch.inf),
        "log": pi.log().masked_fill(~legal, 0.0),
    }


def soft_actor_critic(setting: Setting, made: dict[str, torch.Tensor]) -> float:
    """The loss of these pieces."""
    temperature = float(setting.module.log_temperature.detach().exp())
    actor = -(made["worth"] + temperature * made["entropy"]).mean()
    cooling = temperature * (made["entropy"] - 0.03 * made["most"]).mean()
    return (made["critics"] + actor + cooling).item()


def conservative(setting: Setting, made: dict[str, torch.Tensor]) -> torch.Tensor:
    """By hand: how far the softest maximum of a critic is above what it thinks of what was shown."""
    actions, gaps = setting.batch[Columns.ACTIONS].tolist(), []
    for critic in made["twins"]:
        for worths, action in zip(critic, actions, strict=True):
            policy_values = worths[torch.isfinite(worths)] / 0.01
            gaps.append(
                0.01 * (policy_values.max() + (policy_values - policy_values.max()).exp().sum().log())
                - worths[action]
            )
    assert min(gaps) >= -1e-6
    return TRUST * torch.stack(gaps).mean() / (setting.module.popart.unit / 20) ** 2


def does_best(made: dict[str, torch.Tensor]) -> torch.Tensor:
    """The loss of an actor that is to do what critics think is best."""
    best = (made["twins"].min(0).values / 0.003).softmax(1)
    return -(best * made["log"]).sum(1).mean()
