"""Off-policy evaluation: the return of a policy, estimated from a dataset of other policies' decisions.

Two estimates of the discounted return of a whole episode:

FQE, fitted Q evaluation [Le et al. 2019]: the value of a decision if the policy decides from then on, fitted
to every transition of the dataset. It is linear in `features`, where repeated fits converge to the solution
of one system of equations [Duan, Jia and Wang 2020]. So the result is the same every time.

WIS, weighted importance sampling per decision [Precup et al. 2000; Thomas 2015]: returns of the dataset's
episodes, weighted by the policy's probability of the recorded actions over the behavior policy's. It assumes
no model, but says nothing once no episode is left that the policy could have continued likewise.

Intervals come from the dataset: its episodes are resampled in groups [Hao et al. 2021].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rlsched.errors import BadInputError
from rlsched.evaluate.bootstrap import Interval
from rlsched.evaluate.policy import LearnedPolicy
from rlsched.jobs import FloatArray, IntArray
from rlsched.offline.behavior import sample_actions
from rlsched.offline.episodes import GROUPS, Chunk, chunks
from rlsched.offline.features import PLAIN_WIDTH, WIDTH, Features, Parts
from rlsched.offline.manifest import Manifest
from rlsched.offline.reader import Reader
from rlsched.offline.weighing import Weighing
from rlsched.sim.layout import Layout

RESAMPLES = 200
FITS = 1 + RESAMPLES
"""Fits of fitted Q evaluation per policy: one on the whole dataset and one per resample."""

RIDGE = 1e-4
"""Ridge penalty, as a share of the features' mean square; limits the fit where the dataset has no rows."""

LEAST_RIDGE = 1e-9
"""Ridge penalty of the parts of an episode (`Parts`); matters only for parts without rows."""

LOOKED_AT = 20_000
"""Rows that normalise the features, and that set the distance from which decisions are unlike them."""

UNLIKE_PERCENT = 1.0
"""Percentage of the recorded decisions that count as unlike the rest; sets that distance."""

SPARSE = 8
"""Stride of the rows whose chosen action is compared with the recorded decisions."""


@dataclass(frozen=True)
class Estimate:
    """Estimated returns of a policy, and its similarity to the dataset.

    Attributes:
        fqe: return of an episode, by fitted Q evaluation.
        over: `fqe` minus the return of the behavior policies.
        wis: return of an episode, by weighted importance sampling.
        effective: effective sample size of `wis`, in episodes.
        agreement: share of each behavior policy's decisions in which the policy chooses the same action.
        unlike: share of its choices that are unlike the recorded ones; of the recorded ones, 0.01 are.
    """

    fqe: Interval
    over: Interval
    wis: Interval
    effective: float
    agreement: dict[str, float]
    unlike: float


@dataclass(frozen=True)
class Judgement:
    """Estimates of all policies from one dataset.

    Attributes:
        recorded: return of an episode under the behavior policies.
        chances: whether the dataset has the probabilities of its actions, which `wis` needs.
    """

    gamma: float
    recorded: Interval
    policies: dict[str, Estimate]
    chances: bool


class PolicySums:
    """Sums over the dataset that the estimates of one policy need.

    Args:
        policy: to be evaluated.
        sample: draw its actions instead of taking the most likely ones.
        rng: of these draws.
    """

    def __init__(self, policy: LearnedPolicy, *, sample: bool, rng: np.random.Generator) -> None:
        self.actor, self.sample, self.rng = policy.actor(1), sample, rng  # without memory: of any states
        self.following = np.zeros((GROUPS, WIDTH, WIDTH))
        self.first = np.zeros((GROUPS, WIDTH))
        self.weighing = Weighing()
        self.agreed: dict[str, FloatArray] = {}
        self.unlike = np.zeros(2)

    def add(self, chunk: Chunk, of_rows: NDArray[np.float32], fitting: Fitting) -> None:
        """Add more rows, in order.

        Args:
            chunk: the rows.
            of_rows: (row, width) features of the recorded decisions, times the weight of each row.
            fitting: features and discount of all policies.
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
        chosen = features(chunk["obs"][::SPARSE], would[::SPARSE])
        self.unlike += [fitting.is_unlike(chosen).sum(), len(chosen)]
        then = self._draw(self._chances(chunk["new_obs"], chunk["new_action_mask"]))
        # Nothing counts after a truncation, as in the sums of returns.
        discount = gamma ** chunk["elapsed"].astype(float) * ~chunk.over
        following = fitting.parts(features(chunk["new_obs"], then), chunk.age + chunk["elapsed"])
        by_group(self.following, chunk.group, of_rows, following * discount[:, None].astype(np.float32))

    def estimate(self, fqe: FloatArray, counts: FloatArray, earned: FloatArray, weighted: bool) -> Estimate:
        """Put the estimates of the policy together.

        Args:
            fqe: (resample,) of fitted Q evaluation.
            counts: (resample, group) how often each group counts.
            earned: (resample,) by the behavior policies.
            weighted: the dataset has the probabilities that importance sampling needs.
        """
        wis = self.weighing.estimates(counts) if weighted else np.full(len(counts), np.nan)
        return Estimate(
            fqe=interval(fqe),
            over=interval(fqe - earned),
            wis=interval(wis),
            effective=self.weighing.effective if weighted else 0.0,
            agreement={name: float(same / rows) for name, (same, rows) in self.agreed.items() if rows},
            unlike=float(self.unlike[0] / self.unlike[1]),
        )

    def _chances(self, obs: NDArray[np.float32], mask: NDArray[np.int8]) -> FloatArray:
        return self.actor.probabilities(np.zeros(len(obs), np.int64), obs, mask, sample=self.sample)

    def _draw(self, chances: FloatArray) -> IntArray:
        if not self.sample:
            return chances.argmax(axis=1)
        return sample_actions(chances, self.rng.random(len(chances)))


class Fitting:
    """Fitted Q evaluation: features, sums and settings that all policies share.

    Args:
        layout: of the observations.
        gamma: discount per tick.
        obs: (row, size) a sample of the dataset's observations.
        actions: (row,) actions recorded there.
        seed: of the features.
    """

    def __init__(
        self, layout: Layout, gamma: float, obs: NDArray[np.float32], actions: IntArray, seed: int
    ) -> None:
        self.gamma = gamma
        self.parts = Parts(gamma)
        self.features = Features(layout, obs, actions, seed)
        recorded = self.features(obs, actions).astype(float)
        inverse = np.linalg.inv(recorded.T @ recorded / len(recorded) + RIDGE * np.eye(recorded.shape[1]))
        # Distances of decisions from the recorded ones, as lengths of vectors.
        self._root = np.linalg.cholesky(inverse).astype(np.float32)
        far = self._distance(recorded.astype(np.float32))
        self._far = float(np.percentile(far, 100.0 - UNLIKE_PERCENT))
        self.outer = np.zeros((GROUPS, WIDTH, WIDTH))
        self.earned = np.zeros((GROUPS, WIDTH))
        self.rows = np.zeros(GROUPS)
        self.episodes = np.zeros(GROUPS)

    def add(self, chunk: Chunk) -> NDArray[np.float32]:
        """Add more rows; return their features, times the weight of each row."""
        features = self.parts(self.features(chunk["obs"], chunk["actions"]), chunk.age)
        weighed = features * self.parts.weights(chunk.age)[:, None]
        by_group(self.outer, chunk.group, weighed, features)
        np.add.at(self.earned, chunk.group, weighed * chunk["rewards"][:, None])
        self.rows += np.bincount(chunk.group, minlength=GROUPS)
        self.episodes += np.bincount(chunk.group[chunk["t"] == 0], minlength=GROUPS)
        return weighed

    def is_unlike(self, features: NDArray[np.float32]) -> NDArray[np.bool_]:
        """(row,) whether decisions (row, width) are unlike the recorded ones."""
        return self._distance(features) > self._far

    def values(self, sums: PolicySums, counts: FloatArray, progress: Callable[[int], None]) -> FloatArray:
        """(resample,) return of an episode under a policy, with groups counted as in (resample, group)."""
        values = np.empty(len(counts))
        # Intercepts of the parts are hardly penalised: so the estimate of a policy that recorded the whole
        # dataset equals its recorded return.
        ridge = np.diag(np.where(np.arange(WIDTH) < PLAIN_WIDTH, RIDGE, LEAST_RIDGE))
        for k, of_groups in enumerate(counts):
            outer = np.tensordot(of_groups, self.outer, 1)
            following = np.tensordot(of_groups, sums.following, 1)
            rows = of_groups @ self.rows
            weights = np.linalg.solve((outer - following) / rows + ridge, of_groups @ self.earned / rows)
            values[k] = of_groups @ sums.first @ weights / (of_groups @ self.episodes)
            progress(1)
        return values

    def _distance(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        far: NDArray[np.float32] = np.square(features @ self._root).sum(axis=1)
        return far


def by_group(
    sums: FloatArray, group: IntArray, factor: NDArray[np.float32], right: NDArray[np.float32]
) -> None:
    """Add left.T @ right (row, width), (row, width) of each group of rows to its own sum."""
    for number in np.unique(group):
        rows = group == number
        sums[number] += factor[rows].T @ right[rows]


def judge(
    folder: Path,
    manifest: Manifest,
    policies: Mapping[str, LearnedPolicy],
    *,
    gamma: float,
    sample: bool,
    seed: int,
    progress: Callable[[int], None],
    fitted: Callable[[int], None],
) -> Judgement:
    """Estimate the returns of policies from a dataset alone, in memory that does not grow with it.

    Args:
        folder: of the dataset.
        manifest: of the dataset.
        policies: by name; of the dataset's observations and actions.
        gamma: discount per tick.
        sample: they draw their actions instead of taking the best one.
        seed: of features, draws and resampling.
        progress: called with the number of rows read.
        fitted: called with the number of fits; every policy takes `FITS`.

    Raises:
        BadInputError: a shard is damaged, or a policy is recurrent.
    """
    for name, policy in policies.items():
        if policy.recurrent:
            raise BadInputError(
                name,
                "remembers what it has seen (network.lstm), and rows of a dataset are judged by themselves",
                "play it with rlsched evaluate",
            )
    fitting = _fitting(folder, manifest, gamma, seed)
    rng = np.random.default_rng([seed, GROUPS])
    sums = {name: PolicySums(policy, sample=sample, rng=rng) for name, policy in policies.items()}
    recorded = Weighing()
    for chunk in chunks(folder, manifest, progress):
        weighed = fitting.add(chunk)
        recorded.add(chunk, np.exp(chunk["action_logp"].astype(float)), gamma)
        for policy_sums in sums.values():
            policy_sums.add(chunk, weighed, fitting)
    counts = resamples(fitting.episodes, rng)
    earned, weighted = recorded.estimates(counts), manifest.chances
    estimates = {
        name: policy_sums.estimate(fitting.values(policy_sums, counts, fitted), counts, earned, weighted)
        for name, policy_sums in sums.items()
    }
    return Judgement(gamma, interval(earned), estimates, weighted)


def _fitting(folder: Path, manifest: Manifest, gamma: float, seed: int) -> Fitting:
    """Fitted Q evaluation with features normalised by a sample of the dataset."""
    scenario = manifest.scenario
    layout = Layout.of(scenario.observation, scenario.decision, len(scenario.cluster.resources))
    reader = Reader(folder, manifest, ["obs", "actions"], seed=seed)
    try:
        sample = reader.take(min(LOOKED_AT, manifest.rows))
    finally:
        reader.close()
    return Fitting(layout, gamma, sample["obs"], sample["actions"], seed)


def resamples(episodes: FloatArray, rng: np.random.Generator) -> FloatArray:
    """(1 + resample, group) how often each group counts; first as it is."""
    groups = np.flatnonzero(episodes)
    drawn = rng.choice(groups, size=(RESAMPLES, len(groups)))
    counts = np.stack([np.bincount(row, minlength=GROUPS) for row in drawn])
    return np.concatenate([(episodes > 0)[None].astype(float), counts.astype(float)])


def interval(values: FloatArray) -> Interval:
    """The first value with the 95 % interval of the others; NaN where one of them is NaN."""
    low, high = np.percentile(values[1:], (2.5, 97.5))
    return Interval(float(values[0]), float(min(low, values[0])), float(max(high, values[0])))
