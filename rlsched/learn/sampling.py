"""Where RLlib's algorithms get their experience: our environments, and what is reported of their episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ray.rllib.callbacks.callbacks import RLlibCallback

from rlsched.envs.vector import Arrays, SchedulingVectorEnv
from rlsched.jobs import IntArray
from rlsched.scenario import Scenario
from rlsched.sim.rules import TERMS

ENV_NAME = "rlsched-vector"
COSTS = "costs"
"""Of transitions: (cost,) each, those with a limit."""

LIMITED = "limited"
"""What episodes that ended in an iteration came to: cost -> every one of them."""

REPORTED = ("bounded_slowdown", "wait", "utilization", "schedule_span")


class TrainingVectorEnv(SchedulingVectorEnv):
    """Environments as learners like them: their own streams of episodes, and rewards of a sensible size.

    No other runner, seed or part of a resumed run has these streams.

    RLlib seeds neighbouring runners with neighbouring numbers, and Gymnasium neighbouring environments; both
    at once would have most episodes drawn twice.

    The flat observation holds the privileged blocks, too, which policies do not look at and critics may.
    """

    def __init__(self, context: Any) -> None:
        scenario = Scenario.model_validate(context["scenario"])
        envs = int(context.get("num_envs", 1))
        super().__init__(scenario, envs, flat=True, privileged=True, on_illegal="raise")
        self._privileged = None  # they are in the observation, not in info
        self._show(self.simulator.layout)
        self.reward_scale = float(context["reward_scale"])
        scales: Mapping[str, float] = context.get("cost_scales", {})
        self.terms = [TERMS.index(name) for name in scales]
        self.cost_scales = np.array(list(scales.values()), np.float32)
        self.stream = tuple(context["stream"])

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Arrays, dict[str, Any]]:
        """Begin a new episode in every environment, in the streams of this runner where a seed is given.

        The seed is what tells runners apart: RLlib's context knows their number, but makes a plain dict of
        itself on the way to a vectorised environment.
        """
        if seed is not None:
            told = seed if isinstance(seed, Sequence) else (seed,)
            seed = np.random.SeedSequence((*self.stream, *told)).generate_state(self.num_envs).tolist()
        return super().reset(seed=seed, options=options)

    def step(
        self, actions: IntArray
    ) -> tuple[Arrays, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """One transition of every environment, with rewards that are easy to learn from.

        Where there are `cost_scales`, `info["costs"]` holds the costs of these, likewise: (env, cost); and
        where episodes have ended, `info["limited"]` what is compared with limits: env -> cost -> amount.
        """
        obs, reward, terminated, truncated, info = super().step(actions)
        if self.terms:
            info[COSTS] = (-self.simulator.terms[:, self.terms] * self.cost_scales).astype(np.float32)
            if "metrics" in info:
                info[LIMITED] = {
                    env: self._limited(env, info["metrics"][env])
                    for env in np.flatnonzero(info["_metrics"]).tolist()
                }
        return obs, reward * self.reward_scale, terminated, truncated, info

    def _limited(self, env: int, metrics: Mapping[str, float]) -> dict[str, float]:
        objective, jobs = self.scenario.objective, len(self.episodes[env].jobs)
        return {name: objective.limited(metrics[f"cost.{name}"], jobs) for name in objective.limits}


class DomainMetrics(RLlibCallback):
    """Reports what an operator cares about beside the return."""

    def on_episode_end(self, *, episode: Any, metrics_logger: Any, **kwargs: Any) -> None:
        """Log the metrics that the environment put into the last step's info."""
        log_domain_metrics(metrics_logger, episode.get_infos(-1).get("metrics") or {})


def log_domain_metrics(metrics_logger: Any, values: Mapping[str, float]) -> None:
    """Log those of an episode's metrics that are reported."""
    for name in REPORTED:
        if name in values:
            metrics_logger.log_value(name, values[name], reduce="mean", window=100)


def log_limited(metrics_logger: Any, values: Mapping[str, float]) -> None:
    """Log what of an episode is compared with limits, every one by itself."""
    for name, value in values.items():
        metrics_logger.log_value((LIMITED, name), value, reduce="item_series")
