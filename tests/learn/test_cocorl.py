"""CoCoRL: costs from the environment to the learner, what it learns from them, and who sets multipliers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.evaluation.postprocessing import Postprocessing
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from rlsched import scenario
from rlsched.envs.episodes import EpisodeFeed
from rlsched.errors import BadInputError
from rlsched.learn.algorithms.learners.cocorl import weigh
from rlsched.learn.algorithms.learners.ppo import TimedPPOLearner
from rlsched.learn.algorithms.ppo import PpoAlgorithm
from rlsched.learn.config.sections import Pid
from rlsched.learn.config.training import TrainConfig, make_config
from rlsched.learn.pid import Control, LimitCheck, control
from rlsched.learn.plan import check_limits
from rlsched.learn.policy import NetworkPolicy
from rlsched.learn.rllib.build import build_config, reports_of
from rlsched.learn.rllib.engine import RllibEngine
from rlsched.learn.rllib.runner import BatchedEnvRunner
from rlsched.learn.rllib.sampling import COSTS, LIMITED, log_limited
from rlsched.learn.rllib.scale import EPISODES, REFERENCES, STREAM, Returns, expected_returns
from rlsched.scenario import Scenario
from rlsched.scenario.terms import TERMS
from rlsched.sim.simulator import VectorSimulator

from .conftest import TINY
from .test_gae import Chunk, powers, reference

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray_address")]
MODULE = "default_policy"
GAMMA, LAMBDA = 0.97, 0.9
LIMITS = {"delayed_jobs": 40.0, "energy": 30.0}
CHECKS = {
    "delayed_jobs": LimitCheck(limit=40.0, mean=20.0, highest=24.0, unit=40.0),
    "energy": LimitCheck(limit=30.0, mean=30.0, highest=57.0, unit=30.0),
}
MARGINS = {"delayed_jobs": 0.1, "energy": 0.2}  # of a margin of 0.9, which is more than is left unused
SETTINGS = (
    *("algo=cocorl", "cocorl.fragment=64", f"cocorl.cost_lambda={LAMBDA}", "cocorl.minibatch=64"),
    *(*TINY, "sampling.fragment=64", "sampling.replicas=1"),
)


@pytest.fixture(scope="module")
def limited() -> Scenario:
    """Short episodes with two limits."""
    settings = [f"objective.gamma={GAMMA}", "episode.max_ticks=30", f"objective.costs={LIMITS}", "power={}"]
    return scenario.load("green-10", settings)


class Setting:
    """A runner's episodes, and what the learner makes of them."""

    def __init__(self, simulated: Scenario) -> None:
        self.feed = EpisodeFeed(simulated)
        self.returns: Returns = expected_returns(self.feed, 0)
        self.config = build_config(
            simulated, make_config({}, "test", SETTINGS).resolve(simulated), 2, returns=self.returns
        )
        self.runner = BatchedEnvRunner(config=self.config)
        self.episodes = self.runner.sample(num_timesteps=8 * 128, random_actions=False)
        self.learner: Any = self.config.build_learner(env=None, spaces=self.runner.get_spaces())
        self.module: Any = self.learner.module[MODULE].unwrapped()

    def batch(self, *multipliers: float) -> dict[str, torch.Tensor]:
        """The batch with these multipliers."""
        weigh(self.learner, multipliers)
        made: dict[str, torch.Tensor] = self.learner.columns(self.episodes)
        return made


@pytest.fixture(scope="module")
def setting(limited: Scenario) -> Setting:
    return Setting(limited)


@pytest.mark.parametrize("per", ["episode", "job"])
def test_what_transitions_cost_is_what_is_held_against_limits(per: str) -> None:
    """Added up over an episode, where nothing is discounted; as the runner hands it over, piece by piece."""
    settings = ["objective.gamma=1", "episode.max_ticks=30", f"objective.costs={LIMITS}", "power={}"]
    whole = Setting(scenario.load("green-10", [*settings, f"objective.limits_per={per}"]))
    scales = [value.scale for value in whole.returns.constraints]
    assert all(0 < scale < 1 for scale in scales)
    sums: dict[str, Any] = {}
    logger = MetricsLogger(root=True)
    runner = BatchedEnvRunner(config=whole.config)
    runner.metrics = logger
    ended: list[str] = []
    for _ in range(6):
        going_on: list[str] = []
        for piece in runner.sample(num_timesteps=8 * 32, random_actions=True):
            costs = piece.get_extra_model_outputs(COSTS)
            assert (costs.shape, costs.dtype) == ((len(piece), len(LIMITS)), np.float32)
            sums[piece.id_] = sums.get(piece.id_, 0.0) + costs.sum(axis=0, dtype=np.float64) / scales
            (ended if piece.is_done else going_on).append(piece.id_)
        if per == "episode":
            episodes = runner.clusters.simulator.state.episodes
            submitted = (episodes["next_arrival"] / episodes["num_jobs"]).sum()
            projected = runner.clusters.projected()
            for index, name in enumerate(LIMITS):
                so_far = sum(float(sums[item][index]) for item in going_on)
                assert projected[name] == pytest.approx(so_far / submitted, rel=1e-4)
    for index, name in enumerate(LIMITS):
        held = sorted(logger.peek((LIMITED, name), compile=False))
        added = sorted(float(sums[item][index]) for item in ended)
        assert len(held) == len(added) > 16
        if per == "episode":
            np.testing.assert_allclose(held, added, rtol=1e-4)
        else:  # of about a dozen jobs
            assert 3 < sum(added) / sum(held) < 30


def test_an_algorithm_without_limits_gets_no_costs(limited: Scenario) -> None:
    returns = expected_returns(EpisodeFeed(limited), 0)
    assert returns.constraints
    config = build_config(
        limited, make_config({}, "test", [*TINY, "algo=dqn"]).resolve(limited), 2, returns=returns
    )
    runner = BatchedEnvRunner(config=config)
    (piece, *_) = runner.sample(num_timesteps=8 * 32, random_actions=False)
    assert COSTS not in piece.extra_model_outputs


def test_what_is_usual_is_what_the_same_episodes_cost(limited: Scenario) -> None:
    """Met one by one."""
    feed = EpisodeFeed(limited)
    reported = expected_returns(feed, 3).constraints
    rng = np.random.default_rng([3, STREAM])
    episodes = [feed.training(rng) for _ in range(EPISODES)]
    sim = VectorSimulator(feed.scenario, feed.units, 1, feed.max_jobs)
    costs: dict[str, list[float]] = {name: [] for name in LIMITS}
    sums: dict[str, list[float]] = {name: [] for name in LIMITS}
    for episode in episodes:
        sim.load(0, episode.jobs, episode.scale, episode.power)
        steps = []
        while not (sim.terminated[0] or sim.truncated[0]):
            legal = np.flatnonzero(sim.mask[0])
            job = legal[0] < sim.layout.window
            sim.step(np.array([legal[0] if job else sim.layout.num_actions - 1]))
            steps.append((-sim.terms[0].copy(), int(sim.elapsed[0])))
        metrics = sim.metrics(0, episode.jobs)
        for name in LIMITS:
            costs[name].append(metrics[f"cost.{name}"])
            for k in range(len(steps)):
                total, weight = 0.0, 1.0
                for terms, ticks in steps[k:]:
                    total += weight * terms[TERMS.index(name)]
                    weight *= GAMMA**ticks
                sums[name].append(total)
    for constraint in reported:
        every = np.array(sums[constraint.name])
        assert constraint.limit == LIMITS[constraint.name]
        usual = float(np.mean(costs[constraint.name]))
        assert constraint.unit == pytest.approx(max(usual, LIMITS[constraint.name]), rel=1e-9)
        assert constraint.scale == pytest.approx(1.0 / np.sqrt((every**2).mean()), rel=1e-6)
        assert constraint.mean == pytest.approx(every.mean() * constraint.scale, rel=1e-6)


def test_cost_critics_learn_the_costs(setting: Setting) -> None:
    """Worked out anew from the episodes, one sum for every decision."""
    batch = setting.batch(0.0, 0.0)
    for index in range(len(LIMITS)):
        expected: list[float] = []
        for episode in setting.episodes:
            states = np.stack(episode.get_observations())
            with torch.no_grad():
                every = setting.module.expected({Columns.OBS: torch.from_numpy(states)}).numpy()
            values = every[:, 1 + index]
            ticks = np.diff(states[:, -1]).astype(int).tolist()
            costs = episode.get_extra_model_outputs(COSTS)[:, index].tolist()
            chunk = Chunk(values.tolist(), costs, ticks, bool(episode.is_terminated))
            gained = reference(chunk, powers(GAMMA, ticks), powers(LAMBDA, ticks))
            expected += (np.array(gained) + values[:-1]).tolist()
        targets = batch[Postprocessing.VALUE_TARGETS].numpy()[:, 1 + index]
        np.testing.assert_allclose(targets, expected, rtol=1e-3, atol=1e-3)


def test_advantages_are_weighed_by_multipliers(setting: Setting) -> None:
    """The weighted sum is standardised, not each advantage for itself."""
    plain = setting.batch(0.0, 0.0)
    with torch.no_grad():
        values = setting.module.expected({Columns.OBS: plain[Columns.OBS]}).numpy()
    beyond = plain[Postprocessing.VALUE_TARGETS].numpy() - values
    weights = [value.weight for value in setting.returns.constraints]
    assert weights == [1.0, 1.0], "no baseline scales rewards: both have a size of 1"
    for multipliers in ((0.0, 0.0), (0.5, 0.0), (0.0, 2.0), (1.0, 3.0)):
        weighed = setting.batch(*multipliers)[Postprocessing.ADVANTAGES].numpy()
        total = beyond[:, 0] - beyond[:, 1:] @ np.array(multipliers, np.float32)
        np.testing.assert_allclose(weighed, (total - total.mean()) / total.std(), atol=2e-3)


@pytest.mark.parametrize("per", ["episode", "job"])
def test_at_a_multiplier_of_one_a_cost_at_its_unit_weighs_as_much_as_the_baseline(per: str) -> None:
    """Summed over an episode, not discounted, as the learner weighs it."""
    settings = ["episode.jobs=32", "objective.gamma=1", f"objective.limits_per={per}"]
    whole = EpisodeFeed(scenario.load("lublin-256", settings))
    returns = expected_returns(whole, 0)
    for constraint in returns.constraints:
        episode_at_unit = constraint.unit * (32 if per == "job" else 1)
        assert constraint.weight * constraint.scale * episode_at_unit == pytest.approx(1.0)
    rng = np.random.default_rng([0, STREAM])
    drawn = [whole.training(rng) for _ in range(REFERENCES)]
    assert {len(episode.jobs) for episode in drawn} == {32}
    slowdowns = [
        returns.scale * episode.scale * 32 * whole.baseline_slowdown(episode.jobs) for episode in drawn
    ]
    assert np.mean(slowdowns) == pytest.approx(1.0), "what the baseline's slowdown is worth, on average"


def test_every_critic_learns(setting: Setting) -> None:
    batch = setting.batch(1.0, 1.0)
    output = setting.learner.module[MODULE].forward_train(batch)
    loss = setting.learner.compute_loss_for_module(
        module_id=MODULE, config=setting.config, batch=batch, fwd_out=output
    )
    loss.backward()
    for name, value in setting.module.named_parameters():
        assert value.grad is not None, name
        assert torch.isfinite(value.grad).all(), name


def test_a_limit_is_needed_and_a_runner_that_tells_costs(limited: Scenario) -> None:
    free = limited.model_copy(
        update={"objective": limited.objective.model_copy(update={"costs": {"delayed_jobs": None}})}
    )
    policy_values = make_config({}, "test", SETTINGS)
    check_limits(limited, policy_values)
    with pytest.raises(BadInputError, match=r"objective.costs: has no cost with a limit"):
        check_limits(free, policy_values)
    check_limits(free, TrainConfig())
    alone = make_config({}, "test", [*SETTINGS, "sampling.batched=false"])
    with pytest.raises(BadInputError, match=r"sampling.batched: value false"):
        check_limits(limited, alone)


def test_multipliers_follow_costs_and_go_on(
    limited: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest eight episodes, as many as there are environments, by hand; the same after a checkpoint."""
    reported: dict[str, list[float]] = {name: [] for name in LIMITS}

    def listen(logger: Any, values: dict[str, float]) -> None:
        for name, value in values.items():
            reported[name].append(value)
        log_limited(logger, values)

    monkeypatch.setattr("rlsched.learn.rllib.sampling.log_limited", listen)
    config = make_config({}, "test", [*SETTINGS, "sampling.fragment=128"]).resolve(limited)
    assert config.decisions_per_iteration == 2 * PpoAlgorithm().batch(config)
    feed = EpisodeFeed(limited)
    engine = RllibEngine(config, feed, 0)
    try:
        known: dict[str, Control] = {}
        pid = Pid()
        algorithm: Any = engine.algorithm
        moved = algorithm._weigh

        def weighed() -> None:
            """At the end of each of the two training steps of an iteration."""
            for constraint in engine.returns.constraints:
                name, unit = constraint.name, constraint.unit
                ended = reported[name]
                if len(ended) > recorded[name] and len(ended) >= 8:
                    cost = float(np.mean(ended[-8:]))
                    goal = constraint.limit * (1.0 - MARGINS[name])
                    known[name] = control(known.get(name), cost / unit, goal / unit, pid)
                recorded[name] = len(ended)
            moved()

        recorded = dict.fromkeys(LIMITS, 0)
        monkeypatch.setattr(algorithm, "_weigh", weighed)
        for _ in range(3):
            row = engine.iterate(checks=CHECKS).row
            for constraint in engine.returns.constraints:
                name = constraint.name
                cost = row[f"{name}_cost"]
                assert cost == pytest.approx(np.mean(reported[name][-8:]))
                assert row[f"{name}_multiplier"] == pytest.approx(known[name].multiplier)
                goal = constraint.limit * (1.0 - MARGINS[name])
                assert row[f"{name}_error"] == pytest.approx(cost - goal)
                assert algorithm.controls[name].multiplier == pytest.approx(known[name].multiplier)
            assert set(row) >= set(reports_of(config, limited))
        assert any(item.multiplier > 0 for item in known.values())
        engine.save(tmp_path / "state")
        before = dict(algorithm.controls)
        policy = engine.policy()
    finally:
        engine.stop()
    again = RllibEngine(config, feed, 3)
    try:
        again.restore(tmp_path / "state", policy)
        check_restored(again, before, reported)
        check_older_critic(again, tmp_path / "state", policy)
    finally:
        again.stop()


def check_restored(engine: RllibEngine, before: dict[str, Control], costs: dict[str, list[float]]) -> None:
    """Controllers, costs of episodes and multipliers are those of the checkpoint, and go on from there."""
    algorithm: Any = engine.algorithm
    assert algorithm.controls == before
    assert algorithm.episode_costs == {name: values[-8:] for name, values in costs.items()}
    learner: TimedPPOLearner = algorithm.learner_group._learner
    expected = [before[name].multiplier for name in LIMITS]
    np.testing.assert_allclose(learner.multipliers, expected, rtol=1e-6)
    moves = {name: len(item.smoothed) for name, item in before.items()}
    engine.iterate()
    for name in LIMITS:
        assert moves[name] < len(algorithm.controls[name].smoothed) <= moves[name] + 2, "started anew"


def check_older_critic(engine: RllibEngine, state: Path, policy: NetworkPolicy) -> None:
    """A critic without bins, as of an older version, is refused."""
    critic = engine.algorithm.learner_group._learner.module[MODULE].unwrapped().critic
    critic.net[-1] = torch.nn.Linear(critic.net[-1].in_features, 3)
    with pytest.raises(BadInputError, match="is of an older version with another critic network"):
        engine.restore(state, policy)


@pytest.mark.long
def test_others_play_and_learn(limited: Scenario) -> None:
    """Two runners and two learners elsewhere: all that ends is looked at, and everybody is told."""
    words = ["sampling.runners=2", "learners=2", "sampling.envs_per_runner=4", "sampling.fragment=128"]
    config = make_config({}, "test", [*SETTINGS, *words]).resolve(limited)
    engine = RllibEngine(config, EpisodeFeed(limited), 0)
    try:
        algorithm: Any = engine.algorithm
        for _ in range(2):
            row = engine.iterate().row
        assert algorithm.wave == 8
        multipliers = [algorithm.controls[name].multiplier for name in LIMITS]
        assert any(multipliers)
        assert [row[f"{name}_multiplier"] for name in LIMITS] == pytest.approx(multipliers)
        reported = algorithm.learner_group.foreach_learner(lambda learner: learner.multipliers.tolist())
        actual = [result.get() for result in reported]
        assert actual == [pytest.approx(multipliers, rel=1e-6)] * 2
    finally:
        engine.stop()
