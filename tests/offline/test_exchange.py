"""What others wrote down becomes ours, and ours becomes theirs, row for row."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pyarrow.parquet as pq
import pytest

from rlsched import scenario
from rlsched.envs.vector import observation_space
from rlsched.errors import BadInputError
from rlsched.offline.check import check
from rlsched.offline.foreign import Foreign
from rlsched.offline.importing import import_dataset
from rlsched.offline.manifest import read_manifest
from rlsched.offline.minari_store import MinariEpisodes, export_minari
from rlsched.offline.parquet_log import ParquetEpisodes
from rlsched.scenario import Scenario
from tests.offline.exchange_logs import (
    NAME,
    RENAMED,
    Log,
    column,
    imported,
    plain,
    rows_of,
    same_episodes,
    vector,
)

from .conftest import collected, recipe

minari = pytest.importorskip("minari", reason="the extra rlsched[minari] is not installed")


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


@pytest.mark.slow
def test_shards_of_rlsched_are_plain_parquet(dataset: Path, short: Scenario, tmp_path: Path) -> None:
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


def test_next_observations_of_a_log_are_imported(tmp_path: Path) -> None:
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
        (lambda: by_hand(eps_id=[7, 7, 7, 7, 9, 9]), "log.parquet, row 3: continues episode '7', which"),
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


def test_missing_costs_are_refused(short: Scenario, tmp_path: Path) -> None:
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


def test_a_flipped_byte_of_a_source_is_detected(dataset: Path, short: Scenario, tmp_path: Path) -> None:
    path = dataset / "part-00001.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(BadInputError, match=r"part-00001.parquet: is damaged from row \d+ on"):
        imported(dataset, short, tmp_path / "out")
    assert sorted(tmp_path.glob("*out*")) == []


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
