"""CoCoRL: costs from the environment to the learner, what it learns from them, and who sets multipliers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.evaluation.postprocessing import Postprocessing

from rlsched import scenario
from rlsched.envs.episodes import EpisodeFeed
from rlsched.errors import BadInputError
from rlsched.learn.algorithms import build_config, reports_of
from rlsched.learn.cocorl import COST_TARGETS, CocorlLearner, weigh
from rlsched.learn.config import TrainConfig, make_config
from rlsched.learn.memory import Memory
from rlsched.learn.pid import Control, control
from rlsched.learn.plan import check_limits
from rlsched.learn.ppo import Transitions
from rlsched.learn.rllib import RllibEngine
from rlsched.learn.runner import BatchedEnvRunner
from rlsched.learn.sampling import COSTS, LIMITED, log_limited
from rlsched.learn.scale import EPISODES, STREAM, Returns, expected_returns
from rlsched.learn.sections import Pid
from rlsched.scenario import Scenario
from rlsched.sim.rules import TERMS
from rlsched.sim.simulator import VectorSimulator

from .conftest import TINY
from .test_gae import Chunk, powers, reference

pytestmark = pytest.mark.slow
MODULE = "default_policy"
GAMMA, LAMBDA = 0.97, 0.9
LIMITS = {"delayed_jobs": 40.0, "energy": 30.0}
OWN = ("algo=cocorl", "cocorl.fragment=64", f"cocorl.cost_lambda={LAMBDA}", "cocorl.minibatch=64", *TINY)


@pytest.fixture(scope="module")
def limited() -> Scenario:
    """Short episodes with two limits."""
    told = [f"objective.gamma={GAMMA}", "episode.max_ticks=30", f"objective.costs={LIMITS}", "power={}"]
    return scenario.load("green-10", told)


class Setting:
    """A runner's episodes, and what the learner makes of them."""

    def __init__(self, simulated: Scenario) -> None:
        self.feed = EpisodeFeed(simulated)
        self.returns: Returns = expected_returns(self.feed, 0)
        self.config = build_config(simulated, make_config({}, "test", OWN), 2, returns=self.returns)
        self.runner = BatchedEnvRunner(config=self.config)
        self.episodes = self.runner.sample(num_timesteps=8 * 128, random_actions=False)
        self.learner: Any = self.config.build_learner(env=None, spaces=self.runner.get_spaces())
        self.module: Any = self.learner.module[MODULE].unwrapped()

    def batch(self, *multipliers: float) -> dict[str, torch.Tensor]:
        """The batch with these multipliers."""
        weigh(self.learner, multipliers)
        made: dict[str, torch.Tensor] = self.learner.columns(Transitions.of(self.episodes, Memory()))
        return made


@pytest.fixture(scope="module")
def setting(limited: Scenario) -> Setting:
    return Setting(limited)


def test_costs_are_those_of_the_simulator(setting: Setting, limited: Scenario) -> None:
    """Those of transitions, and of whole episodes."""
    context = {**setting.config.env_config, "num_envs": 8}
    clusters = type(setting.runner.clusters)(context)
    clusters.reset(seed=[5, 7])
    terms = [TERMS.index(name) for name in LIMITS]
    scales = [each.scale for each in setting.returns.constraints]
    assert all(0 < scale < 1 for scale in scales)
    ended = 0
    for _ in range(200):
        *_, terminated, truncated, info = clusters.step(clusters.simulator.mask.argmax(axis=1))
        np.testing.assert_allclose(
            info[COSTS], -clusters.simulator.terms[:, terms] * np.array(scales), rtol=1e-6
        )
        for env in np.flatnonzero(terminated | truncated).tolist():
            metrics = info["metrics"][env]
            assert info[LIMITED][env] == {name: metrics[f"cost.{name}"] for name in LIMITS}
            ended += 1
        clusters.reset(options={"reset_mask": terminated | truncated})
    assert ended > 8
    for episode in setting.episodes:
        found = episode.get_extra_model_outputs(COSTS)
        assert found.shape == (len(episode), len(LIMITS))
        assert (found >= 0).all()


def test_limits_may_be_of_each_job(limited: Scenario) -> None:
    objective = limited.objective
    assert objective.limited(90.0, 30) == 90.0
    per_job = objective.model_copy(update={"limits_per": "job"})
    assert per_job.limited(90.0, 30) == 3.0
    assert per_job.limited(90.0, 0) == 90.0  # of nobody


def test_what_is_usual_is_what_the_same_episodes_cost(limited: Scenario) -> None:
    """Met one by one."""
    feed = EpisodeFeed(limited)
    told = expected_returns(feed, 3).constraints
    rng = np.random.default_rng([3, STREAM])
    episodes = [feed.training(rng) for _ in range(EPISODES)]
    sim = VectorSimulator(feed.scenario, feed.units, 1, feed.max_jobs)
    paid: dict[str, list[float]] = {name: [] for name in LIMITS}
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
            paid[name].append(metrics[f"cost.{name}"])
            for k in range(len(steps)):
                total, weight = 0.0, 1.0
                for terms, ticks in steps[k:]:
                    total += weight * terms[TERMS.index(name)]
                    weight *= GAMMA**ticks
                sums[name].append(total)
    for constraint in told:
        every = np.array(sums[constraint.name])
        assert constraint.limit == LIMITS[constraint.name]
        assert constraint.usual == pytest.approx(np.mean(paid[constraint.name]), rel=1e-9)
        assert constraint.scale == pytest.approx(1.0 / np.sqrt((every**2).mean()), rel=1e-6)
        assert constraint.mean == pytest.approx(every.mean() * constraint.scale, rel=1e-6)


def test_cost_critics_are_told_what_was_paid(setting: Setting) -> None:
    """Worked out anew from the episodes, one sum for every decision."""
    batch = setting.batch(0.0, 0.0)
    for which in range(len(LIMITS)):
        expected: list[float] = []
        for episode in setting.episodes:
            states = np.stack(episode.get_observations())
            with torch.no_grad():
                values = setting.module.compute_costs({Columns.OBS: torch.from_numpy(states)}, which).numpy()
            ticks = np.diff(states[:, -1]).astype(int).tolist()
            paid = episode.get_extra_model_outputs(COSTS)[:, which].tolist()
            chunk = Chunk(values.tolist(), paid, ticks, bool(episode.is_terminated))
            gained = reference(chunk, powers(GAMMA, ticks), powers(LAMBDA, ticks))
            expected += (np.array(gained) + values[:-1]).tolist()
        np.testing.assert_allclose(batch[COST_TARGETS.format(which)].numpy(), expected, rtol=1e-3, atol=1e-3)


def test_advantages_are_weighed_by_multipliers(setting: Setting) -> None:
    plain = setting.batch(0.0, 0.0)
    gained = plain[Postprocessing.ADVANTAGES].numpy()
    beyond = []
    for which in range(len(LIMITS)):
        obs = plain[Columns.OBS]
        with torch.no_grad():
            values = setting.module.compute_costs({Columns.OBS: obs}, which).numpy()
        found = plain[COST_TARGETS.format(which)].numpy() - values
        beyond.append((found - found.mean()) / found.std())
    assert gained.mean() == pytest.approx(0.0, abs=1e-5)
    assert gained.std() == pytest.approx(1.0, abs=1e-4)
    for a, b in ((0.5, 0.0), (0.0, 2.0), (1.0, 3.0)):
        weighed = setting.batch(a, b)[Postprocessing.ADVANTAGES].numpy()
        expected = (gained - a * beyond[0] - b * beyond[1]) / (1 + a + b)
        np.testing.assert_allclose(weighed, expected, atol=2e-3)


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
    own = make_config({}, "test", OWN)
    check_limits(limited, own)
    with pytest.raises(BadInputError, match=r"objective.costs: has no cost with a limit"):
        check_limits(free, own)
    check_limits(free, TrainConfig())
    alone = make_config({}, "test", [*OWN, "sampling.batched=false"])
    with pytest.raises(BadInputError, match=r"sampling.batched: value false"):
        check_limits(limited, alone)


def test_multipliers_follow_costs_and_go_on(
    limited: Scenario, kept_ray: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest eight episodes, as many as there are environments, by hand; the same after a checkpoint."""
    told: dict[str, list[float]] = {name: [] for name in LIMITS}

    def listen(logger: Any, values: dict[str, float]) -> None:
        for name, value in values.items():
            told[name].append(value)
        log_limited(logger, values)

    monkeypatch.setattr("rlsched.learn.runner.log_limited", listen)
    config = make_config({}, "test", [*OWN, "sampling.fragment=128"]).settled(limited)
    assert config.decisions_per_iteration == 2 * config.between_moves
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
                name, usual = constraint.name, constraint.usual
                ended = told[name]
                if len(ended) > seen[name] and len(ended) >= 8:
                    cost = float(np.mean(ended[-8:]))
                    known[name] = control(known.get(name), cost / usual, constraint.limit / usual, pid)
                seen[name] = len(ended)
            moved()

        seen = dict.fromkeys(LIMITS, 0)
        monkeypatch.setattr(algorithm, "_weigh", weighed)
        for _ in range(3):
            row = engine.iterate().row
            for constraint in engine.returns.constraints:
                name = constraint.name
                cost = row[f"{name}_cost"]
                assert cost == pytest.approx(np.mean(told[name][-8:]))
                assert row[f"{name}_multiplier"] == pytest.approx(known[name].multiplier)
                assert row[f"{name}_error"] == pytest.approx(cost - constraint.limit)
                assert algorithm.controls[name].multiplier == pytest.approx(known[name].multiplier)
            assert set(row) >= set(reports_of(config, limited))
        assert any(one.multiplier > 0 for one in known.values())
        engine.save(tmp_path / "state")
        before = dict(algorithm.controls)
        policy = engine.policy()
    finally:
        engine.stop()
    again = RllibEngine(config, feed, 4)
    try:
        again.restore(tmp_path / "state", policy)
        algorithm = again.algorithm
        assert algorithm.controls == before
        assert algorithm.paid == {name: costs[-8:] for name, costs in told.items()}
        learner: CocorlLearner = algorithm.learner_group._learner
        expected = [before[name].multiplier for name in LIMITS]
        np.testing.assert_allclose(learner.multipliers, expected, rtol=1e-6)
    finally:
        again.stop()
