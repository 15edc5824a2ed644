"""Priority search: returns as played, the same search again, going on, where it begins, learning."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rlsched import scenario
from rlsched.envs.episodes import EpisodeFeed
from rlsched.evaluate.play import play
from rlsched.jobs import FloatArray
from rlsched.learn.algorithms.learners.search import SearchEngine
from rlsched.learn.config.training import make_config
from rlsched.learn.policy import NetworkPolicy
from rlsched.learn.selection import Validation, limit_shares, measured
from rlsched.scenario import Scenario
from rlsched.sim.simulator import VectorSimulator
from rlsched.workloads.episodes import Episode
from tests.policies import Forgetful
from tests.priorities import priority_policy

pytestmark = pytest.mark.usefixtures("no_ray")

SHORT = ("episode.max_ticks=120",)
TINY = ("algo=priority_search", "search.population=6", "search.episodes=2")
SUSPEND = (
    *SHORT,
    "decision.suspend=true",
    "power.level=0.6",
    "power.kind=synthetic",
    "power.probability=0.5",
)


def engine(
    *settings: str, simulated: Scenario | None = None, iteration: int = 0, feed: EpisodeFeed | None = None
) -> SearchEngine:
    simulated = scenario.load("green-10", SHORT) if simulated is None else simulated
    feed = EpisodeFeed(simulated.public) if feed is None else feed
    config = make_config({}, "test", [*TINY, *settings]).resolve(feed.scenario)
    return SearchEngine(config, feed, iteration)


def drawn(feed: EpisodeFeed, number: int, seed: int = 0) -> list[Episode]:
    rng = np.random.default_rng(seed)
    return [feed.training(rng) for _ in range(number)]


def record(engine: SearchEngine) -> list[tuple[FloatArray, list[bytes]]]:
    """Everything that `iterate` plays from now on: the candidates, and the jobs of the episodes."""
    actual: list[tuple[FloatArray, list[bytes]]] = []
    played = engine.play

    def play(values: FloatArray, episodes: list[Episode]) -> tuple[FloatArray, int]:
        jobs = [episode.jobs.submit.tobytes() + episode.jobs.runtime.tobytes() for episode in episodes]
        actual.append((values.copy(), jobs))
        return played(values, episodes)

    engine.play = play  # type: ignore[method-assign]
    return actual


class Counting(Forgetful):
    """A policy that counts its decisions."""

    def __init__(self, policy: NetworkPolicy) -> None:
        self.policy, self.decisions = policy, 0

    def decide(self, obs: np.ndarray, mask: np.ndarray) -> np.ndarray:
        self.decisions += len(obs)
        return self.policy.act(obs, mask)


def values_around(engine: SearchEngine, seed: int = 0) -> FloatArray:
    start = engine.es.mean
    near = start + np.random.default_rng(seed).normal(size=(engine.config.search.population, len(start)))
    return near.astype(np.float32).astype(float)


@pytest.mark.parametrize("settings", [SHORT, (*SHORT, "decision.time_rule=tick"), SUSPEND])
@pytest.mark.parametrize("hidden", [0, 5])
def test_returns_are_those_of_each_candidate_alone(settings: tuple[str, ...], hidden: int) -> None:
    simulated = scenario.load("green-10", settings)
    assert simulated.objective.gamma < 1
    search = engine(f"network.priority_units={hidden}", simulated=simulated)
    episodes, values = drawn(search.feed, 2), values_around(search)
    returns, steps = search.play(values, episodes)
    again, _ = search.play(values, episodes)
    assert (returns == again).all()
    assert len(set(returns)) > 3
    decisions = 0
    for item, actual in zip(values, returns, strict=True):
        search.net.set_flat(item)
        counting = Counting(search.policy())
        alone = [play(search.scenario, search.feed.units, [episode], counting)[0] for episode in episodes]
        assert actual == pytest.approx(np.mean([played.totals["finished_value"] for played in alone]))
        decisions += counting.decisions
    assert steps == decisions


@pytest.mark.parametrize("hidden", [0, 5])
def test_returns_are_sums_of_scaled_rewards(hidden: int) -> None:
    simulated = scenario.load("lublin-256", ["episode.jobs=64", "decision.window=32", "objective.gamma=1"])
    search = engine(f"network.priority_units={hidden}", simulated=simulated)
    episodes, values = drawn(search.feed, 2), values_around(search)
    assert len({episode.scale for episode in episodes} - {1.0}) == 2
    returns, _ = search.play(values, episodes)
    for item, actual in zip(values, returns, strict=True):
        search.net.set_flat(item)
        total = 0.0
        for episode in episodes:
            sim = VectorSimulator(search.scenario, search.feed.units, 1, len(episode.jobs))
            sim.load(0, episode.jobs, episode.scale)
            while not sim.terminated[0]:
                sim.step(search.policy().act(sim.obs, sim.mask))
                total += sim.reward[0]
        assert actual == pytest.approx(total / 2)


def test_the_same_seed_gives_the_same_run_whatever_else_draws() -> None:
    first, second = engine("seed=3"), engine("seed=3")
    played = record(first), record(second)
    for _ in range(3):
        progress = first.iterate()
        np.random.random(5)  # somebody else draws from numpy's own stream
        assert second.iterate() == progress
    for item, alternative in zip(*played, strict=True):
        assert (item[0] == alternative[0]).all()
        assert item[1] == alternative[1]


def test_it_leaves_the_random_numbers_of_others_alone() -> None:
    np.random.seed(0)
    expected = np.random.random(3)
    np.random.seed(0)
    engine().iterate()
    assert (np.random.random(3) == expected).all()


def test_of_a_mixture_every_generation_plays_every_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve parts, four on each of three sizes, in their order."""
    search = engine("search.episodes=12", simulated=scenario.load("lublin-sizes", ["episode.jobs=8"]))
    sizes: list[list[int]] = []
    played = search.play

    def record_call(values: FloatArray, episodes: list[Episode]) -> tuple[FloatArray, int]:
        sizes.append([int(units) for episode in episodes for units in episode.jobs.units or ()])
        return played(values, episodes)

    monkeypatch.setattr(search, "play", record_call)
    search.iterate()
    search.iterate()
    assert sizes == [[128] * 4 + [256] * 4 + [2048] * 4] * 2


def test_candidates_pay_for_waits_and_spans_as_validation_sees_them() -> None:
    """On every part of a mixture, in the currency of returns; what the first generation does is free."""
    simulated = scenario.load("lublin-sizes", ["episode.jobs=96"])
    search = engine("search.population=8", "search.episodes=24", simulated=simulated)
    settings: list[FloatArray] = []
    values = values_around(search)[:8]
    search.es.ask = lambda: values
    search.es.tell = lambda _, worth: settings.append(np.array(worth))
    search.iterate()
    episodes, parts = search.feed.stratified(np.random.default_rng([0, 0]), 24)
    first, _ = search.play(values, episodes)
    assert settings[0] == pytest.approx(-first)
    prices = {name: price.multiplier for name, price in search.multipliers.items()}
    assert prices.keys() == {
        f"{k} {name}" for k in range(12) for name in ("wait", "schedule_span", "unfinished")
    }
    assert max(prices.values()) > 0
    search.iterate()
    episodes, parts = search.feed.stratified(np.random.default_rng([0, 1]), 24)
    returns, _ = search.play(values, episodes)
    judge = Validation.of(simulated, search.feed.units, episodes, "bounded_slowdown", parts)
    costs = np.zeros(8)
    for k, item in enumerate(values):
        search.net.set_flat(item)
        played = play(judge.scenario, judge.units, episodes, search.policy())
        policy_values = measured(simulated, judge.units, played)
        for part in range(12):
            in_part = parts == part
            means, sjf = (
                {name: x[in_part].mean() for name, x in value.items()} for value in (policy_values, judge.sjf)
            )
            for name, share in limit_shares(means, sjf).items():
                costs[k] += prices[f"{part} {name}"] * share * in_part.mean()
    assert settings[1] == pytest.approx(-returns + abs(np.median(returns)) * costs)
    assert np.ptp(costs) > 0


def test_who_is_cut_off_pays_nothing() -> None:
    """The clock ends everybody's episodes, and with new jobs ends what greedy sjf plays on."""
    for shipped, ends in (("green-10", SHORT), ("lublin-256", ("episode.end=no_new_job", "episode.jobs=32"))):
        search = engine(simulated=scenario.load(shipped, ends))
        episodes = drawn(search.feed, 2)
        search.play(values_around(search), episodes)
        assert search.charge(episodes, np.zeros(2, np.int64)).tolist() == [0.0] * 6
        assert not search.multipliers


def test_other_seeds_and_generations_play_other_episodes_and_candidates() -> None:
    feed = EpisodeFeed(scenario.load("green-10", SHORT).public)
    episodes, candidates = [], []
    for settings in ((), ("seed=1",), (f"seed={2**40}",)):
        search = engine(*settings, feed=feed)
        played = record(search)
        search.iterate()
        search.iterate()
        episodes += [jobs for _, value in played for jobs in value]
        candidates += [values.tobytes() for values, _ in played]
    assert len(set(episodes)) == len(episodes) == 12
    assert len(set(candidates)) == 6
    later = engine(feed=feed, iteration=9)
    played = record(later)
    later.iterate()
    assert not set(played[0][1]) & set(episodes)


def test_hidden_units_differ_from_the_start_and_change_no_decision() -> None:
    search = engine("network.priority_units=5")
    features, state = len(search.layout.features("jobs")), search.layout.size_of("queue")
    inner = search.es.mean[features : features + 5 * (features + state)]
    of_job = inner[: 5 * features].reshape(5, features)
    assert len(np.unique(of_job.round(6), axis=0)) == 5
    assert inner.std() == pytest.approx((features + state) ** -0.5, rel=0.3)
    rest = np.delete(search.es.mean, np.arange(features, features + len(inner)))
    assert rest == pytest.approx(np.delete(search.net.flat(), np.arange(features, features + len(inner))))
    second = engine("network.priority_units=5", "seed=1")
    assert (search.es.mean != second.es.mean).sum() == len(inner)
    episodes = drawn(search.feed, 2)
    without, _ = search.play(np.tile(search.net.flat(), (6, 1)), episodes)
    start, _ = search.play(np.tile(search.es.mean, (6, 1)), episodes)
    assert (without == start).all()


def test_what_hangs_on_the_history_is_spread_as_the_order_itself() -> None:
    """Six weights that are added to one come to as much together."""
    actual = engine("search.population=800", simulated=scenario.load("lublin-sizes", ["episode.jobs=64"]))
    apart = (np.array(actual.es.ask()) - actual.es.mean) / 0.3
    jobs = len(actual.layout.features("jobs"))
    together = apart[:, jobs : 7 * jobs].reshape(-1, 6, jobs).sum(axis=1)
    assert apart[:, :jobs].std(axis=0) == pytest.approx(np.ones(jobs), rel=0.15)
    assert together.std(axis=0) == pytest.approx(np.ones(jobs), rel=0.15)
    assert apart[:, 7 * jobs :].std(axis=0) == pytest.approx(np.ones(apart.shape[1] - 7 * jobs), rel=0.15)


LEARNING = ("search.population=12", "search.episodes=16")


def learned(search: SearchEngine, generations: int, episodes: int = 64) -> FloatArray:
    """(episode,) value of held-out episodes after learning, less that before, as a share of its mean."""
    held_out = [search.feed.evaluation(number, 0) for number in range(episodes)]

    def value() -> FloatArray:
        played = play(search.scenario, search.feed.units, held_out, search.policy())
        return np.array([item.totals["finished_value"] for item in played])

    before = value()
    for _ in range(generations):
        search.iterate()
    return (value() - before) / before.mean()


@pytest.mark.parametrize("hidden", [0, 3])
def test_it_learns(tmp_path: Path, hidden: int) -> None:
    """Within twelve generations it earns more on episodes it has never seen, by many standard errors."""
    overloaded = scenario.load("green-10", [*SHORT, "workload.load=1.5"])
    poor = priority_policy(overloaded, {"match": -1.0}, noop=-4.0, resources=2, hidden=hidden)
    poor.save(tmp_path / "poor")
    words = (f"network.priority_units={hidden}", f"search.start={tmp_path / 'poor'}")
    search = engine(*words, *LEARNING, simulated=overloaded)
    gain = learned(search, 12)
    assert gain.mean() > 0.08
    assert gain.mean() > 4 * gain.std() / len(gain) ** 0.5
    assert search.steps > 50_000


def test_the_work_is_what_counts_not_how_often_it_asks() -> None:
    """Discounted inside transitions alone, returns would depend on how they cut up the time."""
    returns = []
    for rule in ("smdp", "tick"):
        simulated = scenario.load("green-10", [*SHORT, f"decision.time_rule={rule}", "workload.load=0.4"])
        search = engine(simulated=simulated)
        values = np.tile(search.net.flat(), (6, 1))
        returns.append(search.play(values, drawn(search.feed, 2))[0][0])
    assert returns[0] == pytest.approx(returns[1])
