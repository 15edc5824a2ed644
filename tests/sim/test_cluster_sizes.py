"""Episodes on clusters of different sizes, side by side: each is as it would be by itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rlsched import scenario
from rlsched.envs.episodes import EpisodeFeed
from rlsched.envs.vector import SchedulingVectorEnv
from rlsched.errors import BadInputError
from rlsched.jobs import JobTable
from rlsched.scenario import Scenario
from rlsched.sim.heuristics import SimulatorHeuristic
from rlsched.sim.metrics import Played, job_metrics
from rlsched.sim.replay import Replayer, replay
from rlsched.sim.simulator import VectorSimulator

SIZES = (16, 64, 256)
BLOCKS = "observation.blocks=[jobs, event_horizon, queue, outlook]"


def mixed(*overrides: str, jobs: int = 120) -> Scenario:
    parts = ", ".join(
        f"{{share: 1, units: {units}, workload: {{kind: lublin, load: 0.9, max_runtime_s: 40000}}}}"
        for units in SIZES
    )
    return scenario.load(
        "lublin-256",
        [f"workload={{kind: mixture, parts: [{parts}]}}", f"episode.jobs={jobs}", BLOCKS, *overrides],
    )


def by_itself(mixture: Scenario, units: int) -> Scenario:
    (resource,) = mixture.cluster.resources
    cluster = mixture.cluster.model_copy(
        update={"resources": (resource.model_copy(update={"units": units}),)}
    )
    return mixture.model_copy(update={"cluster": cluster})


def test_episodes_come_on_clusters_of_all_sizes() -> None:
    feed = EpisodeFeed(mixed())
    rng = np.random.default_rng(0)
    largest_demand = {}
    for _ in range(60):
        jobs = feed.training(rng).jobs
        assert jobs.units is not None
        units = int(jobs.units[0])
        largest_demand[units] = max(largest_demand.get(units, 0), int(jobs.demand.max()))
    assert sorted(largest_demand) == list(SIZES)
    for units, largest in largest_demand.items():
        assert units / 4 < largest <= units
    assert feed.units == [256]


@pytest.mark.parametrize("rule", ["commit", "fit", "hold"])
def test_side_by_side_each_is_as_by_itself(rule: str) -> None:
    """Observations, masks and rewards to the last bit, start ticks and metrics."""
    mixture = mixed(f"decision.action_rule={rule}")
    feed = EpisodeFeed(mixture)
    rng = np.random.default_rng(1)
    episodes = [feed.training(rng) for _ in range(9)]
    together = VectorSimulator(feed.scenario, feed.units, 3, feed.max_jobs)
    for first in range(0, 9, 3):  # environments change their sizes
        some = episodes[first : first + 3]
        alone = []
        for env, episode in enumerate(some):
            assert episode.jobs.units is not None
            units = episode.jobs.units.tolist()
            alone.append(VectorSimulator(by_itself(feed.scenario, units[0]), units, 1, feed.max_jobs))
            alone[-1].load(0, replace(episode.jobs, units=None), episode.scale)
            together.load(env, episode.jobs, episode.scale)
        while not (together.terminated | together.truncated).all():
            actions = np.full(3, together.layout.num_actions - 1)
            for env, sim in enumerate(alone):
                assert (sim.obs[0] == together.obs[env]).all()
                assert (sim.mask[0] == together.mask[env]).all()
                assert sim.reward[0] == together.reward[env]
                legal = np.flatnonzero(together.mask[env])
                if len(legal):
                    actions[env] = rng.choice(legal)
            together.step(actions)
            for env, sim in enumerate(alone):
                sim.step(actions[env : env + 1])
        for env, (sim, episode) in enumerate(zip(alone, some, strict=True)):
            assert (sim.starts(0) == together.starts(env)).all()
            bare = replace(episode.jobs, units=None)
            assert sim.metrics(0, bare) == pytest.approx(together.metrics(env, episode.jobs), nan_ok=True)


@pytest.mark.parametrize("policy", ["sjf", "f1", "wfp3", "packing"])
@pytest.mark.parametrize("backfill", ["greedy", "easy"])
def test_replays_are_as_by_themselves(policy: str, backfill: str) -> None:
    feed = EpisodeFeed(mixed())
    tables = [feed.evaluation(k, 0).jobs for k in range(6)]
    results = Replayer(6, feed.max_jobs, feed.units).run(tables, policy, backfill)
    assert len({int(table.cluster(feed.units)[0]) for table in tables}) > 1
    for table, starts in zip(tables, results, strict=True):
        assert table.units is not None
        bare = replace(table, units=None)
        assert (replay(bare, table.units.tolist(), policy, backfill) == starts).all()


def test_utilization_is_that_of_their_cluster() -> None:
    """Two jobs on 4 of 8 units, one after the other."""
    jobs = JobTable.build(submit=[0, 0], runtime=[10, 10], demand=[4, 4])
    played = Played.of_starts(replace(jobs, units=np.array([4])), np.array([0, 10]))
    assert job_metrics(played, [8])["utilization"] == pytest.approx(1.0)
    assert job_metrics(Played.of_starts(jobs, np.array([0, 10])), [8])["utilization"] == pytest.approx(0.5)


def test_environments_play_them() -> None:
    envs = SchedulingVectorEnv(mixed(jobs=30), num_envs=6)
    obs, info = envs.reset(seed=0)
    ended = 0
    for _ in range(300):
        mask = info["action_mask"]
        obs, _, terminated, truncated, info = envs.step(mask.argmax(axis=1))
        ended += int((terminated | truncated).sum())
        assert max(block.max() for block in obs.values()) <= 1.0
    assert ended > 6


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (
            ["decision={action_rule: fit, horizon: 100000}", "observation.blocks=[jobs]"],
            "workload.parts.0.units: does not go with decision.horizon",
        ),
        (
            ["cluster.resources.0.units=200"],
            "cluster.resources.0.units: value 200, and the largest of workload.parts.N.units is 256; set it",
        ),
        (
            ["cluster.resources.0.units=4096"],
            "cluster.resources.0.units: value 4096, and the largest of workload.parts.N.units is 256; set it",
        ),
        (
            ["cluster.resources.0.units_per_node=32"],
            "workload.parts.0.units: value 16; use 32 to 256",
        ),
    ],
)
def test_what_does_not_go_together(overrides: list[str], line: str) -> None:
    with pytest.raises(BadInputError) as refused:
        EpisodeFeed(mixed(*overrides))
    assert line in str(refused.value)


def test_a_part_may_be_of_the_cluster_of_the_scenario() -> None:
    parts = "[{units: 16, workload: {kind: lublin}}, {workload: {kind: lublin}}]"
    mixture = scenario.load("lublin-256", [f"workload={{kind: mixture, parts: {parts}}}"])
    assert mixture.sizes == ((16, 256),)
    assert mixed().sizes == (SIZES,)
    assert scenario.load("green-10").sizes == ((10,), (10,))
    with pytest.raises(BadInputError, match=r"workload.parts.0.units: value 16; use 1 to 8"):
        EpisodeFeed(scenario.parse(mixture.model_dump(mode="json"), "it", ["cluster.resources.0.units=8"]))


@pytest.mark.parametrize("units", [[8, 8], [0], [257]])
def test_clusters_that_there_is_no_room_for(units: list[int]) -> None:
    feed = EpisodeFeed(scenario.load("lublin-256", ["episode.jobs=5"]))
    sim = VectorSimulator(feed.scenario, feed.units, 1, feed.max_jobs)
    jobs = JobTable.build(submit=[0], runtime=[1], demand=[1])
    with pytest.raises(BadInputError, match=r"with room for \[256\]"):
        sim.load(0, replace(jobs, units=np.array(units)))


def test_no_smaller_cluster_under_a_horizon() -> None:
    feed = EpisodeFeed(scenario.load("deeprm"))
    sim = VectorSimulator(feed.scenario, feed.units, 1, feed.max_jobs)
    jobs = JobTable.build(submit=[0], runtime=[1], demand=[[1, 1]])
    sim.load(0, replace(jobs, units=np.array([20, 20])))
    with pytest.raises(BadInputError, match=r"a cluster of \[20, 10\] units under a horizon"):
        sim.load(0, replace(jobs, units=np.array([20, 10])))


@pytest.mark.parametrize("order", ["sjf", "packing", "f1"])
def test_orders_decide_on_them_as_by_themselves(order: str) -> None:
    mixture = mixed("decision.action_rule=fit", jobs=60)
    feed = EpisodeFeed(mixture)
    rng = np.random.default_rng(2)
    episodes = [feed.training(rng) for _ in range(4)]
    together = VectorSimulator(feed.scenario, feed.units, 4, feed.max_jobs)
    policy = SimulatorHeuristic(together, order, "now")
    alone, orders = [], []
    for env, episode in enumerate(episodes):
        assert episode.jobs.units is not None
        units = episode.jobs.units.tolist()
        bare = replace(episode.jobs, units=None)
        sim = VectorSimulator(by_itself(feed.scenario, units[0]), units, 1, feed.max_jobs)
        sim.load(0, bare)
        orders.append(SimulatorHeuristic(sim, order, "now"))
        orders[-1].begin(0, bare, seed=0)
        together.load(env, episode.jobs)
        policy.begin(env, episode.jobs, seed=0)
        alone.append(sim)
    assert len({int(sim.units[0, 0]) for sim in alone}) > 1
    while not (together.terminated | together.truncated).all():
        actions = policy.act().copy()
        for env, (sim, policy_alone) in enumerate(zip(alone, orders, strict=True)):
            if not (sim.terminated | sim.truncated)[0]:
                assert policy_alone.act()[0] == actions[env]
                sim.step(actions[env : env + 1])
        together.step(actions)
