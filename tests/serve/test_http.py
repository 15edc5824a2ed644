"""The service over HTTP, in this process: answers, refusals, tokens, limits, and what is wrong in any way."""

from __future__ import annotations

import base64
import gzip
import json
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import fields

from rlsched.serve.api.batch_schema import BatchRequest, ClusterColumns
from rlsched.serve.api.openapi import describe_api
from rlsched.serve.api.requests import COLUMN_LISTS, LISTS, to_columns
from rlsched.serve.api.schema import Cluster, ClusterState
from rlsched.serve.api.tokens import Tokens
from rlsched.serve.decide.batch import Batch
from rlsched.serve.decide.inference import Plan
from rlsched.serve.ledger.metrics import sum_metrics
from rlsched.serve.ledger.records import MAX_RECORDS_PER_REQUEST
from rlsched.serve.settings import ServeConfig

from .asking import TOKEN, Service, example, moved
from .malformed import Writer

MALFORMED = 10_000


@pytest.fixture(scope="module")
def service(hpc: Path, green: Path) -> Iterator[Service]:
    found = Service({"hpc": hpc, "green": green}, limits={"body_bytes": 2_000_000, "states": 64})
    yield found
    found.close()


def test_a_decision(service: Service, hpc: Path) -> None:
    reply = service.ask("/v1/decisions", example(hpc))
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    told = reply.json
    assert told["policy"] == {"name": "hpc", "version": service.engine.find("hpc").version}
    jobs = {job["id"] for job in example(hpc)["waiting"]}
    assert {decision["job"] for decision in told["decisions"]} <= jobs
    assert {reason["job"] for reason in told["waiting"]} <= jobs
    assert told["fallback"]["name"] == "fcfs:easy"
    assert told["agrees"] == (moved(told["decisions"]) == moved(told["fallback"]["decisions"]))


def test_policies_by_name_and_batches(service: Service, hpc: Path, green: Path) -> None:
    one = example(green)
    reply = service.ask("/v1/decisions", one | {"policy": "green"})
    assert reply.json["policy"]["name"] == "green"
    assert service.ask("/v1/decisions", one).status == 422  # the first one knows no power
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


def test_what_is_served_is_told(service: Service) -> None:
    told = service.ask("/v1/policy").json
    assert [policy["name"] for policy in told["policies"]] == ["hpc", "green"]
    assert [len(policy["units"]) for policy in told["policies"]] == [1, 2]
    assert service.ask("/healthz").body == b"ok\n"
    assert service.ask("/readyz").body == b"ready\n"


def as_columns(*states: dict[str, Any]) -> ClusterColumns:
    return to_columns([msgspec.convert(state, ClusterState) for state in states])


def test_columns_say_what_states_say(service: Service, hpc: Path) -> None:
    state = {name: part for name, part in example(hpc).items() if name not in {"policy", "explain"}}
    east = state | {"cluster": "east"}
    states = [east, state | {"waiting": [], "cluster": "south"}, east | {"now": state["now"] + 60}] * 9
    for explain in (False, True):
        rows = service.ask("/v1/decisions:batch", {"states": states, "explain": explain})
        body = msgspec.to_builtins(BatchRequest(columns=as_columns(*states), explain=explain))
        columns = service.ask("/v1/decisions:batch", body)
        assert (columns.status, columns.json) == (200, rows.json)
    service.ledger.send()
    for cluster in ("east", "south"):
        records = [*service.ledger.ledger.page_data(cluster).recent.records]
        assert len(records) == {"east": 4 * 18, "south": 4 * 9}[cluster]
        # Of rows, and of columns in the same order.
        assert [record.state for record in records[: len(records) // 4]] == [
            record.state for record in records[-len(records) // 4 :]
        ]


def test_columns_have_the_fields_of_rows() -> None:
    """So that what is added to one is not forgotten in the other."""
    pairs = [
        (Cluster, ClusterColumns, set(LISTS)),
        *((LISTS[name], COLUMN_LISTS[name], {"jobs"}) for name in LISTS),
    ]
    for rows, columns, more in pairs:
        assert {*columns.__struct_fields__} == {*rows.__struct_fields__} | more
        needed = [{field.name for field in fields(kind) if field.required} for kind in (rows, columns)]
        assert needed[0] == needed[1] - more


COLUMNS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"now": [1, 2], "arriving": [True]}, "columns.arriving: 1 entries for 2 clusters; send one for each"),
    (
        {
            "now": [1],
            "waiting": {"jobs": [1, 0], "id": [1], "submit": [0], "requested": [1], "demand": [[1]]},
        },
        "columns.waiting.jobs: 2 entries for 1 clusters",
    ),
    (
        {
            "now": [1, 1],
            "waiting": {"jobs": [2, 1], "id": [1], "submit": [0], "requested": [1], "demand": [[1]]},
        },
        "columns.waiting.id: 1 entries for 3 jobs",
    ),
    (
        {
            "now": [5, 5],
            "waiting": {"jobs": [0, 1], "id": [1], "submit": [6], "requested": [1], "demand": [[1]]},
        },
        "columns[1].waiting[0].submit: of job 1 is later than now",
    ),
    ({"now": []}, "columns.now: Expected `array` of length >= 1"),
    ({"now": [1] * 65}, "columns.now: 65 of them; send at most 64"),
    ({"now": [1], "units": [[0]]}, "columns[0].units: value [0]"),
    ({"now": [1], "unit": [[1]]}, "columns: Object contains unknown field `unit`; did you mean 'units'?"),
    (
        {"now": [1], "waiting": {"jobs": [0], "walltime": []}},
        "columns.waiting: Object contains unknown field `walltime`; use some of jobs, id, submit,",
    ),
    (
        {
            "now": [1],
            "running": {"jobs": [1], "id": [1], "demand": [[1]], "start": [-1], "expected_end": [5]},
        },
        "columns.running.start[0]: Expected `int` >= 0",
    ),
)


@pytest.mark.parametrize(("columns", "line"), COLUMNS)
def test_what_is_wrong_with_columns_is_said_in_one_line(
    service: Service, columns: dict[str, Any], line: str
) -> None:
    reply = service.ask("/v1/decisions:batch", {"columns": columns})
    assert reply.status == 422
    assert reply.json["error"].startswith(line)


def test_what_is_wrong_with_one_is_found_before_others_are_decided_about(
    service: Service, hpc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = {name: part for name, part in example(hpc).items() if name not in {"policy", "explain"}}
    inference, calls = service.engine.find(None).inference, 0
    by_policy = inference.by_policy

    def counted(batch: Batch) -> list[Plan]:
        nonlocal calls
        calls += 1
        return by_policy(batch)

    monkeypatch.setattr(inference, "by_policy", counted)
    body = {"states": [state, state | {"units": [512], "waiting": [], "free": [513]}]}
    reply = service.ask("/v1/decisions:batch", body)
    assert (reply.status, calls) == (422, 0)
    assert reply.json["error"].startswith("states[1].free[0]: value 513, plus")
    assert service.ask("/v1/decisions:batch", {"states": body["states"][:1]}).status == 200
    assert calls == 1


def test_columns_are_decided_about_together_with_states(service: Service, hpc: Path) -> None:
    state = {name: part for name, part in example(hpc).items() if name not in {"policy", "explain"}}
    states = [state | {"now": state["now"] + k} for k in range(12)]
    bodies = [
        {"states": [one]} if k % 2 else msgspec.to_builtins(BatchRequest(columns=as_columns(one)))
        for k, one in enumerate(states)
    ]
    alone = [service.ask("/v1/decisions:batch", {"states": [one]}).json for one in states]
    together = service.ask_together([("/v1/decisions:batch", body) for body in bodies])
    decided, scores = without_scores([reply.json for reply in together])
    expected, expected_scores = without_scores(alone)
    assert decided == expected
    # Sums over several states together are made in another order.
    assert scores == pytest.approx(expected_scores, rel=1e-5, abs=1e-6)


def without_scores(value: Any) -> tuple[Any, list[float]]:
    """An answer without the scores in it, and these, in order."""
    scores: list[float] = []

    def strip(part: Any) -> Any:
        if isinstance(part, dict):
            if isinstance(part.get("score"), float):
                scores.append(part["score"])
            return {name: strip(inner) for name, inner in part.items() if name != "score"}
        return [strip(inner) for inner in part] if isinstance(part, list) else part

    return strip(value), scores


def test_of_many_states_of_a_cluster_at_once_the_last_are_shown(service: Service, hpc: Path) -> None:
    state = {name: part for name, part in example(hpc).items() if name not in {"policy", "explain"}}
    states = [
        state | {"now": state["now"] + k, "cluster": "again"} for k in range(MAX_RECORDS_PER_REQUEST + 9)
    ]
    service.ask("/v1/decisions:batch", {"states": states})
    service.ledger.send()
    recent = service.ledger.ledger.page_data("again").recent
    assert [one.state.now - state["now"] for one in recent.records] == list(
        range(9, MAX_RECORDS_PER_REQUEST + 9)
    )
    assert recent.states == len(states)


def test_a_batch_is_of_states_or_of_columns(service: Service, hpc: Path) -> None:
    for body, line in (
        ({}, "states: are missing; send some, or columns"),
        (
            {"states": [{"now": 1}], "columns": {"now": [1]}},
            "columns: cannot be combined with states; send one of them",
        ),
    ):
        reply = service.ask("/v1/decisions:batch", body)
        assert (reply.status, reply.json["error"]) == (422, line)


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


def test_tokens(hpc: Path, tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text(f"{TOKEN}\nanother-token-of-enough-length\n")
    service = Service(hpc, token_file=tmp_path / "tokens")
    for path, body in (
        ("/v1/decisions", example(hpc)),
        ("/v1/policy", None),
        ("/metrics", None),
        ("/", None),
    ):
        for headers in (
            {},
            {"authorization": "Bearer x"},
            {"authorization": TOKEN},
            {"authorization": "Bearer é"},
        ):
            reply = service.ask(path, body, **headers)
            assert (reply.status, reply.headers["www-authenticate"]) == (401, 'Bearer, Basic realm="rlsched"')
        assert service.ask(path, body, authorization=f"Bearer {TOKEN}").status == 200
        assert service.ask(path, body, authorization=f"bearer  {TOKEN}").status == 200
        for name, status in ((f"me:{TOKEN}", 200), ("me:other", 401), (TOKEN, 401)):
            basic = base64.b64encode(name.encode()).decode()
            assert service.ask(path, body, authorization=f"Basic {basic}").status == status
    assert service.ask("/healthz").status == 200
    service.close()


def test_tokens_are_those_that_stand_in_the_file_now(hpc: Path, tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"{TOKEN}\n")
    service = Service(hpc, token_file=path)
    new = "another-token-of-enough-length"

    def allowed() -> list[bool]:
        asked = [service.ask("/v1/policy", authorization=f"Bearer {token}") for token in (TOKEN, new)]
        return [reply.status == 200 for reply in asked]

    assert service.tokens.renew() == []
    assert allowed() == [True, False]
    path.write_text(f"{TOKEN}\n{new}\n")
    assert service.tokens.renew() == ["tokens were loaded from the file again"]
    assert allowed() == [True, True]
    path.write_text(f"{new}\n")
    service.tokens.renew()
    assert allowed() == [False, True]
    for nothing in ("", "short\n"):
        path.write_text(nothing)
        (line,) = service.tokens.renew()
        assert line.startswith(f"tokens stay what they were: {path}: ")
        assert service.tokens.renew() == []  # not every two seconds
        assert allowed() == [False, True]
    path.unlink()
    assert len(service.tokens.renew()) == 1
    assert allowed() == [False, True]
    service.close()


def test_a_link_to_tokens_may_lead_elsewhere_tomorrow(tmp_path: Path) -> None:
    """So do secrets that Kubernetes mounts."""
    for number in (1, 2):
        (tmp_path / f"tokens-{number}").write_text(f"{number}-{TOKEN}\n")
    link = tmp_path / "tokens"
    link.symlink_to("tokens-1")
    config = ServeConfig.model_validate({"policies": "runs/policy", "token_file": link}).rooted()
    tokens = Tokens(config.token_file)
    assert tokens.allow(f"1-{TOKEN}".encode())
    link.unlink()
    link.symlink_to("tokens-2")
    tokens.renew()
    assert [tokens.allow(f"{number}-{TOKEN}".encode()) for number in (1, 2)] == [False, True]


def test_a_body_that_is_empty_is_told_so(service: Service) -> None:
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


def test_one_who_is_wrong_does_not_spoil_it_for_others(service: Service, hpc: Path) -> None:
    right, wrong = example(hpc), example(hpc)
    wrong["waiting"][0]["submit"] = wrong["now"] + 1
    replies = service.ask_together([("/v1/decisions", wrong if k % 3 == 0 else right) for k in range(30)])
    assert [reply.status for reply in replies] == [422 if k % 3 == 0 else 200 for k in range(30)]
    assert len({reply.body for reply in replies if reply.status == 200}) == 1


@pytest.mark.slow
def test_malformed_bodies_are_refused_and_nothing_else_happens(service: Service, hpc: Path) -> None:
    told = describe_api(service.app.pages)
    statuses: Counter[int] = Counter()
    refused = 0
    writer = Writer(told, seed=0)
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
    told = service.ask("/openapi.json").json
    assert set(told["paths"]) >= {
        "/v1/decisions",
        "/v1/decisions:batch",
        "/v1/policy",
        "/healthz",
        "/metrics",
    }
    request = told["components"]["schemas"]["DecisionRequest"]
    assert request["additionalProperties"] is False
    assert set(request["required"]) == {"now"}
    job = told["components"]["schemas"]["WaitingJob"]
    assert set(job["required"]) == {"id", "submit", "requested", "demand"}


def test_a_page_of_what_was_decided(service: Service, hpc: Path) -> None:
    service.ask("/v1/decisions", example(hpc) | {"cluster": "north"})
    reply = service.ask("/?cluster=north")
    assert reply.status == 200
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    assert "north" in reply.body.decode()
