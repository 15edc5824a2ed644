"""Training on a cluster of several nodes, one of which goes and comes back."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
from ray._private.state import actors
from ray.cluster_utils import Cluster

from rlsched.envs.episodes import EpisodeFeed
from rlsched.learn.config.training import make_config
from rlsched.learn.folder import RunFolder
from rlsched.learn.rllib.engine import RllibEngine
from rlsched.scenario import Scenario

from .conftest import SMALL

pytestmark = [pytest.mark.slow, pytest.mark.long]

SETTINGS = (
    *("sampling.envs_per_runner=4", "sampling.fragment=32", "ppo.minibatch=64", "appo.fragment=16"),
    *("sampling.runners=2", "sampling.hung_seconds=20"),
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A head that only this process works on, and two nodes with room for a runner each."""
    ray.shutdown()
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(2):
        made.add_node(num_cpus=1)
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


def nodes(engine: RllibEngine) -> set[str]:
    """Where the runners are that answer."""
    group = engine.algorithm.env_runner_group
    actual = group.foreach_env_runner(
        lambda _: ray.get_runtime_context().get_node_id(), local_env_runner=False, timeout_seconds=30
    )
    return set(actual)


@pytest.mark.parametrize("algo", ["ppo", "appo"])
def test_training_goes_on_while_a_node_is_gone_and_takes_in_the_next(
    algo: str, small: Scenario, cluster: Cluster
) -> None:
    feed = EpisodeFeed(small)
    config = make_config({}, "test", [*SETTINGS, f"algo={algo}"]).resolve(feed.scenario)
    engine = RllibEngine(config, feed, 0)
    try:
        steps = [engine.iterate().steps for _ in range(2)]
        first = nodes(engine)
        assert len(first) == 2

        lost = cluster.worker_nodes.copy().pop()
        cluster.remove_node(lost, allow_graceful=False)
        began = time.monotonic()
        while nodes(engine) != first - {lost.node_id}:
            steps.append(engine.iterate().steps)
            assert time.monotonic() - began < 120, "the node is not missed"
        began = time.monotonic()
        steps += [engine.iterate().steps for _ in range(3)]
        assert time.monotonic() - began < 60, "training waits for the node that is gone"

        actual = cluster.add_node(num_cpus=1)
        began = time.monotonic()
        while nodes(engine) != (first - {lost.node_id}) | {actual.node_id}:
            steps.append(engine.iterate().steps)
            assert time.monotonic() - began < 120, "nobody plays on the node that came"
        steps.append(engine.iterate().steps)
        assert steps == sorted(set(steps))
        if algo == "appo":  # results of updates are taken, not left
            learner = engine.algorithm.learner_group._learner
            assert learner._submitted_updates > 10
            assert learner._learner_thread_out_queue.qsize() <= 2 * config.appo.epochs
    finally:
        engine.stop()


def test_the_command_line_trains_on_a_cluster(cluster: Cluster, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "rlsched", "train", "--scenario", "lublin-256"]
    words += ["--address", cluster.address, "--out", str(tmp_path / "run"), "--steps", "512"]
    for setting in (*SETTINGS, *SMALL, "validation.episodes=2"):
        words += ["--set", setting]
    before, nodes_before = started(), alive()
    done = subprocess.run(words, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    assert RunFolder(tmp_path / "run").latest() is not None
    assert started() > before  # on its nodes, and not on a Ray of the command's own
    assert alive() == nodes_before  # it leaves the cluster as it is


def started() -> int:
    """Runners that were ever started on the cluster."""
    return sum(item["ActorClassName"] == "BatchedEnvRunner" for item in actors().values())


def alive() -> set[str]:
    """Nodes of the cluster."""
    return {node["NodeID"] for node in ray.nodes() if node["Alive"]}
