"""The folder of a dataset: a collection that can be resumed, or a dataset made in one go."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import pyarrow as pa

from rlsched.errors import BadInputError
from rlsched.files import Alone, hidden, write_whole
from rlsched.inputs import INPUTS, save_inputs
from rlsched.json_files import with_checksum
from rlsched.offline.card import CARD, card
from rlsched.offline.manifest import MANIFEST, RECIPE, Doings, Manifest, check_public
from rlsched.offline.recipe import Recipe
from rlsched.offline.record import EpisodeSummary
from rlsched.offline.shards import ENDING, Shard, ShardWriter, open_shard, shard_name
from rlsched.scenario import Scenario, parse
from rlsched.settings import validate
from rlsched.settings_files import as_json, as_yaml, edited, read_text, read_yaml, was_edited, write_settings
from rlsched.versions import versions

PACKAGES = ("rlsched", "numpy", "numba", "pyarrow")
SCENARIO = "scenario.yaml"
SETTINGS = (SCENARIO, RECIPE)
VERSION = "version of "
"""Prefix of the names of inputs that are no files."""


class DatasetFolder:
    """The folder of a dataset.

        scenario.yaml recipe.yaml      settings of the collection, to resume or to repeat it
        inputs.json                    checksums of its inputs, and versions
        part-00000.parquet ...         its rows
        dataset.json README.md         description of its contents, once it is complete

    Args:
        path: of the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def exists(self) -> bool:
        """Whether there is a collection to resume."""
        return (self.path / RECIPE).exists()

    def check_free(self) -> None:
        """Refuse a folder with anything in it: files of a dataset have common names.

        Raises:
            BadInputError: there is something.
        """
        if (self.path / MANIFEST).exists():
            problem = "holds a dataset already"
            raise BadInputError(str(self.path), problem, "name another --out, or let collect --resume it")
        if self.exists:
            problem = "holds an unfinished dataset"
            raise BadInputError(str(self.path), problem, "add --resume, or name another --out")
        if self.path.is_dir() and not self._is_empty():
            raise BadInputError(str(self.path), "holds other files", "name an --out that is new or empty")

    def _is_empty(self) -> bool:
        """Whether it holds only files of a process that was killed before it wrote the recipe, the last."""
        names = {path.name for path in self.path.glob("*")} - {path.name for path in self._unfinished()}
        try:
            started = INPUTS in names and f"{VERSION}rlsched" in (self.path / INPUTS).read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            started = False
        return not names or (started and names <= {INPUTS, SCENARIO})

    def _unfinished(self) -> Iterator[Path]:
        """Unfinished files of a killed process."""
        for name in (f"*{ENDING}", RECIPE, SCENARIO, INPUTS, MANIFEST, CARD):
            yield from self.path.glob(f".{name}.*.part")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out; the folder is made, and goes if nothing has come into it.

        Raises:
            BadInputError: another process is at it, or it cannot be written.
        """
        made = not self.path.exists()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            held = _alone(self.path, self.path)
        except OSError as error:
            raise self._refused(error) from None
        try:
            yield
        finally:
            if made:
                with suppress(OSError):  # something has come into it
                    self.path.rmdir()
            held.let_go()

    def create(self, scenario: Scenario, recipe: Recipe, inputs: Mapping[str, str]) -> None:
        """Begin a dataset, or resume one.

        Raises:
            BadInputError: the folder cannot be written.
        """
        try:
            save_inputs(self.path, inputs)
            write_settings(self.path / SCENARIO, as_yaml(scenario))
            write_settings(self.path / RECIPE, as_yaml(recipe))
        except OSError as error:
            raise self._refused(error) from None

    def _refused(self, error: OSError) -> BadInputError:
        return BadInputError(str(self.path), f"cannot be written ({error})", "name another --out")

    def read(self) -> tuple[Scenario, Recipe]:
        """Read the scenario and the recipe of the collection.

        Raises:
            BadInputError: there is none, or it holds privileged blocks.
        """
        scenario, recipe = self.path / SCENARIO, self.path / RECIPE
        if not recipe.exists():
            made = (self.path / MANIFEST).exists()
            problem = "holds a dataset that was not collected" if made else "holds no dataset to resume"
            remedy = "make it anew of longer ones" if made else "leave out --resume to begin one"
            raise BadInputError(str(self.path), problem, remedy)
        simulated = parse(read_yaml(read_text(scenario), str(scenario)), str(scenario))
        check_public(simulated, str(self.path), "collect it anew into another --out")
        return (
            simulated,
            validate(Recipe, read_yaml(read_text(recipe), str(recipe)), str(recipe)),
        )

    def check_settings(self) -> None:
        """Refuse to resume with settings that were edited by hand: rows of both would be mixed.

        Raises:
            BadInputError: they were.
        """
        for name in SETTINGS:
            if was_edited(self.path / name):
                raise edited(self.path / name, "collect another dataset; --steps may change with --resume")

    def shard(self, number: int) -> Path:
        """Path of the shard with this number, whether it is there or not."""
        return self.path / shard_name(number)

    def rows(self) -> int:
        """Decisions in its shards."""
        rows = 0
        for path in takewhile(Path.exists, map(self.shard, count())):
            with open_shard(path) as file:
                rows += file.metadata.num_rows
        return rows

    def remove_shards(self, number: int) -> None:
        """Remove the shard of that number and all after it, which went on from another one in its place."""
        for path in self.path.glob(f"part-*{ENDING}"):
            if path.name >= shard_name(number):
                path.unlink()

    def remove_unfinished(self) -> None:
        """Clear away what a killed process left."""
        for stale in self._unfinished():
            stale.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove an unfinished dataset."""
        for name in (RECIPE, SCENARIO, INPUTS):
            (self.path / name).unlink(missing_ok=True)
        for path in self.path.glob(f"part-*{ENDING}"):
            path.unlink(missing_ok=True)


def _alone(path: Path, folder: Path) -> Alone:
    """Keep other processes out of a path, which stands for the folder of a dataset."""
    try:
        return Alone(path)
    except BlockingIOError:
        problem = "is being written by another process"
        raise BadInputError(str(folder), problem, "wait for it, or end it") from None


def publish(folder: Path, shards: Sequence[Shard], doings: Doings, **fields: Any) -> Manifest:
    """Write the card, and then the manifest with its checksum, which says that the dataset is whole.

    Args:
        folder: of the dataset.
        shards: its files.
        doings: totals of their episodes.
        fields: of `Manifest` that do not follow from these: scenario, shape, origin.
    """
    manifest = Manifest(
        behaviors=doings.played(),
        rows=doings.rows,
        episodes=doings.episodes,
        shards=tuple(shards),
        versions=versions(PACKAGES),
        **fields,
    )
    write_whole(folder / CARD, card(manifest).encode())
    write_whole(folder / MANIFEST, as_json(with_checksum(manifest.model_dump(mode="json"))))
    return manifest


class NewDataset:
    """Writes a new dataset shard by shard; a killed process leaves nothing at the folder's path.

    A restart begins anew: that takes less time than checking how far the killed process came.

    Args:
        folder: of the dataset, without one yet.

    Raises:
        BadInputError: another process writes there.
    """

    def __init__(self, folder: Path) -> None:
        self._place = folder.resolve()
        self._folder = hidden(self._place, "new")
        self._folder.mkdir(parents=True, exist_ok=True)
        self._held = _alone(self._folder, folder)
        for stale in self._folder.iterdir():  # of a killed process
            stale.unlink()
        self._doings = Doings()
        self._writer: ShardWriter | None = None
        self._shards: list[Shard] = []
        self._published = False

    def write(self, rows: pa.Table) -> None:
        """Add a row group to the shard that is open, or to a new one.

        Raises:
            OSError: the disk is full or gone.
        """
        if self._writer is None:
            self._writer = ShardWriter(self._folder / shard_name(len(self._shards)), rows.schema)
        self._writer.write(rows)

    def end_shard(self, episodes: Sequence[EpisodeSummary]) -> None:
        """Write the open shard to its end, if there is one; these are its episodes.

        Raises:
            OSError: the disk is full or gone.
        """
        if self._writer is None:
            return
        self._doings.add(episodes)
        finished, self._writer = self._writer.close(episodes), None
        self._shards.append(finished.result())

    def finish(self, **fields: Any) -> Manifest:
        """Describe the dataset; fields of its manifest as for `publish`."""
        return publish(self._folder, self._shards, self._doings, **fields)

    def publish(self) -> None:
        """Put it in its place, which is empty."""
        os.replace(self._folder, self._place)
        self._published = True

    def close(self) -> None:
        """Leave nothing behind but what was kept, and let others write there."""
        if self._writer is not None:
            self._writer.abort()
        if not self._published:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._held.let_go()
