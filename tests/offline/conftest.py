"""Small scenarios, datasets of them, and datasets that were damaged on purpose."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlsched import scenario
from rlsched.evaluate.policy import LearnedPolicy
from rlsched.files import checksum
from rlsched.offline.collect import collect
from rlsched.offline.folder import DatasetFolder
from rlsched.offline.manifest import MANIFEST, Manifest, read_manifest
from rlsched.offline.recipe import Recipe, parse_behaviors
from rlsched.scenario import Scenario
from rlsched.settings_files import as_json

TICKS = 100


def nobody(path: str) -> LearnedPolicy:
    """Loads no policy."""
    raise AssertionError(path)


def recipe(policies: str, steps: int, seed: int = 0, noise: float = 0.0) -> Recipe:
    """Of queue orders with their shares, as on the command line."""
    behaviors = parse_behaviors("--policy", policies.split(","))
    return Recipe(
        behaviors=tuple(item.model_copy(update={"noise": noise}) for item in behaviors),
        steps=steps,
        seed=seed,
    )


def collected(chosen: Scenario, spec: Recipe, folder: Path) -> Manifest:
    return collect(chosen, spec, DatasetFolder(folder), nobody)


@pytest.fixture(scope="session")
def short() -> Scenario:
    """Episodes of about a hundred decisions, on a horizon, with a cost."""
    return scenario.load(
        "green-10", [f"episode.max_ticks={TICKS}", "objective.costs={delayed_jobs: 10.0, suspension: 1.0}"]
    )


@pytest.fixture(scope="session")
def queued() -> Scenario:
    """Episodes without a horizon."""
    return scenario.load("lublin-256", ["episode.jobs=64", "decision.window=32", "decision.action_rule=fit"])


@pytest.fixture(scope="session")
def _whole(short: Scenario, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("datasets") / "mixed"
    collected(short, recipe("sjf:2,qos:1", 6000), folder)
    return folder


@pytest.fixture
def dataset(_whole: Path, tmp_path: Path) -> Path:
    """A dataset of two shards of one's own."""
    return Path(shutil.copytree(_whole, tmp_path / "dataset"))


Damage = Callable[[pa.Table], pa.Table]


def rewritten(folder: Path, number: int, damage: Damage, *, empty: bool = False) -> None:
    """Change the rows of a shard, and say in `dataset.json` that this is how it should be."""
    manifest = read_manifest(folder)
    shard = manifest.shards[number]
    path = folder / shard.file
    with pq.ParquetFile(path) as file:
        table, facts = file.read(), file.metadata.metadata
    changed = damage(table)
    with pq.ParquetWriter(path, changed.schema, write_page_checksum=True) as writer:
        writer.write_table(changed, row_group_size=500)
        if empty:
            writer.write_table(changed[:0])
        writer.add_key_value_metadata({key: value for key, value in facts.items() if key != b"ARROW:schema"})
    shards = list(manifest.shards)
    shards[number] = shard.model_copy(update={"bytes": path.stat().st_size, "sha256": checksum(path)})
    values = manifest.model_copy(update={"shards": tuple(shards)}).model_dump(mode="json")
    (folder / MANIFEST).write_bytes(as_json(values))


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for Minari's datasets."""
    place = tmp_path / "minari"
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(place))
    return place


@pytest.fixture(scope="module")
def cheap() -> Scenario:
    """Short, on a horizon, without costs."""
    return scenario.load("green-10", ["episode.max_ticks=50", "objective.gamma=0.99"])
