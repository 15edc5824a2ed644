"""A manifest that was changed, or that lists shards which are not its own, is refused before any is read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlsched.errors import BadInputError
from rlsched.offline.manifest import MANIFEST, read_manifest

Edit = Callable[[dict[str, Any]], object]


def written(folder: Path, edit: Edit, *, checksum: bool = False) -> None:
    """Change the manifest by hand; without a checksum it is as older versions wrote it."""
    values = json.loads((folder / MANIFEST).read_text())
    if not checksum:
        values.pop("checksum", None)
    edit(values)
    (folder / MANIFEST).write_text(json.dumps(values))


def refused(folder: Path) -> str:
    with pytest.raises(BadInputError) as caught:
        read_manifest(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "edit",
    [
        lambda values: values["scenario"]["objective"].update(gamma=0.5),
        lambda values: values["scenario"]["workload"].update(load=0.123),
        lambda values: values["versions"].update(rlsched="0.0.0"),
        lambda values: values.update(checksum="0" * 64),
        lambda values: values.update(checksum=None),
    ],
    ids=["objective", "workload", "versions", "checksum", "no checksum"],
)
def test_a_change_by_hand_is_refused(dataset: Path, edit: Edit) -> None:
    written(dataset, edit, checksum=True)
    assert "it was changed since it was written" in refused(dataset)


def test_another_layout_of_the_file_is_no_change(dataset: Path) -> None:
    manifest = read_manifest(dataset)
    written(dataset, lambda values: None, checksum=True)
    assert read_manifest(dataset) == manifest


def test_a_dataset_of_an_older_version_is_read(dataset: Path) -> None:
    assert "checksum" in json.loads((dataset / MANIFEST).read_text())
    manifest = read_manifest(dataset)
    written(dataset, lambda values: None)
    assert read_manifest(dataset) == manifest


@pytest.mark.parametrize(
    ("edit", "line"),
    [
        (lambda values: values.update(shards=[]), "shards: hold no decision"),
        (lambda values: values.update(shards=[], rows=0), "shards: hold no decision"),
        (lambda values: values["shards"].append(values["shards"][0]), "decisions, and rows says"),
        (
            lambda values: values["shards"].append(values["shards"][0] | {"rows": 0}),
            "shards: list part-00000.parquet twice",
        ),
        (lambda values: values["shards"][0].update(rows=-5), "shards.0.rows: "),
        *(
            (lambda values, name=name: values["shards"][0].update(file=name), "shards.0.file: ")
            for name in ("../part-00000.parquet", "/etc/part-00000.parquet", "..", "", "a\0", "\ud800")
        ),
    ],
)
def test_shards_of_other_datasets_are_refused(dataset: Path, edit: Edit, line: str) -> None:
    written(dataset, edit)
    assert line in refused(dataset)


def test_shards_may_be_links(dataset: Path, tmp_path: Path) -> None:
    """As caches of downloads have them; checksums tell whether they are what was recorded."""
    shard = dataset / "part-00001.parquet"
    shutil.move(shard, tmp_path / "kept")
    shard.symlink_to(tmp_path / "kept")
    assert read_manifest(dataset).shards


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        ('{"schema_version": 1, "schema_version": 1}', "key 'schema_version' stands twice in an object"),
    ],
    ids=["lists", "objects", "twice"],
)
def test_json_that_means_nothing_is_refused(dataset: Path, text: str, line: str) -> None:
    (dataset / MANIFEST).write_text(text)
    assert line in refused(dataset)
