"""Env runner for RLlib that steps all of its environments in arrays.

RLlib's own runner appends every step of every environment to an episode in Python and sends each through
connectors. That takes several times as long as the simulator and the network together. Here a step is one
compiled call and one forward pass, written into arrays that are as long as a fragment. At the end of a
fragment, episodes are cut out of the arrays without a copy. State, weights, spaces, lifetime counts and
faults are handled by RLlib.
"""

from __future__ import annotations

import secrets
import sys
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import ray
import torch
from numpy.typing import NDArray
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rlsched.jobs import IntArray
from rlsched.learn.acting import one_thread
from rlsched.learn.networks.drawing import draw_actions
from rlsched.learn.rllib import sampling
from rlsched.learn.rllib.fragment import Cut, Fragment, Observations, Ongoing, new_id
from rlsched.learn.rllib.memory import HELD, Memory
from rlsched.learn.rllib.ray_compat import exit_with_message
from rlsched.learn.rllib.sampling import COSTS, PROJECTED, SHARED, TrainingVectorEnv

RUNNER_STREAM = 0x72756E  # of the draws of actions

WORKER_SHIFT = 48
"""Bits below the runner's number, in the episode number that replicas share."""


class BatchedEnvRunner(SingleAgentEnvRunner):
    """Samples fragments of fixed length from a `TrainingVectorEnv`.

    Attributes:
        longest: largest number of steps of a fragment.
    """

    longest = sys.maxsize

    def make_env(self) -> None:
        """Make the environments, and a random generator of actions that differs from other runners'."""
        with warnings.catch_warnings():
            # RLlib registers its environments anew for every algorithm of a process, under one name.
            warnings.filterwarnings("ignore", "(?s).*Overriding environment rllib-")
            super().make_env()
        clusters = self.env.unwrapped
        if not isinstance(clusters, TrainingVectorEnv):
            raise TypeError(f"steps a TrainingVectorEnv, not a {type(clusters).__name__}")
        self.clusters = clusters
        self.ongoing: Ongoing | None = None
        self.memory = Memory()
        self.handed_over: deque[ray.ObjectRef] = deque(maxlen=HELD)
        self.salt = (secrets.randbits(32),) if is_restarted() else ()
        self.draws = np.random.default_rng(
            (RUNNER_STREAM, *clusters.stream, self.worker_index or 0, *self.salt)
        )

    def apply(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run a function for the driver; an exception ends the process, and the driver gets its traceback.

        RLlib's runners only log it.
        """
        try:
            return func(self, *args, **kwargs)
        except Exception:
            time.sleep(self.config.delay_between_env_runner_restarts_s)
            exit_with_message(traceback.format_exc())

    def sample_get_state_and_metrics(self) -> tuple[ray.ObjectRef, dict[str, Any], dict[str, Any]]:
        """A fragment as a Ray object, the runner's state and its metrics."""
        result = super().sample_get_state_and_metrics()
        self.handed_over.append(result[0])
        return result

    def _sample(
        self,
        *,
        num_timesteps: int | None = None,
        num_episodes: int | None = None,
        explore: bool,
        random_actions: bool = False,
        force_reset: bool = False,
    ) -> list[SingleAgentEpisode]:
        if num_timesteps is None:
            raise ValueError("samples decisions, not episodes: set batch_mode='truncate_episodes'")
        clusters = self.clusters
        if force_reset or self.ongoing is None:
            seed = [self._seed, *self.salt] if self.ongoing is None else None
            obs = self._reset(seed=seed)
            self.ongoing = Ongoing.start(obs, self._initial_states())
        elif clusters.replicas > 1:
            self.ongoing.copy(clusters.synchronise())
        ongoing = self.ongoing
        length = min(-(-num_timesteps // self.num_envs), self.longest)
        fragment = Fragment(ongoing.obs, ongoing.states, length, self.memory)
        before, finished = self.num_env_steps_sampled_lifetime, 0
        if self.module is not None:
            self.module.eval()  # once, not at every step as RLlib's methods do: it visits all submodules
        with one_thread():
            for t in range(length):
                # Of all runners together, roughly, for schedules of exploration.
                decisions = before + t * self.num_envs * (self.config.num_env_runners or 1)
                actions, columns = (
                    self._choose_anything() if random_actions else self._choose(ongoing, explore, decisions)
                )
                if clusters.replicas > 1:
                    columns[SHARED] = clusters.shared + ((self.worker_index or 0) << WORKER_SHIFT)
                following, rewards, terminated, truncated, info = clusters.step(actions)
                obs = np.asarray(following)
                if clusters.terms:
                    columns[COSTS] = clusters.costs()
                fragment.write(actions, rewards, obs, columns)
                ongoing.steps += 1
                ongoing.returns += rewards
                ended = terminated | truncated
                if ended.any():
                    limited = {env: clusters.limited(env) for env in np.flatnonzero(ended).tolist()}
                    obs = self._reset(options={"reset_mask": ended})
                    for env, amounts in limited.items():
                        over = bool(terminated[env])
                        cut = Cut(fragment.t, ongoing.ids[env], int(ongoing.steps[env]), over, not over)
                        fragment.begin_again(env, cut, obs[env])
                        self._finish(ongoing, env, info["metrics"][env], amounts)
                    finished += len(limited)
                ongoing.obs = obs
                fragment.write_states(ongoing.states)
        for env, cuts in enumerate(fragment.cuts):
            cuts.append(Cut(length, ongoing.ids[env], int(ongoing.steps[env]), False, False))
        if clusters.limits and not clusters.scenario.decision.tick_driven:  # there costs come with jobs
            for name, cost in clusters.projected().items():
                self.metrics.log_value((PROJECTED, name), cost, reduce="mean", window=1)
        self._increase_sampled_metrics(length * self.num_envs, finished)
        self._log_env_steps(self._metrics_num_env_steps_sampled, length * self.num_envs)
        return fragment.episodes(clusters.single_observation_space, clusters.single_action_space)

    def _reset(self, **how: Any) -> Observations:
        obs, _ = self.clusters.reset(**how)
        return np.asarray(obs)

    @torch.inference_mode()
    def _choose(
        self, ongoing: Ongoing, explore: bool, decisions: int
    ) -> tuple[IntArray, dict[str, NDArray[Any]]]:
        """Actions (env,) of the module, and other columns for the learner, such as log probabilities.

        A draw of the no-op may hold for the next decision (`persistence`).
        """
        recurrent = bool(ongoing.states)
        obs = torch.from_numpy(ongoing.obs).to(self._device)
        batch: dict[str, Any] = {Columns.OBS: obs.unsqueeze(1) if recurrent else obs}
        if recurrent:
            batch[Columns.STATE_IN] = {
                name: torch.from_numpy(state).to(self._device) for name, state in ongoing.states.items()
            }
        if explore:
            outputs = self.module._forward_exploration(batch, t=decisions)
        else:
            outputs = self.module._forward_inference(batch)
        if recurrent:
            then = outputs[Columns.STATE_OUT].items()
            ongoing.states = {name: state.cpu().numpy() for name, state in then}
        if Columns.ACTIONS in outputs:
            return outputs[Columns.ACTIONS].reshape(-1).cpu().numpy(), {}
        logits = outputs[Columns.ACTION_DIST_INPUTS].cpu()
        logits = logits.squeeze(1) if recurrent else logits
        if not explore:
            return logits.argmax(dim=1).numpy(), {}
        table, chances = logits.numpy(), self.draws.random(len(logits))
        if (persistence := getattr(self.module, "persistence", 0.0)) == 0.0:
            actions, logp = draw_actions(table, chances)
        else:
            chances = np.where(np.isnan(ongoing.noop_draws), chances, ongoing.noop_draws)
            actions, logp = draw_actions(table, chances, self.draws.random(len(table)))
            holds = (actions == table.shape[1] - 1) & (self.draws.random(len(table)) < persistence)
            ongoing.noop_draws = np.where(holds, chances, np.nan)
        if (actions < 0).any():
            raise FloatingPointError("the policy gives no numbers any more: lower its learning rate")
        return actions, {Columns.ACTION_LOGP: logp}

    def _choose_anything(self) -> tuple[IntArray, dict[str, NDArray[Any]]]:
        """Uniformly random legal actions (env,)."""
        mask = self.clusters.simulator.mask
        logits = np.where(mask > 0, np.float32(0.0), np.float32(-np.inf))
        return draw_actions(logits, self.draws.random(len(mask)))[0], {}

    def _initial_states(self) -> dict[str, Any]:
        if self.module is None or not self.module.is_stateful():
            return {}
        initial = self.module.get_initial_state().items()
        return {name: np.repeat(np.asarray(state)[None], self.num_envs, axis=0) for name, state in initial}

    def _finish(
        self, ongoing: Ongoing, env: int, metrics: dict[str, float], limited: dict[str, float]
    ) -> None:
        """Report an episode that has ended, and reset the counters for the next."""
        now = time.perf_counter()
        self._log_episode_metrics(
            int(ongoing.steps[env]), float(ongoing.returns[env]), now - float(ongoing.began[env])
        )
        sampling.log_domain_metrics(self.metrics, metrics)
        sampling.log_limited(self.metrics, limited)
        ongoing.ids[env] = new_id()
        ongoing.steps[env], ongoing.returns[env], ongoing.began[env] = 0, 0.0, now
        ongoing.noop_draws[env] = np.nan
        for name, state in self._initial_states().items():
            ongoing.states[name][env] = state[env]


def is_restarted() -> bool:
    """Whether this process takes the place of a runner that died, and must not play its episodes again."""
    if not ray.is_initialized():
        return False
    context = ray.get_runtime_context()
    return context.get_actor_id() is not None and bool(context.was_current_actor_reconstructed)
