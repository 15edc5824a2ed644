"""States by hand: what is decided about them, why jobs wait, and what is refused, field by field."""

from __future__ import annotations

import msgspec

from rlsched.serve.api.requests import state_getter, to_columns
from rlsched.serve.api.schema import Answer, BatchRequest, RunningJob, WaitingJob
from rlsched.serve.decide.policy_store import PolicyStore

from .states import Ask, green_state, reasons, started, state


def test_the_heuristic_backfills_behind_a_reservation(ask: Ask) -> None:
    answer = ask(state())
    assert answer.fallback is not None
    # wide gets the 256 - 200 + 200 units of 1,600; of those that fit, short is done before, and so may start.
    assert [(item.job, item.action, item.at) for item in answer.fallback.decisions] == [
        ("wide", "reserve", 1600),
        ("short", "start", 1000),
    ]
    # Extra processors: of the 256 free at 1,600 wide leaves 156, so that long may start, too, if alone.
    alone = ask(state(waiting=[state().waiting[0], state().waiting[2]]))
    assert alone.fallback is not None
    assert [(item.job, item.action) for item in alone.fallback.decisions] == [
        ("wide", "reserve"),
        ("long", "start"),
    ]


def test_answers_explain_why_jobs_wait(ask: Ask) -> None:
    large = WaitingJob(id="large", submit=900, requested=60, demand=[257])
    many = [WaitingJob(id=k, submit=900, requested=60, demand=[1]) for k in range(40)]
    answer = ask(state(waiting=[*state().waiting, large, *many]))
    answer_reasons = reasons(answer)
    assert answer_reasons["large"] == "too_large"
    assert set(answer_reasons) | started(answer) == {"wide", "short", "long", "large", *range(40)}
    assert not set(answer_reasons) & started(answer)
    assert set(answer_reasons.values()) <= {
        "too_large",
        "beyond_window",
        "not_enough_free",
        "reserved",
        "delays_reservation",
        "may_start",
        "enough_decided",
    }
    # One job holds what is kept.
    reserved = [decision.job for decision in answer.decisions if decision.action == "reserve"]
    assert [job for job, reason in answer_reasons.items() if reason == "reserved"] == reserved


def test_units_out_of_service_are_not_decided_about(ask: Ask) -> None:
    item = WaitingJob(id=1, submit=900, requested=60, demand=[30])
    assert started(ask(state(waiting=[item]))) == {1}
    answer = ask(state(waiting=[item], free=[29]))
    assert answer.decisions == [] or started(answer) == set()
    assert reasons(answer)[1] in {"not_enough_free", "reserved"}
    # What asks for more than is in service gets no reservation for years.
    wide = WaitingJob(id=2, submit=900, requested=60, demand=[230])
    answer = ask(state(waiting=[item, wide], free=[29]))
    assert reasons(answer)[2] == "too_large"
    assert answer.waiting is not None
    (detail,) = [reason.detail for reason in answer.waiting if reason.job == 2]
    assert detail.startswith("asks for [230] of [229] units in service")
    assert started(ask(state(waiting=[item], free=[30]))) == {1}


def test_a_cluster_of_another_size(ask: Ask) -> None:
    item = WaitingJob(id=1, submit=900, requested=60, demand=[1000])
    assert started(ask(state(units=[2048], waiting=[item]))) == {1}
    assert reasons(ask(state(waiting=[item]))) == {1: "too_large"}


def test_nothing_waits_or_nothing_runs(ask: Ask) -> None:
    assert ask(state(waiting=[])).decisions == []
    assert ask(state(running=[], waiting=[])).decisions == []
    assert ask(state(running=[], waiting=[], arriving=False)).decisions == []
    # Nothing runs and nothing is to come: there is nothing to wait for.
    assert len(started(ask(state(running=[], arriving=False)))) == 3
    assert len(started(ask(state(running=[], arriving=False), "fit"))) == 3


def test_overdue_jobs_are_expected_to_end_next(ask: Ask) -> None:
    late = RunningJob(id="late", demand=[200], start=100, expected_end=200)
    answer = ask(state(running=[late]))
    assert answer.fallback is not None
    assert (answer.fallback.decisions[0].job, answer.fallback.decisions[0].at) == ("wide", 1001)


def test_order_in_the_list_is_no_order_of_the_queue(ask: Ask) -> None:
    cluster = state()
    answer = ask(cluster)
    second = ask(state(waiting=list(reversed(cluster.waiting))))
    assert second.decisions == answer.decisions


def test_batches_of_many_kinds_are_those_of_each_by_itself(store: PolicyStore, ask: Ask) -> None:
    many = [WaitingJob(id=k, submit=900, requested=60 + k, demand=[1 + k % 90]) for k in range(300)]
    states = [
        state(),
        state(units=[512]),
        state(waiting=many),
        state(waiting=[]),
        state(units=[512], waiting=many[:70]),
        state(free=[10]),
    ] * 3
    together = store.find("hpc").decide([BatchRequest(states=states)], explain=True)
    apart = [BatchRequest(states=[item]) for item in states]
    assert store.find("hpc").decide(apart, explain=True) == together
    as_columns = BatchRequest(columns=to_columns(states))
    assert store.find("hpc").decide([as_columns], explain=True) == together
    assert [*map(state_getter(as_columns), range(len(states)))] == states
    for item, cluster in zip(together, states, strict=True):
        alone = ask(cluster)
        assert [(d.job, d.action, d.at) for d in item.decisions] == [
            (d.job, d.action, d.at) for d in alone.decisions
        ]
        assert (item.waiting, item.fallback) == (alone.waiting, alone.fallback)


def test_the_forecast_decides_what_can_start(ask: Ask) -> None:
    assert started(ask(green_state(), "green")) == {1}
    dark = ask(green_state(supply_kw=[0.0]), "green")
    assert reasons(dark) == {1: "not_enough_free"}
    # On now and off before it ends.
    soon_dark = ask(green_state(supply_kw=None, units_on=[[10, 0], [10, 0]]), "green")
    assert reasons(soon_dark) == {1: "not_long_enough"}


def test_answers_survive_json(ask: Ask) -> None:
    answer = ask(state())
    assert msgspec.json.decode(msgspec.json.encode(answer), type=Answer) == answer
