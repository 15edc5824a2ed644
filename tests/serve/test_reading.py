"""States by hand: what is decided about them, why jobs wait, and what is refused, field by field."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rlsched.errors import BadInputError
from rlsched.serve.api.batch_schema import BatchRequest
from rlsched.serve.api.requests import state_getter, to_columns
from rlsched.serve.api.schema import Answer, ClusterState, PlannedJob, RunningJob, WaitingJob
from rlsched.serve.decide.engine import Engine
from rlsched.serve.settings import ServeConfig

from .conftest import HPC, Export


@pytest.fixture(scope="module")
def engine(hpc: Path, green: Path, exported: Export) -> Engine:
    fit = exported(*HPC, "decision.action_rule=fit")
    memory = {"hpc": hpc, "green": green, "fit": fit}
    return Engine(ServeConfig(policies=memory))


def state(**changes: Any) -> ClusterState:
    """256 processors, 200 of which run a job until 1,600; one job that fits waits, and one that does not."""
    values: dict[str, Any] = {
        "now": 1000,
        "running": [RunningJob(id="r", demand=[200], start=500, expected_end=1600, submit=400)],
        "waiting": [
            WaitingJob(id="wide", submit=600, requested=3600, demand=[100]),
            WaitingJob(id="short", submit=700, requested=500, demand=[56]),
            WaitingJob(id="long", submit=800, requested=5000, demand=[56]),
        ],
    }
    return ClusterState(**(values | changes))


Ask = Callable[..., Answer]


@pytest.fixture
def ask(engine: Engine) -> Ask:
    def asked(told: ClusterState, policy: str = "hpc") -> Answer:
        """As a state and as columns, which come to the same, answer or refusal."""
        served = engine.find(policy)
        found: list[Answer | str] = []
        refusals: list[BadInputError] = []
        for request in (told, BatchRequest(columns=to_columns([told]))):
            try:
                found += engine.answer(served, [request], explain=True)
            except BadInputError as error:
                refusals.append(error)
                found.append(str(error).removeprefix("columns[0]."))
        assert found[0] == found[1]
        if isinstance(found[0], Answer):
            return found[0]
        raise refusals[0]

    return asked


def reasons(answer: Answer) -> dict[int | str, str]:
    return {reason.job: reason.reason for reason in answer.waiting or ()}


def started(answer: Answer) -> set[int | str]:
    return {decision.job for decision in answer.decisions if decision.action == "start"}


def test_the_heuristic_backfills_behind_a_reservation(ask: Ask) -> None:
    answer = ask(state())
    assert answer.fallback is not None
    # wide gets the 256 - 200 + 200 units of 1,600; of those that fit, short is done before, and so may start.
    assert [(one.job, one.action, one.at) for one in answer.fallback.decisions] == [
        ("wide", "reserve", 1600),
        ("short", "start", 1000),
    ]
    # Extra processors: of the 256 free at 1,600 wide leaves 156, so that long may start, too, if alone.
    alone = ask(state(waiting=[state().waiting[0], state().waiting[2]]))
    assert alone.fallback is not None
    assert [(one.job, one.action) for one in alone.fallback.decisions] == [
        ("wide", "reserve"),
        ("long", "start"),
    ]


def test_whoever_waits_is_told_why(ask: Ask) -> None:
    large = WaitingJob(id="large", submit=900, requested=60, demand=[257])
    many = [WaitingJob(id=k, submit=900, requested=60, demand=[1]) for k in range(40)]
    answer = ask(state(waiting=[*state().waiting, large, *many]))
    told = reasons(answer)
    assert told["large"] == "too_large"
    assert set(told) | started(answer) == {"wide", "short", "long", "large", *range(40)}
    assert not set(told) & started(answer)
    assert set(told.values()) <= {
        "too_large",
        "beyond_window",
        "not_enough_free",
        "reserved",
        "delays_reservation",
        "may_start",
        "enough_decided",
    }
    # One job holds what is kept.
    kept = [decision.job for decision in answer.decisions if decision.action == "reserve"]
    assert [job for job, reason in told.items() if reason == "reserved"] == kept


def test_units_out_of_service_are_not_decided_about(ask: Ask) -> None:
    one = WaitingJob(id=1, submit=900, requested=60, demand=[30])
    assert started(ask(state(waiting=[one]))) == {1}
    answer = ask(state(waiting=[one], free=[29]))
    assert answer.decisions == [] or started(answer) == set()
    assert reasons(answer)[1] in {"not_enough_free", "reserved"}
    # What asks for more than is in service gets no reservation for years.
    wide = WaitingJob(id=2, submit=900, requested=60, demand=[230])
    answer = ask(state(waiting=[one, wide], free=[29]))
    assert reasons(answer)[2] == "too_large"
    assert answer.waiting is not None
    (told,) = [reason.detail for reason in answer.waiting if reason.job == 2]
    assert told.startswith("asks for [230] of [229] units in service")
    assert started(ask(state(waiting=[one], free=[30]))) == {1}


def test_a_cluster_of_another_size(ask: Ask) -> None:
    one = WaitingJob(id=1, submit=900, requested=60, demand=[1000])
    assert started(ask(state(units=[2048], waiting=[one]))) == {1}
    assert reasons(ask(state(waiting=[one]))) == {1: "too_large"}


def test_nothing_waits_or_nothing_runs(ask: Ask) -> None:
    assert ask(state(waiting=[])).decisions == []
    assert ask(state(running=[], waiting=[])).decisions == []
    assert ask(state(running=[], waiting=[], arriving=False)).decisions == []
    # Nothing runs and nothing is to come: there is nothing to wait for.
    assert len(started(ask(state(running=[], arriving=False)))) == 3
    assert len(started(ask(state(running=[], arriving=False), "fit"))) == 3


def test_what_ran_longer_than_it_asked_for_is_expected_to_end_next(ask: Ask) -> None:
    late = RunningJob(id="late", demand=[200], start=100, expected_end=200)
    answer = ask(state(running=[late]))
    assert answer.fallback is not None
    assert (answer.fallback.decisions[0].job, answer.fallback.decisions[0].at) == ("wide", 1001)


def test_order_in_the_list_is_no_order_of_the_queue(ask: Ask) -> None:
    told = state()
    answer = ask(told)
    other = ask(state(waiting=list(reversed(told.waiting))))
    assert other.decisions == answer.decisions


def test_batches_of_many_kinds_are_those_of_each_by_itself(engine: Engine, ask: Ask) -> None:
    many = [WaitingJob(id=k, submit=900, requested=60 + k, demand=[1 + k % 90]) for k in range(300)]
    states = [
        state(),
        state(units=[512]),
        state(waiting=many),
        state(waiting=[]),
        state(units=[512], waiting=many[:70]),
        state(free=[10]),
    ] * 3
    together = engine.answer(engine.find("hpc"), [BatchRequest(states=states)], explain=True)
    assert engine.answer(engine.find("hpc"), states, explain=True) == together
    as_columns = BatchRequest(columns=to_columns(states))
    assert engine.answer(engine.find("hpc"), [as_columns], explain=True) == together
    assert [*map(state_getter(as_columns), range(len(states)))] == states
    for one, told in zip(together, states, strict=True):
        alone = ask(told)
        assert [(d.job, d.action, d.at) for d in one.decisions] == [
            (d.job, d.action, d.at) for d in alone.decisions
        ]
        assert (one.waiting, one.fallback) == (alone.waiting, alone.fallback)


def green_state(**changes: Any) -> ClusterState:
    values: dict[str, Any] = {
        "now": 36_000,
        "waiting": [WaitingJob(1, 3600, 7200, [2, 1])],
        "supply_kw": [4.0],
    }
    return ClusterState(**(values | changes))


WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "twice": ("hpc", {"waiting": [WaitingJob("r", 1, 1, [1])]}, "waiting: job 'r' stands there twice"),
    "later": (
        "hpc",
        {"waiting": [WaitingJob(7, 1001, 1, [1])]},
        "waiting[0].submit: of job 7 is later than now",
    ),
    "not yet": (
        "hpc",
        {"running": [RunningJob(7, [1], 1001, 2000)]},
        "running[0].start: of job 7 is later than now",
    ),
    "started later": (
        "hpc",
        {"running": [RunningJob(7, [1], 1001, 2000, submit=5)]},
        "running[0].start: of job 7 is later than now",
    ),
    "no time": (
        "hpc",
        {"running": [RunningJob(7, [1], 500, 500)]},
        "running[0].expected_end: of job 7 is not later than its start",
    ),
    "before it came": (
        "hpc",
        {"running": [RunningJob(7, [1], 500, 600, submit=501)]},
        "running[0].submit: of job 7 is later than its start",
    ),
    "nothing": (
        "hpc",
        {"waiting": [WaitingJob(7, 1, 1, [0])]},
        "waiting[0].demand: of job 7 asks for nothing",
    ),
    "two": ("hpc", {"waiting": [WaitingJob(7, 1, 1, [1, 1])]}, "waiting[0].demand: of job 7 2 entries for 1"),
    "too many run": (
        "hpc",
        {"running": [RunningJob(k, [200], 1, 2000) for k in (1, 2)]},
        "running: hold 400 of 256 units",
    ),
    "too large runs": (
        "hpc",
        {"running": [RunningJob(1, [257], 1, 2000)]},
        "running[0].demand: of job 1 asks for more than the [256] units",
    ),
    "free": ("hpc", {"free": [57]}, "free[0]: value 57, plus 200 that jobs hold, of 256"),
    "two free": ("hpc", {"free": [1, 1]}, "free: 2 entries for 1 resources"),
    "units": ("hpc", {"units": [1, 1]}, "units: 2 entries for 1 resources"),
    "no units": ("hpc", {"units": [0]}, "units: value [0]"),
    "reserved": ("hpc", {"reserved": "r"}, "reserved: value 'r' is no waiting job"),
    "reserved by fit": (
        "fit",
        {"reserved": "wide"},
        "reserved: is not supported by a policy that reserves nothing",
    ),
    "horizon": ("hpc", {"battery_kwh": 1.0}, "battery_kwh: is not supported by a policy without a horizon"),
    "planned": (
        "hpc",
        {"suspended": [WaitingJob(7, 1, 1, [1])]},
        "suspended: is not supported by a policy without a horizon",
    ),
    "ran": (
        "hpc",
        {"waiting": [WaitingJob(7, 1, 60, [1], ran=60), WaitingJob(8, 1, 60, [1], ran=61)]},
        "waiting[1].ran: of job 8 is longer than it asked for",
    ),
    "memory": ("hpc", {"memory": "AAAA"}, "memory: is not supported by a policy without a memory"),
}
WRONG_GREEN: dict[str, tuple[dict[str, Any], str]] = {
    "no forecast": ({"supply_kw": None}, "units_on: is missing, and supply_kw"),
    "on": ({"units_on": [[10], [11]]}, "units_on[1]: value 11 of 10 units"),
    "one on": ({"units_on": [[10]]}, "units_on: 1 entries for 2 resources"),
    "reserved": ({"reserved": 1}, "reserved: is not supported by a policy with a horizon"),
    "free": ({"free": [1, 1]}, "free: is not supported by a policy with a horizon"),
    "battery": ({"battery_kwh": 1.0}, "battery_kwh: value 1 of 0 kWh"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_means_nothing_is_refused_by_its_field(ask: Ask, case: str) -> None:
    policy, changes, line = WRONG[case]
    with pytest.raises(BadInputError) as caught:
        ask(state(**changes), policy)
    assert str(caught.value).startswith(line)


@pytest.mark.parametrize("case", WRONG_GREEN)
def test_what_means_nothing_with_a_horizon(ask: Ask, case: str) -> None:
    changes, line = WRONG_GREEN[case]
    with pytest.raises(BadInputError) as caught:
        ask(green_state(**changes), "green")
    assert str(caught.value).startswith(line)


def test_too_many_jobs(hpc: Path) -> None:
    engine = Engine(ServeConfig.model_validate({"policies": hpc, "limits": {"jobs": 16}}))
    many = [WaitingJob(id=k, submit=900, requested=60, demand=[1]) for k in range(16)]
    with pytest.raises(BadInputError, match=r"waiting: 17 jobs in all; send at most 16"):
        engine.answer(engine.find(None), [state(waiting=many)], explain=False)
    engine.answer(engine.find(None), [state(waiting=many[1:])], explain=False)


def test_places_in_a_batch_are_said(engine: Engine) -> None:
    states = [state(), state(waiting=[WaitingJob(7, 2000, 1, [1])])]
    with pytest.raises(BadInputError, match=r"^states\[1\]\.waiting\[0\]\.submit: "):
        engine.answer(engine.find("hpc"), [BatchRequest(states=states)], explain=False)


def test_what_says_nothing_may_be_said(ask: Ask) -> None:
    assert ask(state(battery_kwh=0.0, units_on=[], supply_kw=None)) == ask(state())
    # Who is suspended is in no pool, whatever is said of it.
    ready = [WaitingJob(k, 3600, 3600, [1, 0], ready=True) for k in range(6)]
    assert ask(green_state(waiting=ready[:5], suspended=ready[5:]), "green").decisions


def test_the_right_cluster_is_named_whatever_stands_beside_it(engine: Engine) -> None:
    """Of several sizes, some of which tell what is free, and what is kept."""
    wide = state().waiting[0]
    good = [
        state(),
        state(units=[512], free=[300]),
        state(free=[50], reserved="wide"),
        state(units=[512], waiting=[WaitingJob(k, 900, 60, [1]) for k in range(70)]),
    ]
    wrong = [
        (state(free=[57]), r"free\[0\]: value 57, plus 200"),
        (state(units=[512], free=[313]), r"free\[0\]: value 313, plus 200"),
        (state(units=[512], reserved="r"), "reserved: value 'r' is no waiting job"),
        (state(waiting=[wide, wide]), "waiting: job 'wide' stands there twice"),
        (
            state(units=[512], waiting=[WaitingJob(7, 1, 1, [1, 1])]),
            r"waiting\[0\].demand: of job 7 2 entries",
        ),
        (state(waiting=[WaitingJob(7, 2000, 1, [1])]), r"waiting\[0\].submit: of job 7 is later"),
    ]
    for told, line in wrong:
        for k in range(5):
            states = [*good[:k], told, *good[k:]]
            requests = {
                "states": BatchRequest(states=states),
                "columns": BatchRequest(columns=to_columns(states)),
            }
            for name, request in requests.items():
                with pytest.raises(BadInputError, match=rf"^{name}\[{k}\]\.{line}"):
                    engine.answer(engine.find("hpc"), [request], explain=False)


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


def test_what_would_write_beyond_the_core_is_refused(ask: Ask) -> None:
    many = [WaitingJob(k, 3600, 3600, [1, 0], ready=True) for k in range(6)]
    with pytest.raises(BadInputError, match=r"^waiting: 6 jobs are ready, in a pool of 5"):
        ask(green_state(waiting=many), "green")
    assert len(ask(green_state(waiting=many[:5]), "green").decisions) == 5
    for ticks in (49, 10**6, 10**8):
        planned = PlannedJob(1, 3600, ticks * 3600, [1, 0], at=72_000)
        with pytest.raises(BadInputError, match=r"^planned\[0\]\.requested: .* longer than the 48 ticks"):
            ask(green_state(waiting=[], planned=[planned]), "green")
    edge = PlannedJob(1, 3600, 48 * 3600, [1, 0], at=10**12)
    assert ask(green_state(waiting=[], planned=[edge]), "green").decisions == []


def test_a_job_that_stands_there_twice_is_found_at_once(ask: Ask) -> None:
    many = [WaitingJob(k, 900, 60, [1]) for k in range(19_990)]
    began = time.perf_counter()
    ask(state(waiting=many))
    usual = time.perf_counter() - began
    began = time.perf_counter()
    with pytest.raises(BadInputError, match="job 7 stands there twice"):
        ask(state(waiting=[*many, many[7]]))
    assert time.perf_counter() - began < 5 * usual


def test_clusters_of_too_many_sizes_are_sent_apart(engine: Engine) -> None:
    states = [state(units=[300 + k]) for k in range(17)]
    with pytest.raises(BadInputError, match=r"^units: is one of more than 16 different ones"):
        engine.answer(engine.find("hpc"), states, explain=False)
    assert len(engine.answer(engine.find("hpc"), states[:16], explain=False)) == 16
