"""Our settings in RLlib's words: keywords of `AlgorithmConfig.training` for each algorithm.

Each is given the settings of a run, and the decisions before this part of it.
"""

from __future__ import annotations

from typing import Any

from rlsched.learn.algorithms.learners.rare import Phases
from rlsched.learn.config.training import TrainConfig

NORM_RATE = 1e-2
"""Of the mean square of MARWIL's advantages, per minibatch."""


def ppo(config: TrainConfig, before: int) -> dict[str, Any]:
    """PPO, and cocorl."""
    own = config.ppo_like
    return {
        "clip_param": own.clip,
        "entropy_coeff": own.entropy,
        "vf_loss_coeff": own.value_weight,
        "vf_clip_param": float("inf"),
        "use_kl_loss": False,
        "grad_clip": own.gradient_clip,
        "num_epochs": own.epochs,
        "minibatch_size": own.minibatch,
        "train_batch_size_per_learner": config.decisions_per_batch // max(1, config.learners),
    }


def appo(config: TrainConfig, before: int) -> dict[str, Any]:
    """APPO."""
    own = config.appo
    return {
        "clip_param": own.clip,
        "entropy_coeff": own.entropy,
        "vf_loss_coeff": own.value_weight,
        "use_kl_loss": False,
        "grad_clip": own.gradient_clip,
        "circular_buffer_num_batches": own.buffer_batches,
        "circular_buffer_iterations_per_batch": own.epochs,
        "target_network_update_freq": own.target_every,
        "train_batch_size_per_learner": config.sampling.envs_per_runner * own.fragment,
    }


def dqn(config: TrainConfig, before: int) -> dict[str, Any]:
    """DQN."""
    own = config.dqn
    return {
        "epsilon": [[0, own.epsilon], [own.epsilon_steps, own.final_epsilon]],
        "grad_clip": own.gradient_clip,
        "train_batch_size_per_learner": own.batch,
        # Of all decisions of a run; one that goes on does so with an empty buffer.
        "num_steps_sampled_before_learning_starts": before + own.learning_starts,
        "target_network_update_freq": 1,
        "tau": own.target_share,
        # RLlib makes no buffer of its own; see ReplayingDQN.
        "replay_buffer_config": {"no_local_replay_buffer": True, "capacity": own.buffer},
    }


def bc(config: TrainConfig, before: int) -> dict[str, Any]:
    """Behavioural cloning."""
    own = config.reading
    return {
        "grad_clip": own.gradient_clip,
        "minibatch_size": own.minibatch,
        "train_batch_size_per_learner": own.rows // max(1, config.learners),
    }


def marwil(config: TrainConfig, before: int) -> dict[str, Any]:
    """MARWIL."""
    return bc(config, before) | {
        "beta": config.marwil.beta,
        "vf_coeff": config.marwil.value_weight,
        # Returns are about 1. RLlib begins with 100 and hardly moves from there: all weights would be 1.
        "moving_average_sqd_adv_norm_start": 1.0,
        "moving_average_sqd_adv_norm_update_rate": NORM_RATE,
    }


def cql(config: TrainConfig, before: int) -> dict[str, Any]:
    """CQL."""
    return bc(config, before) | {
        "tau": config.cql.target_share,
        # Targets follow every step of a gradient; RLlib knows of none but those after decisions.
        "target_network_update_freq": float("inf"),
        "num_steps_sampled_before_learning_starts": 0,
        "replay_buffer_config": {"no_local_replay_buffer": True},
    }


def rare(config: TrainConfig, before: int) -> dict[str, Any]:
    """RARE, and launchpad."""
    own = config.rare
    read = float(config.launchpad.rows if config.algo == "launchpad" else "inf")
    return {
        "grad_clip": own.gradient_clip,
        "minibatch_size": own.minibatch,
        "train_batch_size_per_learner": config.decisions_per_iteration // max(1, config.learners),
        "told": {
            "phases": Phases(
                read=read if config.dataset is not None else 0.0,
                imitate=own.imitate,
                share=config.launchpad.share,
            ),
            "dataset": None if config.dataset is None else str(config.dataset),
            "read_before": before,
            "rows": config.decisions_per_iteration,
            "every": own.every,
            "batch": own.batch,
            "capacity": own.buffer,
            "learning_starts": own.learning_starts,
            "actor": own.actor,
            "epochs": own.epochs,
            "actor_minibatch": own.actor_minibatch,
        },
    }
