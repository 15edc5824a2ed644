"""Collecting a dataset: shard after shard, until there are enough decisions.

A shard is a number of episodes that are played side by side. Its content depends only on the recipe, its
number and the episodes before it. So a collection that was stopped and resumed gives the same dataset.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from itertools import islice
from math import ceil
from pathlib import Path

from rlsched.envs.episodes import EpisodeFeed
from rlsched.errors import BadInputError
from rlsched.evaluate.policy_names import is_checkpoint
from rlsched.files import checksum
from rlsched.inputs import check_inputs
from rlsched.offline.behavior import Loader, check_behaviors
from rlsched.offline.folder import PACKAGES, VERSION, DatasetFolder, publish
from rlsched.offline.manifest import MANIFEST, Doings, Manifest, read_manifest
from rlsched.offline.recipe import Recipe, turns
from rlsched.offline.record import Recording, episode_name, shape_of
from rlsched.offline.shards import Shard, ShardWriter, episodes_of, row_groups, shard_of
from rlsched.scenario import Scenario, files, rooted
from rlsched.versions import versions

SIDE_BY_SIDE = 256
"""Episodes of a shard at most."""

SHARD_ROWS = 50_000
"""Decisions of a shard, about."""

WRITING = 2
"""Shards that may be written while the next one is played."""

PATIENCE = 256
"""Episodes without a decision after which there will be none."""


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
    """Record a dataset, or the rest of one; the privileged blocks of an observation are not recorded.

    Args:
        scenario: to be simulated.
        recipe: behavior policies and number of decisions.
        folder: of the dataset.
        load: for trained policies.
        resume: continue after the shards that are there.
        begin: called once all settings are good, with the rows that are there already.
        progress: called with rows whenever some have been recorded.

    Raises:
        BadInputError: something cannot be used; before anything is written.
        OSError: the disk is full or gone; whole shards stay.
    """
    if not resume:
        folder.check_free()
    scenario, recipe = rooted(scenario.public), recipe.rooted()
    feed = EpisodeFeed(scenario)
    check_behaviors("--policy", recipe.behaviors, feed, load)
    inputs = inputs_of(scenario, recipe, load)
    with folder.locked():
        doings, shards = Doings(), []
        if resume:
            folder.check_settings()
            check_inputs(folder.path, inputs, "collect another dataset")
            shards = whole_shards(folder, doings)
        else:
            folder.check_free()
        begin(doings.rows)
        folder.create(scenario, recipe, inputs)
        folder.remove_unfinished()
        shards = _go_on(feed, recipe, folder, load, doings, shards, progress)
        return publish(
            folder.path,
            shards,
            doings,
            scenario=feed.scenario,
            shape=shape_of(feed.scenario, len(feed.units)),
            origin="recorded by rlsched collect",
            recipe=recipe,
            inputs=inputs,
        )


def inputs_of(scenario: Scenario, recipe: Recipe, load: Loader) -> dict[str, str]:
    """Checksums of what the rows depend on beside the settings: policies, files, versions."""
    inputs = {
        f"policy {behavior.policy}": load(behavior.policy).fingerprint
        for behavior in recipe.behaviors
        if is_checkpoint(behavior.policy)
    }
    inputs |= {f"{kind} {path}": checksum(path) for kind, path in files(scenario).items()}
    return inputs | {f"{VERSION}{name}": number for name, number in versions(PACKAGES).items()}


def whole_shards(folder: DatasetFolder, doings: Doings) -> list[Shard]:
    """Read the whole shards that a collection resumes from, and add their episodes to its totals.

    Raises:
        BadInputError: one is damaged.
    """
    known: dict[str, Shard] = {}
    if (folder.path / MANIFEST).exists():
        known = {shard.file: shard for shard in read_manifest(folder.path).shards}
    whole: list[Shard] = []
    while (path := folder.shard(len(whole))).exists():
        try:
            shard, episodes = shard_of(path), episodes_of(path)
            if shard != known.get(shard.file, shard):
                raise BadInputError(str(path), "is not what dataset.json says it is", "")
            rows = shard.rows if shard.file in known else sum(map(len, row_groups(path)))
            if rows != sum(episode.rows for episode in episodes):
                raise BadInputError(str(path), f"holds {rows:,} rows, and says something else", "")
            if episodes[0].eps_id != episode_name(doings.drawn):
                raise BadInputError(str(path), "does not continue from the shard before it", "")
        except BadInputError as error:
            raise BadInputError(str(path), error.problem, "remove it: it is recorded again") from None
        whole.append(shard)
        doings.add(episodes)
    return whole


def _go_on(
    feed: EpisodeFeed,
    recipe: Recipe,
    folder: DatasetFolder,
    load: Loader,
    doings: Doings,
    shards: list[Shard],
    progress: Callable[[int], None],
) -> list[Shard]:
    """Record shards until there are enough decisions; all that there are then.

    The totals count shards that are still being written, too.
    """
    shards = list(shards)
    writing: deque[Future[Shard]] = deque()
    dealt = islice(turns(recipe.behaviors), doings.drawn, None)
    if doings.rows < recipe.steps:
        folder.remove_shards(len(shards))
    try:
        while doings.rows < recipe.steps:
            number = len(shards) + len(writing)
            chosen = list(islice(dealt, _next_count(doings, recipe.steps)))
            recording = Recording(feed, recipe, load, number=number, first=doings.drawn, behaviors=chosen)
            writing.append(_record(recording, folder.shard(number), progress))
            doings.add(recording.episodes)
            if not doings.rows and doings.drawn >= PATIENCE:
                problem = f"has nothing to decide in its first {PATIENCE} episodes"
                remedy = "record one with more jobs or fewer units"
                raise BadInputError(f"scenario {feed.scenario.name}", problem, remedy)
            if len(writing) > WRITING:
                shards.append(writing.popleft().result())
    finally:  # what has been played whole is written whole, also when the user stops it here
        shards += [future.result() for future in writing]
        if not doings.rows and doings.drawn:
            folder.remove()
    return shards


def _next_count(doings: Doings, steps: int) -> int:
    """Episodes of the next shard: as many as are still needed, by the mean length; at first one."""
    if not doings.rows:
        return 1
    rows = doings.rows / doings.drawn
    most = min(SIDE_BY_SIDE, max(1, int(SHARD_ROWS / rows)))
    return min(most, ceil((steps - doings.rows) / rows))


def _record(recording: Recording, path: Path, progress: Callable[[int], None]) -> Future[Shard]:
    """Play a shard and hand it to the thread that writes it."""
    writer = ShardWriter(path, recording.shape.columns())
    try:
        for table in recording.tables():
            writer.write(table)
            progress(len(table))
    except BaseException:
        writer.abort()
        raise
    return writer.close(recording.episodes)
