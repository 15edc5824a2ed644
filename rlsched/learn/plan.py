"""Plan of a run: checks of all inputs before anything long starts, or is written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from rlsched.envs.episodes import EpisodeFeed
from rlsched.errors import BadInputError
from rlsched.evaluate.costs import check_heuristic
from rlsched.evaluate.gate import LEAST_EPISODES
from rlsched.files import checksum
from rlsched.learn.checkpoints import Standing
from rlsched.learn.config.training import Config, ResolvedConfig, TrainConfig
from rlsched.learn.folder import RunFolder
from rlsched.learn.networks.policies import build_policy
from rlsched.learn.selection import Validation
from rlsched.learn.warm_start import check_teacher
from rlsched.offline.check import check_for
from rlsched.offline.manifest import MANIFEST, read_manifest
from rlsched.scenario import EpisodeSettings, RelativeLimit, ResolvedScenario, Scenario, files, rooted
from rlsched.sim.layout import Layout
from rlsched.sim.priorities import PRIORITIES

VALIDATION_SEED = 0x76616C  # of the validation episodes, the same in every run so that runs compare


@dataclass(frozen=True, eq=False)
class Plan:
    """Checked inputs of a run."""

    scenario: ResolvedScenario
    config: ResolvedConfig  # with absolute paths of other runs and datasets
    initial_config: ResolvedConfig  # of a run without a checkpoint, perhaps with its own initial policy
    feed: EpisodeFeed
    validation: Validation
    inputs: dict[str, str]  # checksums of the trace, the power series and the dataset
    latest: tuple[Path, Standing] | None  # checkpoint to resume from, and its progress
    damaged: tuple[str, ...] = ()  # problems of newer checkpoints, a sentence each
    trust: bool = False  # accept pickles in the checkpoint that this user has not signed


def plan(
    scenario: Scenario, config: TrainConfig, folder: RunFolder, *, resume: bool, trust: bool = False
) -> Plan:
    """Check that a run can be done as requested.

    Args:
        scenario: to simulate; its cluster may leave units to the trace.
        config: how to train.
        folder: a new run's folder, or with `resume` that of the run to resume.
        resume: resume from the last undamaged checkpoint.
        trust: accept pickles in a checkpoint that this user has not signed, though reading them runs code.

    Raises:
        BadInputError: the scenario, a setting, the dataset, a checkpoint or the folder cannot be used.
    """
    if resume:
        folder.check_settings()
    else:
        folder.check_free()
    if resume and config.dataset is not None and scenario.public is not scenario:
        raise BadInputError(
            str(folder.path),
            "learned from a dataset with privileged blocks, as older versions recorded them",
            "begin another run, from a dataset of this version",
        )
    feed, resolved = resolve_run(scenario, config)
    scenario = feed.scenario
    latest, damaged = folder.checkpoints.intact(trust=trust) if resume else (None, [])
    initial = resolved
    if latest is None:
        initial = initial_config(resolved, folder)
        check_teachers(initial, feed)
    inputs = inputs_of(scenario, resolved)
    if resume:
        folder.check_inputs(inputs)
    check_devices(resolved)
    validation = validation_of(scenario, resolved, feed)
    return Plan(scenario, resolved, initial, feed, validation, inputs, latest, tuple(damaged), trust)


def resolve_run(scenario: Scenario, config: TrainConfig) -> tuple[EpisodeFeed, ResolvedConfig]:
    """The episodes and the resolved settings of a run, as its folder holds them.

    Raises:
        BadInputError: scenario and settings do not go together, or one of them cannot be used.
    """
    resolved = in_place(config.resolve(scenario))
    feed = EpisodeFeed(rooted(scenario if resolved.has_privileged_critic else scenario.public))
    if resolved.network.kind == "cnn":
        network = resolved.network.model_copy(update={"units": tuple(feed.units)})
        resolved = resolved.model_copy(update={"network": network})
    scenario = feed.scenario
    layout = Layout.of(scenario.observation, scenario.decision, len(feed.units))
    build_policy(layout, resolved.network)  # refuses a network without the blocks that it needs
    if resolved.dataset is not None:
        manifest, rewards = read_manifest(resolved.dataset), resolved.algorithm.reads_rewards
        check_for(resolved.dataset, manifest, scenario, len(feed.units), rewards=rewards)
    check_limits(scenario, resolved)
    return feed, resolved


def validation_of(scenario: ResolvedScenario, config: ResolvedConfig, feed: EpisodeFeed) -> Validation:
    """The episodes on which a run's policies are compared.

    Raises:
        BadInputError: the metric is not measured.
    """
    rng = np.random.default_rng(VALIDATION_SEED)
    episodes, parts = feed.stratified(rng, config.validation.episodes, least=1)
    if np.bincount(parts).min() < LEAST_EPISODES:  # too few to measure hoarding in a part
        parts = np.zeros_like(parts)
    if not scenario.decision.tick_driven:  # in validation all jobs must finish
        scenario = scenario.model_copy(update={"episode": EpisodeSettings(jobs=scenario.episode.jobs)})
    return Validation.of(scenario, feed.units, episodes, config.validation.metric, parts)


def inputs_of(scenario: ResolvedScenario, config: ResolvedConfig) -> dict[str, str]:
    """Checksums of a run's input files; a dataset's manifest has those of its files.

    Raises:
        BadInputError: a file cannot be read.
    """
    paths = files(scenario)
    if config.dataset is not None:
        paths |= {"dataset": config.dataset / MANIFEST}
    try:
        return {name: checksum(path) for name, path in paths.items()}
    except OSError as error:
        raise BadInputError(str(error.filename), f"cannot be read ({error})", "bring it back") from None


def in_place(config: Config) -> Config:
    """The settings with absolute paths of other runs and datasets."""
    warm, algorithm = config.warm_start, config.algorithm
    if warm.teacher is not None and warm.teacher not in PRIORITIES:
        warm = warm.model_copy(update={"teacher": str(Path(warm.teacher).resolve())})
    dataset = None if config.dataset is None else config.dataset.resolve()
    config = config.model_copy(update={"warm_start": warm, "dataset": dataset})
    start = algorithm.initial_policy(config)
    return config if start is None else algorithm.with_initial_policy(config, Path(start).resolve())


def initial_config(config: ResolvedConfig, folder: RunFolder) -> ResolvedConfig:
    """Settings of a run without a checkpoint, which may begin again.

    The run that its initial policy came from may have changed or gone since. Then the saved policy before
    training is used.
    """
    algorithm = config.algorithm
    if algorithm.initial_policy(config) is None or not folder.start.is_dir():
        return config
    return algorithm.with_initial_policy(config, folder.start)


def check_teachers(config: ResolvedConfig, feed: EpisodeFeed) -> None:
    """Check that the teacher and the initial policy of a run can be used.

    Raises:
        BadInputError: one cannot.
    """
    if (warm_start := config.imitation(feed.scenario)) is not None:
        check_teacher(feed, warm_start)
    config.algorithm.check_initial_policy(config, feed)


def check_devices(config: ResolvedConfig) -> None:
    """Check that a learner in this process has the GPU that it needs.

    Raises:
        BadInputError: there is none.
    """
    if config.gpus_per_learner and not config.learners and not torch.cuda.is_available():
        raise BadInputError(
            "gpus_per_learner",
            f"value {config.gpus_per_learner:g}: no GPU here",
            "leave it out, or set learners=1 on a cluster that has one",
        )


def check_limits(scenario: ResolvedScenario, config: ResolvedConfig) -> None:
    """Check that an algorithm that needs limits has some, and that its runners report costs.

    Raises:
        BadInputError: it has none, or they do not.
    """
    limits = scenario.objective.limits
    for name, limit in limits.items():
        if isinstance(limit, RelativeLimit):
            check_heuristic(name, limit)
    if not config.algorithm.within_limits:
        return
    if config.algorithm.requires_limits and not limits:
        raise BadInputError(
            "objective.costs",
            f"has no cost with a limit, which {config.algo} keeps",
            "add --limit NAME=AMOUNT, as in --limit delayed_jobs=7000; 'rlsched objectives' lists costs",
        )
    if limits and not config.sampling.batched:
        raise BadInputError(
            "sampling.batched",
            f"value false: that runner reports no costs, which {config.algo} keeps within limits",
            "leave it out",
        )
