"""States that are refused, field by field."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from rlsched.errors import BadInputError
from rlsched.serve.api.requests import to_columns
from rlsched.serve.api.schema import BatchRequest, PlannedJob, RunningJob, WaitingJob
from rlsched.serve.decide.policy_store import PolicyStore
from rlsched.serve.settings import ServeConfig

from .states import Ask, green_state, state

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
def test_invalid_fields_are_refused_by_name(ask: Ask, case: str) -> None:
    policy, changes, line = WRONG[case]
    with pytest.raises(BadInputError) as caught:
        ask(state(**changes), policy)
    assert str(caught.value).startswith(line)


@pytest.mark.parametrize("case", WRONG_GREEN)
def test_invalid_fields_with_a_horizon_are_refused_by_name(ask: Ask, case: str) -> None:
    changes, line = WRONG_GREEN[case]
    with pytest.raises(BadInputError) as caught:
        ask(green_state(**changes), "green")
    assert str(caught.value).startswith(line)


def test_too_many_jobs(hpc: Path) -> None:
    store = PolicyStore(ServeConfig.model_validate({"policies": hpc, "limits": {"jobs": 16}}))
    many = [WaitingJob(id=k, submit=900, requested=60, demand=[1]) for k in range(16)]
    with pytest.raises(BadInputError, match=r"waiting: 17 jobs in all; send at most 16"):
        store.find(None).decide([BatchRequest(states=[state(waiting=many)])], explain=False)
    store.find(None).decide([BatchRequest(states=[state(waiting=many[1:])])], explain=False)


def test_places_in_a_batch_are_said(store: PolicyStore) -> None:
    states = [state(), state(waiting=[WaitingJob(7, 2000, 1, [1])])]
    with pytest.raises(BadInputError, match=r"^states\[1\]\.waiting\[0\]\.submit: "):
        store.find("hpc").decide([BatchRequest(states=states)], explain=False)


def test_what_says_nothing_may_be_said(ask: Ask) -> None:
    assert ask(state(battery_kwh=0.0, units_on=[], supply_kw=None)) == ask(state())
    # Who is suspended is in no pool, whatever is said of it.
    ready = [WaitingJob(k, 3600, 3600, [1, 0], ready=True) for k in range(6)]
    assert ask(green_state(waiting=ready[:5], suspended=ready[5:]), "green").decisions


def test_errors_name_the_right_cluster_of_a_batch(store: PolicyStore) -> None:
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
    for cluster, line in wrong:
        for k in range(5):
            states = [*good[:k], cluster, *good[k:]]
            requests = {
                "states": BatchRequest(states=states),
                "columns": BatchRequest(columns=to_columns(states)),
            }
            for name, request in requests.items():
                with pytest.raises(BadInputError, match=rf"^{name}\[{k}\]\.{line}"):
                    store.find("hpc").decide([request], explain=False)


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


def test_a_repeated_job_is_refused_quickly(ask: Ask) -> None:
    many = [WaitingJob(k, 900, 60, [1]) for k in range(19_990)]
    began = time.perf_counter()
    ask(state(waiting=many))
    usual = time.perf_counter() - began
    began = time.perf_counter()
    with pytest.raises(BadInputError, match="job 7 stands there twice"):
        ask(state(waiting=[*many, many[7]]))
    assert time.perf_counter() - began < 5 * usual


def test_clusters_of_too_many_sizes_are_sent_apart(store: PolicyStore) -> None:
    requests = [BatchRequest(states=[state(units=[300 + k])]) for k in range(17)]
    with pytest.raises(BadInputError, match=r"^states\[0\]\.units: is one of more than 16 different ones"):
        store.find("hpc").decide(requests, explain=False)
    assert len(store.find("hpc").decide(requests[:16], explain=False)) == 16
