"""REINFORCE with the mean of trajectories as its baseline, without a critic and without RLlib.

Several trajectories play the same jobs. The advantage of the k-th decision of one is its return from there on
less the mean of all of them. Sources: [Cunha 2022, algorithm 1; Mao et al. 2016, 3.3; Williams 1992].
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from pickle import PickleError
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from rlsched.envs.episodes import EpisodeFeed
from rlsched.errors import BadInputError
from rlsched.jobs import FloatArray, IntArray
from rlsched.learn.acting import one_thread
from rlsched.learn.algorithms.reinforce import Reinforce
from rlsched.learn.config.training import ResolvedConfig
from rlsched.learn.engine import Progress
from rlsched.learn.networks.drawing import draw_actions
from rlsched.learn.networks.policies import build_policy
from rlsched.learn.pid import LimitCheck
from rlsched.learn.policy import NetworkPolicy
from rlsched.sim.layout import Layout
from rlsched.sim.simulator import VectorSimulator
from rlsched.workloads.episodes import Episode

STATE = "reinforce.pt"
TRIES = 1000
"""Largest number of consecutive training episodes without a decision, as short or idle ones are."""

LOST = "the policy gives no numbers any more: begin again with a lower reinforce.learning_rate"

DAMAGED = (OSError, ValueError, KeyError, TypeError, RuntimeError, EOFError, PickleError)


class Trajectories(NamedTuple):
    """Trajectories of one episode, played several times side by side."""

    obs: NDArray[np.float32]  # (row, size), a row for each unfinished trajectory, decision by decision
    masks: NDArray[np.int8]  # (row, action)
    actions: IntArray  # (row,)
    playing: NDArray[np.bool_]  # (decision, trajectory)
    rewards: FloatArray  # (decision, trajectory), 0 where it is over
    elapsed: IntArray  # (decision, trajectory), in ticks


def returns_to_go(rewards: FloatArray, elapsed: IntArray, gamma: float) -> FloatArray:
    """Discounted returns of each trajectory from each of its decisions on.

    Args:
        rewards: (decision, trajectory) of the transitions, 0 where it is over.
        elapsed: (decision, trajectory) durations of the transitions, in ticks.
        gamma: discount per tick.

    Returns:
        Returns (decision, trajectory).
    """
    returns, after = np.zeros_like(rewards), np.zeros(rewards.shape[1])
    for k in range(len(rewards) - 1, -1, -1):
        after = rewards[k] + gamma ** elapsed[k] * after
        returns[k] = after
    return returns


def advantages(values: FloatArray, playing: NDArray[np.bool_], workers: int = 1) -> FloatArray:
    """Advantages over the mean of unfinished trajectories [Cunha 2022, algorithm 1].

    The mean includes the trajectory itself. So with n unfinished trajectories an advantage is (n - 1) / n of
    that against the others, and it is 0 for the last decisions of the longest one.

    Args:
        values: (decision, trajectory) returns from there on.
        playing: (decision, trajectory) whether there was such a decision.
        workers: number of equal groups of trajectories, each with a mean of its own.

    Returns:
        Advantages (decision, trajectory), 0 where there was no decision.
    """
    shape = (len(values), workers, values.shape[1] // workers)
    by_worker, playing_by_worker = values.reshape(shape), playing.reshape(shape)
    means = np.sum(by_worker * playing_by_worker, axis=2) / np.maximum(1, playing_by_worker.sum(axis=2))
    advantage: FloatArray = (by_worker - means[:, :, None]) * playing_by_worker
    return advantage.reshape(values.shape)


class ReinforceEngine:
    """Engine of REINFORCE.

    Episodes and random numbers of an iteration are seeded by its number: a resumed run plays the same as
    without a break.
    """

    shortens_all = False
    columns = ("episode_return_mean", "advantage_std", "entropy")

    def __init__(self, config: ResolvedConfig, feed: EpisodeFeed, iteration: int) -> None:
        scenario = feed.scenario
        self.scenario, self.config, self.feed = scenario, config, feed
        self.settings = config.section(Reinforce)
        self.layout = Layout.of(scenario.observation, scenario.decision, len(feed.units))
        torch.manual_seed(config.seed)  # of the network's first weights
        self.net = build_policy(self.layout, config.network)
        self.average = build_policy(self.layout, config.network).eval()
        self.average.load_state_dict(self.net.state_dict())
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=self.settings.learning_rate)
        self.iteration = iteration
        self.steps = self.trajectories = 0  # decisions and trajectories played
        self.sim = self._simulator(self.settings.trajectories)

    def _simulator(self, trajectories: int) -> VectorSimulator:
        """Simulator for `trajectories` trajectories."""
        return VectorSimulator(self.scenario, self.feed.units, trajectories, self.feed.max_jobs)

    @property
    def usual_decisions(self) -> float:
        """See `Engine`; before the first iteration it is estimated from an extra episode."""
        settings, steps, trajectories = self.settings, self.steps, self.trajectories
        if not trajectories:
            self.play_one(np.random.default_rng(self.config.seed))
            steps, self.steps = self.steps, steps
            trajectories = self.sim.num_envs
        return settings.episodes * settings.trajectories * steps / trajectories

    def iterate(
        self, run_fraction: float = 0.0, checks: Mapping[str, LimitCheck] | None = None, share: float = 1.0
    ) -> Progress:
        """Play some episodes and make a gradient step; with a share below 1, fewer trajectories are played.

        Raises:
            BadInputError: training episodes have no decisions.
            FloatingPointError: a gradient or logit is not finite; the weights did not move.
        """
        settings = self.settings
        rng = np.random.default_rng([self.config.seed, self.iteration])
        returns, deviations, entropies = [], [], []
        self.optimizer.zero_grad()
        episodes = max(1, int(share * settings.episodes))
        wanted = min(1.0, share * settings.episodes / episodes) * settings.trajectories
        count = max(2, int(wanted) // settings.workers) * settings.workers  # at least two for each worker
        if self.sim.num_envs != count:
            self.sim = self._simulator(count)
        for _ in range(episodes):
            played = self.play_one(rng)
            returns_from = returns_to_go(played.rewards, played.elapsed, self.scenario.objective.gamma)
            better = advantages(returns_from, played.playing, settings.workers)
            entropies.append(self.learn_from(played, better, episodes))
            returns.append(played.rewards.sum(axis=0).mean())
            deviations.append(better[played.playing].std())
        gradients = [weights.grad for weights in self.net.parameters() if weights.grad is not None]
        if not torch.isfinite(torch.nn.utils.get_total_norm(gradients)):
            raise FloatingPointError(LOST)
        self.optimizer.step()
        for average, newest in zip(self.average.parameters(), self.net.parameters(), strict=True):
            average.data.lerp_(newest.data, 1.0 - self.config.averaging)
        self.iteration += 1
        self.trajectories += episodes * count
        figures = (returns, deviations, entropies)
        row = {name: float(np.mean(values)) for name, values in zip(self.columns, figures, strict=True)}
        return Progress(self.steps, row)

    def play_one(self, rng: np.random.Generator) -> Trajectories:
        """Play the next training episode with a decision.

        Raises:
            BadInputError: `TRIES` episodes have none.
        """
        for _ in range(TRIES):
            played = self.play(self.feed.training(rng), rng)
            if len(played.actions):
                return played
        raise BadInputError(
            "episode",
            f"nothing is to be decided in any of {TRIES} training episodes",
            "set more jobs (episode.jobs), or more load",
        )

    def play(self, episode: Episode, rng: np.random.Generator) -> Trajectories:
        """Play an episode once in each environment of the simulator, with different random numbers."""
        sim = self.sim
        for env in range(sim.num_envs):
            sim.load(env, episode.jobs, episode.scale, episode.power)
        none = np.zeros(0, np.int64)
        decisions = [(sim.obs[none], sim.mask[none], none)]
        playing, rewards, elapsed = [], [], []
        while not (over := sim.terminated | sim.truncated).all():
            envs = np.flatnonzero(~over)
            obs, mask = sim.obs[envs], sim.mask[envs]
            with torch.inference_mode(), one_thread():
                logits = self.net(torch.from_numpy(obs), torch.from_numpy(mask).float()).numpy()
            actions = np.full(sim.num_envs, self.layout.num_actions - 1)
            actions[envs] = draw_actions(logits, rng.random(len(envs)))[0]
            if (actions < 0).any():
                raise FloatingPointError(LOST)
            sim.step(actions)
            decisions.append((obs, mask, actions[envs]))
            playing.append(~over)
            rewards.append(np.where(over, 0.0, sim.reward))
            elapsed.append(np.where(over, 0, sim.elapsed))
            self.steps += len(envs)
        shape = (len(playing), sim.num_envs)
        observations, masks, chosen = zip(*decisions, strict=True)
        return Trajectories(
            np.concatenate(observations),
            np.concatenate(masks),
            np.concatenate(chosen),
            playing=np.array(playing, np.bool_).reshape(shape),
            rewards=np.array(rewards, np.float64).reshape(shape),
            elapsed=np.array(elapsed, np.int64).reshape(shape),
        )

    def learn_from(self, played: Trajectories, better: FloatArray, episodes: int) -> float:
        """Add the gradient of an episode's trajectories, and return their mean entropy."""
        settings = self.settings
        actions, weights = played.actions, better[played.playing]
        share = 1.0 / (episodes * self.sim.num_envs)
        entropy = 0.0
        for begin in range(0, len(actions), settings.minibatch):
            part = slice(begin, begin + settings.minibatch)
            mask = torch.from_numpy(played.masks[part]).float()
            logits = self.net(torch.from_numpy(played.obs[part]), mask)
            logp = torch.log_softmax(logits, dim=1)
            action_logp = logp.gather(1, torch.from_numpy(actions[part])[:, None]).squeeze(1)
            chances = torch.where(mask > 0, logp.exp() * logp, 0.0)
            unsure = -chances.sum(dim=1)
            weight = torch.from_numpy(weights[part]).float()
            loss = -share * ((weight * action_logp).sum() + settings.entropy * unsure.sum())
            loss.backward()  # type: ignore[no-untyped-call]
            entropy += float(unsure.detach().sum())
        return entropy / len(actions)

    def policy(self) -> NetworkPolicy:
        """The averaged policy."""
        about = {"algo": self.config.algo, "seed": self.config.seed}
        return NetworkPolicy(
            self.scenario, self.config.network, self.average, self.layout.num_resources, about
        )

    def save(self, folder: Path) -> None:
        """Write the weights and the optimizer's state; the average is in the policy beside it."""
        folder.mkdir(parents=True)
        state = {
            "net": self.net.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "steps": self.steps,
            "trajectories": self.trajectories,
        }
        torch.save(state, folder / STATE)

    def restore(self, folder: Path, policy: NetworkPolicy) -> None:
        """Restore a saved state.

        Raises:
            BadInputError: it is damaged, or of other settings.
        """
        try:
            state = torch.load(folder / STATE, weights_only=True)
            self.net.load_state_dict(state["net"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.steps = int(state["steps"])
            # Older files have no such count, and all of their iterations were whole.
            usual = self.iteration * self.settings.episodes * self.sim.num_envs
            self.trajectories = int(state.get("trajectories", usual))
        except DAMAGED as error:
            raise BadInputError(
                str(folder / STATE),
                f"is damaged or of another version ({error!r})",
                f"remove {folder.parent} to resume from the checkpoint before it",
            ) from None
        self.average.load_state_dict(policy.net.state_dict())

    def stop(self) -> None:
        """Do nothing: there are no processes or files to close."""
