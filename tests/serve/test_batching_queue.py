"""What goes wrong while deciding: policies that raise, hang or give no numbers; versions that come and go."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rlsched.learn.config.sections import Network
from rlsched.serve.api.requests import num_clusters
from rlsched.serve.api.schema import (
    Answer,
    BatchRequest,
)
from rlsched.serve.decide.batching_queue import MAX_HUNG_THREADS
from rlsched.serve.decide.policy_store import LoadedPolicy

from .conftest import HPC, Export
from .service import Service, example, moved


class Spoilt(nn.Module):
    """A network around another one that fails on demand."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net, self.how = net, ""
        self.free = threading.Event()

    def forward(self, vector: Tensor, mask: Tensor) -> Tensor:
        if self.how == "raise":
            raise RuntimeError("no such luck")
        if self.how == "hang":
            self.free.wait(60)
        result: Tensor = self.net(vector, mask)
        return result * torch.nan if self.how == "nan" else result


@pytest.fixture
def service(hpc: Path) -> Iterator[Service]:
    service = Service(hpc, limits={"timeout_s": 0.4})
    yield service
    service.close()


def spoil(service: Service, how: str) -> Spoilt:
    served = service.store.find(None)
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
    content = reply.json
    assert (content["decided_by"], content["because"][: len(because)]) == ("fallback", because)
    assert content["decisions"] == content["fallback"]["decisions"] == good["fallback"]["decisions"]
    assert "agrees" not in content
    batch = {"states": [{k: v for k, v in example(hpc).items() if k not in {"policy", "explain"}}] * 3}
    many = service.ask("/v1/decisions:batch", batch).json
    assert {answer["decided_by"] for answer in many["answers"]} == {"fallback"}
    text = service.ask("/metrics").body.decode()
    assert f'rlsched_fallbacks_total{{because="{because.partition(":")[0]}",policy="default"}} 4.0' in text
    net.how = ""
    net.free.set()
    assert service.ask("/v1/decisions", example(hpc)).json == good


def test_a_hanging_policy_delays_no_other_request(service: Service, hpc: Path) -> None:
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


def test_a_shadow_does_not_decide(hpc: Path) -> None:
    service, second = Service(hpc, mode="shadow", fallback="sjf:greedy"), Service(hpc)
    content = service.ask("/v1/decisions", example(hpc)).json
    assert (content["decided_by"], content["because"], content["fallback"]["name"]) == (
        "fallback",
        "shadow",
        "sjf:greedy",
    )
    assert content["decisions"] == content["fallback"]["decisions"]
    assert content["agrees"] == (moved(content["shadow"]) == moved(content["decisions"]))
    alone = second.ask("/v1/decisions", example(hpc)).json
    assert alone["decided_by"] == "policy"
    assert content["shadow"] == alone["decisions"]
    assert "shadow" not in alone
    service.close()
    second.close()


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
    observed = []
    decide = LoadedPolicy.decide

    def counted(
        loaded: LoadedPolicy, requests: list[BatchRequest], *, explain: bool, failure: str
    ) -> list[Answer]:
        observed.append(sum(map(num_clusters, requests)))
        return decide(loaded, requests, explain=explain, failure=failure)

    monkeypatch.setattr(LoadedPolicy, "decide", counted)
    assert service.ask("/v1/decisions", example(hpc)).json["decided_by"] == "policy"
    assert observed == [1]


def batch_of(folder: Path, count: int) -> dict[str, Any]:
    state = {name: part for name, part in example(folder).items() if name not in {"policy", "explain"}}
    return {"states": [state] * count}


def test_a_hanging_policy_shares_no_inference(service: Service, hpc: Path) -> None:
    served = service.store.find(None)
    before = served.inference
    net = spoil(service, "hang")
    service.ask("/v1/decisions", example(hpc))
    assert service.store.find(None) is served
    assert served.inference is not before
    net.free.set()
