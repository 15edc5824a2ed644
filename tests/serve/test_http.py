"""The service over HTTP, in this process: answers, refusals, tokens, limits, and what is wrong in any way."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from rlsched.serve.api.pages import describe_api
from rlsched.serve.ledger.ledger import sum_metrics

from .malformed import Writer
from .service import Service, example, moved

MALFORMED = 10_000


@pytest.fixture(scope="module")
def service(hpc: Path, green: Path) -> Iterator[Service]:
    service = Service({"hpc": hpc, "green": green}, limits={"body_bytes": 2_000_000, "states": 64})
    yield service
    service.close()


def test_a_decision(service: Service, hpc: Path) -> None:
    reply = service.ask("/v1/decisions", example(hpc))
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    content = reply.json
    assert content["policy"] == {"name": "hpc", "version": service.store.find("hpc").version}
    jobs = {job["id"] for job in example(hpc)["waiting"]}
    assert {decision["job"] for decision in content["decisions"]} <= jobs
    assert {reason["job"] for reason in content["waiting"]} <= jobs
    assert content["fallback"]["name"] == "fcfs:easy"
    assert content["agrees"] == (moved(content["decisions"]) == moved(content["fallback"]["decisions"]))


def test_policies_by_name_and_batches(service: Service, hpc: Path, green: Path) -> None:
    item = example(green)
    reply = service.ask("/v1/decisions", item | {"policy": "green"})
    assert reply.json["policy"]["name"] == "green"
    assert service.ask("/v1/decisions", item).status == 422  # the first one knows no power
    state = {name: part for name, part in example(hpc).items() if name not in {"policy", "explain"}}
    batch = service.ask("/v1/decisions:batch", {"states": [state] * 64}).json
    single = service.ask("/v1/decisions", state).json
    assert len(batch["answers"]) == 64
    assert all(answer == batch["answers"][0] for answer in batch["answers"])
    assert [(d["job"], d["action"]) for d in batch["answers"][0]["decisions"]] == [
        (d["job"], d["action"]) for d in single["decisions"]
    ]
    assert "waiting" not in batch["answers"][0]
    explained = service.ask("/v1/decisions:batch", {"states": [state], "explain": True}).json
    assert explained["answers"][0]["waiting"] == single["waiting"]


def test_policies_are_listed(service: Service) -> None:
    content = service.ask("/v1/policy").json
    assert [policy["name"] for policy in content["policies"]] == ["hpc", "green"]
    assert [len(policy["units"]) for policy in content["policies"]] == [1, 2]
    assert service.ask("/healthz").body == b"ok\n"
    assert service.ask("/readyz").body == b"ready\n"


@pytest.mark.parametrize(
    ("body", "status", "line"),
    [
        (b"", 400, "body: "),
        (b"{", 400, "body: "),
        (b"\xff\xfe{\x00}\x00", 400, "body: "),
        (b"[]", 422, "body: Expected `object`, got `array`"),
        (b"{}", 422, "body: Object missing required field `now`"),
        (b'{"now": NaN}', 400, "body: "),
        (b'{"now": 1.5}', 422, "now: Expected `int`, got `float`"),
        (b'{"now": -1}', 422, "now: Expected `int` >= 0"),
        (
            b'{"now": 9, "waiting": [{"id": 1, "submit": 1, "requested": 9, "demand": [1], "qos": 5e-324}]}',
            422,
            "waiting[0].qos: Expected `float` >= 1e-06",
        ),
        (
            b'{"now": 1, "wating": []}',
            422,
            "body: Object contains unknown field `wating`; did you mean 'waiting'? use some of now, ",
        ),
        (
            b'{"now": 1, "waiting": [{"id": 1, "walltime": 0}]}',
            422,
            "waiting[0]: Object contains unknown field `walltime`; use some of id, submit, ",
        ),
        (
            b'{"now": 1, "waiting": [{"id": 1, "submit": 0, "requested": 0, "demand": [1]}]}',
            422,
            "waiting[0].requested: Expected `int` >= 1",
        ),
        (
            b'{"now": 1, "waiting": [{"id": 1, "submit": 0, "requested": 1, "demand": [1], "qos": 1e999}]}',
            422,
            "waiting[0].qos: Number out of range",
        ),
        (b'{"now": 1, "a` - at `$.zzz": 1}', 422, "zzz: Object contains unknown field `a`"),
        (b'{"now": 1, "now": 2}', 422, "body: key 'now' stands twice in an object; give it once"),
        (
            b'{"now": 9, "waiting": [{"id": 1, "submit": 1, "requested": 9, "demand": [1], "i\\u0064": 2}]}',
            422,
            "body: key 'id' stands twice in an object",
        ),
        (b'{"now": 1, "policy": "other"}', 404, "policy: unknown policy 'other'; ask one of hpc, green"),
        (b'{"now": 1, "units": [0]}', 422, "units: value [0]"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(service: Service, body: bytes, status: int, line: str) -> None:
    reply = service.ask("/v1/decisions", body)
    assert reply.status == status
    assert list(reply.json) == ["error"]
    assert reply.json["error"].startswith(line)
    assert "\n" not in reply.json["error"]


def test_what_is_not_there_and_what_is_not_done(service: Service) -> None:
    assert service.ask("/v1/decision", b"{}").status == 404
    assert service.ask("/v1/policy", b"{}").status == 405
    reply = service.ask("/v1/decisions")
    assert (reply.status, reply.headers["allow"]) == (405, "POST")
    assert service.ask("/v1/decisions", gzip.compress(b"{}"), content_encoding="gzip").status == 415


def test_bodies_are_cut_short(service: Service, hpc: Path) -> None:
    long = json.dumps(example(hpc)).encode() + b" " * 2_000_000
    assert service.ask("/v1/decisions", long).status == 413
    assert service.ask("/v1/decisions", long, content_length="10").status == 413  # whatever it says of itself
    state = {name: part for name, part in example(hpc).items() if name not in {"policy", "explain"}}
    reply = service.ask("/v1/decisions:batch", {"states": [state] * 65})
    assert (reply.status, reply.json["error"]) == (422, "states: 65 of them; send at most 64")


def test_an_empty_body_is_refused(service: Service) -> None:
    reply = service.ask("/v1/decisions", b"")
    assert (reply.status, reply.json["error"]) == (400, "body: is empty; send JSON in UTF-8")


def test_too_many_at_once_are_sent_away(hpc: Path) -> None:
    service = Service(hpc, limits={"concurrency": 4})
    replies = service.ask_together([("/v1/decisions", example(hpc))] * 12)
    counted = Counter(reply.status for reply in replies)
    assert counted == {200: 4, 429: 8}
    away = next(reply for reply in replies if reply.status == 429)
    assert away.headers["retry-after"] == "1"
    assert service.ask("/v1/decisions", example(hpc)).status == 200
    service.close()


def test_an_invalid_request_does_not_affect_others(service: Service, hpc: Path) -> None:
    right, wrong = example(hpc), example(hpc)
    wrong["waiting"][0]["submit"] = wrong["now"] + 1
    replies = service.ask_together([("/v1/decisions", wrong if k % 3 == 0 else right) for k in range(30)])
    assert [reply.status for reply in replies] == [422 if k % 3 == 0 else 200 for k in range(30)]
    assert len({reply.body for reply in replies if reply.status == 200}) == 1


@pytest.mark.slow
def test_malformed_bodies_are_refused_and_nothing_else_happens(service: Service, hpc: Path) -> None:
    content = describe_api(service.app.pages)
    statuses: Counter[int] = Counter()
    refused = 0
    writer = Writer(content, seed=0)
    for number, (path, body) in zip(count(), writer.bodies()):
        reply = service.ask(path, body)
        statuses[reply.status] += 1
        if reply.status != 200:
            assert 400 <= reply.status < 500, (reply.status, path, body[:500], reply.body[:500])
            assert list(reply.json) == ["error"]
            refused += 1
        if number % 500 == 0:
            assert service.ask("/v1/decisions", example(hpc)).status == 200
        if refused == MALFORMED:
            break
    assert set(statuses) <= {200, 400, 404, 413, 422}
    assert statuses[400] > 500
    assert statuses[422] > 5000
    assert service.ask("/v1/decisions", example(hpc)).status == 200


def test_figures_for_prometheus(hpc: Path) -> None:
    service = Service(hpc)
    for _ in range(3):
        service.ask("/v1/decisions", example(hpc))
    service.ask("/v1/decisions", b"{")
    text = service.ask("/metrics").body.decode()
    assert 'rlsched_requests_total{status="200"} 3.0' in text
    assert 'rlsched_requests_total{status="400"} 1.0' in text
    assert 'rlsched_states_total{decided_by="policy",policy="default"} 3.0' in text
    assert 'rlsched_request_seconds_count{policy="default"} 3.0' in text
    assert 'rlsched_shadow_states_total{policy="default"} 3.0' in text
    twice = sum_metrics([service.metrics.samples()] * 2).decode()
    assert 'rlsched_states_total{decided_by="policy",policy="default"} 6.0' in twice
    assert 'rlsched_request_seconds_bucket{le="+Inf",policy="default"} 6.0' in twice
    service.close()


def test_the_description_is_of_what_is_there(service: Service) -> None:
    content = service.ask("/openapi.json").json
    assert set(content["paths"]) >= {
        "/v1/decisions",
        "/v1/decisions:batch",
        "/v1/policy",
        "/healthz",
        "/metrics",
    }
    request = content["components"]["schemas"]["DecisionRequest"]
    assert request["additionalProperties"] is False
    assert set(request["required"]) == {"now"}
    job = content["components"]["schemas"]["WaitingJob"]
    assert set(job["required"]) == {"id", "submit", "requested", "demand"}


def test_a_page_of_what_was_decided(service: Service, hpc: Path) -> None:
    service.ask("/v1/decisions", example(hpc) | {"cluster": "north"})
    reply = service.ask("/?cluster=north")
    assert reply.status == 200
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    assert "north" in reply.body.decode()
