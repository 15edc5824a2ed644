"""Collecting a dataset: shard after shard, until there are enough decisions.

A shard is a number of episodes that are played side by side. What is in it depends on the recipe, its number
and the episodes before it alone, so that a collection that was stopped goes on as if it had not been.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from rlsched.envs.episodes import EpisodeFeed
from rlsched.errors import BadInputError
from rlsched.offline.behavior import Loader, check_behaviors
from rlsched.offline.folder import PACKAGES, DatasetFolder, publish
from rlsched.offline.manifest import Manifest, summed_up
from rlsched.offline.recipe import Recipe
from rlsched.offline.record import EpisodeEntry, Recording, drawn, shape_of
from rlsched.offline.shards import Shard, ShardWriter, episodes_of, shard_of
from rlsched.scenario import Scenario, rooted
from rlsched.versions import versions

SIDE_BY_SIDE = 32
"""Episodes of a shard at most."""

SHARD_ROWS = 50_000
"""Decisions of a shard, about; fewer episodes are played where they are long."""

WRITING = 2
"""Shards that may be written while the next one is played."""


@dataclass
class Standing:
    """How much there is, shards that are still being written included."""

    rows: int = 0
    episodes: int = 0


def collect(
    scenario: Scenario,
    recipe: Recipe,
    folder: DatasetFolder,
    load: Loader,
    *,
    resume: bool = False,
    begin: Callable[[int], None] = lambda rows: None,
    progress: Callable[[int], None] = lambda rows: None,
) -> Manifest:
    """Record a dataset, or the rest of one.

    Args:
        scenario: what is simulated.
        recipe: who plays it, and how much.
        folder: of the dataset.
        load: for trained policies.
        resume: go on from the shards that are there.
        begin: called once all settings are good, with the rows that are there already.
        progress: called with rows whenever some have been recorded.

    Raises:
        BadInputError: something cannot be used; before anything is written.
        OSError: the disk is full or gone; whole shards stay.
    """
    if not resume:
        folder.check_free()
    scenario, recipe = rooted(scenario), recipe.rooted()
    feed = EpisodeFeed(scenario)
    check_behaviors("--policy", recipe.behaviors, feed.scenario, len(feed.units), load)
    there = _there(folder) if resume else []
    shards = [shard for shard, _ in there]
    episodes = [entry for _, entries in there for entry in entries]
    standing = Standing(sum(shard.rows for shard in shards), len(episodes))
    begin(standing.rows)
    folder.create(scenario, recipe)
    folder.remove_unfinished()
    usual = usual_rows(feed, recipe)
    writing: deque[Future[Shard]] = deque()
    try:
        while standing.rows < recipe.steps:
            recording = Recording(
                feed,
                recipe,
                load,
                number=len(shards) + len(writing),
                first=standing.episodes,
                count=_next_count(standing, recipe.steps, usual),
            )
            writing.append(_record(recording, folder.shard(len(shards) + len(writing)), standing, progress))
            episodes += recording.episodes
            if standing.rows == 0:
                raise BadInputError(
                    f"scenario {scenario.name}",
                    f"has nothing to decide in its first {standing.episodes} episodes",
                    "record one with more jobs or fewer units",
                )
            if len(writing) > WRITING:
                shards.append(writing.popleft().result())
    finally:  # what has been played whole is written whole, also when somebody stops it here
        shards += [future.result() for future in writing]
    manifest = Manifest(
        scenario=feed.scenario,
        shape=shape_of(feed.scenario, len(feed.units)),
        origin="recorded by rlsched collect",
        recipe=recipe,
        behaviors=summed_up(episodes),
        rows=standing.rows,
        episodes=sum(entry.rows > 0 for entry in episodes),
        shards=tuple(shards),
        versions=versions(PACKAGES),
    )
    publish(manifest, folder.path)
    return manifest


def _there(folder: DatasetFolder) -> list[tuple[Shard, list[EpisodeEntry]]]:
    """The whole shards that a collection goes on from, and their episodes."""
    found: list[tuple[Shard, list[EpisodeEntry]]] = []
    while (path := folder.shard(len(found))).exists():
        found.append((shard_of(path), episodes_of(path)))
    return found


def usual_rows(feed: EpisodeFeed, recipe: Recipe) -> int:
    """Decisions of an episode before any has been played: about one for each job."""
    (first,), _ = drawn(feed, recipe.seed, 0, 1)
    return max(1, len(first.jobs))


def _next_count(standing: Standing, steps: int, usual: int) -> int:
    """Episodes of the next shard: as many as are still needed, as far as one can tell."""
    rows = standing.rows / standing.episodes if standing.episodes else usual
    most = min(SIDE_BY_SIDE, max(1, SHARD_ROWS // usual))
    return min(most, ceil((steps - standing.rows) / max(1.0, rows)))


def _record(
    recording: Recording, path: Path, standing: Standing, progress: Callable[[int], None]
) -> Future[Shard]:
    """Play a shard and hand it to whoever writes it."""
    writer = ShardWriter(path, recording.shape.columns())
    try:
        for table in recording.tables():
            writer.write(table)
            progress(len(table))
            standing.rows += len(table)
    except BaseException:
        writer.abort()
        raise
    standing.episodes += len(recording.episodes)
    return writer.close(recording.episodes)
