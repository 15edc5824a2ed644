"""`dataset.json`: contents and origin of a dataset, and metrics of its behavior policies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import inf
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from rlsched.errors import BadInputError
from rlsched.files import quoted
from rlsched.json_files import parse_json, without_checksum
from rlsched.offline.columns import Shape
from rlsched.offline.recipe import Recipe
from rlsched.offline.record import EpisodeSummary
from rlsched.offline.shards import Shard
from rlsched.scenario import PRIVILEGED, Scenario
from rlsched.settings import Frozen

MANIFEST = "dataset.json"
RECIPE = "recipe.yaml"
IMPORT = "rlsched dataset import {folder} --out NEW"
"""Makes a dataset without privileged blocks of one that has them."""


class Spread(Frozen):
    """Mean, standard deviation and extremes of a number over episodes."""

    mean: float
    std: float
    least: float
    most: float


class Played(Frozen):
    """Episodes, rows and metrics of one behavior policy.

    Attributes:
        reward: sum of the rewards of an episode, not discounted.
        metrics: of `rlsched simulate`, where at least one episode has them.
    """

    behavior: str
    episodes: int
    rows: int
    reward: Spread
    metrics: dict[str, Spread]


class Tally:
    """Numbers that are summed up as they come, by Welford's method; they are not kept."""

    def __init__(self) -> None:
        self.count, self.mean, self.squares = 0, 0.0, 0.0
        self.least, self.most = inf, -inf

    def add(self, value: float) -> None:
        """One more."""
        self.count += 1
        before = value - self.mean
        self.mean += before / self.count
        self.squares += before * (value - self.mean)
        self.least, self.most = min(self.least, value), max(self.most, value)

    def spread(self) -> Spread:
        """Spread of all values; there must be one at least."""
        std = (self.squares / self.count) ** 0.5
        return Spread(mean=self.mean, std=std, least=self.least, most=self.most)


class Doings:
    """Totals of the behavior policies, episode by episode.

    Attributes:
        episodes: those with a decision; only these count in the totals.
        drawn: all episodes.
    """

    def __init__(self) -> None:
        self.episodes, self.drawn = 0, 0
        self._rows: dict[str, int] = {}
        self._rewards: dict[str, Tally] = {}
        self._metrics: dict[str, dict[str, Tally]] = {}

    def add(self, episodes: Iterable[EpisodeSummary]) -> None:
        """Some more, in order."""
        for episode in episodes:
            self.drawn += 1
            if not episode.rows:
                continue
            name = episode.behavior
            self.episodes += 1
            self._rows[name] = self._rows.get(name, 0) + episode.rows
            self._rewards.setdefault(name, Tally()).add(episode.reward)
            metrics = self._metrics.setdefault(name, {})
            for metric, value in episode.metrics.items():
                metrics.setdefault(metric, Tally()).add(value)

    @property
    def rows(self) -> int:
        """All decisions."""
        return sum(self._rows.values())

    def played(self) -> tuple[Played, ...]:
        """Totals of each behavior policy, in the order of their first episodes."""
        return tuple(
            Played(
                behavior=name,
                episodes=rewards.count,
                rows=self._rows[name],
                reward=rewards.spread(),
                metrics={metric: tally.spread() for metric, tally in self._metrics[name].items()},
            )
            for name, rewards in self._rewards.items()
        )


class Manifest(Frozen):
    """A dataset.

    Attributes:
        scenario: what was simulated, with the units of every resource known.
        origin: how it came about, in words.
        chances: whether `action_logp` is known; else it is 0.
        inputs: checksums of what else it was made from: trained policies, traces.
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
    chances: bool = True
    inputs: dict[str, str] = Field(default_factory=dict)
    versions: dict[str, str]


def read_manifest(folder: Path) -> Manifest:
    """The manifest of the dataset in a folder.

    Raises:
        BadInputError: there is none, it is unfinished or damaged, or it holds privileged blocks.
    """
    manifest = read_any_manifest(folder)
    check_public(manifest.scenario, str(folder), f"copy its decisions: {IMPORT.format(folder=folder)}")
    return manifest


def check_public(scenario: Scenario, where: str, remedy: str) -> None:
    """Refuse decisions that were recorded with privileged blocks, as older versions did.

    Raises:
        BadInputError: the scenario of the dataset has some.
    """
    blocks = [block for block in scenario.observation.blocks if block in PRIVILEGED]
    if blocks:
        problem = f"holds privileged blocks ({', '.join(blocks)}), as older versions recorded them"
        raise BadInputError(where, problem, remedy)


def read_any_manifest(folder: Path) -> Manifest:
    """Read a manifest like `read_manifest`, also that of a dataset with privileged blocks.

    Raises:
        BadInputError: there is none, it is unfinished, damaged or changed, or its shards are not its own.
    """
    path = folder / MANIFEST
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        if (folder / RECIPE).exists():
            problem = "is a dataset that is not finished"
            remedy = f"resume it: rlsched collect --resume --out {quoted(folder)}"
            raise BadInputError(str(folder), problem, remedy) from None
        problem = f"holds no {MANIFEST}" if folder.is_dir() else "no such folder"
        inside = sorted(f"{folder}/{path.parent.name}" for path in folder.glob(f"*/{MANIFEST}"))
        remedy = "name the folder of a dataset, as rlsched collect makes it"
        if inside:
            remedy = f"name one that is in it: {', '.join(inside)}"
        raise BadInputError(str(folder), problem, remedy) from None
    except NotADirectoryError:
        raise BadInputError(str(folder), "is a file", f"name its folder: {folder.parent}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(str(path), f"cannot be read ({error})", "fetch it again") from None
    try:
        values = parse_json(text)
        manifest = Manifest.model_validate(without_checksum(values) if isinstance(values, dict) else values)
    except (ValidationError, ValueError) as error:
        problem = f"is damaged or of another version ({first(error)})"
        raise BadInputError(str(path), problem, "fetch or collect it again") from None
    _check_shards(folder, manifest)
    return manifest


def _check_shards(folder: Path, manifest: Manifest) -> None:
    """Refuse shards that a reader would take for others, before any of them is opened."""
    where, remedy = f"{folder / MANIFEST}: shards", "fetch or collect it again"
    rows = sum(shard.rows for shard in manifest.shards)
    if not rows:
        raise BadInputError(where, "hold no decision", remedy)
    if rows != manifest.rows:
        raise BadInputError(where, f"hold {rows:,} decisions, and rows says {manifest.rows:,}", remedy)
    twice = [name for name, count in Counter(shard.file for shard in manifest.shards).items() if count > 1]
    if twice:
        raise BadInputError(where, f"list {twice[0]} twice", remedy)


def first(error: ValueError) -> str:
    """The first thing that is wrong, in short."""
    if isinstance(error, ValidationError):
        detail = error.errors()[0]
        return f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}"
    return str(error)
