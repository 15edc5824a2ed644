"""The vectorised Gymnasium environment: N clusters, one compiled call per step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from rlsched.envs.episodes import EpisodeFeed
from rlsched.envs.render import draw, to_text
from rlsched.jobs import IntArray
from rlsched.scenario import PRIVILEGED, Scenario, as_scenario
from rlsched.scenario.terms import TERMS
from rlsched.sim.layout import Layout, public_columns
from rlsched.sim.simulator import VectorSimulator
from rlsched.sim.state import NEVER
from rlsched.workloads.episodes import Episode

Arrays = NDArray[Any] | dict[str, NDArray[Any]]


def observation_space(
    layout: Layout, flat: bool, named: Sequence[str] | None = None, image: tuple[int, ...] | None = None
) -> gym.Space[Any]:
    """Observation space of one environment.

    Args:
        layout: of the observation vector.
        flat: a Box of the vector, the mask, and the ticks since the episode began, for trainers that discount
            by ticks; else a Dict of the blocks and `action_mask`.
        named: blocks of the Dict; by default all blocks of the vector.
        image: (rows, columns) of the image in the Dict, if there is one.
    """
    if flat:
        high = np.ones(layout.size + layout.num_actions + 1, np.float32)
        high[-1] = NEVER  # ticks
        return gym.spaces.Box(np.zeros_like(high), high)
    spaces: dict[str, gym.Space[Any]] = {
        block.name: gym.spaces.Box(0.0, 1.0, block.shape, np.float32)
        for block in layout.blocks
        if named is None or block.name in named
    }
    if image is not None:
        spaces["image"] = gym.spaces.Box(-1, 1, image, np.int8)
    spaces["action_mask"] = gym.spaces.Box(0, 1, (layout.num_actions,), np.int8)
    return gym.spaces.Dict(spaces)


class SchedulingVectorEnv(VectorEnv[Arrays, IntArray, NDArray[Any]]):
    """N clusters with job queues, each with its own episode.

    Actions: 0..W-1 choose the waiting job in that slot of the window (oldest first), W is the no-op: time
    passes. A job that fits starts. Under `commit` and `hold`, a job that does not fit gets a reservation;
    others may start behind it if they do not delay it. `info["action_mask"]` marks legal actions. An illegal
    action raises, or is replaced by the first legal one and marked in `info["illegal"]`.

    Observations: a Dict of the scenario's blocks (see `rlsched.sim.layout`) and `action_mask`, all in [0, 1].
    Blocks of future information (`outlook`, `coming`) are not observed: with `privileged=True` they are in
    `info["privileged"]`, by name, for the critic of a trainer.

    Rewards: the scenario's weighted terms over the ticks of the transition, times the episode's scale.
    `info["reward_terms"]` holds every term by name, `info["elapsed"]` the ticks of the transition.

    Episodes: random ones of the scenario's training split. After the end of an episode, the next step ignores
    its action and starts another one (Gymnasium's NEXT_STEP). At the last step of an episode
    `info["metrics"]` holds its metrics; `info["_metrics"]` marks these environments.

    Args:
        scenario: a `Scenario`, its values as a mapping, or its name or file.
        num_envs: number of clusters.
        flat: observations are one vector that ends with the mask, see `observation_space`.
        privileged: `info["privileged"]` holds the privileged blocks of the scenario.
        render_mode: None, "ansi" or "rgb_array" (of the first cluster).
        on_illegal: "replace" an illegal action, for agents without masks, or "raise" an error.
        feed: source of episodes; by default it is opened from the scenario.

    Attributes:
        has_ended: (env,) whether the last step ended an episode.
        reward_scale: factor of rewards, for trainers.

    Raises:
        BadInputError: the scenario or its workload cannot be used.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - Gymnasium's own convention
        "autoreset_mode": AutoresetMode.NEXT_STEP,
        "render_modes": ["ansi", "rgb_array"],
        "render_fps": 4,
    }

    def __init__(
        self,
        scenario: Scenario | Mapping[str, Any] | str = "lublin-256",
        num_envs: int = 1,
        *,
        flat: bool = False,
        privileged: bool = False,
        render_mode: str | None = None,
        on_illegal: Literal["replace", "raise"] = "replace",
        feed: EpisodeFeed | None = None,
    ) -> None:
        scenario = as_scenario(scenario)
        self.feed = EpisodeFeed(scenario) if feed is None else feed
        resolved = scenario.resolve(self.feed.scenario.cluster)
        self.scenario = resolved.public
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.on_illegal = on_illegal
        named = self.scenario.observation.blocks
        self.shows_image = "image" in named and not flat
        self.simulator = VectorSimulator(
            resolved if privileged else self.scenario,
            self.feed.units,
            num_envs,
            self.feed.max_jobs,
            draw_images=self.shows_image,
        )
        self.flat = flat
        self._show(Layout.of(self.scenario.observation, self.scenario.decision, len(self.feed.units)))
        self._privileged: tuple[str, ...] | None = None
        if privileged:
            self._privileged = tuple(name for name in resolved.observation.blocks if name in PRIVILEGED)
        self.single_action_space = gym.spaces.Discrete(self.layout.num_actions)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.episodes: list[Episode] = []
        self._rngs = [seeding.np_random()[0] for _ in range(num_envs)]
        self._clock = np.zeros(num_envs)  # ticks since each episode began
        self.has_ended = np.zeros(num_envs, np.bool_)  # the next step begins another episode
        self.reward_scale = 1.0

    def _show(self, layout: Layout) -> None:
        """Set the layout of observations: that of the simulator, or its public part."""
        self.layout = layout
        image = self.simulator.images.shape[1:] if self.shows_image else None
        named = self.scenario.observation.blocks
        self.single_observation_space = observation_space(layout, self.flat, named, image)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        simulated = self.simulator.layout
        self._columns = slice(None) if layout == simulated else public_columns(simulated)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Arrays, dict[str, Any]]:
        """Start a new episode in every environment, or in some.

        Args:
            seed: environment k is seeded with `seed + k` (or `seed[k]`); None keeps its random generator.
            options: `{"episodes": [...]}` sets the episodes; `{"reset_mask": (env,) bool}` resets only these
                environments. Resetting all that have ended avoids the step that ignores its action.
        """
        options = options or {}
        chosen_episodes: Sequence[Episode] | None = options.get("episodes")
        some = "reset_mask" in options and bool(self.episodes)
        chosen = np.flatnonzero(options["reset_mask"]).tolist() if some else list(range(self.num_envs))
        for k in chosen:
            env_seed = seed[k] if isinstance(seed, Sequence) else seed
            if env_seed is not None:
                env_seed = env_seed if isinstance(seed, Sequence) else env_seed + k
                self._rngs[k] = seeding.np_random(env_seed)[0]
        episodes = [self._next_episode(k) if chosen_episodes is None else chosen_episodes[k] for k in chosen]
        if not some:
            self.episodes = list(episodes)
        for k, episode in zip(chosen, episodes, strict=True):
            self._begin(k, episode)
        nowhere = np.zeros(self.num_envs, np.bool_)
        return self._observe(), self._info(nowhere, nowhere)

    def _next_episode(self, k: int) -> Episode:
        return self.feed.training(self._rngs[k])

    def _begin(self, k: int, episode: Episode) -> None:
        self.episodes[k] = episode
        self.simulator.load(k, episode.jobs, episode.scale, episode.power)
        self._clock[k] = 0.0
        self.has_ended[k] = False

    def step(
        self, actions: IntArray
    ) -> tuple[Arrays, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """One transition of every environment; where an episode has ended, the next one starts instead."""
        self._require_reset("step")
        sim = self.simulator
        idle = self.layout.num_actions - 1
        if np.shape(actions) != (self.num_envs,):
            raise ValueError(f"actions of shape {np.shape(actions)} for {self.num_envs} environments")
        # An episode without a decision has ended when it starts, and reports its end at the next step.
        chosen = np.where(sim.terminated | sim.truncated, idle, np.asarray(actions, np.int64))
        inside = (chosen >= 0) & (chosen <= idle)
        illegal = ~inside | (sim.mask[np.arange(self.num_envs), np.where(inside, chosen, idle)] == 0)
        if self.on_illegal == "replace" and illegal.any():
            chosen = np.where(illegal, sim.mask.argmax(axis=1), chosen)
        sim.step(chosen)
        self._clock += sim.elapsed
        restarted = self.has_ended.copy()
        for k in np.flatnonzero(restarted).tolist():
            self._begin(k, self._next_episode(k))
        terminated, truncated = sim.terminated & ~restarted, sim.truncated & ~restarted
        self.has_ended = terminated | truncated
        rewards = sim.reward * self.reward_scale
        return self._observe(), rewards, terminated, truncated, self._info(self.has_ended, illegal)

    def render(self) -> Any:
        """The first cluster as text (ansi) or as a (height, width, 3) uint8 picture (rgb_array)."""
        self._require_reset("render")
        if self.render_mode == "ansi":
            return to_text(self.simulator, 0, self.episodes[0].jobs)
        if self.render_mode == "rgb_array":
            return draw(self.simulator, 0, self.episodes[0].jobs)
        return None

    def _require_reset(self, method: str) -> None:
        if not self.episodes:
            raise gym.error.ResetNeeded(f"call reset() before {method}()")

    def _observe(self) -> Arrays:
        sim = self.simulator
        if self.flat:
            vector, clock = sim.obs[:, self._columns], self._clock[:, None]
            return np.concatenate([vector, sim.mask, clock], axis=1, dtype=np.float32)
        named = self.scenario.observation.blocks
        blocks: dict[str, NDArray[Any]] = {
            name: sim.layout.view(sim.obs, name).copy() for name in named if name != "image"
        }
        if self.shows_image:
            blocks["image"] = sim.images.copy()
        return {**blocks, "action_mask": sim.mask.copy()}

    def _info(self, ended: NDArray[np.bool_], illegal: NDArray[np.bool_]) -> dict[str, Any]:
        info: dict[str, Any] = {}
        if not self.flat:  # trainers read the mask from the vector, and every entry of info takes time
            sim = self.simulator
            objective = self.scenario.objective
            terms = {name: sim.terms[:, TERMS.index(name)].copy() for name in objective.reward}
            costs = {name: -sim.terms[:, TERMS.index(name)] for name in objective.costs}
            info = {
                "action_mask": sim.mask.copy(),
                "elapsed": sim.elapsed.copy(),
                "illegal": illegal,
                "reward_terms": terms,
                "costs": costs,
            }
        if self._privileged is not None:
            layout, vectors = self.simulator.layout, self.simulator.obs
            info["privileged"] = {name: layout.view(vectors, name).copy() for name in self._privileged}
        if ended.any():
            metrics = np.full(self.num_envs, None, dtype=object)
            for k in np.flatnonzero(ended):
                metrics[k] = self.simulator.metrics(int(k), self.episodes[k].jobs)
            info |= {"metrics": metrics, "_metrics": ended.copy()}
        return info
