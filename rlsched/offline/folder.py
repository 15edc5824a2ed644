"""The folder of a dataset."""

from __future__ import annotations

from pathlib import Path

from rlsched.errors import BadInputError
from rlsched.files import write_whole
from rlsched.offline.card import CARD, card
from rlsched.offline.manifest import MANIFEST, RECIPE, Manifest
from rlsched.offline.recipe import Recipe
from rlsched.offline.shards import ENDING, shard_name
from rlsched.scenario import Scenario, parse
from rlsched.settings import as_json, as_yaml, read_text, read_yaml, validate

PACKAGES = ("rlsched", "numpy", "numba", "pyarrow")


class DatasetFolder:
    """The folder of a dataset.

        scenario.yaml recipe.yaml      what is collected, to go on or to collect it again
        part-00000.parquet ...         its rows
        dataset.json README.md         what is in it, once it is all there

    Args:
        path: of the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def check_free(self) -> None:
        """Refuse a folder with a dataset, or a part of one, in it.

        Raises:
            BadInputError: there is one already.
        """
        if (self.path / MANIFEST).exists() or (self.path / RECIPE).exists():
            raise BadInputError(
                str(self.path),
                "holds a dataset already",
                "name another --out folder, or add --resume to collect",
            )
        if any(self.path.glob(f"*{ENDING}")):
            raise BadInputError(
                str(self.path), "holds Parquet files of something else", "name another --out folder"
            )

    def create(self, scenario: Scenario, recipe: Recipe) -> None:
        """Begin a dataset, or go on with one.

        Raises:
            BadInputError: the folder cannot be written.
        """
        try:
            write_whole(self.path / "scenario.yaml", as_yaml(scenario))
            write_whole(self.path / RECIPE, as_yaml(recipe))
        except OSError as error:
            raise BadInputError(
                str(self.path), f"cannot be written ({error})", "name another --out"
            ) from None

    def read(self) -> tuple[Scenario, Recipe]:
        """What is collected here.

        Raises:
            BadInputError: nothing is.
        """
        scenario, recipe = self.path / "scenario.yaml", self.path / RECIPE
        if not recipe.exists():
            raise BadInputError(
                str(self.path), "holds no dataset to go on with", "leave out --resume to begin one"
            )
        return (
            parse(read_yaml(read_text(scenario), str(scenario)), str(scenario)),
            validate(Recipe, read_yaml(read_text(recipe), str(recipe)), str(recipe)),
        )

    def shard(self, number: int) -> Path:
        """Where the shard of that number is, or will be."""
        return self.path / shard_name(number)

    def remove_unfinished(self) -> None:
        """Clear away what a killed process left."""
        for left in self.path.glob(f".*{ENDING}.*.part"):
            left.unlink(missing_ok=True)


def publish(manifest: Manifest, folder: Path) -> None:
    """Write the card, and then the manifest, which says that the dataset is whole."""
    write_whole(folder / CARD, card(manifest).encode())
    write_whole(folder / MANIFEST, as_json(manifest.model_dump(mode="json")))
