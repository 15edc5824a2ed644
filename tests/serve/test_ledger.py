"""Batches of records: their limits, and what the ledger receives."""

from __future__ import annotations

import pytest
from msgspec import to_builtins
from msgspec.structs import asdict

from rlsched.serve.api.requests import to_columns
from rlsched.serve.api.schema import (
    Answer,
    BatchRequest,
    ClusterState,
    Decision,
    DecisionRequest,
    Fallback,
    PlannedJob,
    PolicyName,
    Reason,
    RunningJob,
    WaitingJob,
)
from rlsched.serve.ledger import records
from rlsched.serve.ledger.records import (
    MAX_CLUSTERS,
    MAX_RECORDS,
    RecordBatch,
    pack_records,
    unpack_records,
)


def state_and_answer(cluster: str, jobs: int = 1) -> tuple[ClusterState, Answer]:
    queue = [WaitingJob(id=k, demand=[1], submit=0, requested=60) for k in range(jobs)]
    return ClusterState(now=0, cluster=cluster, waiting=queue), Answer([], "policy")


def note(batch: RecordBatch, *content: tuple[ClusterState, Answer]) -> int:
    """Each asked by itself."""
    policy = PolicyName("hpc", "0af")
    return sum(batch.add(policy, BatchRequest(states=[state]), [answer]) for state, answer in content)


def test_unsent_records_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger may be late, or never come."""
    batch = RecordBatch(None)
    for k in range(10 * MAX_CLUSTERS):
        assert note(batch, *[state_and_answer(f"cluster {k}")] * (MAX_RECORDS // 2)) == 0
    assert list(batch.clusters) == [f"cluster {k}" for k in range(9 * MAX_CLUSTERS, 10 * MAX_CLUSTERS)]
    note(batch, *[state_and_answer(f"cluster {10 * MAX_CLUSTERS - 1}")] * MAX_RECORDS)
    newest = batch.clusters[f"cluster {10 * MAX_CLUSTERS - 1}"]
    assert (len(newest.records), newest.states) == (MAX_RECORDS, MAX_RECORDS // 2 + MAX_RECORDS)
    monkeypatch.setattr(records, "MAX_RECORDED_JOBS", 1000)
    note(batch, *[state_and_answer("large", 300)] * 7)
    assert (len(batch.clusters["large"].records), batch.clusters["large"].jobs) == (3, 900)


def test_what_a_log_cannot_take_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = RecordBatch(10)
    assert note(batch, *[state_and_answer("a")] * 8) == 0
    assert note(batch, *[state_and_answer("b")] * 5) == 3
    assert {name: (len(item.records), item.states) for name, item in batch.clusters.items()} == {
        "a": (8, 8),
        "b": (2, 5),
    }
    columns = BatchRequest(columns=to_columns([state_and_answer("c")[0]] * 12))
    batch = RecordBatch(10)
    assert batch.add(PolicyName("hpc", "0af"), columns, [state_and_answer("c")[1]] * 12) == 2
    assert [item.state for item in batch.clusters["c"].records] == [state_and_answer("c")[0]] * 10
    monkeypatch.setattr(records, "MAX_BATCH_JOBS", 1000)
    batch = RecordBatch(10)
    assert note(batch, *[state_and_answer("a", 400)] * 3) == 1
    assert batch.size == 2


def test_what_is_sent_to_the_ledger_arrives_as_it_was() -> None:
    """With all that a state and an answer may hold."""
    state = ClusterState(
        now=100,
        running=[RunningJob(id="r", demand=[2], start=50, expected_end=90, qos=0.5)],
        waiting=[WaitingJob(id=7, submit=60, requested=5, demand=[1], ran=3, ready=True)],
        planned=[PlannedJob(id="p", submit=1, requested=2, demand=[3], at=120)],
        units_on=[[4, 3]],
        supply_kw=[0.25],
        cluster="größer",
        memory="AAAA",
    )
    decided = [Decision(7, "start", 100, 0.75), Decision("p", "reserve", 140, None)]
    answer = Answer(
        decided, "policy", None, False, [Reason("r", "running", "")], Fallback("fcfs:easy", []), [], "BBBB"
    )
    batch = RecordBatch(None)
    note(batch, *[(state, answer), state_and_answer("another")] * 2)
    (content, _) = batch.clusters[state.cluster].records
    assert (content.policy, content.version, content.state, content.answer) == ("hpc", "0af", state, answer)
    result = unpack_records(pack_records(batch.clusters))
    assert result.keys() == batch.clusters.keys()
    for name, lately in batch.clusters.items():
        assert asdict(result[name]) | {"records": 2} == asdict(lately) | {"records": len(lately.records)}
    for item, content in zip(
        result[state.cluster].records, batch.clusters[state.cluster].records, strict=True
    ):
        assert "explain" not in to_builtins(item)["state"]
        for name in state.__struct_fields__:
            assert getattr(item.state, name) == getattr(state, name), name
        assert to_builtins(item) | {"state": None} == to_builtins(content) | {"state": None}
    batch = RecordBatch(None)
    note(batch, (DecisionRequest(now=1, policy="b", explain=False), answer))
    (item,) = unpack_records(pack_records(batch.clusters))["default"].records
    assert to_builtins(item)["state"] == {"now": 1, "policy": "b", "explain": False, "cluster": "default"}
