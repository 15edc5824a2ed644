"""`dataset.json`: what a dataset is, how it came about, and what its behaviours came to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import ValidationError

from rlsched.errors import BadInputError
from rlsched.offline.columns import Shape
from rlsched.offline.recipe import Recipe
from rlsched.offline.record import EpisodeEntry
from rlsched.offline.shards import Shard
from rlsched.scenario import Scenario
from rlsched.settings import Frozen

MANIFEST = "dataset.json"
RECIPE = "recipe.yaml"


class Spread(Frozen):
    """Of a number that every episode has."""

    mean: float
    std: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of some values, one at least."""
        numbers = np.asarray(values, dtype=np.float64)
        return cls(
            mean=float(numbers.mean()),
            std=float(numbers.std()),
            least=float(numbers.min()),
            most=float(numbers.max()),
        )


class Played(Frozen):
    """What a behaviour did.

    Attributes:
        behavior: its name in the column.
        episodes: that it decided in.
        rows: its decisions.
        reward: sum of the rewards of an episode, not discounted.
        metrics: of `rlsched simulate`, where at least one episode can say them.
    """

    behavior: str
    episodes: int
    rows: int
    reward: Spread
    metrics: dict[str, Spread]

    @classmethod
    def of(cls, behavior: str, episodes: Sequence[EpisodeEntry]) -> Played:
        """Of all episodes of one behaviour, one at least."""
        names = dict.fromkeys(name for episode in episodes for name in episode.metrics)
        return cls(
            behavior=behavior,
            episodes=len(episodes),
            rows=sum(episode.rows for episode in episodes),
            reward=Spread.of([episode.reward for episode in episodes]),
            metrics={
                name: Spread.of([e.metrics[name] for e in episodes if name in e.metrics]) for name in names
            },
        )


class Manifest(Frozen):
    """A dataset.

    Attributes:
        scenario: what was simulated, with the units of every resource known.
        shape: of its columns.
        origin: how it came about, in words.
        recipe: where it was collected.
        behaviors: what each of them did.
        rows: decisions.
        episodes: whole ones.
        shards: its files, in order.
        versions: of the packages that wrote it.
    """

    schema_version: Literal[1] = 1
    scenario: Scenario
    shape: Shape
    origin: str
    recipe: Recipe | None = None
    behaviors: tuple[Played, ...]
    rows: int
    episodes: int
    shards: tuple[Shard, ...]
    versions: dict[str, str]


def summed_up(episodes: Iterable[EpisodeEntry]) -> tuple[Played, ...]:
    """What each behaviour did, in the order in which they come up."""
    found: dict[str, list[EpisodeEntry]] = {}
    for episode in episodes:
        found.setdefault(episode.behavior, []).append(episode)
    return tuple(Played.of(name, own) for name, own in found.items())


def read_manifest(folder: Path) -> Manifest:
    """The manifest of the dataset in a folder.

    Raises:
        BadInputError: there is none, it is unfinished, or damaged.
    """
    path = folder / MANIFEST
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        if (folder / RECIPE).exists():
            raise BadInputError(
                str(folder),
                "is a dataset that is not finished",
                f"go on with it: rlsched collect --resume --out {folder}",
            ) from None
        problem = f"holds no {MANIFEST}" if folder.is_dir() else "no such folder"
        raise BadInputError(
            str(folder), problem, "name the folder of a dataset, as rlsched collect makes it"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(str(path), f"cannot be read ({error})", "fetch it again") from None
    try:
        return Manifest.model_validate(json.loads(text))
    except (ValidationError, ValueError) as error:
        raise BadInputError(
            str(path), f"is damaged or of another version ({first(error)})", "fetch or collect it again"
        ) from None


def first(error: ValueError) -> str:
    """The first thing that is wrong, in short."""
    if isinstance(error, ValidationError):
        one = error.errors()[0]
        return f"{'.'.join(map(str, one['loc']))}: {one['msg']}"
    return str(error)
