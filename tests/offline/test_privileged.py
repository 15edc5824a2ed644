"""Datasets and exports hold nothing that lies ahead; those of older versions are refused, or cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pyarrow.parquet as pq
import pytest

from rlsched import scenario
from rlsched.errors import BadInputError
from rlsched.offline.columns import matrix
from rlsched.offline.folder import DatasetFolder
from rlsched.offline.foreign import Foreign
from rlsched.offline.importing import Layouts, import_dataset
from rlsched.offline.manifest import Manifest, read_any_manifest, read_manifest
from rlsched.offline.minari_store import MinariEpisodes, export_minari
from rlsched.offline.parquet_log import ParquetEpisodes
from rlsched.scenario import PRIVILEGED, Scenario
from rlsched.sim.layout import Layout
from tests.offline.conftest import collected, recipe

STEPS = 800


@pytest.fixture(scope="module")
def plain(short: Scenario, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset as it is recorded now, of a scenario with a privileged block."""
    folder = tmp_path_factory.mktemp("now") / "data"
    collected(short, recipe("sjf", STEPS), folder)
    return folder


@pytest.fixture(scope="module")
def older(short: Scenario, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same as older versions recorded it: with all blocks of the observation."""
    folder = tmp_path_factory.mktemp("before") / "data"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Scenario, "public", property(lambda self: self))
        collected(short, recipe("sjf", STEPS), folder)
    assert PRIVILEGED & set(read_any_manifest(folder).scenario.observation.blocks)
    return folder


def vectors(folder: Path, manifest: Manifest) -> np.ndarray:
    """(rows, 2 x size) observations before and after each decision, sorted: episodes come in any order."""
    tables = [pq.read_table(folder / shard.file) for shard in manifest.shards]
    pair = np.concatenate(
        [np.concatenate([matrix(table[name]) for name in ("obs", "new_obs")], axis=1) for table in tables]
    )
    return pair[np.lexsort(pair.T)]


def check_public(manifest: Manifest, short: Scenario) -> None:
    assert not PRIVILEGED & set(manifest.scenario.observation.blocks)
    observed = Layout.of(short.observation.public, short.decision, 2)
    assert manifest.shape.size == observed.size


def test_what_is_recorded_is_what_policies_see(plain: Path, short: Scenario) -> None:
    assert PRIVILEGED & set(short.observation.blocks)
    manifest = read_manifest(plain)
    check_public(manifest, short)
    assert vectors(plain, manifest).shape == (manifest.rows, 2 * manifest.shape.size)


def test_an_older_dataset_is_refused_in_one_line(older: Path) -> None:
    with pytest.raises(BadInputError) as caught:
        read_manifest(older)
    assert str(caught.value) == (
        f"{older}: holds privileged blocks (coming), as older versions recorded them; "
        f"copy its decisions: rlsched dataset import {older} --out NEW"
    )
    with pytest.raises(BadInputError, match="holds privileged blocks"):
        DatasetFolder(older).read()  # of a collection that goes on


def test_importing_an_older_dataset_cuts_what_lies_ahead(
    older: Path, plain: Path, short: Scenario, tmp_path: Path
) -> None:
    source = ParquetEpisodes(older, {})
    assert source.scenario is not None
    assert source.vectors
    made = import_dataset(
        source, source.scenario, tmp_path / "new", "test", recorded=source.scenario, vectors=True
    )
    assert made.removed_blocks == ("coming",)
    check_public(made.manifest, short)
    now = read_manifest(plain)
    assert np.array_equal(vectors(tmp_path / "new", made.manifest), vectors(plain, now))
    assert read_manifest(tmp_path / "new") == made.manifest


@pytest.mark.parametrize(("name", "window"), [("deeprm", 5), ("lublin-sizes", 6)])
def test_ambiguous_widths_are_resolved_or_refused(name: str, window: int) -> None:
    """A flat observation of now is as wide as an older vector, with a privileged block in its middle."""
    chosen = scenario.load(name, [f"decision.window={window}"])
    ours, rest = (Layouts.of(chosen, 1, vectors=vectors) for vectors in (True, False))
    rows = np.zeros((2, ours.whole.size), np.float32)
    assert ours.whole.size == ours.public.size + ours.public.num_actions + 1
    masked = Foreign("log", np.arange(2), None, {"obs": rows, "action_mask": rows})
    plain = Foreign("log", np.arange(2), None, {"obs": rows})
    assert ours.has_privileged(masked)  # of a dataset of ours, which holds vectors
    assert not rest.has_privileged(plain)  # who says no mask has it in the observation
    with pytest.raises(BadInputError, match="may be flat=True, or an older vector with privileged blocks"):
        rest.has_privileged(masked)
    assert not Layouts.of(chosen.public, 1, vectors=False).has_privileged(masked)


def test_minari_of_an_environment_of_now_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its scenario names a privileged block; its observations are public, as environments show them."""
    minari = pytest.importorskip("minari")
    from minari.data_collector import EpisodeBuffer

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    chosen = scenario.load("green-10", ["episode.max_ticks=30"])
    values = chosen.model_dump(mode="json")
    env = gymnasium.make("rlsched/green-10", scenario=values, flat=True)
    observed, _ = env.reset(seed=0)
    steps: list[tuple[Any, ...]] = []
    while not (steps and (steps[-1][2] or steps[-1][3])):
        action = int(env.unwrapped.action_masks().argmax())
        following, reward, terminated, truncated, _ = env.step(action)
        steps.append((action, reward, terminated, truncated, following))
    actions, rewards, terminations, truncations, following = map(np.array, zip(*steps, strict=True))
    buffer = EpisodeBuffer(
        observations=np.concatenate([observed[None], following]),
        actions=actions,
        rewards=rewards,
        terminations=terminations,
        truncations=truncations,
    )
    minari.create_dataset_from_buffers("mine/now-v0", [buffer], env=env)
    result = MinariEpisodes("mine/now-v0")
    assert result.scenario == chosen
    made = import_dataset(result, chosen, tmp_path / "out", "test", recorded=result.scenario)
    assert (made.removed_blocks, made.manifest.rows) == ((), result.rows)


def test_a_dataset_of_now_is_imported_under_the_name_of_its_scenario(
    plain: Path, short: Scenario, tmp_path: Path
) -> None:
    """The scenario that is named has privileged blocks, and what was recorded has not."""
    made = import_dataset(ParquetEpisodes(plain, {}), short, tmp_path / "new", "test")
    assert made.removed_blocks == ()
    assert np.array_equal(vectors(tmp_path / "new", made.manifest), vectors(plain, read_manifest(plain)))


def test_minari_is_given_what_policies_see(
    plain: Path, older: Path, short: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    manifest = read_manifest(plain)
    export_minari(plain, manifest, "test/now-v0")
    result = MinariEpisodes("test/now-v0")
    assert result.scenario == manifest.scenario
    wide = manifest.shape.size + manifest.shape.actions + 1
    assert all(episode.columns["obs"].shape[1] == wide for episode in result)

    export_minari(older, read_any_manifest(older), "test/before-v0")
    before = MinariEpisodes("test/before-v0")
    assert before.scenario is not None
    made = import_dataset(before, before.scenario, tmp_path / "new", "test", recorded=before.scenario)
    assert made.removed_blocks == ("coming",)
    assert np.array_equal(vectors(tmp_path / "new", made.manifest), vectors(plain, manifest))
