"""RARE on RLlib's `Algorithm`: phases of offline and online training, and the source of each batch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
from ray.rllib.utils.metrics import (
    ENV_RUNNER_RESULTS,
    LEARNER_RESULTS,
    NUM_ENV_STEPS_SAMPLED_LIFETIME,
)

from rlsched.learn.algorithms.rare import Phases
from rlsched.learn.networks.actor_critic import RareModule
from rlsched.learn.rllib.dataset import TRANSITIONS, learned_from
from rlsched.learn.rllib.ray_compat import sample
from rlsched.learn.rllib.replay import REPLAY_STREAM, ReplayBuffer
from rlsched.learn.supervisor import Supervised
from rlsched.offline.manifest import read_manifest
from rlsched.offline.reader import Reader


class RareConfig(AlgorithmConfig):
    """RLlib's settings, and the dataset and phases of a run in `run_settings` (`RareAlgorithm.training`)."""

    def __init__(self, algo_class: type[Algorithm] | None = None) -> None:
        super().__init__(algo_class=algo_class or Rare)
        self.run_settings: dict[str, Any] = {}
        # Updates of the actor leave critics' parameters unused, and updates of critics those of the actor.
        self.torch_ddp_kwargs = {"find_unused_parameters": True}

    def training(self, *, run_settings: Mapping[str, Any] | None = None, **kwargs: Any) -> Self:
        """Set RLlib's settings, and `run_settings`."""
        super().training(**kwargs)
        if run_settings is not None:
            self.run_settings = dict(run_settings)
        return self

    def get_default_rl_module_spec(self) -> RLModuleSpec:
        """Default specification of the module."""
        return RLModuleSpec(module_class=RareModule)


class Rare(Supervised, Algorithm):
    """RARE as an algorithm of RLlib: offline from a dataset, online with a replay buffer, or both in turn."""

    def setup(self, config: Any) -> None:
        """Build as RLlib does, open the dataset, and make an empty replay buffer."""
        super().setup(config)
        run, learned = self.config.run_settings, self.config.learner_config_dict
        self.gamma, self.settings = learned["gamma"], learned["settings"]
        self.reader: Reader | None = None
        if run["dataset"] is not None:
            folder = Path(run["dataset"])
            seed, before = self.config.seed or 0, run["read_before"]
            self.reader = Reader(
                folder,
                read_manifest(folder),
                TRANSITIONS,
                seed=seed,
                read_before=before,
                gamma=self.gamma,
                n_step=self.settings["n_step"],
            )
        capacity = self.settings["buffer"]
        rows = capacity + -(-capacity // self.settings["every"]) + 1
        self.rng = np.random.default_rng((REPLAY_STREAM, *self.config.env_config["stream"]))
        self.replay = ReplayBuffer(rows, self.rng)
        self.played = 0

    def training_step(self) -> None:
        """Train for one iteration, offline or online."""
        phases: Phases = self.config.run_settings["phases"]
        known = self._decisions()
        if known < phases.read:
            end = phases.read if known >= phases.imitate else min(phases.imitate, phases.read)
            self._read(int(min(self.config.run_settings["rows"], end - known)))
        else:
            self._play()

    def cleanup(self) -> None:
        """Close files and processes."""
        if self.reader is not None:
            self.reader.close()
        super().cleanup()

    def _decisions(self) -> int:
        """Decisions read or sampled since the run began."""
        return int(self.metrics.peek(NUM_ENV_STEPS_SAMPLED_LIFETIME, default=0))

    def _count(self, decisions: int) -> None:
        self.metrics.log_value(NUM_ENV_STEPS_SAMPLED_LIFETIME, decisions, reduce="lifetime_sum")

    def _read(self, rows: int) -> None:
        """Learn offline from the next `rows` decisions of the dataset, once from each."""
        columns = self._from_dataset(rows)
        self._count(rows)
        self._learn(columns, self.config.minibatch_size)

    def _play(self) -> None:
        """Sample online for an iteration, with updates after every fragment."""
        settings = self.settings
        over = self._decisions() + self.config.run_settings["rows"]
        while self._decisions() < over:
            episodes, results = sample(self)
            self.metrics.aggregate(results, key=ENV_RUNNER_RESULTS)
            decisions = sum(len(episode) for episode in episodes)
            if not decisions:
                return  # no runner is in service; they are restarted between training steps
            self.replay.add(episodes)
            self._count(decisions)
            self.played += decisions
            if self.played < settings["learning_starts"] or not len(self.replay):
                continue
            if settings["actor"] == "played":
                self._update(
                    episodes=episodes,
                    minibatch_size=settings["actor_minibatch"],
                    num_epochs=settings["epochs"],
                )
            self._learn(self._drawn(settings["batch"]), self.config.minibatch_size)
            self.env_runner_group.sync_weights(
                from_worker_or_learner_group=self.learner_group,
                policies=[DEFAULT_MODULE_ID],
                inference_only=True,
            )

    def _drawn(self, rows: int) -> dict[str, NDArray[Any]]:
        """Sample `rows` transitions from the replay buffer and, by its share, from the dataset."""
        read = round(rows * self.config.run_settings["phases"].share) if self.reader is not None else 0
        drawn = self.replay.sample(rows - read, self.settings["n_step"], self.gamma)
        if not read:
            return drawn
        columns = self._from_dataset(read)
        order = self.rng.permutation(rows)  # each minibatch is to have some of both
        return {name: np.concatenate([drawn[name], columns[name]])[order] for name in drawn}

    def _from_dataset(self, rows: int) -> dict[str, NDArray[Any]]:
        assert self.reader is not None
        return learned_from(self.reader.take(rows), self.config.env_config["reward_scale"])

    def _learn(self, columns: Mapping[str, NDArray[Any]], minibatch: int | None) -> None:
        rows = len(columns[Columns.OBS])
        batch = MultiAgentBatch({DEFAULT_MODULE_ID: SampleBatch(dict(columns))}, env_steps=rows)
        self._update(batch=batch, minibatch_size=minibatch)

    def _update(self, **training_data: Any) -> None:
        timesteps = {NUM_ENV_STEPS_SAMPLED_LIFETIME: self._decisions()}
        learned = self.learner_group.update(timesteps=timesteps, **training_data)
        self.metrics.aggregate(learned, key=LEARNER_RESULTS)
