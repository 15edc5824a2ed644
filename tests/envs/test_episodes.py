"""EpisodeFeed: the scale of rewards; the registries that must say the same."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import cycle

import numpy as np
import pytest

from rlsched import scenario
from rlsched.envs.episodes import EpisodeFeed
from rlsched.errors import BadInputError
from rlsched.scenario import Scenario
from rlsched.sim.metrics import JobOutcome, Played
from rlsched.sim.replay import replay
from rlsched.workloads.episodes import Episode


def test_scale_is_one_over_jobs_times_the_best_greedy_bounded_slowdown(small: Scenario) -> None:
    feed = EpisodeFeed(small)
    window = small.decision.window
    for index in range(3):
        episode = feed.evaluation(index, seed=1)
        best = min(
            JobOutcome.of(
                Played.of_starts(
                    episode.jobs, replay(episode.jobs, feed.units, name, "greedy", window=window)
                )
            ).bounded_slowdown.mean()
            for name in ("sjf", "area", "smallest")
        )
        assert episode.scale == pytest.approx(1 / (40 * best**0.5), rel=1e-12)


def test_an_exponent_leaves_part_of_the_baseline_in_rewards(model: Scenario) -> None:
    whole, part = (
        EpisodeFeed(
            scenario.parse(model.model_dump(mode="json"), "test", [f"objective.baseline_exponent={power}"])
        ).evaluation(0, seed=3)
        for power in (1.0, 0.25)
    )
    slowdown = 1 / (whole.scale * len(whole.jobs))
    assert slowdown > 1.2
    assert part.scale == pytest.approx(1 / (len(part.jobs) * slowdown**0.25), rel=1e-12)


def test_without_a_baseline_the_scale_is_one(model: Scenario) -> None:
    plain = scenario.parse(model.model_dump(mode="json"), "test", ["objective.baseline=[]"])
    assert EpisodeFeed(plain).training(np.random.default_rng(0)).scale == 1.0


def test_the_scale_of_a_tick_that_is_not_a_second(model: Scenario) -> None:
    """Bounded slowdown is in seconds whatever the tick."""
    coarse = scenario.parse(
        model.model_dump(mode="json"),
        "test",
        ["cluster.tick_s=60", "objective.baseline=[sjf]", "objective.baseline_exponent=1"],
    )
    feed = EpisodeFeed(coarse)
    episode = feed.evaluation(0, seed=0)
    starts = replay(episode.jobs, feed.units, "sjf", "greedy", window=12)
    runtime = episode.jobs.runtime * 60.0
    response = (starts - episode.jobs.submit) * 60.0 + runtime
    expected = np.maximum(1, response / np.maximum(runtime, 10)).sum()
    assert episode.scale == pytest.approx(1 / expected, rel=1e-12)


@pytest.mark.parametrize(("first", "second", "chance"), [(3.0, 2.0, 2 / 3), (1.0, 1.0, 0.5), (9.0, 1.0, 1.0)])
def test_episodes_are_drawn_by_how_long_their_jobs_wait(
    model: Scenario, first: float, second: float, chance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed, rng = EpisodeFeed(model), np.random.default_rng(0)
    jobs = feed.training(rng).jobs
    offered = cycle([Episode(jobs, offset=1, baseline=first), Episode(jobs, offset=2, baseline=second)])
    monkeypatch.setattr(feed, "training", lambda _: next(offered))
    drawn = [feed.contended(rng, 2).offset == 1 for _ in range(2000)]
    assert np.mean(drawn) == pytest.approx(chance, abs=0.045)  # four standard deviations


def test_episodes_hold_their_baseline(model: Scenario) -> None:
    feed = EpisodeFeed(model)
    episode = feed.contended(np.random.default_rng(0), 3)
    assert episode.baseline == feed.baseline_slowdown(episode.jobs) > 1.0


@pytest.mark.parametrize("setting", ["objective.baseline=[]", "episode.jobs=null"])
def test_one_episode_is_drawn_where_there_is_no_choice(
    trace: Scenario, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = EpisodeFeed(scenario.parse(trace.model_dump(mode="json"), "test", [setting]))
    draws: list[int] = []
    training = feed.training
    monkeypatch.setattr(feed, "training", lambda rng: draws.append(1) or training(rng))
    feed.contended(np.random.default_rng(0), 8)
    assert len(draws) == 1


def test_a_baseline_that_is_no_order(model: Scenario) -> None:
    with pytest.raises(BadInputError, match="best_one"):
        EpisodeFeed(scenario.parse(model.model_dump(mode="json"), "test", ["objective.baseline=[best_one]"]))


def test_evaluation_episodes_are_the_same_again_and_not_those_of_training(small: Scenario) -> None:
    first, second = EpisodeFeed(small), EpisodeFeed(small)
    second.training(np.random.default_rng(0))
    assert (first.evaluation(2, 5).jobs.submit == second.evaluation(2, 5).jobs.submit).all()
    assert first.max_jobs == 40
    for index in range(20):
        evaluated = first.evaluation(index, 0).jobs
        trained = first.training(np.random.default_rng(index)).jobs
        assert not np.array_equal(evaluated.submit, trained.submit)


def test_the_whole_trace_is_one_episode(trace: Scenario) -> None:
    whole = scenario.parse(trace.model_dump(mode="json"), "test", ["episode.jobs=null"])
    assert EpisodeFeed(whole).max_jobs == 300


def test_training_on_the_whole_trace_keeps_to_its_rows(trace: Scenario) -> None:
    changes = ["episode.jobs=null", "workload.training_jobs=[100, 250]"]
    feed = EpisodeFeed(scenario.parse(trace.model_dump(mode="json"), "test", changes))
    episode = feed.training(np.random.default_rng(0))
    assert (episode.offset, len(episode.jobs)) == (100, 150)
    assert len(feed.evaluation(0, 0).jobs) == 300


SIZES = (64, 32, 16)


def mixed(shares: Sequence[float]) -> EpisodeFeed:
    """Of a mixture whose parts are told by the sizes of their clusters."""
    parts = [
        {"share": share, "units": size, "workload": {"kind": "lublin"}}
        for share, size in zip(shares, SIZES, strict=True)
    ]
    workload = f"workload={{kind: mixture, parts: {json.dumps(parts)}}}"
    settings = [workload, "cluster.resources.0.units=64", "episode.jobs=2", "objective.baseline=[]"]
    return EpisodeFeed(scenario.load("lublin-256", settings))


@pytest.mark.parametrize(("count", "expected"), [(8, [2, 4, 2]), (4, [1, 2, 1])])
def test_every_part_of_a_mixture_has_its_share(count: int, expected: list[int]) -> None:
    """And its own jobs."""
    episodes, part = mixed((1, 2, 1)).stratified(np.random.default_rng(0), count)
    assert np.bincount(part, minlength=3).tolist() == expected
    assert [episode.jobs.units.tolist() for episode in episodes] == [[SIZES[k]] for k in part]


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_fractional_shares_hold_on_average(count: int) -> None:
    """Every part has one more or less than its share, by chance; hand-computed bounds, exact to 5 sigma."""
    feed, shares = mixed((1, 2, 5)), np.array([1, 2, 5]) / 8
    rng, drawn = np.random.default_rng(3), 400
    counts = np.array(
        [np.bincount(feed.stratified(rng, count)[1], minlength=3) for _ in range(drawn)], dtype=float
    )
    assert (counts.sum(axis=1) == count).all()
    assert (np.abs(counts - count * shares) < 1).all()
    assert np.abs(counts.mean(axis=0) - count * shares) == pytest.approx(0, abs=2.5 / drawn**0.5)


def test_no_part_is_left_out_where_there_are_enough() -> None:
    """However small its share; fewer episodes than parts go by their shares."""
    feed = mixed((1, 1000, 1))
    for seed in range(5):
        assert np.bincount(feed.stratified(np.random.default_rng(seed), 6, least=1)[1]).tolist() == [1, 4, 1]
        assert len(feed.stratified(np.random.default_rng(seed), 2, least=1)[1]) == 2


def test_what_is_no_mixture_is_one_part(small: Scenario) -> None:
    """Whose episodes are those of training, drawn alike."""
    feed = EpisodeFeed(small)
    episodes, part = feed.stratified(np.random.default_rng(7), 3)
    rng = np.random.default_rng(7)
    assert [episode.offset for episode in episodes] == [feed.training(rng).offset for _ in range(3)]
    assert part.tolist() == [0, 0, 0]
