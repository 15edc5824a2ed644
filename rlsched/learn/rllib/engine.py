"""Engine of a training run that RLlib's algorithms drive."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ray.exceptions import RayTaskError
from torch import nn

from rlsched.envs.episodes import EpisodeFeed
from rlsched.errors import BadInputError
from rlsched.learn.algorithms.learners.appo import LearnerDiedError
from rlsched.learn.algorithms.learners.cocorl import ConstrainedPPO
from rlsched.learn.config.sections import WarmStart
from rlsched.learn.config.training import ResolvedConfig
from rlsched.learn.engine import Progress, number
from rlsched.learn.networks.blocks import EncodedPolicy
from rlsched.learn.networks.policies import build_policy
from rlsched.learn.networks.recurrent import RecurrentPolicy, by_itself
from rlsched.learn.pid import LimitCheck
from rlsched.learn.policy import NetworkPolicy
from rlsched.learn.rllib.build import build_config, reports_of, rllib_algorithm
from rlsched.learn.rllib.sampling import REPORTED
from rlsched.learn.rllib.scale import expected_returns
from rlsched.learn.warm_start import demonstrate, imitate
from rlsched.sim.layout import Layout

MODULE = "default_policy"
WARM_STREAM = 0x7761726D  # of the episodes that a teacher plays


class RllibEngine:
    """Engine around an RLlib algorithm.

    The saved policy is an average of the policies over iterations (`ResolvedConfig.averaging`).
    """

    shortens_all = True

    def __init__(self, config: ResolvedConfig, feed: EpisodeFeed, iteration: int, before: int = 0) -> None:
        scenario = feed.scenario
        self.scenario, self.config = scenario, config
        self.reports = reports_of(config, scenario)
        self.num_resources = num_resources = len(feed.units)
        self.returns = expected_returns(feed, config.seed)
        self.share = 1.0
        described = build_config(scenario, config, num_resources, iteration, self.returns, before)
        self.algorithm = described.build_algo()
        try:
            layout = Layout.of(scenario.observation.public, scenario.decision, num_resources)
            self.net = build_policy(layout, config.network).eval()
            self.net.load_state_dict(self.learned())
            if iteration == 0 and (warm_start := config.imitation(scenario)) is not None:
                self.warm_up(feed, warm_start)
        except BaseException:
            self.stop()
            raise

    def warm_up(self, feed: EpisodeFeed, warm: WarmStart) -> None:
        """Let the policy imitate a teacher before training."""
        rng = np.random.default_rng([self.config.seed, WARM_STREAM])
        demonstration = demonstrate(feed, warm, rng)
        # Demonstrations are single decisions; a memory adds nothing to them at first.
        imitate(by_itself(self.net.train()), demonstration, warm, self.config.seed)
        self.net.eval()
        part = f"learner/rl_module/{MODULE}"
        state = self.algorithm.learner_group.get_state(components=part)
        weights = dict(state["learner"]["rl_module"][MODULE])
        for name, value in self.net.state_dict().items():
            for part_of in ("policy", "target_policy"):
                if f"{part_of}.{name}" in weights:
                    weights[f"{part_of}.{name}"] = value.numpy()
        self.algorithm.learner_group.set_state({"learner": {"rl_module": {MODULE: weights}}})
        self.algorithm.env_runner_group.sync_weights(
            from_worker_or_learner_group=self.algorithm.learner_group, inference_only=True
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the figures that every iteration gives."""
        return ("episode_return_mean", *REPORTED, *self.reports)

    def iterate(
        self, run_fraction: float = 0.0, checks: Mapping[str, LimitCheck] | None = None, share: float = 1.0
    ) -> Progress:
        """One iteration of RLlib's.

        Raises:
            LearnerDiedError: the learner has died; its notes say why.
        """
        if isinstance(self.algorithm, ConstrainedPPO):
            self.algorithm.run_fraction, self.algorithm.checks = run_fraction, checks or {}
        if share != self.share:
            self._shorten(share)
        try:
            result = self.algorithm.train()
        except RayTaskError as error:
            if isinstance(error.cause, LearnerDiedError):  # in another process
                raise error.cause from None
            raise
        newest = self.learned()
        for name, value in self.net.state_dict().items():
            value.lerp_(newest[name], 1.0 - self.config.averaging)
        played = result.get("env_runners", {})
        learned = result.get("learners", {}).get(MODULE, {})
        row = {name: number(played.get(name)) for name in ("episode_return_mean", *REPORTED)}
        if row["episode_return_mean"] is not None:
            row["episode_return_mean"] /= self.returns.scale
        row |= {name: number(learned.get(name)) for name in self.reports}
        return Progress(int(result["num_env_steps_sampled_lifetime"]), row)

    @property
    def usual_decisions(self) -> float:
        """See `Engine`."""
        return self.config.decisions_per_iteration

    def _shorten(self, share: float) -> None:
        """Give iterations a share of their usual decisions."""
        self.share, config = share, self.algorithm.config.copy(copy_frozen=False)
        length = rllib_algorithm(self.config).shorten(self.config, config, share)
        if length is not None:
            self.algorithm.env_runner_group.foreach_env_runner(
                lambda runner: setattr(runner, "longest", length)
            )
        self.algorithm.config = config

    def learned(self) -> dict[str, torch.Tensor]:
        """The learner's present weights of the policy network, on the CPU."""
        state = self.algorithm.learner_group.get_state(components=f"learner/rl_module/{MODULE}")
        weights: Mapping[str, Any] = state["learner"]["rl_module"][MODULE]
        prefix = "policy."
        return {
            name.removeprefix(prefix): torch.from_numpy(np.array(value))
            for name, value in weights.items()
            if name.startswith(prefix)
        }

    def policy(self) -> NetworkPolicy:
        """The averaged policy."""
        about = {"algo": self.config.algo, "seed": self.config.seed}
        return NetworkPolicy(self.scenario.public, self.config.network, self.net, self.num_resources, about)

    def shift_noop(self, amount: float) -> None:
        """Add an amount to the logit of the no-op, in the learner's policy and in the average."""
        _policy(self.net).shift_noop(amount)
        self.algorithm.learner_group.foreach_learner(partial(_shift_learner, amount=amount))
        # RLlib sends runners only weights of an update, so they would not get these.
        self.algorithm.env_runner_group.foreach_env_runner(partial(_shift_runner, amount=amount))

    def save(self, folder: Path) -> None:
        """Write RLlib's state; the average is in the policy beside it."""
        self.algorithm.save_to_path(str(folder.resolve()))

    def restore(self, folder: Path, policy: NetworkPolicy) -> None:
        """Restore a saved state.

        Raises:
            BadInputError: it was saved by an older version, whose critic had other shapes.
        """
        try:
            self.algorithm.restore_from_path(str(folder.resolve()))
        except RuntimeError as error:
            if "size mismatch" not in str(error):
                raise
            raise BadInputError(
                str(folder),
                "is of an older version with another critic network",
                "begin another run; with --set warm_start.teacher=RUN it begins with this one's policy",
            ) from None
        self.net.load_state_dict(policy.net.state_dict())

    def stop(self) -> None:
        """Stop RLlib's processes."""
        self.algorithm.stop()


def _shift_learner(learner: Any, amount: float) -> None:
    _policy(learner.module[MODULE].unwrapped().policy).shift_noop(amount)


def _shift_runner(runner: Any, amount: float) -> None:
    if runner.module is not None:  # a local one beside remote ones has none
        _policy(runner.module.policy).shift_noop(amount)


def _policy(net: nn.Module) -> EncodedPolicy | RecurrentPolicy:
    assert isinstance(net, EncodedPolicy | RecurrentPolicy)
    return net
