"""What goes wrong while deciding: policies that raise, hang or give no numbers; versions that come and go."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from msgspec import to_builtins
from torch import Tensor, nn

from rlsched.errors import BadInputError
from rlsched.learn.config.sections import Network
from rlsched.learn.policy import load_policy
from rlsched.offline.check import check
from rlsched.offline.manifest import read_manifest
from rlsched.serve.api.batch_schema import BatchRequest
from rlsched.serve.api.requests import Request, num_clusters, to_columns
from rlsched.serve.api.schema import (
    Answer,
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
from rlsched.serve.api.tokens import read_tokens
from rlsched.serve.artefact import export_policy
from rlsched.serve.decide.batching_queue import MAX_HUNG_THREADS
from rlsched.serve.decide.engine import LoadedPolicy
from rlsched.serve.ledger import records
from rlsched.serve.ledger.records import (
    MAX_CLUSTERS,
    MAX_RECORDS,
    Record,
    RecordBatch,
    pack_records,
    unpack_records,
)
from rlsched.serve.log.dataset import LogDataset
from rlsched.serve.log.journal import Journal, read_journal
from rlsched.serve.log.service_log import ServiceLog
from rlsched.serve.settings import ServeConfig

from .asking import Service, example, moved
from .conftest import HPC, Export, feed_of, untrained


class Spoilt(nn.Module):
    """A network around another that does what it should not, once it is told to."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net, self.how = net, ""
        self.free = threading.Event()

    def forward(self, vector: Tensor, mask: Tensor) -> Tensor:
        if self.how == "raise":
            raise RuntimeError("no such luck")
        if self.how == "hang":
            self.free.wait(60)
        found: Tensor = self.net(vector, mask)
        return found * torch.nan if self.how == "nan" else found


@pytest.fixture
def service(hpc: Path) -> Iterator[Service]:
    found = Service(hpc, limits={"timeout_s": 0.4})
    yield found
    found.close()


def spoil(service: Service, how: str) -> Spoilt:
    served = service.engine.find(None)
    net = Spoilt(served.policy.net)
    net.how = how
    object.__setattr__(served.policy, "net", net)
    return net


@pytest.mark.parametrize(
    ("how", "because"),
    [("raise", "RuntimeError: no such luck"), ("nan", "NotFiniteError: "), ("hang", "timeout")],
)
def test_where_the_policy_fails_the_heuristic_answers_and_says_so(
    service: Service, hpc: Path, how: str, because: str
) -> None:
    good = service.ask("/v1/decisions", example(hpc)).json
    net = spoil(service, how)
    reply = service.ask("/v1/decisions", example(hpc))
    assert reply.status == 200
    told = reply.json
    assert (told["decided_by"], told["because"][: len(because)]) == ("fallback", because)
    assert told["decisions"] == told["fallback"]["decisions"] == good["fallback"]["decisions"]
    assert "agrees" not in told
    batch = {"states": [{k: v for k, v in example(hpc).items() if k not in {"policy", "explain"}}] * 3}
    many = service.ask("/v1/decisions:batch", batch).json
    assert {answer["decided_by"] for answer in many["answers"]} == {"fallback"}
    text = service.ask("/metrics").body.decode()
    assert f'rlsched_fallbacks_total{{because="{because.partition(":")[0]}",policy="default"}} 4.0' in text
    net.how = ""
    net.free.set()
    assert service.ask("/v1/decisions", example(hpc)).json == good


def test_who_hangs_does_not_hold_up_others_and_is_told_of(service: Service, hpc: Path) -> None:
    net = spoil(service, "hang")
    for number in range(MAX_HUNG_THREADS):
        assert service.ask("/healthz").status == 200
        began = time.monotonic()
        replies = service.ask_together([("/v1/decisions", example(hpc))] * 5)
        assert {reply.json["because"] for reply in replies} == {"timeout"}
        assert time.monotonic() - began < 5.0, number
    assert service.ask("/healthz").status == 503
    net.free.set()
    net.how = ""
    until = time.monotonic() + 60
    while service.ask("/healthz").status != 200:
        assert time.monotonic() < until
        time.sleep(0.05)  # the threads that hung want the interpreter, too
    assert service.ask("/v1/decisions", example(hpc)).json["decided_by"] == "policy"


def test_a_shadow_is_told_of_and_does_not_decide(hpc: Path) -> None:
    service, other = Service(hpc, mode="shadow", fallback="sjf:greedy"), Service(hpc)
    told = service.ask("/v1/decisions", example(hpc)).json
    assert (told["decided_by"], told["because"], told["fallback"]["name"]) == (
        "fallback",
        "shadow",
        "sjf:greedy",
    )
    assert told["decisions"] == told["fallback"]["decisions"]
    assert told["agrees"] == (moved(told["shadow"]) == moved(told["decisions"]))
    alone = other.ask("/v1/decisions", example(hpc)).json
    assert alone["decided_by"] == "policy"
    assert told["shadow"] == alone["decisions"]
    assert "shadow" not in alone
    service.close()
    other.close()


def test_versions_come_and_damage_does_not(tmp_path: Path) -> None:
    settled = feed_of(*HPC).scenario
    for seed in (1, 2):
        untrained(settled, seed=seed).save(tmp_path / f"run-{seed}")
    folder = tmp_path / "policy"
    first = export_policy(tmp_path / "run-1", folder).fingerprint[:16]
    service = Service(folder)

    def version() -> str:
        return service.ask("/v1/decisions", example(folder)).json["policy"]["version"]

    assert version() == first
    assert service.engine.reload() == []
    second = export_policy(tmp_path / "run-2", folder).fingerprint[:16]
    assert second != first
    assert service.engine.reload() == [f"default is {second} now, was {first}"]
    assert version() == second
    weights = (folder / "weights.safetensors").read_bytes()
    (folder / "weights.safetensors").write_bytes(weights[:-1])
    os.utime(folder / "policy.json", ns=(1, 1))
    (line,) = service.engine.reload()
    assert line.startswith(f"default stays {second}: ")
    assert service.engine.reload() == []
    assert version() == second
    shutil.rmtree(folder)
    assert service.engine.reload() == []
    export_policy(tmp_path / "run-1", folder)
    assert len(service.engine.reload()) == 1
    assert version() == first
    service.close()


def test_weights_that_are_no_numbers_are_not_served(tmp_path: Path) -> None:
    policy = untrained(feed_of(*HPC).scenario)
    with torch.no_grad():
        for weights in policy.net.parameters():
            weights *= torch.nan
    policy.save(tmp_path / "policy")
    with pytest.raises(BadInputError, match="gave scores that are no numbers"):
        Service(tmp_path / "policy")


def test_an_artefact_is_small_and_whole(hpc: Path, tmp_path: Path) -> None:
    assert {path.name for path in hpc.iterdir()} == {
        "README.md",
        "example.json",
        "policy.json",
        "scenario.json",
        "weights.safetensors",
    }
    assert sum(path.stat().st_size for path in hpc.iterdir()) < 1_000_000
    told = json.loads((hpc / "policy.json").read_text())
    assert told["spaces"]["actions"] == {"count": 33, "slots": 32, "wait": 32}
    assert set(told["about"]["versions"]) >= {"rlsched", "torch", "python"}
    again = export_policy(hpc, tmp_path / "again")
    assert again.fingerprint == load_policy(hpc).fingerprint
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    with pytest.raises(BadInputError, match="holds other files"):
        export_policy(hpc, tmp_path / "mine")


@pytest.mark.parametrize("part", ["settings", "beside"])
def test_nothing_is_lost_where_an_export_fails(
    hpc: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    export_policy(hpc, tmp_path / "policy")
    before = (tmp_path / "policy" / "policy.json").read_bytes()

    def full(self: Path, *arguments: Any, **options: Any) -> int:
        raise OSError("disk full")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text" if part == "settings" else "write_bytes", full)
        with pytest.raises(OSError, match="disk full"):
            export_policy(hpc, tmp_path / "policy")
    assert (tmp_path / "policy" / "policy.json").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["policy"]


def noted_of(service: Service, folder: Path, count: int) -> list[Record]:
    served = service.engine.find(None)
    states = [
        DecisionRequest(**{**as_request(folder), "now": as_request(folder)["now"] + k}) for k in range(count)
    ]
    answers = service.engine.answer(served, states, explain=True)
    pairs = zip(states, answers, strict=True)
    return [Record(time.time(), served.name, served.version, state, answer) for state, answer in pairs]


def as_request(folder: Path) -> dict[str, Any]:
    told = msgspec.json.decode((folder / "example.json").read_bytes(), type=DecisionRequest)
    return {name: getattr(told, name) for name in told.__struct_fields__}


def test_a_log_is_a_journal_and_a_dataset(service: Service, hpc: Path, tmp_path: Path) -> None:
    config = ServeConfig.model_validate({"policies": hpc, "log": tmp_path / "log"})
    log = ServiceLog(config, tmp_path / "log")
    log.add(noted_of(service, hpc, 20))
    log.close()
    shown = read_journal(tmp_path / "log")
    assert (shown.cluster, shown.recent.states, len(shown.recent.records)) == ("default", 20, 20)
    (dataset,) = [path for path in (tmp_path / "log").iterdir() if path.is_dir()]
    assert dataset.name == f"default-{service.engine.find(None).version[:8]}"
    assert (dataset / "dataset.json").exists()
    assert json.loads((tmp_path / "log" / "policies.json").read_text())["policies"][0]["name"] == "default"


def test_a_journal_that_was_cut_short_is_read_to_its_last_line(
    service: Service, hpc: Path, tmp_path: Path
) -> None:
    journal = Journal(tmp_path)
    journal.add(noted_of(service, hpc, 5))
    journal.close()
    file = tmp_path / "journal-00000.jsonl"
    file.write_bytes(file.read_bytes()[:-10])
    assert read_journal(tmp_path).recent.states == 4
    second = Journal(tmp_path)
    second.add(noted_of(service, hpc, 2))
    second.close()
    assert read_journal(tmp_path).recent.states == 6
    file.write_bytes(b"{}\n" + file.read_bytes())
    with pytest.raises(BadInputError, match=r"journal-00000\.jsonl: line 1 is damaged"):
        read_journal(tmp_path)
    with pytest.raises(BadInputError, match="holds no journal"):
        read_journal(hpc)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "holds no token"),
        ("# mine\n\n", "holds no token"),
        ("short\n", "token 1 is too short"),
        ("ä" * 20, "token 1"),
    ],
)
def test_tokens_that_are_none(tmp_path: Path, text: str, line: str) -> None:
    (tmp_path / "tokens").write_text(text, "utf-8")
    with pytest.raises(BadInputError, match=line):
        read_tokens(tmp_path / "tokens")


def test_a_policy_that_remembers(exported: Export) -> None:
    folder = exported(*HPC, network=Network(hidden=(16,), lstm=8))
    service = Service(folder)
    first = service.ask("/v1/decisions", example(folder)).json
    again = service.ask("/v1/decisions", example(folder) | {"memory": first["memory"]}).json
    assert again["memory"] != first["memory"]
    assert again["decisions"][0]["score"] != first["decisions"][0]["score"]
    for memory, line in (
        ("AAAAAA==", "memory: is of another policy"),
        ("?", "memory: is no text of this service"),
    ):
        reply = service.ask("/v1/decisions", example(folder) | {"memory": memory})
        assert (reply.status, reply.json["error"][: len(line)]) == (422, line)
    service.close()


def test_what_nobody_waits_for_is_not_decided_about(
    service: Service, hpc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each gets the heuristic's answer in time, and the next one the policy's at once."""
    net = spoil(service, "hang")
    replies = service.ask_together([("/v1/decisions:batch", batch_of(hpc, 65))] * 8)
    assert all(reply.json["answers"][0]["because"] == "timeout" for reply in replies)
    net.how = ""
    net.free.set()
    seen = []
    answer = service.engine.answer

    def counted(loaded: LoadedPolicy, requests: list[Request], *, explain: bool) -> list[Answer]:
        seen.append(sum(map(num_clusters, requests)))
        return answer(loaded, requests, explain=explain)

    monkeypatch.setattr(service.engine, "answer", counted)
    assert service.ask("/v1/decisions", example(hpc)).json["decided_by"] == "policy"
    assert seen == [1]


def batch_of(folder: Path, count: int) -> dict[str, Any]:
    state = {name: part for name, part in example(folder).items() if name not in {"policy", "explain"}}
    return {"states": [state] * count}


def test_who_hangs_keeps_the_decider_to_itself(service: Service, hpc: Path) -> None:
    served = service.engine.find(None)
    before = served.inference
    net = spoil(service, "hang")
    service.ask("/v1/decisions", example(hpc))
    assert service.engine.find(None) is served
    assert served.inference is not before
    net.free.set()


def test_a_full_disk_leaves_a_journal_that_can_be_read(
    service: Service, hpc: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = noted_of(service, hpc, 3)
    journal = Journal(tmp_path)
    journal.add(some)
    file = journal._file

    class Full:
        """Writes half of it, and then there is no room."""

        def write(self, content: bytes) -> int:
            file.write(content[: len(content) // 2])
            file.flush()
            raise OSError("disk full")

        def __getattr__(self, name: str) -> Any:
            return getattr(file, name)

    monkeypatch.setattr(journal, "_file", Full())
    with pytest.raises(OSError, match="disk full"):
        journal.add(some)
    journal.add(some)
    journal.close()
    assert read_journal(tmp_path).recent.states == 6


def test_one_state_that_cannot_be_written_is_counted_and_the_others_are(
    service: Service, hpc: Path, tmp_path: Path
) -> None:
    log = ServiceLog(ServeConfig.model_validate({"policies": hpc, "log": tmp_path}), tmp_path)
    some = noted_of(service, hpc, 6)
    odd = msgspec.structs.replace(some[2], state=msgspec.structs.replace(some[2].state, units=[1, 1]))
    log.add([*some[:3], odd, *some[3:]])
    log.close()
    assert log.lost == 1
    assert read_journal(tmp_path).recent.states == 7


def test_clocks_that_jump_end_an_episode(service: Service, hpc: Path, tmp_path: Path) -> None:
    served = service.engine.find(None)
    book = LogDataset(tmp_path / "b", served.policy, [256], served.inference.heuristic)
    some = noted_of(service, hpc, 4)
    later = [
        msgspec.structs.replace(one, state=msgspec.structs.replace(one.state, now=one.state.now + 2**34))
        for one in some
    ]
    for one in (*some, *later, *some):
        book.add(one)
    for k in range(100):
        named = msgspec.structs.replace(some[0].state, cluster=f"c{k}")
        book.add(msgspec.structs.replace(some[0], state=named))
    assert len(book.builder._streams) == 64
    book.close()
    manifest = read_manifest(tmp_path / "b")
    assert check(tmp_path / "b", manifest) == []
    assert manifest.episodes >= 3


def told_of(cluster: str, jobs: int = 1) -> tuple[ClusterState, Answer]:
    queue = [WaitingJob(id=k, demand=[1], submit=0, requested=60) for k in range(jobs)]
    return ClusterState(now=0, cluster=cluster, waiting=queue), Answer([], "policy")


def note(batch: RecordBatch, *told: tuple[ClusterState, Answer]) -> int:
    """Each asked by itself."""
    policy = PolicyName("hpc", "0af")
    return sum(batch.add(policy, state, [answer]) for state, answer in told)


def test_what_nobody_is_told_of_does_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger may be late, or never come."""
    batch = RecordBatch(None)
    for k in range(10 * MAX_CLUSTERS):
        assert note(batch, *[told_of(f"cluster {k}")] * (MAX_RECORDS // 2)) == 0
    assert list(batch.clusters) == [f"cluster {k}" for k in range(9 * MAX_CLUSTERS, 10 * MAX_CLUSTERS)]
    note(batch, *[told_of(f"cluster {10 * MAX_CLUSTERS - 1}")] * MAX_RECORDS)
    newest = batch.clusters[f"cluster {10 * MAX_CLUSTERS - 1}"]
    assert (len(newest.records), newest.states) == (MAX_RECORDS, MAX_RECORDS // 2 + MAX_RECORDS)
    monkeypatch.setattr(records, "MAX_RECORDED_JOBS", 1000)
    note(batch, *[told_of("large", 300)] * 7)
    assert (len(batch.clusters["large"].records), batch.clusters["large"].jobs) == (3, 900)


def test_what_a_log_cannot_take_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = RecordBatch(10)
    assert note(batch, *[told_of("a")] * 8) == 0
    assert note(batch, *[told_of("b")] * 5) == 3
    assert {name: (len(one.records), one.states) for name, one in batch.clusters.items()} == {
        "a": (8, 8),
        "b": (2, 5),
    }
    columns = BatchRequest(columns=to_columns([told_of("c")[0]] * 12))
    batch = RecordBatch(10)
    assert batch.add(PolicyName("hpc", "0af"), columns, [told_of("c")[1]] * 12) == 2
    assert [one.state for one in batch.clusters["c"].records] == [told_of("c")[0]] * 10
    monkeypatch.setattr(records, "MAX_BATCH_JOBS", 1000)
    batch = RecordBatch(10)
    assert note(batch, *[told_of("a", 400)] * 3) == 1
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
    note(batch, *[(state, answer), told_of("another")] * 2)
    (told, _) = batch.clusters[state.cluster].records
    assert (told.policy, told.version, told.state, told.answer) == ("hpc", "0af", state, answer)
    found = unpack_records(pack_records(batch.clusters))
    assert found.keys() == batch.clusters.keys()
    for name, lately in batch.clusters.items():
        assert vars(found[name]) | {"records": 2} == vars(lately) | {"records": len(lately.records)}
    for one, told in zip(found[state.cluster].records, batch.clusters[state.cluster].records, strict=True):
        assert "explain" not in to_builtins(one)["state"]
        for name in state.__struct_fields__:
            assert getattr(one.state, name) == getattr(state, name), name
        assert to_builtins(one) | {"state": None} == to_builtins(told) | {"state": None}
    batch = RecordBatch(None)
    note(batch, (DecisionRequest(now=1, policy="b", explain=False), answer))
    (one,) = unpack_records(pack_records(batch.clusters))["default"].records
    assert to_builtins(one)["state"] == {"now": 1, "policy": "b", "explain": False, "cluster": "default"}
