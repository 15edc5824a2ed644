"""RLlib's algorithms on its new API stack, with our environments, modules and time: one description each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.bc import BCConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.marwil import MARWILConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.tune.registry import register_env

from rlsched.envs.vector import observation_space
from rlsched.learn.algorithms.learners.appo import GuardedAPPOLearner
from rlsched.learn.algorithms.learners.cloning import AGREEMENT, CloningLearner, ReadingBC, ReadingMARWIL
from rlsched.learn.algorithms.learners.cocorl import FIGURES, column
from rlsched.learn.algorithms.learners.cql import GAP, CQLLearner, ReadingCQLConfig
from rlsched.learn.algorithms.learners.dqn import TimedDQNLearner
from rlsched.learn.algorithms.learners.ppo import TimedPPOLearner
from rlsched.learn.algorithms.learners.rare import RareConfig, RareLearner
from rlsched.learn.config.sections import WithCritics
from rlsched.learn.config.training import TrainConfig
from rlsched.learn.networks.actor_critic import RareModule
from rlsched.learn.networks.module import (
    ClonedModule,
    ConstrainedModule,
    MaskedModule,
    QModule,
    TargetedModule,
    module_config,
)
from rlsched.learn.rllib import translation
from rlsched.learn.rllib.dataset import CHOICES, TRANSITIONS, Dataset
from rlsched.learn.rllib.runner import BatchedEnvRunner
from rlsched.learn.rllib.sampling import ENV_NAME, DomainMetrics, TrainingVectorEnv
from rlsched.learn.rllib.scale import UNKNOWN, Returns
from rlsched.learn.supervisor import GuardedAPPO, GuardedCocorl, GuardedDQN, GuardedRare
from rlsched.offline.reader import RETURN
from rlsched.scenario import Scenario
from rlsched.sim.layout import Layout

RESTART_DELAY_S = 1.0
"""After an exception in a runner, before its process ends."""

PROBE_S = 1.0
"""That RLlib waits for others that are not back yet when one is."""


@dataclass(frozen=True)
class Description:
    """How RLlib is to run an algorithm.

    Attributes:
        config: RLlib's configuration of it.
        learner: computes its loss, in simulated time.
        module: its networks.
        reports: figures of its learner for the record.
        settings: of its own, from ours and the decisions before this part of a run; keywords of
            `AlgorithmConfig.training`.
        columns: of the dataset that it learns from.
        sampled_at_once: decisions per environment that a runner hands over; None: it learns from a dataset.
        whole_iterations: a training step of it is an iteration; else as many as take so many decisions are.
        constrained: figures of each cost that has a limit, for the record.
    """

    config: Callable[[], AlgorithmConfig]
    learner: type[Any]
    module: type[MaskedModule]
    reports: tuple[str, ...]
    settings: Callable[[TrainConfig, int], Mapping[str, Any]]
    columns: tuple[str, ...] = ()
    sampled_at_once: Callable[[TrainConfig], int] | None = None
    whole_iterations: bool = False
    constrained: tuple[str, ...] = ()


RARE = Description(
    config=lambda: RareConfig(algo_class=GuardedRare),
    learner=RareLearner,
    module=RareModule,
    reports=(
        "policy_loss",
        "critic_loss",
        "value_mean",
        "vf_explained_var",
        "better_share",
        GAP,
        "entropy",
        "temperature",
        AGREEMENT,
    ),
    settings=translation.rare,
    sampled_at_once=lambda config: config.rare.every,
    whole_iterations=True,
)

PPO_FIGURES = (
    "policy_loss",
    "vf_loss",
    "vf_explained_var",
    "cost_loss",
    "entropy",
    "approximate_kl",
    "clip_fraction",
    "gradient_norm",
    "noise_left",
)

PPO = Description(
    config=lambda: PPOConfig(algo_class=GuardedCocorl),
    learner=TimedPPOLearner,
    module=ConstrainedModule,
    reports=PPO_FIGURES,
    settings=translation.ppo,
    sampled_at_once=lambda config: config.ppo_fragment,
    constrained=FIGURES,
)

DESCRIPTIONS: Mapping[str, Description] = {
    "ppo": PPO,
    "cocorl": PPO,
    "appo": Description(
        config=lambda: APPOConfig(algo_class=GuardedAPPO),
        learner=GuardedAPPOLearner,
        module=TargetedModule,
        reports=("policy_loss", "vf_loss", "entropy", "mean_IS"),
        settings=translation.appo,
        sampled_at_once=lambda config: config.appo.fragment,
    ),
    "dqn": Description(
        config=lambda: DQNConfig(algo_class=GuardedDQN),
        learner=TimedDQNLearner,
        module=QModule,
        reports=("qf_loss", "qf_mean", "td_error_mean"),
        settings=translation.dqn,
        sampled_at_once=lambda config: config.dqn.every,
    ),
    "bc": Description(
        config=lambda: BCConfig(algo_class=ReadingBC),
        learner=CloningLearner,
        module=ClonedModule,
        reports=("policy_loss", AGREEMENT),
        settings=translation.bc,
        columns=CHOICES,
    ),
    "marwil": Description(
        config=lambda: MARWILConfig(algo_class=ReadingMARWIL),
        learner=CloningLearner,
        module=MaskedModule,
        reports=("policy_loss", "vf_loss", "vf_explained_variance", "moving_avg_sqd_adv_norm", AGREEMENT),
        settings=translation.marwil,
        columns=(*CHOICES, RETURN),
    ),
    "cql": Description(
        config=ReadingCQLConfig,
        learner=CQLLearner,
        module=QModule,
        reports=("qf_loss", "qf_mean", "td_error_mean", GAP, AGREEMENT),
        settings=translation.cql,
        columns=TRANSITIONS,
    ),
    "rare": RARE,
    "launchpad": RARE,
}


def reports_of(config: TrainConfig, scenario: Scenario) -> tuple[str, ...]:
    """Figures of an algorithm's learner for the record, in the order of their columns."""
    kind = DESCRIPTIONS[config.algo]
    limited = [column(name, figure) for name in scenario.objective.limits for figure in kind.constrained]
    return (*kind.reports, *limited)


def build_config(
    scenario: Scenario,
    config: TrainConfig,
    num_resources: int,
    iteration: int = 0,
    returns: Returns = UNKNOWN,
    before: int = 0,
) -> AlgorithmConfig:
    """RLlib's configuration of a training run.

    Args:
        scenario: with the units of every resource known.
        config: how to train.
        num_resources: resource types of the cluster.
        iteration: at which the run begins or goes on.
        returns: what they are like before anything is learned.
        before: decisions that were taken or read in this run until then.
    """
    register_env(ENV_NAME, TrainingVectorEnv)
    config = config.settled(scenario)
    kind, own = DESCRIPTIONS[config.algo], config.own
    module = module_config((scenario.observation, scenario.decision), num_resources, config.network)
    module |= {"mean_return": returns.mean, "coming": returns.coming, "own": own.model_dump()}
    module["mean_costs"] = [constraint.mean for constraint in returns.constraints]
    module["heat"] = config.launchpad.heat if config.algo == "launchpad" else 1.0
    if kind.sampled_at_once is not None:
        described = _from_runners(kind, scenario, config, iteration, returns)
    else:
        described = _from_dataset(kind, scenario, config, num_resources, before, returns)
    return (
        described.learners(
            num_learners=config.learners,
            num_gpus_per_learner=config.gpus_per_learner,
            learner_class=kind.learner,
            learner_config_dict={
                "gamma": scenario.objective.gamma,
                "own": own.model_dump(),
                "constraints": returns.constraints,
            },
        )
        .training(
            # Our learners discount by the ticks of a transition, and RLlib by nothing.
            gamma=1.0,
            lr=_rates(config),
            grad_clip_by="global_norm",
            **kind.settings(config, before),
        )
        .rl_module(rl_module_spec=RLModuleSpec(module_class=kind.module, model_config=module))
        .debugging(seed=config.seed, log_level="ERROR")
    )


def _rates(config: TrainConfig) -> list[list[float]]:
    """Learning rate by decisions: it falls to its last value, for launchpad once in each of its parts."""
    own, ends = config.own, [config.steps or 0]
    if config.algo == "launchpad":
        ends.insert(0, config.launchpad.rows)
    begins = [0, *(end + 1 for end in ends[:-1])]
    falls = (
        ([begin, own.learning_rate], [end, own.final_learning_rate])
        for begin, end in zip(begins, ends, strict=True)
    )
    return [point for fall in falls for point in fall]


def _from_runners(
    kind: Description, scenario: Scenario, config: TrainConfig, iteration: int, returns: Returns
) -> AlgorithmConfig:
    """Where an algorithm that plays gets its decisions."""
    assert kind.sampled_at_once is not None
    sampling = config.sampling
    return (
        kind.config()
        .environment(
            ENV_NAME,
            env_config={
                "scenario": scenario.model_dump(mode="json"),
                "stream": (config.seed, iteration),
                "reward_scale": returns.scale,
                "replicas": sampling.replicas or 1,
                "candidates": sampling.candidates,
                "limits": {each.name: each.limit for each in returns.constraints if kind.constrained},
                "cost_scales": {each.name: each.scale for each in returns.constraints if kind.constrained},
            },
        )
        .env_runners(
            num_env_runners=sampling.runners,
            num_envs_per_env_runner=sampling.envs_per_runner,
            gym_env_vectorize_mode=gym.VectorizeMode.VECTOR_ENTRY_POINT,
            rollout_fragment_length=kind.sampled_at_once(config),
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
        .reporting(
            min_time_s_per_iteration=0,
            min_sample_timesteps_per_iteration=0 if kind.whole_iterations else config.decisions_per_iteration,
        )
    )


def _from_dataset(
    kind: Description,
    scenario: Scenario,
    config: TrainConfig,
    num_resources: int,
    before: int,
    returns: Returns,
) -> AlgorithmConfig:
    """Where an algorithm that plays nothing gets its decisions."""
    layout = Layout.of(scenario.observation, scenario.decision, num_resources)
    return (
        kind.config()
        .environment(
            observation_space=observation_space(layout, flat=True),
            action_space=gym.spaces.Discrete(layout.num_actions),
        )
        .offline_data(
            input_=[str(config.dataset)],
            offline_data_class=Dataset,
            dataset_num_iters_per_learner=1,
            input_read_method_kwargs={
                "columns": kind.columns,
                "seed": config.seed,
                "read_before": before,
                "gamma": scenario.objective.gamma,
                "n_step": config.own.n_step if isinstance(config.own, WithCritics) else 1,
                "reward_scale": returns.scale,
            },
        )
        # One training step an iteration: RLlib would go on until something is played.
        .reporting(
            min_time_s_per_iteration=0,
            min_train_timesteps_per_iteration=0,
            min_sample_timesteps_per_iteration=0,
        )
    )
