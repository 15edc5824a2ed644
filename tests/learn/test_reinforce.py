"""REINFORCE: returns and baselines by hand, gradients by the formula, that it learns, and that it goes on."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from rlsched import scenario
from rlsched.cli.main import main
from rlsched.envs.episodes import EpisodeFeed
from rlsched.errors import BadInputError
from rlsched.learn.algorithms.learners import reinforce
from rlsched.learn.algorithms.learners.reinforce import (
    ReinforceEngine,
    Trajectories,
    advantages,
    returns_to_go,
)
from rlsched.learn.config.training import make_config
from rlsched.learn.policy import load_policy

pytestmark = pytest.mark.usefixtures("no_ray")

# One processor, short and long jobs that all wait: who serves the short ones first has half the slowdown.
CLUSTER = (
    "cluster.resources=[{name: cpu, units: 1}]",
    "workload={kind: mao, rate: 1.0, short: [1, 1], long: [20, 20], long_share: 0.5, max_demand: 1.0}",
    "decision={action_rule: fit, time_rule: smdp, window: 8}",
    "observation={blocks: [jobs, queue], time_scale_s: 64}",
    "objective={reward: {slowdown: 1.0}, gamma: 1.0, baseline: []}",
    "episode={jobs: 8}",
)
SETTINGS = (
    "algo=reinforce",
    "network={kind: mlp, hidden: [16]}",
    "reinforce={episodes: 2, trajectories: 8, learning_rate: 0.03}",
    "averaging=0.0",
)


def engine(*more: str, iteration: int = 0) -> ReinforceEngine:
    feed = EpisodeFeed(scenario.load("lublin-256", CLUSTER).public)
    config = make_config({}, "test", [*SETTINGS, *more]).resolve(feed.scenario)
    return ReinforceEngine(config, feed, iteration)


def test_what_is_earned_by_hand() -> None:
    rewards = np.array([[-1.0, -2.0], [-3.0, 0.0], [-4.0, 0.0]])
    elapsed = np.array([[1, 2], [2, 0], [1, 0]])
    assert returns_to_go(rewards, elapsed, 1.0).tolist() == [[-8.0, -2.0], [-7.0, 0.0], [-4.0, 0.0]]
    # -1 + 0.5 (-3 + 0.25 (-4)) = -3; one tick later the first reward of what follows counts half.
    assert returns_to_go(rewards, elapsed, 0.5).tolist() == [[-3.0, -2.0], [-4.0, 0.0], [-4.0, 0.0]]


def test_the_baseline_is_the_mean_of_those_that_still_play() -> None:
    values = np.array([[-8.0, -2.0, -2.0], [-7.0, 0.0, -1.0], [-4.0, 0.0, 0.0]])
    playing = np.array([[True, True, True], [True, False, True], [True, False, False]])
    assert advantages(values, playing).tolist() == [[-4.0, 2.0, 2.0], [-3.0, 0.0, 3.0], [0.0, 0.0, 0.0]]


def test_trajectories_are_whole_and_of_the_same_jobs() -> None:
    item = engine()
    rng = np.random.default_rng(0)
    episode = item.feed.training(rng)
    played = item.play(episode, rng)
    assert played.playing[0].all()
    assert len(played.obs) == len(played.masks) == len(played.actions) == played.playing.sum() == item.steps
    # Once over, over; and what follows brings nothing.
    assert (np.diff(played.playing.astype(int), axis=0) <= 0).all()
    assert (played.rewards[~played.playing] == 0).all()
    assert played.masks[np.arange(len(played.actions)), played.actions].all()
    # Every trajectory starts all jobs: what they earn are slowdowns of the same jobs in other orders.
    assert len(set(played.rewards.sum(axis=0).round(6).tolist())) > 1
    for env in range(item.sim.num_envs):
        assert (item.sim.state.jobs["start"][env, : len(episode.jobs)] >= 0).all()


@pytest.mark.parametrize("minibatch", [1, 7, 4096])
def test_the_gradient_is_that_of_the_formula(minibatch: int) -> None:
    item = engine(f"reinforce.minibatch={minibatch}", "reinforce.entropy=0.3")
    rng = np.random.default_rng(0)
    played = item.play(item.feed.training(rng), rng)
    better = advantages(returns_to_go(played.rewards, played.elapsed, 1.0), played.playing)
    item.optimizer.zero_grad()
    entropy = item.learn_from(played, better, item.config.reinforce.episodes)
    actual = [weights.grad for weights in item.net.parameters()]

    total: Any = 0.0
    unsure: Any = 0.0
    row = 0
    for k, playing in enumerate(played.playing):
        for trajectory in np.flatnonzero(playing):
            legal = torch.from_numpy(np.flatnonzero(played.masks[row]))
            logits = item.net(
                torch.from_numpy(played.obs[row : row + 1]),
                torch.from_numpy(played.masks[row : row + 1]).float(),
            )[0]
            chances = torch.softmax(logits[legal], dim=0)
            chosen = chances[(legal == int(played.actions[row])).nonzero()[0, 0]]
            total = total + torch.log(chosen) * float(better[k, trajectory])
            unsure = unsure - (chances * torch.log(chances)).sum()
            row += 1
    loss = -(total + 0.3 * unsure) / (2 * 8)
    expected = torch.autograd.grad(loss, list(item.net.parameters()), allow_unused=True)
    assert entropy == pytest.approx(float(unsure.detach()) / row, rel=1e-4)
    for changed, theirs in zip(actual, expected, strict=True):
        if theirs is not None:
            torch.testing.assert_close(changed, theirs, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("workers", [1, 2])
def test_it_learns_to_serve_short_jobs_first(workers: int) -> None:
    # With the MLP of the other tests and their rate, three seeds of ten learn it.
    scorer = ("network={kind: job_scorer, hidden: [16]}", "reinforce.learning_rate=0.01")
    item = engine(*scorer, f"reinforce.workers={workers}")
    returns = [item.iterate().row["episode_return_mean"] or 0.0 for _ in range(60)]
    before, after = np.mean(returns[:9]), np.mean(returns[-18:])
    assert after > 0.75 * before  # slowdowns are negative: a quarter less

    def mean_slowdown(policy: Any) -> float:
        rng, actual = np.random.default_rng(1), []
        for _ in range(20):
            sim, episode = item.sim, item.feed.training(rng)
            for env in range(sim.num_envs):
                sim.load(env, episode.jobs, episode.scale)
            while not (sim.terminated | sim.truncated).all():
                sim.step(np.where(sim.terminated, len(sim.mask[0]) - 1, policy.act(sim.obs, sim.mask)))
            actual.append(sim.metrics(0, episode.jobs)["slowdown"])
        return float(np.mean(actual))

    assert mean_slowdown(item.policy()) < 0.8 * mean_slowdown(engine(*scorer).policy())


def test_a_worker_has_the_mean_of_its_trajectories() -> None:
    values = np.array([[-8.0, -2.0, -1.0, -3.0], [-7.0, 0.0, -1.0, 0.0]])
    playing = np.array([[True, True, True, True], [True, False, True, False]])
    assert advantages(values, playing, 2).tolist() == [[-3.0, 3.0, 1.0, -1.0], [0.0, 0.0, 0.0, 0.0]]
    assert advantages(values, playing, 1).tolist() == [[-4.5, 1.5, 2.5, 0.5], [-3.0, 0.0, 3.0, 0.0]]


@pytest.mark.parametrize("workers", [1, 4])
def test_a_step_is_that_of_all_by_the_baselines_of_each(
    workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = engine(f"reinforce.workers={workers}")
    chosen, learn = [], item.learn_from
    monkeypatch.setattr(item.optimizer, "step", lambda: chosen.append("step"))

    def learn_spy(played: Trajectories, better: Any, episodes: int) -> float:
        ours = better.reshape(len(better), workers, -1)
        assert np.abs(ours.sum(axis=2)).max() < 1e-6
        assert np.abs(ours).max() > 0
        chosen.append("episode")
        return float(learn(played, better, episodes))

    monkeypatch.setattr(item, "learn_from", learn_spy)
    item.iterate()
    assert chosen == ["episode", "episode", "step"]


def test_episodes_that_ask_nothing_are_passed_over() -> None:
    item = engine()
    idle = engine("reinforce.episodes=1")
    jobs = item.feed.training(np.random.default_rng(0))
    alone = replace(jobs, jobs=jobs.jobs.take(slice(1)))
    rng = np.random.default_rng(1)
    assert len(idle.play(alone, rng).actions) == 0
    come = iter([alone, alone, jobs])
    idle.feed = SimpleNamespace(training=lambda rng: next(come))  # type: ignore[assignment]
    assert len(idle.play_one(rng).actions) > 0
    idle.feed = SimpleNamespace(training=lambda rng: alone)  # type: ignore[assignment]
    with pytest.raises(BadInputError, match="nothing is to be decided in any of 1000 training episodes"):
        idle.iterate()


def test_a_policy_that_is_lost_is_not_written_over_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    item = engine()
    before = [weights.detach().clone() for weights in item.net.parameters()]
    monkeypatch.setattr(reinforce, "advantages", lambda values, playing, workers: np.full(values.shape, 1e38))
    with pytest.raises(FloatingPointError, match="begin again with a lower"):
        item.iterate()
    for changed, theirs in zip(item.net.parameters(), before, strict=True):
        assert torch.equal(changed, theirs)


def test_it_goes_on_where_it_was(tmp_path: Path) -> None:
    whole = engine("averaging=0.8")
    for _ in range(4):
        whole.iterate()
    first = engine("averaging=0.8")
    for _ in range(2):
        first.iterate()
    first.save(tmp_path / "state")
    first.policy().save(tmp_path / "policy")
    second = engine("averaging=0.8", iteration=2)
    second.restore(tmp_path / "state", load_policy(tmp_path / "policy"))
    for _ in range(2):
        second.iterate()
    assert second.steps == whole.steps
    for item, alternative in ((second.net, whole.net), (second.policy().net, whole.policy().net)):
        for changed, theirs in zip(
            item.state_dict().values(), alternative.state_dict().values(), strict=True
        ):
            assert torch.equal(changed, theirs)
    (tmp_path / "state" / "reinforce.pt").write_bytes(b"PK")
    with pytest.raises(BadInputError, match=r"reinforce\.pt: is damaged"):
        engine(iteration=2).restore(tmp_path / "state", load_policy(tmp_path / "policy"))


@pytest.mark.parametrize(
    ("settings", "reported"),
    [
        (["network.kind=priority"], "network.kind: value priority: not supported by algo=reinforce"),
        (["warm_start={teacher: sjf}"], "warm_start.teacher: not supported by algo=reinforce"),
        (["sampling.runners=2"], "sampling.runners: not supported by algo=reinforce"),
        (["network.lstm=8"], "network.lstm: not supported by algo=reinforce"),
        (["dataset=somewhere"], "dataset: not supported by algo=reinforce"),
        (["sampling.fragment=9"], "sampling.fragment: not supported by algo=reinforce"),
        (["sampling.batched=false"], "sampling.batched: not supported by algo=reinforce"),
        (["learners=2"], "learners: not supported by algo=reinforce"),
        (["reinforce.workers=3"], "reinforce.workers: value 3: 16 trajectories are not two or more for each"),
        (["reinforce.workers=16"], "reinforce.workers: value 16: 16 trajectories are not two or more"),
    ],
)
def test_what_means_nothing_to_it(settings: list[str], reported: str) -> None:
    with pytest.raises(BadInputError) as caught:
        make_config({}, "test", ["algo=reinforce", *settings])
    assert reported in str(caught.value)


def test_a_run_by_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    settings = (*CLUSTER, *SETTINGS[1:], "validation.episodes=4", "validation.every=1")
    words = ["train", "--scenario", "lublin-256", "--algo", "reinforce", "--out", str(out)]
    words += [word for setting in settings for word in ("--set", setting)]
    assert main([*words, "--steps", "300", "--address", "nowhere:6379"]) == 0
    assert "--address is not used: reinforce plays and learns on this machine" in capsys.readouterr().err
    with (out / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert int(rows[-1]["steps"]) >= 300
    assert all(float(row["entropy"]) >= 0 for row in rows[1:])
    policy = load_policy(out)
    assert policy.about["algo"] == "reinforce"
    assert main(["train", "--resume", "--out", str(out), "--steps", "600"]) == 0
    with (out / "metrics.csv").open(newline="") as file:
        again = list(csv.DictReader(file))
    assert [row["steps"] for row in again[: len(rows)]] == [row["steps"] for row in rows]
    assert int(again[-1]["steps"]) >= 600
    assert main(["evaluate", str(out), "--episodes", "3", "--against", "fcfs,sjf:greedy"]) == 0
