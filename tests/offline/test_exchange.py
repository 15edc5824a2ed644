"""What others wrote down becomes ours, and ours becomes theirs, row for row."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlsched import scenario
from rlsched.envs.vector import observation_space
from rlsched.errors import BadInputError
from rlsched.offline.check import check, check_for
from rlsched.offline.foreign import Foreign
from rlsched.offline.importing import Imported, import_dataset
from rlsched.offline.manifest import read_manifest
from rlsched.offline.minari_store import MinariEpisodes, export_minari
from rlsched.offline.parquet_log import ParquetEpisodes
from rlsched.scenario import Scenario
from rlsched.sim.layout import Layout

from .conftest import collected, recipe

minari = pytest.importorskip("minari", reason="the extra rlsched[minari] is not installed")

NAME = "rlsched/short/mixed-v0"


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Minari's own place."""
    place = tmp_path / "minari"
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(place))
    return place


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """Columns of the episodes, in the order of their names, without these."""
    table = pq.read_table([folder / shard.file for shard in read_manifest(folder).shards])
    result = []
    for name in sorted(table.column("eps_id").unique().to_pylist()):
        matching = table.filter(pa.compute.equal(table.column("eps_id"), name)).drop_columns(["eps_id"])
        result.append({key: matching.column(key).to_pylist() for key in matching.column_names})
    return result


def same_episodes(
    remaining: list[dict[str, Any]], right: list[dict[str, Any]], *, but: tuple[str, ...] = ()
) -> bool:
    """Whether the same episodes are in both, in any order."""

    def sorted_rows(rows: list[dict[str, Any]]) -> list[str]:
        return sorted(str({key: values for key, values in item.items() if key not in but}) for item in rows)

    return sorted_rows(remaining) == sorted_rows(right)


def imported(source: Path, chosen: Scenario, out: Path, named: Mapping[str, str] | None = None) -> Imported:
    return import_dataset(ParquetEpisodes(source, named or {}), chosen, out, "a test")


@pytest.mark.slow
@pytest.mark.long
def test_there_and_back_by_minari(dataset: Path, short: Scenario, tmp_path: Path) -> None:
    manifest = read_manifest(dataset)
    reported: list[int] = []
    place = export_minari(dataset, manifest, NAME, reported.append)
    assert sum(reported) == manifest.rows
    assert place.is_dir()
    theirs = minari.load_dataset(NAME)
    assert (theirs.total_episodes, theirs.total_steps) == (manifest.episodes, manifest.rows)
    first = next(iter(theirs.iterate_episodes([0])))
    assert first.observations.shape[0] == len(first.actions) + 1
    assert (np.diff(first.observations[:, -1]) == first.infos["elapsed"][1:]).all()
    assert set(first.infos["costs"]) == {"delayed_jobs", "suspension"}
    episodes = MinariEpisodes(NAME)
    assert episodes.rows == manifest.rows
    assert episodes.scenario == manifest.scenario
    made = import_dataset(episodes, manifest.scenario, tmp_path / "back", "a test")
    assert made.left_out == 0
    assert made.manifest.chances
    assert check(tmp_path / "back", made.manifest) == []
    assert same_episodes(rows_of(dataset), rows_of(tmp_path / "back"))
    check_for(tmp_path / "back", made.manifest, short.public, 2, rewards=True)


def test_the_environment_comes_along(dataset: Path) -> None:
    """Of a scenario that is not shipped as it is."""
    manifest = read_manifest(dataset)
    export_minari(dataset, manifest, NAME)
    theirs = minari.load_dataset(NAME)
    env = theirs.recover_environment()
    assert env.unwrapped.scenario == manifest.scenario
    assert env.observation_space == theirs.observation_space
    observed, _ = env.reset(seed=0)
    assert env.observation_space.contains(observed)


class Log:
    """What somebody wrote down who knows nothing of us but the environment."""

    def __init__(self, chosen: Scenario, episodes: int, *, flat: bool) -> None:
        env = gym.make("rlsched/green-10", scenario=chosen, flat=flat)
        rng = np.random.default_rng(3)
        self.rows: list[dict[str, Any]] = []
        self.lasts: list[tuple[Any, Any]] = []
        for number in range(episodes):
            obs, info = env.reset(seed=number)
            over = False
            while not over:
                mask = env.unwrapped.action_masks()
                action = int(rng.choice(np.flatnonzero(mask)))
                observed = obs
                obs, reward, terminated, truncated, info = env.step(action)
                over = terminated or truncated
                ends = {"terminal": terminated, "cut": truncated}
                row = {"run": number, "seen": observed, "mask": mask, "did": action, "paid": reward, **ends}
                self.rows.append(row)
                if not flat:
                    self.rows[-1] |= {"ticks": int(info["elapsed"]), "costs": list(info["costs"].values())}
            self.lasts.append((obs, env.unwrapped.action_masks()))


def vector(chosen: Scenario) -> Layout:
    return Layout.of(chosen.observation.public, chosen.decision, 2)


def plain(table: dict[str, list[Any]], path: Path) -> Path:
    pq.write_table(pa.table(table), path)
    return path


def column(rows: list[dict[str, Any]], name: str) -> list[Any]:
    return [np.asarray(row[name]).tolist() for row in rows]


RENAMED = {
    "eps_id": "run",
    "obs": "seen",
    "actions": "did",
    "rewards": "paid",
    "terminateds": "terminal",
    "truncateds": "cut",
}


@pytest.fixture(scope="module")
def cheap() -> Scenario:
    """Short, on a horizon, without costs."""
    return scenario.load("green-10", ["episode.max_ticks=50", "objective.gamma=0.99"])


def test_a_log_of_flat_observations(cheap: Scenario, tmp_path: Path) -> None:
    log = Log(cheap, 3, flat=True)
    names = ("run", "seen", "did", "paid", "terminal", "cut")
    path = plain({name: column(log.rows, name) for name in names}, tmp_path / "log.parquet")
    made = imported(path, cheap, tmp_path / "out", RENAMED)
    assert check(tmp_path / "out", made.manifest) == []
    size = vector(cheap).size
    # Clocks cut these episodes, and nobody wrote down what was seen then.
    assert made.left_out == 3
    assert not made.manifest.chances
    for number, episode in enumerate(rows_of(tmp_path / "out")):
        matching = [row for row in log.rows if row["run"] == number]
        retained = matching[:-1]
        assert episode["obs"] == [row["seen"][:size].tolist() for row in retained]
        assert episode["new_obs"] == [row["seen"][:size].tolist() for row in matching[1:]]
        assert episode["action_mask"] == [row["mask"].astype(int).tolist() for row in retained]
        assert episode["actions"] == [row["did"] for row in retained]
        assert episode["rewards"] == [row["paid"] for row in retained]
        clock = [row["seen"][-1] for row in matching]
        assert episode["elapsed"] == np.diff(clock).tolist()
        assert episode["truncateds"] == [False] * (len(retained) - 1) + [True]
        assert not any(episode["terminateds"])
        assert set(episode["behavior"]) == {"imported"}


def test_a_log_for_minari(cheap: Scenario, tmp_path: Path) -> None:
    """Minari keeps what is seen at the end, so that nothing is left out."""
    log = Log(cheap, 2, flat=True)
    buffers = []
    for number, (last, _) in enumerate(log.lasts):
        matching = [row for row in log.rows if row["run"] == number]
        buffers.append(
            minari.data_collector.EpisodeBuffer(
                observations=np.stack([*(row["seen"] for row in matching), last]),
                actions=np.array([row["did"] for row in matching]),
                rewards=np.array([row["paid"] for row in matching]),
                terminations=np.array([row["terminal"] for row in matching]),
                truncations=np.array([row["cut"] for row in matching]),
            )
        )
    layout = vector(cheap)
    minari.create_dataset_from_buffers(
        "mine-v0",
        buffers,
        observation_space=observation_space(layout, flat=True),
        action_space=gym.spaces.Discrete(layout.num_actions),
    )
    episodes = MinariEpisodes("mine-v0")
    assert episodes.scenario is None  # nobody said which environment it was
    made = import_dataset(episodes, cheap, tmp_path / "out", "a test", behavior="somebody")
    assert made.manifest.rows == len(log.rows)
    assert made.left_out == 0
    assert check(tmp_path / "out", made.manifest) == []
    assert [item.behavior for item in made.manifest.behaviors] == ["somebody"]
    earned = sum(row["paid"] for row in log.rows) / 2
    assert made.manifest.behaviors[0].reward.mean == pytest.approx(earned)


@pytest.mark.slow
def test_our_own_shards_are_plain_parquet(dataset: Path, short: Scenario, tmp_path: Path) -> None:
    """Their episodes stand in several row groups, between others."""
    made = imported(dataset, short, tmp_path / "out")
    assert (made.left_out, made.manifest.rows) == (0, read_manifest(dataset).rows)
    assert check(tmp_path / "out", made.manifest) == []
    assert same_episodes(rows_of(dataset), rows_of(tmp_path / "out"))


@pytest.mark.slow
def test_long_episodes_are_written_in_row_groups(
    dataset: Path, short: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlsched.offline.importing.ROW_GROUP_BYTES", 200_000)
    monkeypatch.setattr("rlsched.offline.importing.SHARD_ROWS", 1500)
    made = imported(dataset, short, tmp_path / "out")
    assert len(made.manifest.shards) > 2
    with pq.ParquetFile(tmp_path / "out" / made.manifest.shards[0].file) as file:
        assert file.metadata.num_row_groups > 2
    assert check(tmp_path / "out", made.manifest) == []
    assert same_episodes(rows_of(dataset), rows_of(tmp_path / "out"))


def by_hand(**more: list[Any]) -> dict[str, list[Any]]:
    """Two episodes of three decisions: the first terminates, the second goes on where the file ends."""
    rng = np.random.default_rng(0)
    layout = vector(scenario.load("green-10"))
    observed = rng.random((6, layout.size)).astype(np.float32).tolist()
    mask = np.ones((6, layout.num_actions), bool).tolist()
    table: dict[str, list[Any]] = {
        "eps_id": [7, 7, 7, 9, 9, 9],
        "obs": observed,
        "action_mask": mask,
        "actions": [0, 1, 2, 0, 1, 2],
        "rewards": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        "elapsed": [0, 1, 0, 0, 1, 0],
        "terminateds": [0, 0, 1, 0, 0, 0],
    }
    return table | more


def test_what_follows_is_the_next_row(tmp_path: Path) -> None:
    table = by_hand()
    made = imported(plain(table, tmp_path / "log.parquet"), scenario.load("green-10"), tmp_path / "out")
    assert made.left_out == 1  # the last one of 9
    seven, nine = rows_of(tmp_path / "out")
    assert seven["new_obs"] == [*table["obs"][1:3], table["obs"][2]]
    assert nine["new_obs"] == table["obs"][4:6]
    assert (seven["rewards"], nine["rewards"]) == ([1, 2, 3], [4, 5])
    assert seven["terminateds"] == [False, False, True]
    assert seven["truncateds"] == [False, False, False]
    assert nine["truncateds"] == [False, True]
    assert nine["elapsed"] == [0, 1]


def test_without_names_episodes_end_where_a_row_says_so(tmp_path: Path) -> None:
    table = by_hand()
    del table["eps_id"]
    table["terminateds"][5] = 1
    made = imported(plain(table, tmp_path / "log.parquet"), scenario.load("green-10"), tmp_path / "out")
    assert [item.episodes for item in made.manifest.behaviors] == [2]
    assert (made.manifest.rows, made.left_out) == (6, 0)


def test_what_a_log_says_of_what_follows_is_kept(tmp_path: Path) -> None:
    """Then the last decision of an episode that was cut stays."""
    table = by_hand()
    table["new_obs"] = [*table["obs"][1:3], table["obs"][0], *table["obs"][4:6], table["obs"][1]]
    table["new_action_mask"] = table["action_mask"]
    made = imported(plain(table, tmp_path / "log.parquet"), scenario.load("green-10"), tmp_path / "out")
    assert made.left_out == 0
    assert rows_of(tmp_path / "out")[1]["new_obs"][2] == table["obs"][1]


def test_an_episode_goes_on_in_the_next_file(tmp_path: Path) -> None:
    table = by_hand(eps_id=[7, 7, 7, 7, 7, 7], terminateds=[0, 0, 0, 0, 0, 1])
    for name, rows in (("a", slice(0, 2)), ("b", slice(2, 6))):
        plain({key: values[rows] for key, values in table.items()}, tmp_path / f"{name}.parquet")
    made = imported(tmp_path, scenario.load("green-10"), tmp_path / "out")
    assert (made.manifest.episodes, made.manifest.rows, made.left_out) == (1, 6, 0)
    assert rows_of(tmp_path / "out")[0]["obs"] == table["obs"]


def test_costs_are_known_by_their_names(tmp_path: Path) -> None:
    """Minari gives them back in the order of the alphabet."""
    costly = scenario.load(
        "green-10", ["episode.max_ticks=60", "objective.costs={suspension: null, delayed_jobs: null}"]
    )
    first = collected(costly, recipe("sjf", 200), tmp_path / "first")
    export_minari(tmp_path / "first", first, NAME)
    import_dataset(MinariEpisodes(NAME), first.scenario, tmp_path / "back", "a test")
    before, after = rows_of(tmp_path / "first"), rows_of(tmp_path / "back")
    assert any(late > 0 for row in before for _, late in row["costs"])
    assert same_episodes(before, after)


def test_who_names_the_scenario_needs_no_other(cheap: Scenario, tmp_path: Path) -> None:
    """One that was a file on another machine is looked for only where nobody names one."""
    layout = vector(cheap)
    count = layout.size + layout.num_actions + 1
    observed = np.ones((3, count), np.float32)
    observed[:, -1] = 0
    spec = gym.envs.registration.EnvSpec(
        id="rlsched/mine", entry_point="rlsched.envs.env:SchedulingEnv", kwargs={"scenario": "green-10"}
    )
    buffer = minari.data_collector.EpisodeBuffer(
        observations=observed,
        actions=np.zeros(2, np.int64),
        rewards=np.zeros(2),
        terminations=np.array([False, True]),
        truncations=np.zeros(2, bool),
    )
    minari.create_dataset_from_buffers(
        "mine-v0",
        [buffer],
        env=spec,
        observation_space=observation_space(layout, flat=True),
        action_space=gym.spaces.Discrete(layout.num_actions),
    )
    file = tmp_path / "minari" / "mine-v0" / "data" / "metadata.json"
    file.write_text(file.read_text().replace("green-10", "/nowhere/mine.yaml"))
    episodes = MinariEpisodes("mine-v0")
    assert import_dataset(episodes, cheap, tmp_path / "out", "a test").manifest.rows == 2
    with pytest.raises(BadInputError, match=r"/nowhere/mine.yaml"):
        assert episodes.scenario is None


def changed(name: str, row: int, value: Any) -> Callable[[], dict[str, list[Any]]]:
    def table() -> dict[str, list[Any]]:
        result = by_hand()
        result[name][row] = value
        return result

    return table


def without(name: str) -> Callable[[], dict[str, list[Any]]]:
    return lambda: {key: values for key, values in by_hand().items() if key != name}


def with_mask(row: int, *illegal: int) -> Callable[[], dict[str, list[Any]]]:
    def table() -> dict[str, list[Any]]:
        result = by_hand()
        for action in illegal:
            result["action_mask"][row][action] = False
        return result

    return table


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (
            without("obs"),
            "log.parquet: has no column 'obs'; name it by --column obs=THEIRS; there are eps_id",
        ),
        (
            without("terminateds"),
            "log.parquet: does not say where episodes end; name the column by --column ",
        ),
        (without("action_mask"), "log.parquet: has no column 'action_mask'; record what was legal"),
        (without("elapsed"), "log.parquet: has no column 'elapsed'; record the ticks of each transition"),
        (lambda: by_hand(t=[0, 1, 2, 0, 2, 1]), "log.parquet, row 4: t 2 follows 0; write the decisions of"),
        (
            lambda: by_hand(elapsed=[0, 2**40, 0, 0, 0, 0]),
            "log.parquet, row 1: elapsed 1.09951e+12 is no",
        ),
        (
            lambda: by_hand(terminateds=[0, 0.5, 1, 0, 0, 0]),
            "log.parquet, row 1: terminateds is neither 0",
        ),
        (
            lambda: by_hand(eps_id=[b"a"] * 6),
            "log.parquet: eps_id holds binary; write words or whole",
        ),
        (
            lambda: by_hand(action_mask=[[0.9] * 7] * 6),
            "log.parquet, row 0: action_mask holds more than 0 and 1; write 1 where legal",
        ),
        (changed("actions", 4, None), "log.parquet, row 4: actions is missing; fill it in"),
        (changed("actions", 4, 99), "log.parquet, row 4: action 99 of "),
        (changed("actions", 1, 0.5), "log.parquet, row 1: actions 0.5 is no whole number"),
        (with_mask(1, 1), "log.parquet, row 1: action 1 is outside its mask"),
        (changed("rewards", 2, float("nan")), "log.parquet, row 2: rewards is not finite"),
        (changed("rewards", 2, None), "log.parquet, row 2: rewards is missing"),
        (changed("obs", 3, [0.5]), "log.parquet, row 3: obs holds 1 numbers, not "),
        (lambda: by_hand(obs=[[0.5]] * 6), "log.parquet: obs holds 1 numbers, and the scenario shows "),
        (lambda: by_hand(obs=[0.5] * 6), "log.parquet: obs holds double; write plain numbers, lists"),
        (lambda: by_hand(actions=["a"] * 6), "log.parquet: actions holds string; write plain numbers"),
        (lambda: by_hand(eps_id=[7, 7, 7, 7, 9, 9]), "log.parquet, row 3: goes on with episode '7', which"),
        (lambda: by_hand(elapsed=[0, 1, 0, 0, -1, 0]), "log.parquet, row 4: elapsed is below 0"),
        (
            lambda: by_hand(behavior=["a"] * 4 + ["b"] * 2),
            "log.parquet, row 4: behavior 'b' in an episode of",
        ),
        (lambda: by_hand(action_logp=[0.0, 0.5] * 3), "log.parquet, row 1: action_logp is above 0"),
        (lambda: by_hand(eps_id=[1, 2, 3, 4, 5, 6], terminateds=[0] * 6), "a test: no decision of it can be"),
    ],
)
def test_what_cannot_be_is_named(
    table: Callable[[], dict[str, list[Any]]], words: str, tmp_path: Path
) -> None:
    path = plain(table(), tmp_path / "log.parquet")
    with pytest.raises(BadInputError) as raised:
        imported(path, scenario.load("green-10"), tmp_path / "out")
    assert words in str(raised.value).replace(f"{tmp_path}/", "")
    assert sorted(tmp_path.glob("*out*")) == []


def test_costs_are_asked_for(short: Scenario, tmp_path: Path) -> None:
    path = plain(by_hand(), tmp_path / "log.parquet")
    with pytest.raises(BadInputError, match=r"no column 'costs'; record delayed_jobs, suspension"):
        imported(path, short, tmp_path / "out")


@pytest.mark.parametrize("retained", [0.3, 0.9])
def test_cut_files_are_refused(retained: float, dataset: Path, short: Scenario, tmp_path: Path) -> None:
    path = dataset / "part-00001.parquet"
    data = path.read_bytes()
    path.write_bytes(data[: int(retained * len(data))])
    with pytest.raises(BadInputError, match=r"part-00001.parquet: is cut short or no Parquet file \("):
        imported(dataset, short, tmp_path / "out")


def test_a_flipped_byte_is_found(dataset: Path, short: Scenario, tmp_path: Path) -> None:
    path = dataset / "part-00001.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(BadInputError, match=r"part-00001.parquet: is damaged from row \d+ on"):
        imported(dataset, short, tmp_path / "out")
    assert sorted(tmp_path.glob("*out*")) == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no name", r"--minari: value 'no name' is no name of a Minari dataset"),
        ("noversion", r"--minari: value 'noversion' is no name of a Minari dataset"),
    ],
)
def test_names_that_minari_does_not_know(name: str, words: str, dataset: Path) -> None:
    with pytest.raises(BadInputError, match=words):
        export_minari(dataset, read_manifest(dataset), name)


def test_nothing_is_written_over(dataset: Path) -> None:
    export_minari(dataset, read_manifest(dataset), NAME)
    with pytest.raises(BadInputError, match=r"is there already"):
        export_minari(dataset, read_manifest(dataset), NAME)


def test_half_an_export_is_taken_back(dataset: Path, store: Path) -> None:
    path = dataset / "part-00001.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(BadInputError, match=r"part-00001.parquet: is damaged"):
        export_minari(dataset, read_manifest(dataset), NAME)
    assert not (store / NAME).exists()


def test_other_observations_are_refused(tmp_path: Path) -> None:
    buffer = minari.data_collector.EpisodeBuffer(
        observations={"a": np.zeros((2, 1), np.float32)},
        actions=np.zeros(1, np.int64),
        rewards=np.zeros(1),
        terminations=np.ones(1, bool),
        truncations=np.zeros(1, bool),
    )
    space = gym.spaces.Dict({"a": gym.spaces.Box(0, 1, (1,), np.float32)})
    minari.create_dataset_from_buffers(
        "named-v0", [buffer], observation_space=space, action_space=gym.spaces.Discrete(2)
    )
    with pytest.raises(BadInputError, match=r"shows Dict observations, not vectors; record an environment"):
        MinariEpisodes("named-v0")
    with pytest.raises(BadInputError, match=r"neither a file, nor a folder, nor a Minari dataset"):
        MinariEpisodes("nowhere-v0")


def test_two_at_once_do_not_meet(short: Scenario, dataset: Path, tmp_path: Path) -> None:
    """The second one is refused, and takes nothing away from the first one."""

    def meanwhile() -> Iterator[Foreign]:
        with pytest.raises(BadInputError, match=r"is being written by another process"):
            imported(dataset, short, tmp_path / "out")
        yield from ParquetEpisodes(dataset, {})

    made = import_dataset(meanwhile(), short, tmp_path / "out", "a test")
    assert check(tmp_path / "out", made.manifest) == []
    held = os.open(tmp_path / "out", os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)  # nobody holds it any more
    finally:
        os.close(held)


def test_what_was_left_by_the_killed_is_cleared(short: Scenario, dataset: Path, tmp_path: Path) -> None:
    remaining = tmp_path / ".out.new"
    remaining.mkdir()
    (remaining / "part-00007.parquet").write_bytes(b"half")
    made = imported(dataset, short, tmp_path / "out")
    assert check(tmp_path / "out", made.manifest) == []
    assert not remaining.exists()
