"""What is recorded is what was done: played again elsewhere, it comes to the same."""

from __future__ import annotations

from itertools import islice, pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlsched.envs.episodes import EpisodeFeed
from rlsched.envs.vector import SchedulingVectorEnv
from rlsched.offline.behavior import Behavior, sample_actions, with_noise
from rlsched.offline.columns import matrix
from rlsched.offline.recipe import Recipe, turns
from rlsched.offline.record import Recording, drawn
from rlsched.scenario import Scenario
from rlsched.sim.heuristics import run_heuristic
from rlsched.sim.metrics import job_metrics
from rlsched.sim.replay import replay
from rlsched.sim.simulator import effective_prices
from rlsched.workloads.episodes import Episode

from .conftest import nobody, recipe

COUNT = 8


def behaviors_of(spec: Recipe, first: int) -> list[int]:
    return list(islice(turns(spec.behaviors), first, first + COUNT))


def recorded(
    chosen: Scenario, spec: Recipe, first: int = 0
) -> tuple[Recording, pa.Table, list[Episode], list[int]]:
    feed = EpisodeFeed(chosen.public)
    recording = Recording(feed, spec, nobody, number=3, first=first, behaviors=behaviors_of(spec, first))
    table = pa.concat_tables(recording.tables())
    episodes, seeds = drawn(feed, spec.seed, first, COUNT)
    return recording, table, episodes, seeds.tolist()


@pytest.mark.parametrize("policy", ["sjf", "packing", "fcfs"])
def test_an_order_is_recorded_as_it_plays(short: Scenario, policy: str) -> None:
    recording, table, episodes, seeds = recorded(short, recipe(policy, 1))
    units = EpisodeFeed(short).units
    played = run_heuristic(short, units, episodes, policy, "now", seeds)
    for entry, how in zip(recording.episodes, played, strict=True):
        expected = job_metrics(how, units, short.cluster.tick_s, effective_prices(short))
        finite = {name: value for name, value in expected.items() if np.isfinite(value)}
        assert entry.metrics == pytest.approx(finite)
        assert entry.behavior == policy
    assert sum(entry.rows for entry in recording.episodes) == len(table)
    assert set(table.column("action_logp").to_pylist()) == {0.0}


@pytest.mark.parametrize("rule", ["now", "horizon", "none"])
@pytest.mark.parametrize("policy", ["sjf", "packing"])
def test_an_order_may_plan_or_not_where_jobs_can_be_planned(short: Scenario, policy: str, rule: str) -> None:
    """It starts every job where it does under the placement that is its own."""
    decision = short.decision.model_copy(update={"placement": "horizon"})
    planning = short.model_copy(update={"decision": decision})
    recording, _, episodes, seeds = recorded(planning, recipe(f"{policy}:{rule}", 1))
    units = EpisodeFeed(short).units
    played = run_heuristic(short, units, episodes, policy, rule, seeds)
    for entry, how in zip(recording.episodes, played, strict=True):
        expected = job_metrics(how, units, short.cluster.tick_s, effective_prices(short))
        finite = {name: value for name, value in expected.items() if np.isfinite(value)}
        assert entry.metrics == pytest.approx(finite)
        assert entry.behavior == f"{policy}:{rule}"


@pytest.mark.parametrize("policy", ["sjf", "wfp3", "fcfs", "packing"])
def test_an_order_without_a_horizon_is_greedy_backfilling(queued: Scenario, policy: str) -> None:
    """Every start is where the quick replay of the order has it."""
    feed = EpisodeFeed(queued)
    recording = Recording(feed, recipe(policy, 1), nobody, number=0, first=0, behaviors=[0] * COUNT)
    assert sum(len(table) for table in recording.tables()) > 0
    episodes, _ = drawn(feed, 0, 0, COUNT)
    for env, episode in enumerate(episodes):
        starts = replay(episode.jobs, feed.units, policy, "greedy", window=queued.decision.window)
        assert recording.sim.starts(env)[: len(episode.jobs)].tolist() == starts.tolist()


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("name", ["short", "queued"])
def test_the_actions_played_again_show_and_earn_the_same(
    name: str, noise: float, request: pytest.FixtureRequest
) -> None:
    """Every column, in an environment of its own that knows of no dataset."""
    chosen: Scenario = request.getfixturevalue(name)
    spec = recipe("sjf,random", 1, seed=5, noise=noise)
    recording, table, episodes, _ = recorded(chosen, spec, first=11)
    columns = {
        name: matrix(table.column(name))
        if pa.types.is_fixed_size_list(table.schema.field(name).type)
        else table.column(name).to_numpy()
        for name in table.column_names
        if name != "costs"
    }
    costs = np.array(table.column("costs").to_pylist()).reshape(len(table), -1)
    for env, episode in enumerate(episodes):
        rows = np.flatnonzero(columns["eps_id"] == f"{11 + env:08d}")
        rows = rows[np.argsort(columns["t"][rows])]
        assert columns["t"][rows].tolist() == list(range(len(rows)))
        assert set(columns["behavior"][rows]) == {spec.behaviors[(11 + env) % 2].label}
        alone = SchedulingVectorEnv(chosen.public, 1, on_illegal="raise")
        _, info = alone.reset(options={"episodes": [episode]})
        for row in rows:
            assert columns["obs"][row].tolist() == alone.simulator.obs[0].tolist()
            assert columns["action_mask"][row].tolist() == info["action_mask"][0].tolist()
            _, reward, terminated, truncated, info = alone.step(columns["actions"][row : row + 1])
            assert columns["rewards"][row] == reward[0]
            assert columns["elapsed"][row] == info["elapsed"][0]
            assert columns["terminateds"][row] == terminated[0]
            assert columns["truncateds"][row] == truncated[0]
            assert columns["new_obs"][row].tolist() == alone.simulator.obs[0].tolist()
            assert columns["new_action_mask"][row].tolist() == info["action_mask"][0].tolist()
            earned = [info["costs"][cost][0] for cost in recording.shape.costs]
            assert costs[row].tolist() == pytest.approx(earned)
        assert columns["terminateds"][rows[-1]] or columns["truncateds"][rows[-1]]
        entry = recording.episodes[env]
        assert entry.rows == len(rows)
        assert entry.reward == pytest.approx(columns["rewards"][rows].sum())


def test_what_is_in_a_row_group_does_not_matter(short: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    """Episodes that lie in many row groups are those that lie in one."""
    spec = recipe("sjf,qos", 1)
    _, whole, _, _ = recorded(short, spec)
    monkeypatch.setattr("rlsched.offline.record.ROW_GROUP_BYTES", 100_000)
    feed = EpisodeFeed(short.public)
    pieces = list(Recording(feed, spec, nobody, number=3, first=0, behaviors=behaviors_of(spec, 0)).tables())
    assert len(pieces) > 5
    assert max(piece.nbytes for piece in pieces) < 110_000
    order = [("eps_id", "ascending"), ("t", "ascending")]
    assert pa.concat_tables(pieces).sort_by(order).equals(whole.sort_by(order))


def test_noise_is_as_likely_as_it_says(short: Scenario) -> None:
    """Two probabilities per number of legal actions; each as often as it should be."""
    noise = 0.4
    _, table, _, _ = recorded(short, recipe("sjf", 1, noise=noise))
    legal = matrix(table.column("action_mask")).sum(axis=1)
    chance = np.exp(table.column("action_logp").to_numpy())
    second = noise / legal
    matching = 1 - noise + second
    followed = np.isclose(chance, matching, atol=1e-5)
    assert (followed | np.isclose(chance, second, atol=1e-5)).all()
    spread = np.sqrt((matching * (1 - matching)).sum())
    assert abs(followed.sum() - matching.sum()) < 4 * spread


def test_random_takes_every_legal_job_alike(short: Scenario) -> None:
    _, table, _, _ = recorded(short, recipe("random", 1))
    mask, window = matrix(table.column("action_mask")), short.decision.window
    jobs = mask[:, :window].sum(axis=1)
    actions = table.column("actions").to_numpy()
    some = jobs > 0
    assert (actions[some] < window).all()
    np.testing.assert_allclose(
        np.exp(table.column("action_logp").to_numpy())[some], 1 / jobs[some], rtol=1e-6
    )
    pairs = some & (jobs == 2)
    first = (actions == mask.argmax(axis=1))[pairs]
    assert abs(first.sum() - pairs.sum() / 2) < 4 * np.sqrt(pairs.sum() / 4)


@given(
    st.lists(st.integers(0, 1), min_size=2, max_size=6).filter(any),
    st.floats(0, 1, exclude_max=True),
    st.floats(0, 1),
)
def test_nothing_is_drawn_that_is_not_legal(mask: list[int], number: float, noise: float) -> None:
    legal = np.array([mask], np.int8)
    best = np.zeros((1, len(mask)))
    best[0, mask.index(1)] = 1.0
    chances = with_noise(best, legal, noise)
    assert chances.sum() == pytest.approx(1.0)
    action = sample_actions(chances, np.array([number]))
    assert mask[action[0]] == 1
    assert chances[0, action[0]] > 0


@given(st.lists(st.floats(0.01, 10), min_size=1, max_size=5), st.integers(1, 200))
def test_shares_hold_at_any_length(shares: list[float], episodes: int) -> None:
    behaviors = [Behavior(policy=f"p{k}", share=share) for k, share in enumerate(shares)]
    name = list(islice(turns(behaviors), episodes))
    total = sum(shares)
    for count in range(1, episodes + 1):
        for k, share in enumerate(shares):
            assert abs(name[:count].count(k) - count * share / total) < len(shares)
    if len(set(shares)) == 1:
        assert all(first != second for first, second in pairwise(name)) or len(shares) == 1


def test_episodes_are_those_of_training_and_none_comes_twice(short: Scenario) -> None:
    feed = EpisodeFeed(short)
    first, _ = drawn(feed, 0, 0, 6)
    second, _ = drawn(feed, 0, 3, 3)
    assert [len(e.jobs) for e in first[3:]] == [len(e.jobs) for e in second]
    submits = {tuple(episode.jobs.submit.tolist()) for episode in first}
    assert len(submits) == 6
    again, _ = drawn(feed, 1, 0, 6)
    assert submits.isdisjoint(tuple(episode.jobs.submit.tolist()) for episode in again)
