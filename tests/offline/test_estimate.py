"""What policies would earn, from datasets: against sums by hand, and against what they do earn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from rlsched.jobs import IntArray
from rlsched.offline.columns import matrix
from rlsched.offline.episodes import chunks
from rlsched.offline.estimate import FITS, Judgement, judge
from rlsched.offline.manifest import read_manifest
from rlsched.offline.weighing import Weighing
from rlsched.scenario import Scenario
from tests.offline.conftest import collected, recipe
from tests.policies import Forgetful

GAMMA = 0.95


class Chances(Forgetful):
    """A policy by the chances that a function of masks gives; all that estimates ask of one."""

    fingerprint, num_resources, recurrent = "", 2, False

    def __init__(self, scenario: Scenario, logit_scale: float) -> None:
        self.scenario, self.logit_scale = scenario, logit_scale

    def probabilities(
        self, envs: IntArray, obs: NDArray[np.float32], mask: NDArray[np.int8], *, sample: bool
    ) -> NDArray[np.float64]:
        """The earlier in the window, the likelier."""
        logits = np.where(mask > 0, -self.logit_scale * np.arange(mask.shape[1]), -np.inf)
        if not sample:
            return (logits == logits.max(axis=1, keepdims=True)).astype(float)
        chances = np.exp(logits - logits.max(axis=1, keepdims=True))
        result: NDArray[np.float64] = chances / chances.sum(axis=1, keepdims=True)
        return result


def estimate(folder: Path, policy: Chances, *, sample: bool, gamma: float = GAMMA) -> Judgement:
    manifest = read_manifest(folder)
    read, fits = [0], [0]

    def count(into: list[int]) -> Callable[[int], None]:
        return lambda number: into.__setitem__(0, into[0] + number)

    result = judge(
        folder,
        manifest,
        {"it": policy},
        gamma=gamma,
        sample=sample,
        seed=0,
        progress=count(read),
        fitted=count(fits),
    )
    assert (read, fits) == ([manifest.rows], [FITS])  # bars end at their ends
    return result


@pytest.fixture(scope="module")
def noisy(short: Scenario, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Episodes in which anything legal may be done."""
    folder = tmp_path_factory.mktemp("datasets") / "noisy"
    collected(short, recipe("fcfs:1,random:1", 8000, noise=0.5), folder)
    return folder


def rows_of(folder: Path) -> dict[str, list[tuple[int, float, float, float, NDArray[np.int8], int]]]:
    """Episode -> its decisions: t, reward, ticks, log probability, mask, action; in order."""
    result = defaultdict(list)
    for shard in read_manifest(folder).shards:
        table = pq.read_table(folder / shard.file)
        mask = matrix(table.column("action_mask"))
        names = ["eps_id", "t", "rewards", "elapsed", "action_logp", "actions"]
        columns = [table.column(name).to_pylist() for name in names]
        for k, (name, t, reward, ticks, logp, action) in enumerate(zip(*columns, strict=True)):
            result[name].append((t, reward, ticks, logp, mask[k], action))
    return {name: sorted(rows, key=lambda row: row[0]) for name, rows in result.items()}


@pytest.mark.slow
def test_importance_sampling_is_what_a_loop_comes_to(short: Scenario, noisy: Path) -> None:
    """Decision by decision; what has ended earns nothing and keeps its weight."""
    policy = Chances(short, 0.05)
    episodes = rows_of(noisy)
    longest = max(map(len, episodes.values()))
    earned, weights = np.zeros(longest), np.zeros(longest)
    for rows in episodes.values():
        ratio, discount = 1.0, 1.0
        for t, reward, ticks, logp, mask, action in rows:
            obs, env = np.zeros((1, 1), np.float32), np.zeros(1, np.int64)
            chance = policy.probabilities(env, obs, mask[None], sample=True)[0, action]
            ratio *= chance / np.exp(logp)
            earned[t] += ratio * discount * reward
            weights[t] += ratio
            discount *= GAMMA**ticks
        weights[len(rows) :] += ratio
    result = estimate(noisy, policy, sample=True).policies["it"]
    assert result.wis.mean == pytest.approx((earned / weights).sum(), rel=1e-5)
    assert result.wis.low <= result.wis.mean <= result.wis.high
    assert 1 < result.effective < read_manifest(noisy).episodes


@pytest.mark.slow
def test_what_was_recorded_is_the_mean_of_its_returns(short: Scenario, noisy: Path) -> None:
    returns = []
    for rows in rows_of(noisy).values():
        earned, discount = 0.0, 1.0
        for _, reward, ticks, *_ in rows:
            earned += discount * reward
            discount *= GAMMA**ticks
        returns.append(earned)
    result = estimate(noisy, Chances(short, 0.05), sample=True).recorded
    assert result.mean == pytest.approx(np.mean(returns), rel=1e-6)


@pytest.mark.slow
def test_the_estimate_of_the_behavior_policy_is_its_recorded_return(short: Scenario, tmp_path: Path) -> None:
    """fcfs takes the first of the window that fits: so does this policy, and both estimates know it."""
    collected(short, recipe("fcfs", 12000), tmp_path / "plain")
    subject = estimate(tmp_path / "plain", Chances(short, 1.0), sample=False)
    result = subject.policies["it"]
    assert result.agreement["fcfs"] > 0.999
    assert result.wis.mean == pytest.approx(subject.recorded.mean, rel=0.01)
    assert result.fqe.mean == pytest.approx(subject.recorded.mean, rel=0.01)
    assert result.unlike < 0.03
    assert result.effective > 0.9 * read_manifest(tmp_path / "plain").episodes


@pytest.mark.slow
def test_what_nobody_did_throughout_is_known_from_pieces(short: Scenario, tmp_path: Path) -> None:
    """Half of the decisions of these episodes are random; what fcfs would earn is known all the same."""
    collected(short, recipe("fcfs", 12000, seed=1), tmp_path / "plain")
    collected(short, recipe("fcfs", 12000, noise=0.5), tmp_path / "noisy")
    truth = estimate(tmp_path / "plain", Chances(short, 1.0), sample=False).recorded
    result = estimate(tmp_path / "noisy", Chances(short, 1.0), sample=False).policies["it"]
    assert result.fqe.low < truth.high
    assert truth.low < result.fqe.high
    assert abs(result.fqe.mean - truth.mean) < 0.1 * truth.mean


@pytest.mark.slow
def test_what_nobody_recorded_is_said_to_be_unlike(short: Scenario, tmp_path: Path) -> None:
    """Who always waits, where nobody ever did."""

    class Waits(Chances):
        def probabilities(
            self, envs: IntArray, obs: NDArray[np.float32], mask: NDArray[np.int8], *, sample: bool
        ) -> NDArray[np.float64]:
            chances = np.zeros(mask.shape)
            chances[:, -1] = 1.0
            return chances

    collected(short, recipe("sjf", 8000), tmp_path / "sjf")
    result = estimate(tmp_path / "sjf", Waits(short, 0.0), sample=False).policies["it"]
    assert result.unlike > 0.9
    assert result.agreement["sjf"] < 0.01
    assert np.isnan(result.wis.mean)


def test_weights_of_what_is_never_done_are_nothing(noisy: Path) -> None:
    """Then it cannot be said what it would earn; with episodes until nearly all is earned, it can."""
    weighing, known = Weighing(), Weighing()
    for chunk in chunks(noisy, read_manifest(noisy), lambda _: None):
        weighing.add(chunk, np.zeros(len(chunk)), GAMMA)
        known.add(chunk, np.exp(chunk["action_logp"].astype(float)), GAMMA)
    counts = np.ones((1, 24))
    assert np.isnan(weighing.estimates(counts)).all()
    assert weighing.effective == 0
    assert np.isfinite(known.estimates(counts)).all()


@pytest.mark.parametrize("factor", [-1.0, 0.0])
def test_what_is_lost_counts_like_what_is_earned(noisy: Path, factor: float) -> None:
    """It rests upon as many episodes; where nothing is earned it is known, and rests upon none."""
    as_it_is, second = Weighing(), Weighing()
    for chunk in chunks(noisy, read_manifest(noisy), lambda _: None):
        chances = np.exp(chunk["action_logp"].astype(float)) ** 0.9
        as_it_is.add(chunk, chances, GAMMA)
        chunk.columns["rewards"] = factor * chunk["rewards"]
        second.add(chunk, chances, GAMMA)
    counts = np.ones((1, 24))
    assert as_it_is.estimates(counts)[0] > 0
    np.testing.assert_allclose(second.estimates(counts), factor * as_it_is.estimates(counts))
    assert second.effective == pytest.approx(abs(factor) * as_it_is.effective)


def test_ended_episodes_free_their_memory(noisy: Path) -> None:
    weighing, going_on = Weighing(), set()
    for chunk in chunks(noisy, read_manifest(noisy), lambda _: None):
        weighing.add(chunk, np.ones(len(chunk)), GAMMA)
        names = np.array(chunk.names)[chunk.episode]
        going_on = (going_on | set(names)) - set(names[chunk.over])
    assert set(weighing._ratio) == set(weighing._never) == going_on
