"""MaskablePPO of sb3-contrib in the environments of rlsched.

One environment at a time in Python, with its observation as one flat vector and the library's own multilayer
network. With the settings of rlsched: layers of the same width, as many environments, the same batch, epochs
and minibatches. Or with its defaults: one environment, 2,048 decisions, ten epochs of minibatches of 64, two
layers of 64. Needs the extra `bench`.
"""

from __future__ import annotations

import time
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv

from rlsched.cli.bench_train import Iteration
from rlsched.envs.env import SchedulingEnv
from rlsched.learn.config.training import TrainConfig
from rlsched.scenario import Scenario


class Flat(gym.Wrapper[Any, Any, Any, Any]):
    """Blocks as one vector; the mask by the method that sb3-contrib asks for."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(SchedulingEnv(scenario))
        inside = self.env.observation_space
        assert isinstance(inside, gym.spaces.Dict)
        self.blocks = [name for name in inside if name != "action_mask"]
        size = sum(int(np.prod(inside[name].shape or ())) for name in self.blocks)
        self.observation_space = gym.spaces.Box(0.0, 1.0, (size,), np.float32)
        self.mask: NDArray[Any] = np.ones(0)

    def _flat(self, obs: dict[str, NDArray[Any]]) -> NDArray[np.float32]:
        self.mask = obs["action_mask"]
        return np.concatenate([obs[name].ravel() for name in self.blocks])

    def reset(self, **how: Any) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin an episode."""
        obs, info = self.env.reset(**how)
        return self._flat(obs), info

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """One transition."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        return self._flat(obs), float(reward), terminated, truncated, info

    def action_masks(self) -> NDArray[np.bool_]:
        """(actions,) what is legal now."""
        return self.mask.astype(np.bool_)


class Stopwatch(BaseCallback):
    """When sampling began and ended."""

    def __init__(self) -> None:
        super().__init__()
        self.sampled = 0.0

    def _on_rollout_start(self) -> None:
        self.began = time.perf_counter()

    def _on_rollout_end(self) -> None:
        self.sampled = time.perf_counter() - self.began

    def _on_step(self) -> bool:
        return True


class Maskable:
    """The library's loop, one rollout and update at a time.

    Args:
        scenario: what is simulated.
        config: as for `rlsched train`.
        same_settings: use the settings of `config`; otherwise the library's defaults, but its discount.
    """

    def __init__(self, scenario: Scenario, config: TrainConfig, *, same_settings: bool) -> None:
        envs, ppo = config.sampling.envs_per_runner, config.ppo
        if not same_settings:
            self.model = MaskablePPO(
                "MlpPolicy",
                DummyVecEnv([lambda: Flat(scenario)]),
                gamma=scenario.objective.gamma,
                seed=config.seed,
                device="cpu",
            )
            self.steps = self.model.n_steps
            return
        self.steps = envs * config.sampling.fragment
        self.model = MaskablePPO(
            "MlpPolicy",
            DummyVecEnv([lambda: Flat(scenario)] * envs),
            n_steps=config.sampling.fragment,
            batch_size=ppo.minibatch,
            n_epochs=ppo.epochs,
            learning_rate=ppo.learning_rate,
            gamma=scenario.objective.gamma,
            clip_range=ppo.clip,
            ent_coef=ppo.entropy,
            vf_coef=ppo.value_weight,
            max_grad_norm=ppo.gradient_clip,
            policy_kwargs={
                "net_arch": {"pi": list(config.network.hidden), "vf": list(config.network.critic_hidden)}
            },
            seed=config.seed,
            device="cpu",
        )

    def iterate(self) -> Iteration:
        """One rollout and what is learned from it."""
        watch = Stopwatch()
        began = time.perf_counter()
        self.model.learn(self.steps, callback=watch, reset_num_timesteps=False)
        seconds = time.perf_counter() - began
        return Iteration(self.steps, watch.sampled, 0.0, seconds - watch.sampled)
