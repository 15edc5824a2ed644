"""Throughput against runners and nodes, and what more of them would be limited by.

On a `ray.cluster_utils.Cluster`: nodes are processes of this machine, which shows that work is spread and
what that costs, not what more processors bring. So the parts are measured one by one, too: what a runner
samples, what the driver does per fragment, what a fragment and the weights weigh, what learning takes per
decision. From these follows what 10, 100 and 1,000 runners with a core each would do.
Run: `python -m benchmarks.scaling --scenario green-10`.
"""

from __future__ import annotations

import argparse
import json
import pickle
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import ray
from ray.cluster_utils import Cluster

from rlsched.envs.episodes import EpisodeFeed
from rlsched.learn.config.training import ResolvedConfig, TrainConfig, make_config
from rlsched.learn.rllib.engine import RllibEngine
from rlsched.scenario import load
from rlsched.scenario.combined_file import split_overrides

PROJECTED = (10, 100, 1000)
NETWORK_BYTES_PER_S = 10e9 / 8
"""Of the driver's node: 10 Gbit/s."""


@dataclass(frozen=True)
class Parts:
    """What the parts of an iteration take.

    Attributes:
        sampled_per_s: decisions of one runner.
        decisions: of a fragment, in all environments of a runner.
        fragment_bytes: that a runner sends.
        weights_bytes: that it is sent.
        receive_s: the driver's time to get a fragment out of the object store and its bytes into arrays.
        learned_per_s: decisions that one learner takes in, all epochs of them.
    """

    sampled_per_s: float
    decisions: int
    fragment_bytes: int
    weights_bytes: int
    receive_s: float
    learned_per_s: float


def seconds(does: Any, turns: int = 5) -> float:
    """The median time of a call, after one that does not count."""
    does()
    elapsed = []
    for _ in range(turns):
        began = time.perf_counter()
        does()
        elapsed.append(time.perf_counter() - began)
    return median(elapsed)


def parts(config: ResolvedConfig, feed: EpisodeFeed) -> Parts:
    """Measure them with one remote runner and a learner in this process."""
    engine = RllibEngine(config, feed, 0)
    try:
        group, learners = engine.algorithm.env_runner_group, engine.algorithm.learner_group
        spent: list[tuple[float, int]] = []
        update = learners.update

        def timed(**kwargs: Any) -> Any:
            began = time.perf_counter()
            result = update(**kwargs)
            spent.append((time.perf_counter() - began, sum(map(len, kwargs["episodes"]))))
            return result

        learners.update = timed
        for _ in range(4):
            engine.iterate()
        learned = median(decisions / elapsed for elapsed, decisions in spent[1:])

        sampling = median(
            group.foreach_env_runner(lambda runner: seconds(runner.sample, 1), local_env_runner=False)[0]
            for _ in range(3)
        )
        actor = group._worker_manager.actors()[1]
        fragment = actor.apply.remote(lambda runner: ray.put(runner.sample()))
        held = ray.get(fragment)
        elapsed = seconds(lambda: ray.get(held))
        episodes = ray.get(held)
        weights = learners.get_state(components="learner/rl_module", inference_only=True)
        return Parts(
            sampled_per_s=sum(map(len, episodes)) / sampling,
            decisions=sum(map(len, episodes)),
            fragment_bytes=sent_bytes(episodes),
            weights_bytes=sent_bytes(weights),
            receive_s=elapsed,
            learned_per_s=learned,
        )
    finally:
        engine.stop()


def sent_bytes(spec: Any) -> int:
    """Of a pickle, arrays included, as Ray sends it."""
    arrays: list[pickle.PickleBuffer] = []
    head = ray.cloudpickle.dumps(spec, protocol=5, buffer_callback=arrays.append)
    return len(head) + sum(item.raw().nbytes for item in arrays)


def throughput(config: ResolvedConfig, feed: EpisodeFeed, runners: int, turns: int) -> float:
    """Decisions per second, sampled and learned from, in the median iteration."""
    sampling = config.sampling.model_copy(update={"runners": runners})
    engine = RllibEngine(config.model_copy(update={"sampling": sampling}), feed, 0)
    try:
        speeds, steps = [], 0
        for turn in range(turns + 2):
            began = time.perf_counter()
            before, steps = steps, engine.iterate().steps
            if turn >= 2:
                speeds.append((steps - before) / (time.perf_counter() - began))
        return median(speeds)
    finally:
        engine.stop()


def projected(result: Parts, runners: int) -> dict[str, float]:
    """Decisions per second that this many runners, a core each, and one learner like ours could do.

    PPO samples, then learns, then sends weights to everybody; APPO does all at once, as fast as the slowest.
    """
    sampled = runners * result.sampled_per_s
    received = result.decisions / result.receive_s
    carried = NETWORK_BYTES_PER_S / (result.fragment_bytes / result.decisions)
    arriving = min(sampled, received, carried)
    reported = runners * result.weights_bytes / NETWORK_BYTES_PER_S
    batch = runners * result.decisions
    ppo = batch / (batch / arriving + batch / result.learned_per_s + reported)
    return {
        "runners": runners,
        "sampled": sampled,
        "received": received,
        "carried": carried,
        "learned": result.learned_per_s,
        "ppo": ppo,
        "appo": min(arriving, result.learned_per_s),
        "broadcast_s": reported,
        "learners_to_keep_up": arriving / result.learned_per_s,
    }


def main() -> None:
    """Measure, and project."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", default="green-10")
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--runners", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--out", type=Path, default=Path("scaling.json"))
    requested = parser.parse_args()
    for_training, for_scenario = split_overrides(TrainConfig, requested.set)
    feed = EpisodeFeed(load(requested.scenario, for_scenario))
    base = make_config({"steps": 10**9}, "scaling", for_training)
    results: dict[str, Any] = {"scenario": requested.scenario, "throughput": []}
    for nodes in requested.nodes:
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        for _ in range(nodes):
            cluster.add_node(num_cpus=-(-max(requested.runners) // nodes))
        ray.init(address=cluster.address, log_to_driver=False)
        try:
            for algo in ("ppo", "appo"):
                config = base.model_copy(update={"algo": algo}).resolve(feed.scenario)
                for runners in requested.runners:
                    speed = throughput(config, feed, runners, requested.turns)
                    results["throughput"].append([algo, nodes, runners, speed])
                    print(f"{algo:5} {nodes} nodes {runners} runners: {speed:,.0f} decisions/s", flush=True)
            if nodes == requested.nodes[0]:
                sampling = base.sampling.model_copy(update={"runners": 1})
                result = parts(base.model_copy(update={"sampling": sampling}).resolve(feed.scenario), feed)
                results["parts"] = asdict(result)
                results["projected"] = [projected(result, runners) for runners in PROJECTED]
                print(
                    json.dumps({name: results[name] for name in ("parts", "projected")}, indent=1), flush=True
                )
        finally:
            ray.shutdown()
            cluster.shutdown()
        requested.out.write_text(json.dumps(results, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
