"""What a service decided as a dataset: what a simulation would have recorded, and whole whatever happens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest

from rlsched.errors import BadInputError
from rlsched.learn.policy import NetworkPolicy
from rlsched.offline.check import check
from rlsched.offline.columns import matrix
from rlsched.offline.manifest import read_manifest
from rlsched.scenario.terms import TERMS
from rlsched.serve.api.schema import BatchRequest
from rlsched.serve.decide.fallback import FallbackHeuristic
from rlsched.serve.decide.inference import BatchInference
from rlsched.serve.decide.policy_store import PolicyStore
from rlsched.serve.ledger.records import Record
from rlsched.serve.log import dataset, episodes
from rlsched.serve.log.dataset import LogDataset
from rlsched.serve.settings import ServeConfig
from rlsched.serve.simulated_state import simulated_state
from rlsched.sim.simulator import VectorSimulator

from .conftest import Export, feed_of

GREEN = ("green-10", "episode.max_ticks=500")  # of 2,000
CASES = {
    # Jobs ask for what they take: then what is booked is what is earned.
    "green": GREEN,
    "started": (*GREEN, "objective.reward={started_value: 1, delayed_jobs: 0.1}", "objective.gamma=0.99"),
    "plans": (*GREEN, "decision.placement=horizon", "decision.suspend=true", "decision.window=8"),
    "hpc": (
        "lublin-256",
        "episode.jobs=96",
        "decision.window=32",
        "objective={reward: {wait_time: 1, utilization: 0.5}, gamma: 0.999}",
    ),
}


def dataset_of(folder: Path, policy: NetworkPolicy, units: list[int]) -> LogDataset:
    heuristic = FallbackHeuristic.named(None, policy.scenario)
    return LogDataset(folder, BatchInference(policy, units, heuristic, 20_000))


def played(
    case: str, folder: Path, exported: Export, fallback: Callable[[int], bool] = lambda number: False
) -> tuple[NetworkPolicy, list[dict[str, Any]], LogDataset]:
    """Play an episode tick by tick, tell the service of every change and let what it says be logged.

    Args:
        case: of `CASES`.
        folder: of the log.
        exported: makes the policy.
        fallback: which answers are said to be the fallback's.

    Returns:
        The policy, what it was asked, did and earned in the simulation, and the log.
    """
    feed = feed_of(*CASES[case])
    store = PolicyStore(ServeConfig(policies={"p": exported(*CASES[case])}))
    served, scenario = store.find(None), feed.scenario
    log = dataset_of(folder, served.policy, feed.units)
    every_tick = scenario.decision.model_copy(update={"time_rule": "tick", "skip_forced": False})
    stepped = scenario.public.model_copy(update={"decision": every_tick})
    sim = VectorSimulator(stepped, feed.units, 1, feed.max_jobs)
    episode = feed.training(np.random.default_rng(0))
    sim.load(0, episode.jobs, 1.0, episode.power)
    costs = [TERMS.index(name) for name in scenario.objective.costs]
    idle = sim.layout.num_actions - 1
    rows: list[dict[str, Any]] = []
    stood: tuple[int, ...] = ()
    changed_at, answers = -1, 0
    while not (sim.terminated | sim.truncated)[0]:
        e, now = sim.state.episodes[0], int(sim.now[0])
        stands = (int(e["next_arrival"]), int(e["num_finished"]))
        if now != changed_at and (scenario.decision.horizon or stands != stood):
            stood, changed_at = stands, now
            state = simulated_state(sim, 0, episode.jobs)
            (answer,) = served.decide([BatchRequest(states=[state])], explain=False)
            if fallback(answers):
                answer = msgspec.structs.replace(answer, decided_by="fallback")
            answers += 1
            log.add(Record(0.0, "p", served.version, state, answer))
        mask = sim.mask[0].copy()
        action = int(mask.argmax()) if mask.sum() == 1 else idle
        if mask.sum() > 1 and now == changed_at:
            action = int(served.policy.act(sim.obs, sim.mask)[0])
            question = {"obs": sim.obs[0].copy(), "action_mask": mask, "actions": action}
            rows.append(question | {"rewards": 0.0, "costs": np.zeros(len(costs)), "elapsed": 0})
        sim.step(np.array([action]))
        if rows:
            discount = scenario.objective.gamma ** rows[-1]["elapsed"]
            rows[-1]["rewards"] += discount * float(sim.reward[0])
            rows[-1]["costs"] = rows[-1]["costs"] - discount * sim.terms[0, costs]
            rows[-1]["elapsed"] += int(sim.elapsed[0])
    log.close()
    return served.policy, rows, log


def read_shards(folder: Path) -> dict[str, Any]:
    result = [pq.read_table(path) for path in sorted(folder.glob("part-*.parquet"))]
    columns: dict[str, Any] = {}
    for name in ("obs", "new_obs", "action_mask", "new_action_mask"):
        columns[name] = np.concatenate([matrix(table[name]) for table in result])
    for name in ("actions", "rewards", "elapsed", "t", "truncateds", "behavior", "eps_id", "costs"):
        columns[name] = [value for table in result for value in table[name].to_pylist()]
    return columns


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_rows_are_what_a_simulation_records(case: str, tmp_path: Path, exported: Export) -> None:
    _, rows, log = played(case, tmp_path / "log", exported)
    result = read_shards(tmp_path / "log")
    count = len(result["actions"])
    assert log.builder.unfollowed == 0
    assert count == len(rows) - 1  # the last decision led nowhere that was told of
    for name, first in (("obs", 0), ("new_obs", 1)):
        expected = np.array([row["obs"] for row in rows[first : first + count]])
        assert (result[name] == expected).all()
    for name, first in (("action_mask", 0), ("new_action_mask", 1)):
        assert (result[name] == np.array([row["action_mask"] for row in rows[first : first + count]])).all()
    for name in ("actions", "elapsed"):
        assert result[name] == [row[name] for row in rows[:count]]
    assert result["rewards"] == pytest.approx([row["rewards"] for row in rows[:count]], rel=1e-6, abs=1e-6)
    costs = np.array([row["costs"] for row in rows[:count]])
    assert np.array(result["costs"]).reshape(costs.shape) == pytest.approx(costs, rel=1e-5, abs=1e-5)
    assert {*result["behavior"]} == {"p"}


def test_it_is_a_dataset_like_any(tmp_path: Path, exported: Export, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episodes, "EPISODE_ROWS", 20)
    monkeypatch.setattr(dataset, "SHARD_ROWS", 50)
    _, rows, _ = played("green", tmp_path / "log", exported)
    manifest = read_manifest(tmp_path / "log")
    assert len(manifest.shards) > 1
    assert manifest.rows == len(read_shards(tmp_path / "log")["actions"]) == len(rows) - 1
    assert manifest.behaviors[0].behavior == "p"
    assert check(tmp_path / "log", manifest) == []
    result = read_shards(tmp_path / "log")
    ends = np.flatnonzero(result["truncateds"])
    assert len(ends) == manifest.episodes
    assert all(19 <= result["t"][end] < 30 for end in ends[:-1])  # whole answers go into one


def test_an_episode_has_one_behavior(tmp_path: Path, exported: Export) -> None:
    """Where the fallback answers now and then, another episode begins, so that the dataset is whole."""
    _, rows, log = played("green", tmp_path / "log", exported, lambda number: number % 10 < 3)
    manifest, result = read_manifest(tmp_path / "log"), read_shards(tmp_path / "log")
    assert check(tmp_path / "log", manifest) == []
    assert log.builder.unfollowed == 0
    assert len(result["actions"]) == len(rows) - 1  # nothing is lost between them
    names = {"p", str(FallbackHeuristic.named(None, feed_of(*CASES["green"]).scenario))}
    assert {*result["behavior"]} == {item.behavior for item in manifest.behaviors} == names
    behavior_of = dict(zip(result["eps_id"], result["behavior"], strict=True))
    assert [behavior_of[name] for name in result["eps_id"]] == result["behavior"]
    assert manifest.episodes == len(behavior_of) > 4


def test_it_goes_on_and_refuses_another_kind(tmp_path: Path, exported: Export) -> None:
    played("green", tmp_path / "log", exported)
    before = read_manifest(tmp_path / "log")
    played("green", tmp_path / "log", exported)
    after = read_manifest(tmp_path / "log")
    assert (after.rows, after.episodes) == (2 * before.rows, 2 * before.episodes)
    assert after.shards[0] == before.shards[0]
    with pytest.raises(BadInputError, match="holds decisions of a policy that sees or does something else"):
        played("plans", tmp_path / "log", exported)


def test_what_waits_to_be_written_has_a_size(
    tmp_path: Path, exported: Export, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However large the states are: rows in shards, and in episodes that go on."""
    monkeypatch.setattr(dataset, "SHARD_BYTES", 200_000)
    monkeypatch.setattr(dataset, "OPEN_BYTES", 100_000)
    waiting: list[int] = []
    write = LogDataset._write_if_due

    def measured(log: LogDataset) -> None:
        write(log)
        builder = log.builder
        waiting.append((builder.open_rows + sum(map(len, builder.episodes))) * builder.row_bytes)

    monkeypatch.setattr(LogDataset, "_write_if_due", measured)
    _, rows, log = played("hpc", tmp_path / "log", exported)
    log.close()
    assert sum(waiting) > 0
    assert max(waiting) <= 300_000 + log.builder.row_bytes
    assert len(read_manifest(tmp_path / "log").shards) > 1
    assert check(tmp_path / "log", read_manifest(tmp_path / "log")) == []
    assert log.rows >= len(rows) - 2
