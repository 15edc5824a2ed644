"""Priority search: returns as played, the same run again, going on, learning, and whole runs by the CLI."""

from __future__ import annotations

import csv
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import ray

from rlsched import scenario
from rlsched.cli.algorithms import ENTRIES
from rlsched.cli.main import main
from rlsched.envs.episodes import Episode, EpisodeFeed
from rlsched.errors import BadInputError
from rlsched.evaluate.play import Policy, play
from rlsched.jobs import FloatArray
from rlsched.learn.config import Algorithm, TrainConfig, make_config
from rlsched.learn.folder import RunFolder
from rlsched.learn.networks import build_policy
from rlsched.learn.policy import TrainedPolicy, load_policy
from rlsched.learn.search import SearchEngine
from rlsched.scenario import Scenario
from rlsched.sim.layout import Layout
from rlsched.sim.simulator import VectorSimulator

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
    feed = EpisodeFeed(simulated) if feed is None else feed
    return SearchEngine(simulated, make_config({}, "test", [*TINY, *settings]), feed, iteration)


def drawn(feed: EpisodeFeed, number: int, seed: int = 0) -> list[Episode]:
    rng = np.random.default_rng(seed)
    return [feed.training(rng) for _ in range(number)]


def record(engine: SearchEngine) -> list[tuple[FloatArray, list[bytes]]]:
    """Everything that `iterate` plays from now on: the candidates, and the jobs of the episodes."""
    found: list[tuple[FloatArray, list[bytes]]] = []
    played = engine.play

    def play(values: FloatArray, episodes: list[Episode]) -> tuple[FloatArray, int]:
        jobs = [one.jobs.submit.tobytes() + one.jobs.runtime.tobytes() for one in episodes]
        found.append((values.copy(), jobs))
        return played(values, episodes)

    engine.play = play  # type: ignore[method-assign]
    return found


class Counting:
    """A policy that counts its decisions."""

    def __init__(self, policy: Policy) -> None:
        self.policy, self.decisions = policy, 0

    def act(self, obs: np.ndarray, mask: np.ndarray) -> np.ndarray:
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
    for one, found in zip(values, returns, strict=True):
        search.net.set_flat(one)
        counting = Counting(search.policy())
        alone = [play(simulated, search.feed.units, [episode], counting)[0] for episode in episodes]
        assert found == pytest.approx(np.mean([played.totals["finished_value"] for played in alone]))
        decisions += counting.decisions
    assert steps == decisions


@pytest.mark.parametrize("hidden", [0, 5])
def test_returns_are_sums_of_scaled_rewards(hidden: int) -> None:
    simulated = scenario.load("lublin-256", ["episode.jobs=64", "decision.window=32", "objective.gamma=1"])
    search = engine(f"network.priority_units={hidden}", simulated=simulated)
    episodes, values = drawn(search.feed, 2), values_around(search)
    assert len({episode.scale for episode in episodes} - {1.0}) == 2
    returns, _ = search.play(values, episodes)
    for one, found in zip(values, returns, strict=True):
        search.net.set_flat(one)
        total = 0.0
        for episode in episodes:
            sim = VectorSimulator(simulated, search.feed.units, 1, len(episode.jobs))
            sim.load(0, episode.jobs, episode.scale)
            while not sim.terminated[0]:
                sim.step(search.policy().act(sim.obs, sim.mask))
                total += sim.reward[0]
        assert found == pytest.approx(total / 2)


def test_the_same_seed_gives_the_same_run_whatever_else_draws() -> None:
    first, second = engine("seed=3"), engine("seed=3")
    played = record(first), record(second)
    for _ in range(3):
        progress = first.iterate()
        np.random.random(5)  # somebody else draws from numpy's own stream
        assert second.iterate() == progress
    for one, other in zip(*played, strict=True):
        assert (one[0] == other[0]).all()
        assert one[1] == other[1]


def test_it_leaves_the_random_numbers_of_others_alone() -> None:
    np.random.seed(0)
    expected = np.random.random(3)
    np.random.seed(0)
    engine().iterate()
    assert (np.random.random(3) == expected).all()


def test_other_seeds_and_generations_play_other_episodes_and_candidates() -> None:
    feed = EpisodeFeed(scenario.load("green-10", SHORT))
    episodes, candidates = [], []
    for settings in ((), ("seed=1",), (f"seed={2**40}",)):
        search = engine(*settings, feed=feed)
        played = record(search)
        search.iterate()
        search.iterate()
        episodes += [jobs for _, each in played for jobs in each]
        candidates += [values.tobytes() for values, _ in played]
    assert len(set(episodes)) == len(episodes) == 12
    assert len(set(candidates)) == 6
    later = engine(feed=feed, iteration=9)
    played = record(later)
    later.iterate()
    assert not set(played[0][1]) & set(episodes)


def test_hidden_units_differ_from_the_start_and_the_policy_is_the_prior() -> None:
    search = engine("network.priority_units=5")
    features, state = len(search.layout.job_features), search.layout.size_of("queue")
    inner = search.es.mean[features : features + 5 * (features + state)]
    of_job = inner[: 5 * features].reshape(5, features)
    assert len(np.unique(of_job.round(6), axis=0)) == 5
    assert inner.std() == pytest.approx((features + state) ** -0.5, rel=0.3)
    rest = np.delete(search.es.mean, np.arange(features, features + len(inner)))
    assert rest == pytest.approx(np.delete(search.net.flat(), np.arange(features, features + len(inner))))
    other = engine("network.priority_units=5", "seed=1")
    assert (search.es.mean != other.es.mean).sum() == len(inner)
    episodes = drawn(search.feed, 2)
    prior, _ = search.play(np.tile(search.net.flat(), (6, 1)), episodes)
    start, _ = search.play(np.tile(search.es.mean, (6, 1)), episodes)
    assert (prior == start).all()


@pytest.mark.parametrize("hidden", [0, 5])  # with 5, too many parameters for a full covariance
def test_a_run_goes_on_as_if_it_had_never_stopped(tmp_path: Path, hidden: int) -> None:
    settings = f"network.priority_units={hidden}"
    unbroken = engine(settings)
    for _ in range(2):
        unbroken.iterate()
    unbroken.save(tmp_path / "state")
    expected = record(unbroken)
    rows = [unbroken.iterate() for _ in range(3)]

    resumed = engine(settings, iteration=2)
    found = record(resumed)
    resumed.restore(tmp_path / "state", resumed.policy())
    assert rows == [resumed.iterate() for _ in range(3)]
    for one, other in zip(expected, found, strict=True):
        assert (one[0] == other[0]).all()
        assert one[1] == other[1]
    assert (unbroken.net.flat() == resumed.net.flat()).all()
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
    engine("network.priority_units=2").save(tmp_path / "state")
    with pytest.raises(BadInputError, match="parameters, not"):
        engine().restore(tmp_path / "state", engine().policy())


def test_a_search_begins_with_what_another_found(tmp_path: Path) -> None:
    """Whatever the window is: what a job is judged by stays the same."""
    other = engine("network.priority_units=3")
    other.net.set_flat(values_around(other)[0])
    other.policy().save(tmp_path / "found")
    wider = scenario.load("green-10", [*SHORT, "decision.window=9"])
    words = ("network.priority_units=3", f"search.start={tmp_path / 'found'}")
    search = engine(*words, simulated=wider)
    assert (search.es.mean == other.net.flat()).all()
    assert (search.policy().net.flat() == other.net.flat()).all()
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


@pytest.mark.parametrize(
    "words",
    [
        ["algo=ppo", "search.start=runs/x"],
        [*TINY, "warm_start.teacher=sjf"],
        [*TINY, "search.start=runs/x", "network.waiting=2"],
        [*TINY, "search.start=runs/x", "network.prior={wait: 1}"],
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
        return np.array([each.totals["finished_value"] for each in played])

    before = value()
    for _ in range(generations):
        search.iterate()
    return (value() - before) / before.mean()


@pytest.mark.parametrize("hidden", [0, 3])
@pytest.mark.parametrize(("prior", "least"), [("{}", 0.03), ("{match: -1}", 0.08)])
def test_it_learns(prior: str, least: float, hidden: int) -> None:
    """Within twelve generations it earns more on episodes it has never seen, by many standard errors."""
    overloaded = scenario.load("green-10", [*SHORT, "workload.load=1.5"])
    search = engine(
        f"network.prior={prior}", f"network.priority_units={hidden}", *LEARNING, simulated=overloaded
    )
    gain = learned(search, 12)
    assert gain.mean() > least
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


# Whole runs


def command(out: Path, *more: object, steps: int = 1500) -> list[str]:
    settings = (
        *SHORT,
        *TINY[1:],
        "validation.episodes=4",
        "validation.every=1",
        "validation.metric=job_value",
    )
    given = ["train", "--scenario", "green-10", "--algo", "priority_search", "--steps", steps, "--out", out]
    return [str(part) for part in (*given, *(x for one in settings for x in ("--set", one)), *more)]


@pytest.fixture(autouse=True)
def no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        pytest.fail("Ray was started")

    monkeypatch.setattr(ray, "init", refuse)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    assert main(command(folder, "--json", folder.parent / "run.json")) == 0
    return folder


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


FIGURES = ("steps", "return_mean", "return_best", "sigma", "validation_job_value", "kept")


def figures(folder: Path, number: int) -> list[list[str]]:
    """What does not depend on the clock, of the first rows."""
    return [[row[name] for name in FIGURES] for row in rows(folder)[:number]]


def same_policy(one: Path, other: Path) -> bool:
    nets = [load_policy(path).net.state_dict() for path in (one, other)]
    return all((nets[0][name] == nets[1][name]).all() for name in nets[0])


def test_a_run_leaves_its_whole_folder(run: Path) -> None:
    assert {path.name for path in run.iterdir()} == {
        *("scenario.yaml", "train.yaml", "versions.json", "validation.json", "metrics.csv"),
        *("tensorboard", "checkpoints", "start", "best"),
    }
    found = rows(run)
    assert [int(row["iteration"]) for row in found] == list(range(len(found)))
    assert len(found) >= 3
    assert found[0]["return_mean"] == ""
    for row in found[1:]:
        assert float(row["return_best"]) >= float(row["return_mean"]) > 0
        assert float(row["sigma"]) > 0
    newest = sorted((run / "checkpoints").iterdir())[-1]
    assert {path.name for path in newest.iterdir()} == {"policy", "search", "standing.json"}
    assert [path.name for path in (newest / "search").iterdir()] == ["search.npz"]
    validation = json.loads((run / "validation.json").read_text())
    assert (validation["metric"], validation["episodes"]) == ("job_value", 4)
    assert "packing:now" in validation["heuristics"]
    kept = json.loads((run / "best" / "policy.json").read_text())
    assert kept["network"]["kind"] == "priority"
    assert kept["about"]["algo"] == "priority_search"
    assert kept["scenario"]["objective"]["gamma"] == 0.99  # the search's own return changes no scenario
    summary = json.loads((run.parent / "run.json").read_text())
    assert (summary["reason"], summary["steps"]) == ("steps", int(found[-1]["steps"]))


def test_the_same_command_is_the_same_run(run: Path, tmp_path: Path) -> None:
    assert main(command(tmp_path / "again")) == 0
    assert figures(tmp_path / "again", 99) == figures(run, 99)
    assert same_policy(tmp_path / "again", run)


def test_a_run_goes_on_from_its_own_beginning(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From any folder, and whatever has become of the run that it began with."""
    shutil.copytree(run, tmp_path / "other")
    monkeypatch.chdir(tmp_path)
    begins = ("--set", "search.start=other", "--set", "decision.window=7")
    assert main(command(Path("mine"), *begins)) == 0
    assert "other" in (tmp_path / "mine" / "train.yaml").read_text()
    assert same_policy(tmp_path / "mine" / "start", run)
    shutil.copytree(tmp_path / "mine", tmp_path / "unbroken")
    for checkpoint in (tmp_path / "mine" / "checkpoints").iterdir():
        shutil.rmtree(checkpoint)  # killed before the first one
    shutil.rmtree(tmp_path / "other")
    monkeypatch.chdir("/")
    assert main(["train", "--resume", "--out", str(tmp_path / "mine")]) == 0
    assert same_policy(tmp_path / "mine" / "start", run)
    assert figures(tmp_path / "mine", 99) == figures(tmp_path / "unbroken", 99)


def test_it_is_a_heuristic_that_one_can_name(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    arguments = ["--scenario", "green-10", "--set", SHORT[0], "--policy", f"packing,{run}", "--episodes", "3"]
    assert main(["simulate", *arguments, "--json", "-"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert {episode["policy"] for episode in values["episodes"]} == {"packing", str(run)}
    assert main(["evaluate", str(run), "--episodes", "2", "--against", "packing", "--json", "-"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert {episode["policy"] for episode in values["episodes"]} == {"packing", str(run)}


def test_resume_goes_on_as_if_it_had_never_stopped(run: Path, tmp_path: Path) -> None:
    short, long = tmp_path / "short", tmp_path / "long"
    shutil.copytree(run, short)
    assert main(["train", "--resume", "--out", str(short), "--steps", "3000"]) == 0
    assert main(command(long, steps=3000)) == 0
    assert len(rows(short)) > len(rows(run))
    assert figures(short, 99) == figures(long, 99)
    assert same_policy(short, long)


def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    killed, unbroken = tmp_path / "killed", tmp_path / "unbroken"
    process = subprocess.Popen(
        [sys.executable, "-m", "rlsched", *command(killed, steps=10_000_000)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    patience = time.monotonic() + 300
    try:
        while not {path.name for path in (killed / "checkpoints").glob("[0-9]*")} - {"000001"}:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < patience, "it takes too long"
            time.sleep(0.02)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    latest = RunFolder(killed).latest()
    assert latest is not None
    steps = str(latest[1].steps + 700)  # two generations
    assert main(["train", "--resume", "--out", str(killed), "--steps", steps]) == 0
    assert len(rows(killed)) >= latest[1].iteration + 2
    assert main(command(unbroken, steps=int(steps))) == 0
    assert figures(killed, 999) == figures(unbroken, 999)
    assert same_policy(killed, unbroken)


def test_a_damaged_checkpoint_is_one_line_and_the_one_before_is_gone_on_from(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    newest = sorted((copy / "checkpoints").iterdir())[-1]
    file = newest / "search" / "search.npz"
    file.write_bytes(cut(file.read_bytes()))
    capsys.readouterr()
    resume = ["train", "--resume", "--out", str(copy), "--steps", "3000"]
    assert main(resume) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert re.search(rf"^error: {re.escape(str(file))}: is damaged .*; remove {newest} ", said, re.M)
    shutil.rmtree(newest)
    assert main(resume) == 0


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("observation.blocks=[jobs, profile]", "observation.blocks"),
        ("observation.blocks=[queue, profile]", "observation.blocks"),
        ("search.population=1", "search.population: value 1"),
        ("search.sigma=0", "search.sigma: value 0"),
        ("network.prior={matches: 1}", "network.prior.matches: no such job feature"),
        ("network.priority_units=-1", "network.priority_units: value -1"),
        ("network.kind=mlp", "priority_search finds no network.kind mlp"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], setting: str, said: str
) -> None:
    capsys.readouterr()
    assert main(command(tmp_path / "run", "--set", setting)) == 2
    error = capsys.readouterr().err
    assert [line for line in error.splitlines() if line.startswith("error: ")] == [error.splitlines()[-1]]
    assert said in error.splitlines()[-1]
    assert "Traceback" not in error
    assert not (tmp_path / "run").exists()


def test_algorithms_say_what_they_are_and_whose(capsys: pytest.CaptureFixture[str]) -> None:
    names = list(get_args(Algorithm))
    assert list(ENTRIES) == names
    capsys.readouterr()
    assert main(["algorithms", "--json", "-"]) == 0
    listed = json.loads(capsys.readouterr().out)["algorithms"]
    assert [row["name"] for row in listed] == names
    for row in listed:
        assert row["doc"]
        assert re.search(r"\d{4}", row["source"])
        for key, value in row["settings"].items():  # each can be set by this name
            make_config({}, "test", [f"{row['section']}.{key}={json.dumps(value)}"])
    search = next(row for row in listed if row["name"] == "priority_search")
    assert "CMA-ES" in search["doc"]
    assert search["settings"] == TrainConfig().search.model_dump(mode="json")
    assert main(["algorithms"]) == 0
    assert "search.population=24" in capsys.readouterr().out
