"""What policies would earn, from a dataset of what others did: before they ever decide.

Two estimates of what is earned from the beginning of an episode to its end, discounted:

FQE, fitted Q evaluation [Le et al. 2019]: what a decision is worth if the policy decides from then on, fitted
to every transition of the dataset. It is linear in `features`, where fitting again and again comes to the
solution of one system of equations [Duan, Jia and Wang 2020], and so to the same result every time.

WIS, weighted importance sampling per decision [Precup et al. 2000; Thomas 2015]: returns of the dataset's
episodes, by how much more likely the policy would have decided so than who did. It assumes nothing, but says
nothing either once no episode is left that goes on as the policy would.

Intervals are of the dataset: its episodes are drawn anew in groups [Hao et al. 2021].
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rlsched.evaluate.bootstrap import Interval
from rlsched.jobs import FloatArray, IntArray
from rlsched.offline.behavior import Teacher, draw
from rlsched.offline.features import SEEN, WIDTH, Features, Parts
from rlsched.offline.manifest import Manifest
from rlsched.offline.reader import Reader, read_group, values_of
from rlsched.offline.shards import open_shard
from rlsched.sim.layout import Layout

GROUPS = 24
"""Of episodes, that are drawn anew for the intervals."""

RESAMPLES = 200
RIDGE = 1e-4
"""Of the features' mean square; keeps the fit from what nobody recorded."""

LEAST_RIDGE = 1e-9
"""For parts of episodes that nobody recorded."""

LOOKED_AT = 20_000
"""Rows that features are normalised by, and that tell how unlike what was recorded decisions are."""

UNLIKE_PERCENT = 1.0
"""Of what was recorded counts as unlike the rest of it."""

GREATEST_LOG = 300.0
"""Of a weight, whose square is still a number."""

SPARSE = 8
"""Every so many choices are held against what was recorded."""

COVERED = 0.95
"""Of what the dataset earned, by a time at which some of its episodes still go on as a policy would."""

COLUMNS = (
    "t",
    "obs",
    "action_mask",
    "actions",
    "rewards",
    "new_obs",
    "new_action_mask",
    "elapsed",
    "terminateds",
    "truncateds",
    "action_logp",
)
"""Beside the names of episodes and behaviours."""


@dataclass(frozen=True)
class Estimate:
    """What is known of a policy.

    Attributes:
        fqe: earned from the beginning of an episode, by fitted Q evaluation.
        over: the same, less what the behaviours earned.
        wis: earned likewise, by weighted importance sampling.
        effective: episodes that the latter rests upon, of all of them.
        agreement: share of the decisions of each behaviour that it would have taken, too.
        unlike: share of its choices that are unlike anything recorded; of what was recorded, 0.01 are.
    """

    fqe: Interval
    over: Interval
    wis: Interval
    effective: float
    agreement: dict[str, float]
    unlike: float


@dataclass(frozen=True)
class Judgement:
    """What a dataset tells of policies.

    Attributes:
        gamma: discount per tick.
        recorded: earned from the beginning of an episode by those who decided.
        policies: by name.
    """

    gamma: float
    recorded: Interval
    policies: dict[str, Estimate]


@dataclass(eq=False)
class Chunk:
    """Some rows in the order of their episodes, as arrays.

    Attributes:
        names: of the episodes.
        episode: (row,) which of them.
        age: (row,) ticks since it began.
        group: (row,) of episodes.
        others: the columns by name; (row,) or (row, width).
        behaviors: who decided.
        behavior: (row,) which of them.
    """

    names: list[str]
    episode: IntArray
    age: IntArray
    group: IntArray
    others: dict[str, NDArray[Any]]
    behaviors: list[str]
    behavior: IntArray

    @classmethod
    def of(cls, table: pa.Table, ticks: dict[str, float]) -> Chunk:
        """A row group.

        Args:
            table: of it.
            ticks: that each episode took before; brought up to date.
        """
        names, episode = _coded(table, "eps_id")
        order = np.lexsort((table.column("t").to_numpy(), episode))
        behaviors, behavior = _coded(table, "behavior")
        groups = np.array([crc32(name.encode()) % GROUPS for name in names])
        others = {name: values_of(table, name)[order] for name in COLUMNS}
        age = np.zeros(len(order), np.int64)
        found = cls(names, episode[order], age, groups[episode[order]], others, behaviors, behavior[order])
        sums = found.running(found["elapsed"].astype(float), ticks)
        ticks |= found.last(sums)
        found.age = np.rint(sums).astype(np.int64) - found["elapsed"]
        return found

    def __len__(self) -> int:
        return len(self.episode)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.others[name]

    def running(self, values: FloatArray, before: Mapping[str, float]) -> FloatArray:
        """(row,) sums of values over the rows of an episode so far, each row's own among them.

        Args:
            values: (row,)
            before: sum of each episode before these rows; 0 where nothing is known.
        """
        sums = np.cumsum(values)
        first = np.flatnonzero(np.diff(self.episode, prepend=-1))
        started = sums[first] - values[first]
        told = np.array([before.get(self.names[k], 0.0) for k in self.episode[first]])
        lengths = np.diff(first, append=len(values))
        found: FloatArray = sums + np.repeat(told - started, lengths)
        return found

    def last(self, sums: FloatArray) -> dict[str, float]:
        """What `running` came to, by episode."""
        ends = np.flatnonzero(np.diff(self.episode, append=-1))
        return {self.names[self.episode[k]]: float(sums[k]) for k in ends}


def _coded(table: pa.Table, name: str) -> tuple[list[str], IntArray]:
    column = table.column(name).combine_chunks().dictionary_encode()
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return column.dictionary.to_pylist(), column.indices.to_numpy().astype(np.int64)


def chunks(folder: Path, manifest: Manifest, progress: Callable[[int], None]) -> Iterator[Chunk]:
    """All rows of a dataset, a row group at a time; those of an episode come in their order.

    Raises:
        BadInputError: a shard is damaged.
    """
    for shard in manifest.shards:
        path, ticks = folder / shard.file, dict[str, float]()  # no episode is in two shards
        with open_shard(path) as file:
            for group in range(file.metadata.num_row_groups):
                table = read_group(file, path, group, [*COLUMNS, "eps_id", "behavior"])
                yield Chunk.of(table, ticks)
                progress(file.metadata.row_group(group).num_rows)


class Weighing:
    """Weighted importance sampling per decision, of a policy or of who decided.

    An episode that has ended earns nothing more, and still counts.
    """

    def __init__(self) -> None:
        # By decision and group: earned, weight, its square; by the dataset: earned, 1.
        self._sums = np.zeros((5, 0, GROUPS))
        self._ended = np.zeros((5, 0, GROUPS))  # from here on
        self._ratio: dict[str, float] = {}
        self._never: dict[str, float] = {}

    def add(self, chunk: Chunk, chances: FloatArray, gamma: float) -> None:
        """More rows, in order.

        Args:
            chunk: the rows.
            chances: (row,) of the policy, to do what was done.
            gamma: discount per tick.
        """
        never = chances <= 0.0
        ratios = np.log(np.where(never, 1.0, chances)) - chunk["action_logp"]
        ratio = chunk.running(ratios, self._ratio)
        gone = chunk.running(never.astype(float), self._never)
        self._ratio |= chunk.last(ratio)
        self._never |= chunk.last(gone)
        weight = np.where(gone > 0, 0.0, np.exp(np.minimum(ratio, GREATEST_LOG)))
        earned = gamma**chunk.age * chunk["rewards"]
        t = chunk["t"].astype(np.int64)
        self._reserve(int(t.max()) + 2)
        columns = np.stack([weight * earned, weight, weight**2, earned, np.ones(len(chunk))])
        _sum_up(self._sums, t, chunk.group, columns)
        over = chunk["terminateds"] | chunk["truncateds"]
        columns[[0, 3]] = 0.0
        _sum_up(self._ended, t[over] + 1, chunk.group[over], columns[:, over])

    def estimates(self, counts: FloatArray) -> FloatArray:
        """(resample,) earned, with so many of each group (resample, group); NaN where it cannot be said.

        That is where no episode is left, at a time by which the dataset's have not earned nearly all.
        """
        totals = self._totals()
        earned, weight, by_dataset, episodes = (totals[k] @ counts.T for k in (0, 1, 3, 4))
        found = np.divide(earned, weight, out=np.zeros_like(earned), where=weight > 0)
        usual = np.divide(by_dataset, episodes, out=np.zeros_like(earned), where=episodes > 0)
        covered = np.where(weight > 0, usual, 0.0).sum(0) / usual.sum(0)
        result: FloatArray = np.where(covered >= COVERED, found.sum(0), np.nan)
        return result

    @property
    def effective(self) -> float:
        """Episodes that it rests upon, on average over what the dataset earned."""
        weight, square, earned = self._totals()[1:4].sum(axis=2)
        resting = np.divide(weight**2, square, out=np.zeros_like(weight), where=square > 0)
        return float((resting * earned).sum() / earned.sum())

    def _totals(self) -> FloatArray:
        found: FloatArray = self._sums + self._ended.cumsum(axis=1)
        return found

    def _reserve(self, steps: int) -> None:
        there = self._sums.shape[1]
        if steps > there:
            more = np.zeros((5, max(steps, 2 * there) - there, GROUPS))
            self._sums, self._ended = (np.concatenate([old, more], 1) for old in (self._sums, self._ended))


def _sum_up(sums: FloatArray, t: IntArray, group: IntArray, columns: FloatArray) -> None:
    """Add columns (column, row) to sums (column, decision, group)."""
    at = t * GROUPS + group
    for total, values in zip(sums, columns, strict=True):
        total += np.bincount(at, values, minlength=total.size).reshape(total.shape)


class Judged:
    """What is summed up of a policy.

    Args:
        policy: it.
        sample: it draws its actions.
        rng: of these, where the fit follows it.
    """

    def __init__(self, policy: Teacher, *, sample: bool, rng: np.random.Generator) -> None:
        self.policy, self.sample, self.rng = policy, sample, rng
        self.following = np.zeros((GROUPS, WIDTH, WIDTH))
        self.first = np.zeros((GROUPS, WIDTH))
        self.weighing = Weighing()
        self.agreed: dict[str, FloatArray] = {}
        self.unlike = np.zeros(2)

    def add(self, chunk: Chunk, of_rows: NDArray[np.float32], fitting: Fitting) -> None:
        """More rows, in order.

        Args:
            chunk: the rows.
            of_rows: (row, width) features of what was done, by how much each row counts.
            fitting: how.
        """
        gamma, features = fitting.gamma, fitting.features
        chances = self._chances(chunk["obs"], chunk["action_mask"])
        done = chances[np.arange(len(chunk)), chunk["actions"]]
        self.weighing.add(chunk, done, gamma)
        same = chances.argmax(axis=1) == chunk["actions"]
        for number, name in enumerate(chunk.behaviors):
            rows = chunk.behavior == number
            self.agreed.setdefault(name, np.zeros(2))[:] += same[rows].sum(), rows.sum()
        would = self._draw(chances)
        begins = chunk["t"] == 0
        first = fitting.parts(features(chunk["obs"][begins], would[begins]), chunk.age[begins])
        np.add.at(self.first, chunk.group[begins], first)
        seen = features(chunk["obs"][::SPARSE], would[::SPARSE])
        self.unlike += [fitting.is_unlike(seen).sum(), len(seen)]
        then = self._draw(self._chances(chunk["new_obs"], chunk["new_action_mask"]))
        # Where an episode was cut nothing counts any more, as it does not where returns are summed up.
        goes_on = ~(chunk["terminateds"] | chunk["truncateds"])
        left = gamma ** chunk["elapsed"].astype(float) * goes_on
        following = fitting.parts(features(chunk["new_obs"], then), chunk.age + chunk["elapsed"])
        by_group(self.following, chunk.group, of_rows, following * left[:, None].astype(np.float32))

    def agreement(self) -> dict[str, float]:
        """By behaviour."""
        return {name: float(same / rows) for name, (same, rows) in self.agreed.items() if rows}

    def _chances(self, obs: NDArray[np.float32], mask: NDArray[np.int8]) -> FloatArray:
        return self.policy.probabilities(obs, mask, sample=self.sample)

    def _draw(self, chances: FloatArray) -> IntArray:
        if not self.sample:
            return chances.argmax(axis=1)
        return draw(chances, self.rng.random(len(chances)))


class Fitting:
    """What fitted Q evaluation of all policies has in common.

    Args:
        layout: of the observations.
        gamma: discount per tick.
        obs: (row, size) some of the dataset's.
        actions: (row,) what was done there.
        seed: of the features.
    """

    def __init__(
        self, layout: Layout, gamma: float, obs: NDArray[np.float32], actions: IntArray, seed: int
    ) -> None:
        self.gamma = gamma
        self.parts = Parts(gamma)
        self.features = Features(layout, obs, actions, seed)
        seen = self.features(obs, actions).astype(float)
        inverse = np.linalg.inv(seen.T @ seen / len(seen) + RIDGE * np.eye(seen.shape[1]))
        # As lengths of vectors: how far out decisions are, for what was recorded.
        self._root = np.linalg.cholesky(inverse).astype(np.float32)
        far = self._distance(seen.astype(np.float32))
        self._far = float(np.percentile(far, 100.0 - UNLIKE_PERCENT))
        self.outer = np.zeros((GROUPS, WIDTH, WIDTH))
        self.earned = np.zeros((GROUPS, WIDTH))
        self.rows = np.zeros(GROUPS)
        self.episodes = np.zeros(GROUPS)

    def add(self, chunk: Chunk) -> NDArray[np.float32]:
        """More rows; their features, by how much each row counts."""
        seen = self.parts(self.features(chunk["obs"], chunk["actions"]), chunk.age)
        weighed = seen * self.parts.weights(chunk.age)[:, None]
        by_group(self.outer, chunk.group, weighed, seen)
        np.add.at(self.earned, chunk.group, weighed * chunk["rewards"][:, None])
        self.rows += np.bincount(chunk.group, minlength=GROUPS)
        self.episodes += np.bincount(chunk.group[chunk["t"] == 0], minlength=GROUPS)
        return weighed

    def is_unlike(self, seen: NDArray[np.float32]) -> NDArray[np.bool_]:
        """(row,) whether decisions (row, width) are unlike what was recorded."""
        return self._distance(seen) > self._far

    def values(self, judged: Judged, counts: FloatArray) -> FloatArray:
        """(resample,) what a policy earns from the beginning of an episode, of groups (resample, group)."""
        found = np.empty(len(counts))
        # The parts of episodes have their levels whatever they are: then of who recorded all of it as much is
        # expected as was earned.
        ridge = np.diag(np.where(np.arange(WIDTH) < SEEN, RIDGE, LEAST_RIDGE))
        for k, of_groups in enumerate(counts):
            outer = np.tensordot(of_groups, self.outer, 1)
            following = np.tensordot(of_groups, judged.following, 1)
            rows = of_groups @ self.rows
            weights = np.linalg.solve((outer - following) / rows + ridge, of_groups @ self.earned / rows)
            found[k] = of_groups @ judged.first @ weights / (of_groups @ self.episodes)
        return found

    def _distance(self, seen: NDArray[np.float32]) -> NDArray[np.float32]:
        far: NDArray[np.float32] = np.square(seen @ self._root).sum(axis=1)
        return far


def by_group(
    sums: FloatArray, group: IntArray, left: NDArray[np.float32], right: NDArray[np.float32]
) -> None:
    """Add left.T @ right (row, width), (row, width) of each group of rows to its own sum."""
    for number in np.unique(group):
        rows = group == number
        sums[number] += left[rows].T @ right[rows]


def judge(
    folder: Path,
    manifest: Manifest,
    policies: Mapping[str, Teacher],
    *,
    gamma: float,
    sample: bool,
    seed: int,
    progress: Callable[[int], None],
) -> Judgement:
    """What policies would earn, from a dataset alone; in memory that does not grow with it.

    Args:
        folder: of the dataset.
        manifest: of the dataset.
        policies: by name; of the dataset's observations and actions.
        gamma: discount per tick.
        sample: they draw their actions instead of taking the best one.
        seed: of features, draws and resampling.
        progress: told of rows that were read.

    Raises:
        BadInputError: a shard is damaged, or no episode begins in the dataset.
    """
    layout = Layout.of(
        manifest.scenario.observation, manifest.scenario.decision, len(manifest.scenario.cluster.resources)
    )
    reader = Reader(folder, manifest, ["obs", "actions"], seed=seed)
    try:
        some = reader.take(min(LOOKED_AT, manifest.rows))
    finally:
        reader.close()
    fitting = Fitting(layout, gamma, some["obs"], some["actions"], seed)
    rng = np.random.default_rng([seed, GROUPS])
    all_judged = {name: Judged(one, sample=sample, rng=rng) for name, one in policies.items()}
    recorded = Weighing()
    for chunk in chunks(folder, manifest, progress):
        seen = fitting.add(chunk)
        recorded.add(chunk, np.exp(chunk["action_logp"].astype(float)), gamma)
        for judged in all_judged.values():
            judged.add(chunk, seen, fitting)
    counts = resamples(fitting.episodes, rng)
    earned = recorded.estimates(counts)
    found = {}
    for name, judged in all_judged.items():
        fqe = fitting.values(judged, counts)
        found[name] = Estimate(
            fqe=interval(fqe),
            over=interval(fqe - earned),
            wis=interval(judged.weighing.estimates(counts)),
            effective=judged.weighing.effective,
            agreement=judged.agreement(),
            unlike=float(judged.unlike[0] / judged.unlike[1]),
        )
    return Judgement(gamma, interval(earned), found)


def resamples(episodes: FloatArray, rng: np.random.Generator) -> FloatArray:
    """(1 + resample, group) how often each group counts; first as it is."""
    there = np.flatnonzero(episodes)
    drawn = rng.choice(there, size=(RESAMPLES, len(there)))
    counts = np.stack([np.bincount(row, minlength=GROUPS) for row in drawn])
    return np.concatenate([(episodes > 0)[None].astype(float), counts.astype(float)])


def interval(values: FloatArray) -> Interval:
    """The first, within 95 % of the others; NaN where one of them cannot be said."""
    low, high = np.percentile(values[1:], (2.5, 97.5))
    return Interval(float(values[0]), float(min(low, values[0])), float(max(high, values[0])))
