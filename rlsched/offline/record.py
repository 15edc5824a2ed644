"""Letting behaviours play training episodes, and writing every decision down."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rlsched.envs.episodes import EpisodeFeed
from rlsched.jobs import IntArray
from rlsched.offline.behavior import Loader, make_actor, sample_actions, with_noise
from rlsched.offline.columns import Shape, table, words
from rlsched.offline.recipe import Recipe
from rlsched.offline.recorded import RecordedActor
from rlsched.scenario import Scenario
from rlsched.scenario.terms import TERMS
from rlsched.settings import Frozen
from rlsched.sim.layout import Layout
from rlsched.sim.simulator import VectorSimulator
from rlsched.workloads.episodes import Episode

ROW_GROUP_BYTES = 16 << 20
"""Bytes before compression, read at once. Small groups mix better where rows are drawn at random."""

DRAWN, NOISE = range(2)
"""Streams of random numbers below a seed: one per episode, one per shard."""


class EpisodeSummary(Frozen):
    """Summary of an episode, stored besides its rows.

    Attributes:
        reward: sum of its rewards, not discounted.
        metrics: of `rlsched simulate`; those that it does not have are left out.
    """

    eps_id: str
    behavior: str
    rows: int
    reward: float
    metrics: dict[str, float]


def shape_of(scenario: Scenario, num_resources: int) -> Shape:
    """Widths of the columns in datasets of a scenario."""
    layout = Layout.of(scenario.observation, scenario.decision, num_resources)
    return Shape(size=layout.size, actions=layout.num_actions, costs=tuple(scenario.objective.costs))


class Recording:
    """Episodes that are played side by side, each to its end.

    Args:
        feed: of the episodes.
        recipe: behavior policies.
        load: for trained policies.
        number: of the shard; its noise is drawn from a stream of its own.
        first: number of its first episode; every episode is drawn from a stream of its own.
        behaviors: (episodes,) index of the behavior policy of each, see `recipe.turns`.

    Attributes:
        episodes: summaries of the episodes that have ended.
    """

    def __init__(
        self,
        feed: EpisodeFeed,
        recipe: Recipe,
        load: Loader,
        *,
        number: int,
        first: int,
        behaviors: Sequence[int],
    ) -> None:
        self.scenario, self.behaviors = feed.scenario, recipe.behaviors
        count, self.behavior_of = len(behaviors), np.array(behaviors)
        self.played, seeds = drawn(feed, recipe.seed, first, count)
        longest = max(len(episode.jobs) for episode in self.played)
        self.sim = VectorSimulator(feed.scenario, feed.units, count, longest, every_term=True)
        self.shape = shape_of(feed.scenario, len(feed.units))
        self.actors = [make_actor(behavior, self.sim, load) for behavior in recipe.behaviors]
        for env, (episode, seed) in enumerate(zip(self.played, seeds, strict=True)):
            self.sim.load(env, episode.jobs, episode.scale, episode.power)
            self.actors[self.behavior_of[env]].begin(env, episode.jobs, seed)
        self._rng = np.random.default_rng([recipe.seed, NOISE, number])
        self._groups = [
            np.flatnonzero(self.behavior_of == k).astype(np.uint64) for k in range(len(self.behaviors))
        ]
        self._costs = [TERMS.index(name) for name in self.shape.costs]
        self._rewards = np.zeros(count)
        self._rows = np.zeros(count, np.int64)
        self._names = [episode_name(number) for number in range(first, first + count)]
        self.episodes: list[EpisodeSummary] = []

    def tables(self) -> Iterator[pa.Table]:
        """The rows, one row group after the other: in each, episode by episode."""
        steps = max(1, ROW_GROUP_BYTES // (self.shape.row_bytes * self.sim.num_envs))
        block = _Block(self.shape, steps, self.sim.num_envs)
        started = 0
        while self._playing().any():
            block.show(self.sim)
            while not block.full and self._playing().any():
                self._step(block)
            envs, t = np.nonzero(block.deciding[: block.steps].T)  # episode by episode
            columns = {
                "t": started + t,
                "obs": block.obs[t, envs],
                "new_obs": block.obs[t + 1, envs],
                "action_mask": block.mask[t, envs],
                "new_action_mask": block.mask[t + 1, envs],
                "actions": block.actions[t, envs],
                "rewards": block.rewards[t, envs],
                "costs": block.costs[t, envs],
                "elapsed": block.elapsed[t, envs],
                "terminateds": block.terminated[t, envs],
                "truncateds": block.truncated[t, envs],
                "action_logp": block.logp[t, envs],
                "eps_id": words(self._names, envs),
                "behavior": words([behavior.label for behavior in self.behaviors], self.behavior_of[envs]),
            }
            yield table(self.shape, columns)
            started += block.steps
            block.clear()
        for env, (episode, name) in enumerate(zip(self.played, self._names, strict=True)):
            metrics = self.sim.metrics(env, episode.jobs)
            actor = self.actors[self.behavior_of[env]]
            if isinstance(actor, RecordedActor):
                metrics |= actor.followed(env)
            self.episodes.append(
                EpisodeSummary(
                    eps_id=name,
                    behavior=self.behaviors[self.behavior_of[env]].label,
                    rows=int(self._rows[env]),
                    reward=float(self._rewards[env]),
                    metrics={metric: value for metric, value in metrics.items() if isfinite(value)},
                )
            )

    def _playing(self) -> NDArray[np.bool_]:
        playing: NDArray[np.bool_] = ~(self.sim.terminated | self.sim.truncated)
        return playing

    def _step(self, block: _Block) -> None:
        """Make one decision in every episode that is not over."""
        sim, at = self.sim, block.steps
        playing = self._playing()
        block.deciding[at] = playing
        block.actions[at] = sim.layout.num_actions - 1
        numbers = self._rng.random(sim.num_envs)
        for behavior, actor, group in zip(self.behaviors, self.actors, self._groups, strict=True):
            envs = group[playing[group]]
            if len(envs) == 0:
                continue
            probabilities = with_noise(actor.probabilities(envs), sim.mask[envs], behavior.noise)
            actions = sample_actions(probabilities, numbers[envs])
            block.actions[at, envs] = actions
            block.logp[at, envs] = np.log(probabilities[np.arange(len(envs)), actions])
        sim.step(block.actions[at])
        self._rewards += np.where(playing, sim.reward, 0.0)
        self._rows += playing
        block.rewards[at] = sim.reward
        block.costs[at] = 0.0 - sim.terms[:, self._costs]  # no -0
        block.elapsed[at] = sim.elapsed
        block.terminated[at], block.truncated[at] = sim.terminated, sim.truncated
        block.steps += 1
        block.show(sim)


def episode_name(number: int) -> str:
    """Value of `eps_id` of the episode with this number."""
    return f"{number:08d}"


class _Block:
    """Some steps of all environments, before they are sorted by episode."""

    def __init__(self, shape: Shape, room: int, envs: int) -> None:
        self.room, self.steps = room, 0
        self.obs = np.zeros((room + 1, envs, shape.size), np.float32)  # and what follows the last step
        self.mask = np.zeros((room + 1, envs, shape.actions), np.int8)
        self.deciding = np.zeros((room, envs), np.bool_)
        self.actions = np.zeros((room, envs), np.int64)
        self.logp = np.zeros((room, envs), np.float32)
        self.rewards = np.zeros((room, envs))
        self.costs = np.zeros((room, envs, len(shape.costs)), np.float32)
        self.elapsed = np.zeros((room, envs), np.int32)
        self.terminated = np.zeros((room, envs), np.bool_)
        self.truncated = np.zeros((room, envs), np.bool_)

    @property
    def full(self) -> bool:
        return self.steps == self.room

    def show(self, sim: VectorSimulator) -> None:
        """Store the observations and masks before the next step."""
        self.obs[self.steps] = sim.obs
        self.mask[self.steps] = sim.mask

    def clear(self) -> None:
        self.steps = 0


def drawn(feed: EpisodeFeed, seed: int, first: int, count: int) -> tuple[list[Episode], IntArray]:
    """Episodes, and a seed for the heuristic of each."""
    rngs = [np.random.default_rng([seed, DRAWN, number]) for number in range(first, first + count)]
    episodes = [feed.training(rng) for rng in rngs]
    return episodes, np.array([int(rng.integers(2**31)) for rng in rngs])
