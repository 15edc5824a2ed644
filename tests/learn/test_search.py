"""Priority search: returns as played, the same search again, going on, where it begins, learning."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rlsched import scenario
from rlsched.cli.main import main
from rlsched.envs.episodes import Episode, EpisodeFeed
from rlsched.errors import BadInputError
from rlsched.evaluate.play import play
from rlsched.jobs import FloatArray
from rlsched.learn.algorithms.learners.search import SearchEngine
from rlsched.learn.config.training import make_config
from rlsched.learn.networks.policies import build_policy
from rlsched.learn.policy import TrainedPolicy
from rlsched.learn.selection import Validation, limit_shares, measured
from rlsched.scenario import Scenario
from rlsched.sim.layout import Layout
from rlsched.sim.simulator import VectorSimulator
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
    return SearchEngine(make_config({}, "test", [*TINY, *settings]), feed, iteration)


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

    def __init__(self, policy: TrainedPolicy) -> None:
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


@pytest.mark.parametrize(
    ("name", "ends", "hidden"),
    [
        ("green-10", SHORT, 0),
        ("green-10", SHORT, 5),  # too many parameters for a full covariance
        ("lublin-sizes", ("episode.jobs=96", "episode.end=all_finished"), 0),  # where there are prices
    ],
)
def test_a_run_goes_on_as_if_it_had_never_stopped(
    tmp_path: Path, name: str, ends: tuple[str, ...], hidden: int
) -> None:
    settings, simulated = f"network.priority_units={hidden}", scenario.load(name, ends)
    unbroken = engine(settings, simulated=simulated)
    for _ in range(2):
        unbroken.iterate()
    unbroken.save(tmp_path / "state")
    priced = [price.multiplier for price in unbroken.multipliers.values()]
    assert (max(priced, default=0.0) > 0) == (name == "lublin-sizes")
    expected = record(unbroken)
    rows = [unbroken.iterate() for _ in range(3)]

    resumed = engine(settings, simulated=simulated, iteration=2)
    actual = record(resumed)
    resumed.restore(tmp_path / "state", resumed.policy())
    assert rows == [resumed.iterate() for _ in range(3)]
    for item, second in zip(expected, actual, strict=True):
        assert (item[0] == second[0]).all()
        assert item[1] == second[1]
    assert (unbroken.net.flat() == resumed.net.flat()).all()
    assert unbroken.multipliers == resumed.multipliers
    assert unbroken.policy().about == {"algo": "priority_search", "seed": 0}


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flip(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 0x10]) + content[middle + 1 :]


@pytest.mark.parametrize("damage", [cut, flip, lambda _: b"", lambda _: b"other", None])
def test_a_damaged_search_is_one_clear_line(tmp_path: Path, damage: Callable[[bytes], bytes] | None) -> None:
    search = engine()
    folder = tmp_path / "checkpoints" / "000001" / "search"
    search.save(folder)
    file = folder / "search.npz"
    file.unlink() if damage is None else file.write_bytes(damage(file.read_bytes()))
    before = search.net.flat()
    with pytest.raises(BadInputError, match=r"search\.npz: is damaged or of another version") as caught:
        search.restore(folder, search.policy())
    assert f"remove {folder.parent} to go on from the checkpoint before" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert (search.net.flat() == before).all()


def test_a_search_of_other_settings_is_refused(tmp_path: Path) -> None:
    priced = scenario.load("lublin-sizes", ["episode.jobs=96"])
    second = engine("network.priority_units=2", simulated=priced)
    second.iterate()
    second.save(tmp_path / "state")
    assert second.multipliers
    search = engine(simulated=priced)
    with pytest.raises(BadInputError, match="parameters, not"):
        search.restore(tmp_path / "state", search.policy())
    assert not search.multipliers


def test_a_search_begins_with_the_result_of_another(tmp_path: Path) -> None:
    """Whatever the window is: what a job is judged by stays the same."""
    second = engine("network.priority_units=3")
    second.net.set_flat(values_around(second)[0])
    second.policy().save(tmp_path / "found")
    wider = scenario.load("green-10", [*SHORT, "decision.window=9"])
    words = ("network.priority_units=3", f"search.start={tmp_path / 'found'}")
    search = engine(*words, simulated=wider)
    assert (search.es.mean == second.net.flat()).all()
    assert (search.policy().net.flat() == second.net.flat()).all()
    search.iterate()
    search.save(tmp_path / "state")
    shutil.rmtree(tmp_path / "found")  # nobody needs it to go on
    resumed = engine(*words, simulated=wider, iteration=1)
    resumed.restore(tmp_path / "state", search.policy())
    assert (resumed.net.flat() == search.net.flat()).all()


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (None, "search.start: no such folder: .*; name a run of"),
        (("green-10", "network.kind=job_scorer"), "search.start: .* holds a job_scorer; name a run of"),
        (("green-10", "network.priority_units=2"), "has 2 hidden units, not 0; set network.priority_units=2"),
        (
            ("lublin-256", "network.kind=priority"),
            "judges jobs of 1 resources without a horizon; name one of 2",
        ),
    ],
)
def test_a_search_begins_with_nothing_else(
    tmp_path: Path, found: tuple[str, str] | None, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if found is not None:
        simulated = scenario.load(found[0])
        config = make_config({}, "test", [found[1], *(TINY if "units" in found[1] else ())])
        network = config.settled(simulated).network
        resources = len(simulated.cluster.resources)
        layout = Layout.of(simulated.observation, simulated.decision, resources)
        net = build_policy(layout, network)
        TrainedPolicy(simulated, network, net, resources, {}).save(tmp_path / "found")
    words = ["train", "--scenario", "green-10", "--algo", "priority_search", "--out", str(tmp_path / "run")]
    assert main([*words, "--set", f"search.start={tmp_path / 'found'}"]) == 2
    assert re.search(message, " ".join(capsys.readouterr().err.split()))
    assert not (tmp_path / "run").exists()


def test_what_hangs_on_the_history_is_spread_as_the_order_itself() -> None:
    """Six weights that are added to one come to as much together."""
    actual = engine("search.population=800", simulated=scenario.load("lublin-sizes", ["episode.jobs=64"]))
    apart = (np.array(actual.es.ask()) - actual.es.mean) / 0.3
    jobs = len(actual.layout.features("jobs"))
    together = apart[:, jobs : 7 * jobs].reshape(-1, 6, jobs).sum(axis=1)
    assert apart[:, :jobs].std(axis=0) == pytest.approx(np.ones(jobs), rel=0.15)
    assert together.std(axis=0) == pytest.approx(np.ones(jobs), rel=0.15)
    assert apart[:, 7 * jobs :].std(axis=0) == pytest.approx(np.ones(apart.shape[1] - 7 * jobs), rel=0.15)


def test_a_search_that_sees_the_history_begins_with_one_that_saw_it(tmp_path: Path) -> None:
    blind = scenario.load("lublin-sizes", ["observation.blocks=[jobs, queue]"])
    engine(simulated=blind).policy().save(tmp_path / "found")
    with pytest.raises(BadInputError, match=r"judges states by queue, not by queue, history; name one whose"):
        engine(f"search.start={tmp_path / 'found'}", simulated=scenario.load("lublin-sizes"))


def test_a_search_does_not_begin_with_one_that_saw_more_of_jobs(tmp_path: Path) -> None:
    """With the supply a job has columns that it has not without: weights would be taken for others."""
    supplied = scenario.load("green-10", [*SHORT, "observation.blocks=[jobs, queue, supply]"])
    engine(simulated=supplied).policy().save(tmp_path / "found")
    plain = scenario.load("green-10", [*SHORT, "observation.blocks=[jobs, queue]"])
    with pytest.raises(
        BadInputError, match=r"judges jobs by present,.* green_0.*name one that judges them by"
    ):
        engine(f"search.start={tmp_path / 'found'}", simulated=plain)


@pytest.mark.parametrize(
    "words",
    [
        ["algo=ppo", "search.start=runs/x"],
        [*TINY, "warm_start.teacher=sjf"],
    ],
)
def test_a_start_goes_with_a_search_and_a_teacher_with_the_others(words: list[str]) -> None:
    with pytest.raises(BadInputError, match=r"search\.start"):
        make_config({}, "test", words)


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
