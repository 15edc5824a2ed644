"""Datasets exported to Minari and imported from it."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from rlsched.envs.vector import observation_space
from rlsched.errors import BadInputError
from rlsched.offline.check import check, check_for
from rlsched.offline.importing import import_dataset
from rlsched.offline.manifest import read_manifest
from rlsched.offline.minari_store import MinariEpisodes, export_minari
from rlsched.scenario import Scenario
from tests.offline.exchange_logs import (
    NAME,
    Log,
    rows_of,
    same_episodes,
    vector,
)

minari = pytest.importorskip("minari", reason="the extra rlsched[minari] is not installed")


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


def test_a_log_for_minari(cheap: Scenario, tmp_path: Path) -> None:
    """Minari stores the last observation, so no row is lost."""
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
