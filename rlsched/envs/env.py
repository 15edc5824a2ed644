"""The Gymnasium environment of one cluster: a vector environment of size 1 without its first axis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlsched.envs.episodes import EpisodeFeed
from rlsched.envs.vector import SchedulingVectorEnv
from rlsched.scenario import Scenario


class SchedulingEnv(gym.Env[Any, int]):
    """One cluster with a job queue; see `SchedulingVectorEnv` for actions, rewards and arguments.

    Raises:
        BadInputError: the scenario or its workload cannot be used.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - Gymnasium's own convention
        "render_modes": ["ansi", "rgb_array"],
        "render_fps": 4,
    }

    def __init__(
        self,
        scenario: Scenario | Mapping[str, Any] | str = "lublin-256",
        *,
        flat: bool = False,
        privileged: bool = False,
        render_mode: str | None = None,
        on_illegal: Literal["replace", "raise"] = "replace",
        feed: EpisodeFeed | None = None,
    ) -> None:
        self._vector = SchedulingVectorEnv(
            scenario,
            1,
            flat=flat,
            privileged=privileged,
            render_mode=render_mode,
            on_illegal=on_illegal,
            feed=feed,
        )
        self.render_mode = render_mode
        self.scenario = self._vector.scenario
        self.layout = self._vector.layout
        self.observation_space = self._vector.single_observation_space
        self.action_space = self._vector.single_action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start a new episode, or the one in `options={"episodes": [episode]}`."""
        super().reset(seed=seed)
        obs, info = self._vector.reset(seed=seed, options=options)
        return _first(obs), _first_info(info)

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One transition.

        Raises:
            ValueError: the action is illegal, with on_illegal="raise".
            gymnasium.error.ResetNeeded: the episode has ended.
        """
        if self._vector.has_ended[0]:
            raise gym.error.ResetNeeded("the episode has ended: call reset() before step()")
        obs, reward, terminated, truncated, info = self._vector.step(np.array([action]))
        return _first(obs), float(reward[0]), bool(terminated[0]), bool(truncated[0]), _first_info(info)

    def action_masks(self) -> NDArray[np.bool_]:
        """(actions,) legality of each action; sb3-contrib calls this method."""
        return self._vector.simulator.mask[0].astype(np.bool_)

    def render(self) -> Any:
        """The cluster as text (ansi) or as a (height, width, 3) uint8 picture (rgb_array)."""
        return self._vector.render()


def _first(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _first(part) for key, part in value.items()}
    return value[0]


def _first_info(info: dict[str, Any]) -> dict[str, Any]:
    """Info of the only environment, without the masks of a vector environment (`_key`)."""
    return {key: _first(value) for key, value in info.items() if not key.startswith("_")}
