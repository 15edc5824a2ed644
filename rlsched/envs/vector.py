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

from rlsched.envs.episodes import Episode, EpisodeFeed
from rlsched.envs.render import draw, to_text
from rlsched.jobs import IntArray
from rlsched.scenario import PRIVILEGED, Scenario, given
from rlsched.sim.layout import Layout, public_columns
from rlsched.sim.rules import TERMS
from rlsched.sim.simulator import VectorSimulator
from rlsched.sim.state import NEVER

Arrays = NDArray[Any] | dict[str, NDArray[Any]]


def observation_space(
    layout: Layout, flat: bool, named: Sequence[str] | None = None, image: tuple[int, ...] | None = None
) -> gym.Space[Any]:
    """What one environment shows.

    Args:
        layout: of the observation vector.
        flat: one Box, as trainers like it: the whole vector, the mask, and the ticks since the episode
            began (discounting needs their differences); else a Dict of the blocks and `action_mask`.
        named: blocks that the Dict holds; all of the vector where left out.
        image: (rows, columns) where the Dict holds an image.
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
    """N clusters that jobs are scheduled on, each at its own point of its own episode.

    Actions: 0..W-1 choose the waiting job in that slot of the window (oldest first), W lets time pass.
    A job that fits starts; under `commit` and `hold` one that does not gets a reservation, behind which
    others may start if they do not delay it. `info["action_mask"]` tells which are legal; an illegal one
    raises, or the legal one with the lowest number is taken instead and `info["illegal"]` says so.

    Observations: a Dict of the scenario's blocks (see `rlsched.sim.layout`) and `action_mask`; all in [0, 1].
    Blocks that show what lies ahead (`outlook`, `coming`) are no observations: with `privileged=True` they
    are in `info["privileged"]`, by name, for the critic of a trainer.

    Rewards: the scenario's weighted terms over the ticks of the transition, times the episode's scale.
    `info["reward_terms"]` holds every term by name, `info["elapsed"]` the ticks.

    Episodes: random ones of the scenario's training split. An episode that has ended is followed by the next
    one at the next step, whose action counts for nothing (Gymnasium's NEXT_STEP). `info["metrics"]` of the
    step that ends an episode holds what it came to, `info["_metrics"]` where.

    Args:
        scenario: a Scenario, as plain values, or the name or file of one.
        num_envs: number of clusters.
        flat: observations as one vector with the mask behind it.
        privileged: `info["privileged"]` holds the privileged blocks that the scenario names.
        render_mode: None, "ansi" or "rgb_array" (of the first cluster).
        on_illegal: "replace" forgives agents that know no masks, "raise" finds the fault of one that does.
        feed: where episodes come from; opened from the scenario where left out.

    Attributes:
        has_ended: (env,) whether the last step returned the end of an episode.

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
        whole = given(scenario)
        self.scenario = whole.public
        self.feed = EpisodeFeed(whole) if feed is None else feed
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.on_illegal = on_illegal
        named = self.scenario.observation.blocks
        self.shows_image = "image" in named and not flat
        self.simulator = VectorSimulator(
            whole if privileged else self.scenario,
            self.feed.units,
            num_envs,
            self.feed.max_jobs,
            draw_images=self.shows_image,
        )
        self.flat = flat
        self._show(Layout.of(self.scenario.observation, self.scenario.decision, len(self.feed.units)))
        self._privileged: tuple[str, ...] | None = None
        if privileged:
            self._privileged = tuple(name for name in whole.observation.blocks if name in PRIVILEGED)
        self.single_action_space = gym.spaces.Discrete(self.layout.num_actions)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.episodes: list[Episode] = []
        self._rngs = [seeding.np_random()[0] for _ in range(num_envs)]
        self._clock = np.zeros(num_envs)  # ticks since each episode began
        self.has_ended = np.zeros(num_envs, np.bool_)  # the next step begins another episode

    def _show(self, layout: Layout) -> None:
        """Observations are of this layout: that of the simulator, or its public part."""
        self.layout = layout
        image = self.simulator.images.shape[1:] if self.shows_image else None
        named = self.scenario.observation.blocks
        self.single_observation_space = observation_space(layout, self.flat, named, image)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        whole = self.simulator.layout
        self._columns = slice(None) if layout == whole else public_columns(whole)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Arrays, dict[str, Any]]:
        """Begin a new episode in every environment, or in some.

        Args:
            seed: environment k is seeded with `seed + k` (or `seed[k]`); None goes on with its stream.
            options: `{"episodes": [...]}` plays these instead of random ones; `{"reset_mask": (env,) bool}`
                leaves the others where they are. Who resets every episode that has ended before the next
                step never sees a step that counts for nothing.
        """
        options = options or {}
        given: Sequence[Episode] | None = options.get("episodes")
        some = "reset_mask" in options and bool(self.episodes)
        chosen = np.flatnonzero(options["reset_mask"]).tolist() if some else list(range(self.num_envs))
        for k in chosen:
            own = seed[k] if isinstance(seed, Sequence) else seed
            if own is not None:
                own = own if isinstance(seed, Sequence) else own + k
                self._rngs[k] = seeding.np_random(own)[0]
        episodes = [self._next_episode(k) if given is None else given[k] for k in chosen]
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
        """One transition of every environment; where an episode had ended, the next one begins instead."""
        self._require_reset("step")
        sim = self.simulator
        idle = self.layout.num_actions - 1
        if np.shape(actions) != (self.num_envs,):
            raise ValueError(f"actions of shape {np.shape(actions)} for {self.num_envs} environments")
        # An episode without a decision is over when it begins; it ends with the next step, as every other.
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
        return self._observe(), sim.reward.copy(), terminated, truncated, self._info(self.has_ended, illegal)

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
        if not self.flat:  # trainers read the mask from the vector and pay for every entry of info
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
