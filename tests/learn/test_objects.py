"""What Ray remembers of objects that are gone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import ray
from ray._private.internal_api import node_stats

from rlsched.envs.episodes import EpisodeFeed
from rlsched.learn.config.training import make_config
from rlsched.learn.rllib.engine import RllibEngine
from rlsched.learn.rllib.session import ray_session
from rlsched.scenario import Scenario

pytestmark = [pytest.mark.slow, pytest.mark.long]

UPDATES = 40
SETTINGS = [
    "sampling.runners=1",
    "sampling.envs_per_runner=2",
    "sampling.fragment=16",
    "ppo.minibatch=32",
    "appo.fragment=16",
    "dqn.learning_starts=0",
]


@pytest.fixture
def fresh_ray(fresh_ray: None) -> Iterator[None]:
    """What others have left behind, and is collected now, would hide what is not."""
    with ray_session(None):
        yield


def remembered() -> dict[int, int]:
    """Objects that each process knows to be in Ray's store, by its id."""
    node = ray._private.worker.global_worker.node
    actual = node_stats(node.node_ip_address, node.node_manager_port, include_memory_info=False)
    return {worker.pid: worker.num_in_plasma for worker in actual.core_workers_stats}


@pytest.mark.parametrize("settings", ["algo=ppo", "algo=appo", "algo=appo learners=1", "algo=dqn"])
def test_nothing_is_remembered_of_fragments_and_weights_that_are_gone(
    settings: str, small: Scenario, fresh_ray: None
) -> None:
    """Counted are the driver, its runner, and the learner where it has a process of its own."""
    before = remembered()
    feed = EpisodeFeed(small)
    config = make_config({}, "test", [*SETTINGS, *settings.split()])
    engine = RllibEngine(config.resolve(feed.scenario), feed, 0)
    try:
        for _ in range(UPDATES):
            engine.iterate()
        more = {pid: count - before.get(pid, 0) for pid, count in remembered().items()}
        assert max(more.values()) < UPDATES // 2, more
    finally:
        engine.stop()
