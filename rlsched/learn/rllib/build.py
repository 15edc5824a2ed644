"""RLlib's configuration of a training run, on its new API stack."""

from __future__ import annotations

import gymnasium as gym
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.tune.registry import register_env

from rlsched.envs.vector import observation_space
from rlsched.learn.algorithms.base import RllibAlgorithm, RllibParts
from rlsched.learn.config.sections import OfflineSettings
from rlsched.learn.config.training import ResolvedConfig
from rlsched.learn.networks.module import module_config
from rlsched.learn.rllib.dataset import Dataset
from rlsched.learn.rllib.runner import BatchedEnvRunner
from rlsched.learn.rllib.sampling import ENV_NAME, DomainMetrics, TrainingVectorEnv
from rlsched.learn.rllib.scale import UNKNOWN, Returns
from rlsched.scenario import ResolvedScenario
from rlsched.settings import Frozen
from rlsched.sim.layout import Layout

RESTART_DELAY_S = 1.0
"""Seconds between an exception in a runner and the end of its process."""

PROBE_S = 1.0
"""Seconds that RLlib waits for other restarted runners once one is back."""


def reports_of(config: ResolvedConfig, scenario: ResolvedScenario) -> tuple[str, ...]:
    """Names of the learner's figures in metrics.csv, in the order of their columns."""
    algorithm = rllib_algorithm(config)
    limited = [
        column(name, figure) for name in scenario.objective.limits for figure in algorithm.limit_reports
    ]
    return (*algorithm.reports, *limited)


def rllib_algorithm(config: ResolvedConfig) -> RllibAlgorithm:
    """The chosen algorithm, as one that RLlib runs.

    Raises:
        TypeError: RLlib does not run it.
    """
    algorithm = config.algorithm
    if not isinstance(algorithm, RllibAlgorithm):
        raise TypeError(f"{config.algo} is not run by RLlib")
    return algorithm


def column(constraint: str, figure: str) -> str:
    """Column of metrics.csv for a figure of a constraint."""
    return f"{constraint}_{figure}"


def build_config(
    scenario: ResolvedScenario,
    config: ResolvedConfig,
    num_resources: int,
    iteration: int = 0,
    returns: Returns = UNKNOWN,
    before: int = 0,
) -> AlgorithmConfig:
    """RLlib's configuration of a training run.

    Args:
        scenario: with the units of every resource known.
        config: settings of the run.
        num_resources: resource types of the cluster.
        iteration: at which the run begins or resumes.
        returns: statistics of returns before training.
        before: decisions that were taken or read in this run until then.
    """
    register_env(ENV_NAME, TrainingVectorEnv)
    algorithm, settings = rllib_algorithm(config), config.section(Frozen).model_dump()
    parts = algorithm.parts()
    module = module_config((scenario.observation, scenario.decision), num_resources, config.network)
    module |= {"mean_return": returns.mean, "coming": returns.coming, "settings": settings}
    module["mean_costs"] = [constraint.mean for constraint in returns.constraints]
    module |= algorithm.module_settings(config)
    if algorithm.fragment(config) is not None:
        constraints = returns.constraints if algorithm.limit_reports else ()
        env_config = {
            "scenario": scenario.model_dump(mode="json"),
            "stream": (config.seed, iteration),
            "reward_scale": returns.scale,
            "replicas": config.sampling.replicas,
            "candidates": config.sampling.candidates,
            "limits": {constraint.name: constraint.limit for constraint in constraints},
            "cost_scales": {constraint.name: constraint.scale for constraint in constraints},
        }
        described = _sampling(parts.config.environment(ENV_NAME, env_config=env_config), algorithm, config)
    else:
        described = _from_dataset(parts, scenario, config, num_resources, before, returns)
    return (
        described.learners(
            num_learners=config.learners,
            num_gpus_per_learner=config.gpus_per_learner,
            learner_class=parts.learner,
            learner_config_dict={
                "gamma": scenario.objective.gamma,
                "settings": settings,
                "constraints": returns.constraints,
            },
        )
        .training(
            # Our learners discount by the ticks of a transition, so RLlib must not discount.
            gamma=1.0,
            lr=algorithm.learning_rates(config),
            grad_clip_by="global_norm",
            **algorithm.training(config, before),
        )
        .rl_module(rl_module_spec=RLModuleSpec(module_class=parts.module, model_config=module))
        .debugging(seed=config.seed, log_level="ERROR")
    )


def _sampling(
    described: AlgorithmConfig, algorithm: RllibAlgorithm, config: ResolvedConfig
) -> AlgorithmConfig:
    """Add the env runners of an algorithm that samples episodes."""
    sampling = config.sampling
    decisions = 0 if algorithm.whole_iterations else config.decisions_per_iteration
    return (
        described.env_runners(
            num_env_runners=sampling.runners,
            num_envs_per_env_runner=sampling.envs_per_runner,
            gym_env_vectorize_mode=gym.VectorizeMode.VECTOR_ENTRY_POINT,
            rollout_fragment_length=algorithm.fragment(config),
            env_runner_cls=BatchedEnvRunner if sampling.batched else None,
            sample_timeout_s=sampling.hung_seconds,
        )
        .callbacks(DomainMetrics)
        .fault_tolerance(
            restart_failed_env_runners=True,
            max_num_env_runner_restarts=sampling.restarts,
            delay_between_env_runner_restarts_s=RESTART_DELAY_S,
            env_runner_health_probe_timeout_s=PROBE_S,
        )
        .reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=decisions)
    )


def _from_dataset(
    parts: RllibParts,
    scenario: ResolvedScenario,
    config: ResolvedConfig,
    num_resources: int,
    before: int,
    returns: Returns,
) -> AlgorithmConfig:
    """Add the dataset of an algorithm that samples no episodes."""
    layout = Layout.of(scenario.observation, scenario.decision, num_resources)
    return (
        parts.config.environment(
            observation_space=observation_space(layout, flat=True),
            action_space=gym.spaces.Discrete(layout.num_actions),
        )
        .offline_data(
            input_=[str(config.dataset)],
            offline_data_class=Dataset,
            dataset_num_iters_per_learner=1,
            input_read_method_kwargs={
                "columns": parts.columns,
                "seed": config.seed,
                "read_before": before,
                "gamma": scenario.objective.gamma,
                "n_step": getattr(config.section(OfflineSettings), "n_step", 1),
                "reward_scale": returns.scale,
            },
        )
        # One training step per iteration: RLlib would continue until something is sampled.
        .reporting(
            min_time_s_per_iteration=0,
            min_train_timesteps_per_iteration=0,
            min_sample_timesteps_per_iteration=0,
        )
    )
