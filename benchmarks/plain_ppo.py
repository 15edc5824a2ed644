"""PPO as a plain torch loop, in the manner of CleanRL: what a training run costs without a framework.

The same environments, networks, rewards, discounts in time, batch, epochs and minibatches as `rlsched train`;
no replicas, validation, checkpoints or other machines. `benchmarks/train_speed.py` compares the two.
Run: `python -m benchmarks.plain_ppo --scenario lublin-256 --steps 300000`.
"""

from __future__ import annotations

import argparse
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from rlsched.cli.bench_train import Iteration
from rlsched.envs.episodes import EpisodeFeed
from rlsched.learn.algorithms.ppo import PpoAlgorithm
from rlsched.learn.config.training import TrainConfig, make_config
from rlsched.learn.networks.critic import Critic
from rlsched.learn.networks.policies import build_policy
from rlsched.learn.rllib.sampling import TrainingVectorEnv
from rlsched.learn.rllib.scale import expected_returns
from rlsched.scenario import load
from rlsched.sim.layout import Layout


@dataclass(frozen=True)
class PlainIteration(Iteration):
    """An iteration of the plain loop.

    Attributes:
        returns: of the episodes that ended.
    """

    returns: list[float]


class PlainPPO:
    """Everything in one process and one file.

    Args:
        config: as for `rlsched train`; `ppo`, `sampling` and `network` count.
        feed: of training episodes, and what is simulated.
    """

    def __init__(self, config: TrainConfig, feed: EpisodeFeed) -> None:
        scenario = feed.scenario
        self.config = config = config.resolve(scenario)
        self.gamma = scenario.objective.gamma
        self.lam = self.gamma if config.ppo.gae_lambda is None else config.ppo.gae_lambda
        returns = expected_returns(feed, config.seed)
        self.scale = returns.scale
        context = {
            "scenario": scenario.model_dump(mode="json"),
            "stream": (config.seed, 0),
            "reward_scale": returns.scale,
            "num_envs": config.sampling.envs_per_runner,
        }
        self.envs = TrainingVectorEnv(context)
        self.layout = Layout.of(scenario.observation, scenario.decision, len(feed.units))
        torch.manual_seed(config.seed)
        self.policy = build_policy(self.layout, config.network)
        self.critic = Critic(self.layout, config.network.critic_hidden, returns.coming)
        self.critic.begin_with(returns.mean)
        self.parameters = [*self.policy.parameters(), *self.critic.parameters()]
        self.optimizer = torch.optim.Adam(self.parameters, lr=config.ppo.learning_rate)
        obs, _ = self.envs.reset(seed=config.seed)
        self.obs = torch.from_numpy(np.asarray(obs))
        self.fresh = torch.zeros(self.envs.num_envs, dtype=torch.bool)
        self.sums = np.zeros(self.envs.num_envs)
        self.last: deque[float] = deque(maxlen=100)
        self.steps = 0

    def logits(self, obs: Tensor) -> Tensor:
        """(batch, actions), masked."""
        size = self.layout.size
        logits: Tensor = self.policy(obs[:, :size], obs[:, size:-1])
        return logits

    def values(self, obs: Tensor) -> Tensor:
        """(batch,) of the critic."""
        values: Tensor = self.critic(obs[:, : self.layout.size])
        return values

    def iterate(self) -> PlainIteration:
        """Play a fragment in all environments, and learn from it."""
        length, envs = PpoAlgorithm().fragment(self.config), self.envs.num_envs
        obs = torch.zeros(length + 1, envs, self.obs.shape[1])
        actions = torch.zeros(length, envs, dtype=torch.long)
        logp, rewards = torch.zeros(length, envs), torch.zeros(length, envs)
        ended, terminated = torch.zeros(length, envs).bool(), torch.zeros(length, envs).bool()
        real = torch.zeros(length, envs).bool()
        simulate = forward = 0.0
        finished: list[float] = []
        for t in range(length):
            began = time.perf_counter()
            obs[t], real[t] = self.obs, ~self.fresh
            with torch.no_grad():
                chances = self.logits(self.obs).log_softmax(1)
                actions[t] = torch.multinomial(chances.exp(), 1).squeeze(1)
                logp[t] = chances.gather(1, actions[t].unsqueeze(1)).squeeze(1)
            middle = time.perf_counter()
            following, reward, over, cut, _ = self.envs.step(actions[t].numpy())
            simulate += time.perf_counter() - middle
            forward += middle - began
            self.obs = torch.from_numpy(np.asarray(following))
            rewards[t] = torch.from_numpy(reward).float()
            terminated[t] = torch.from_numpy(over)
            ended[t] = self.fresh = torch.from_numpy(over | cut)
            self.sums += reward
            for env in np.flatnonzero(over | cut):
                finished.append(self.sums[env] / self.scale)
                self.last.append(finished[-1])
                self.sums[env] = 0.0
        obs[length] = self.obs
        began = time.perf_counter()
        self.learn(obs, actions, logp, rewards, terminated, ended, real)
        decisions = int(real.sum())
        self.steps += decisions
        return PlainIteration(decisions, simulate, forward, time.perf_counter() - began, finished)

    def learn(
        self,
        obs: Tensor,
        actions: Tensor,
        logp: Tensor,
        rewards: Tensor,
        terminated: Tensor,
        ended: Tensor,
        real: Tensor,
    ) -> None:
        """Advantages and clipped updates; all arguments are (step, env, ...), `obs` with one step more."""
        ppo = self.config.ppo
        with torch.no_grad():
            values = torch.stack([self.values(row) for row in obs])
        ticks = (obs[1:, :, -1] - obs[:-1, :, -1]).clamp(min=0)
        discount, weight = self.gamma**ticks, self.lam**ticks
        advantages, running = torch.zeros_like(rewards), torch.zeros(rewards.shape[1])
        for t in reversed(range(len(rewards))):
            error = rewards[t] + discount[t] * values[t + 1] * ~terminated[t] - values[t]
            running = error + discount[t] * weight[t] * running * ~ended[t]
            running = running * real[t]  # a step that only began an episode is nobody's
            advantages[t] = running
        targets = (advantages + values[:-1])[real]
        rows, chosen, before = obs[:-1][real], actions[real], logp[real]
        standard = advantages[real]
        standard = (standard - standard.mean()) / (standard.std() + 1e-8)
        share = min(1.0, self.steps / (self.config.steps or 1))
        for group in self.optimizer.param_groups:
            group["lr"] = ppo.learning_rate + share * (ppo.final_learning_rate - ppo.learning_rate)
        for index in self.minibatches(len(rows)):
            picked = rows[index]
            chances = self.logits(picked).log_softmax(1)
            ratio = (chances.gather(1, chosen[index].unsqueeze(1)).squeeze(1) - before[index]).exp()
            gain = torch.min(
                ratio * standard[index], ratio.clamp(1 - ppo.clip, 1 + ppo.clip) * standard[index]
            )
            entropy = -(chances.exp() * chances.clamp(min=-1e9)).sum(1)
            error = (self.values(picked) - targets[index]) ** 2
            loss = (-gain + ppo.value_weight * error - ppo.entropy * entropy).mean()
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.parameters, ppo.gradient_clip)
            self.optimizer.step()

    def minibatches(self, rows: int) -> Iterator[Tensor]:
        """Indices, in another order in every epoch."""
        parts = max(1, rows // self.config.ppo.minibatch)
        for _ in range(self.config.ppo.epochs):
            yield from torch.randperm(rows).tensor_split(parts)


def main() -> None:
    """Train, and tell how fast that is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", default="lublin-256")
    parser.add_argument("--steps", type=int, default=300_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", action="append", default=[])
    requested = parser.parse_args()
    settings = {"seed": requested.seed, "steps": requested.steps}
    feed = EpisodeFeed(load(requested.scenario))
    config = make_config(settings, "plain_ppo", requested.set)
    if config.network.lstm:
        parser.error("network.lstm is not supported here: remove it")
    loop = PlainPPO(config, feed)
    while loop.steps < requested.steps:
        began = time.perf_counter()
        done = loop.iterate()
        rate = done.steps / (time.perf_counter() - began)
        mean = float(np.mean(done.returns)) if done.returns else float("nan")
        print(f"{loop.steps:>9,} decisions  return {mean:10.4g}  {rate:8,.0f}/s", flush=True)


if __name__ == "__main__":
    main()
