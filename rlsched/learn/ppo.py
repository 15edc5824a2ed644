"""PPO on RLlib's new API stack, with our environments and modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.tune.registry import register_env

from rlsched.envs.vector import Arrays, SchedulingVectorEnv
from rlsched.learn.config import TrainConfig
from rlsched.learn.gae import TimedPPOLearner
from rlsched.learn.module import MaskedModule, module_config
from rlsched.scenario import Scenario

ENV_NAME = "rlsched-vector"
REPORTED = ("bounded_slowdown", "wait", "utilization", "schedule_span")


class TrainingVectorEnv(SchedulingVectorEnv):
    """Environments whose streams of episodes no other runner, seed or part of a resumed run has.

    RLlib seeds neighbouring runners with neighbouring numbers, and Gymnasium neighbouring environments; both
    at once would have most episodes drawn twice.
    """

    def __init__(self, context: Any) -> None:
        scenario = Scenario.model_validate(context["scenario"])
        super().__init__(scenario, int(context.get("num_envs", 1)), flat=True, on_illegal="raise")
        self.stream = (*context["stream"], getattr(context, "worker_index", 0))

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Arrays, dict[str, Any]]:
        """Begin a new episode in every environment, in the streams of this runner where a seed is given."""
        if seed is not None:
            seed = np.random.SeedSequence(self.stream).generate_state(self.num_envs).tolist()
        return super().reset(seed=seed, options=options)


class DomainMetrics(RLlibCallback):
    """Reports what an operator cares about beside the return."""

    def on_episode_end(self, *, episode: Any, metrics_logger: Any, **kwargs: Any) -> None:
        """Log the metrics that the environment put into the last step's info."""
        values = episode.get_infos(-1).get("metrics") or {}
        for name in REPORTED:
            if name in values:
                metrics_logger.log_value(name, values[name], reduce="mean", window=100)


def build_config(
    scenario: Scenario, config: TrainConfig, num_resources: int, iteration: int = 0
) -> PPOConfig:
    """RLlib's configuration of a training run.

    Args:
        scenario: with the units of every resource known.
        config: how to train.
        num_resources: resource types of the cluster.
        iteration: at which the run begins or goes on.
    """
    register_env(ENV_NAME, TrainingVectorEnv)
    ppo, sampling = config.ppo, config.sampling
    batch = sampling.envs_per_runner * sampling.fragment * max(1, sampling.runners)
    schedule = [[0, ppo.learning_rate], [config.settled(scenario).steps, ppo.final_learning_rate]]
    return (
        PPOConfig()
        .environment(
            ENV_NAME,
            env_config={"scenario": scenario.model_dump(mode="json"), "stream": (config.seed, iteration)},
        )
        .env_runners(
            num_env_runners=sampling.runners,
            num_envs_per_env_runner=sampling.envs_per_runner,
            gym_env_vectorize_mode=gym.VectorizeMode.VECTOR_ENTRY_POINT,
            rollout_fragment_length=sampling.fragment,
        )
        .learners(
            num_learners=config.learners,
            num_gpus_per_learner=config.gpus_per_learner,
            learner_class=TimedPPOLearner,
            learner_config_dict={
                "gamma": scenario.objective.gamma,
                "gae_lambda": scenario.objective.gamma if ppo.gae_lambda is None else ppo.gae_lambda,
            },
        )
        .training(
            clip_param=ppo.clip,
            lr=schedule,
            entropy_coeff=ppo.entropy,
            vf_loss_coeff=ppo.value_weight,
            vf_clip_param=float("inf"),
            use_kl_loss=False,
            grad_clip=ppo.gradient_clip,
            grad_clip_by="global_norm",
            num_epochs=ppo.epochs,
            minibatch_size=ppo.minibatch,
            train_batch_size_per_learner=batch // max(1, config.learners),
        )
        .rl_module(
            rl_module_spec=RLModuleSpec(
                module_class=MaskedModule,
                model_config=module_config(
                    (scenario.observation, scenario.decision), num_resources, config.network
                ),
            )
        )
        .callbacks(DomainMetrics)
        .fault_tolerance(restart_failed_env_runners=True)
        .debugging(seed=config.seed, log_level="ERROR")
    )
