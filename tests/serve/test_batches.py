"""Batches over HTTP, in this process: states and columns, and refusals of columns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import fields

from rlsched.serve.api.requests import COLUMN_LISTS, LISTS, to_columns
from rlsched.serve.api.schema import BatchRequest, Cluster, ClusterColumns, ClusterState
from rlsched.serve.decide.batch import Batch
from rlsched.serve.decide.inference import Proposal
from rlsched.serve.ledger.records import MAX_RECORDS_PER_REQUEST

from .service import Service, example


@pytest.fixture(scope="module")
def service(hpc: Path, green: Path) -> Iterator[Service]:
    service = Service({"hpc": hpc, "green": green}, limits={"body_bytes": 2_000_000, "states": 64})
    yield service
    service.close()


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


def test_an_invalid_state_is_refused_before_any_decision(
    service: Service, hpc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = {name: part for name, part in example(hpc).items() if name not in {"policy", "explain"}}
    inference, calls = service.store.find(None).inference, 0
    by_policy = inference.by_policy

    def counted(batch: Batch) -> list[Proposal]:
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
        {"states": [item]} if k % 2 else msgspec.to_builtins(BatchRequest(columns=as_columns(item)))
        for k, item in enumerate(states)
    ]
    alone = [service.ask("/v1/decisions:batch", {"states": [item]}).json for item in states]
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
    assert [item.state.now - state["now"] for item in recent.records] == list(
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
