"""The slow twin against what was worked out on paper, and against the recorded oracle."""

from __future__ import annotations

import gzip
import json
import math
import re
from pathlib import Path

import pytest

from rlsched.jobs import JobTable
from tests.strategies import scenario
from tests.twin.compat import replay_rlscheduler
from tests.twin.env import TwinEnv
from tests.twin.jobs import Job, Machine, Running
from tests.twin.replay import KEYS, POLICIES, replay
from tests.twin.rules import Profile, admissible, reserve, start_behind

from .by_hand import CASES, EXPECTED, EXPECTED_STARTS, RELEASES, RELEASES_STARTS


@pytest.mark.parametrize(
    ("name", "backfill"), [(name, backfill) for name, case in CASES.items() for backfill in case.starts]
)
def test_replay(name: str, backfill: str) -> None:
    case = CASES[name]
    starts = replay(case.table, case.units, case.policy, backfill, window=case.window)
    assert starts == case.starts[backfill]


def test_keys() -> None:
    job = Job(0, 0, id=1, submit=10, runtime=5, requested=8, demand=(2, 3), qos=0.5)
    expected = {
        "fcfs": 10,
        "sjf": 8,
        "ljf": -8,
        "smallest": 2 / 4 + 3 / 6,
        "largest": -1,
        "area": 8,
        "qos": -0.5,
        "hvf": -2.5 * 8 * 0.5,
        "value_density": -1.25,
        "edf": 26,
        "least_slack": 18,
        "xfactor": -20 / 8,
        "wfp3": -31.25,
        "unicep": -20 / (1 * 8),
        "f1": 3 * math.log10(2) * 2 + 870,
        "packing": -(0.5 * 1 / 4 + 0.5 * 2 / 6),
    }
    keys = {name: key(job, 30, (1, 2), (4, 6)) for name, key in KEYS.items()}
    assert keys == pytest.approx(expected)
    assert set(POLICIES) == {*expected, "random"}


def test_ties_go_to_the_earlier_submit_then_the_smaller_id() -> None:
    table = JobTable.build(
        id=[9, 4, 7], submit=[1, 1, 0], runtime=[2, 2, 2], requested=[2, 2, 2], demand=[1, 1, 1]
    )
    assert replay(table, [1], "sjf", "none") == [4, 2, 0]


def job(demand: int, requested: int, index: int = 0) -> Job:
    return Job(index, index, index, 0, requested, requested, (demand,), 1.0)


def test_a_reservation_counts_all_that_is_back_by_the_shadow_time() -> None:
    machine = Machine((8,), [Running(job(3, 4), 0), Running(job(2, 6), 0), Running(job(2, 6), 0)])
    reservation = reserve(job(5, 2), 1, machine)  # 1 free, 4 at tick 4, all 8 at tick 6
    assert (reservation.shadow, reservation.extra) == (6, (3,))
    assert admissible(job(1, 5), 1, machine, reservation)  # gone by 6
    assert admissible(job(1, 6), 1, machine, reservation)  # one of the three
    start_behind(job(1, 6), 1, machine, reservation)
    assert reservation.extra == (2,)
    assert not admissible(job(1, 1), 1, machine, reservation)  # nothing is free any more


def test_the_profile_finds_the_first_gap_that_is_long_enough() -> None:
    profile = Profile(now=2, units=(4,), uses=[(2, 5, (3,)), (7, 9, (2,))])
    assert profile.earliest(job(1, 9)) == 2
    assert profile.earliest(job(3, 2)) == 5
    assert profile.earliest(job(3, 3)) == 9
    profile.add(job(3, 2), 5)
    assert profile.earliest(job(2, 1)) == 7


FOUR_JOBS = JobTable.build(submit=[0, 1, 1, 2], runtime=[4, 2, 3, 1], demand=[2, 2, 1, 1])


FIRST_TICK = {
    "slowdown": -(1 / 4 + 1 / 2 + 1 / 3),
    "bounded_slowdown": -2 / 10,
    "wait_time": -2,
    "utilization": 2 / 3,
    "makespan": -1,
    "job_starvation": 0,
    "unused_capacity": -1 / 3,
    "throughput": 0,
    "terminal_bsld": 0,
    "long_waits": 0,
}
FULL_TICKS = {  # two ticks, 1 + 1/2 of each rate
    "slowdown": -1.5 * (1 / 4 + 1 / 3 + 1 / 2 + 1),
    "bounded_slowdown": -1.5 * 2 / 10,
    "wait_time": -1.5 * 2,
    "utilization": 1.5,
    "makespan": -1.5,
    "job_starvation": 0,
    "unused_capacity": 0,
    "throughput": 1 / 4,
    "terminal_bsld": 0,
    "long_waits": 0,
}
LAST_TICKS = {
    "slowdown": -(1 / 2 + 1 / 3 + 1) - 0.5 * (1 / 2 + 1),
    "bounded_slowdown": -1 / 10,
    "wait_time": -1,
    "utilization": 1.5,
    "makespan": -1.5,
    "job_starvation": 0,
    "unused_capacity": 0,
    "throughput": 0.5 * 1 + 0.25 * 2,
    "terminal_bsld": -0.25,
    "long_waits": 0,
}


def test_an_episode_by_hand() -> None:
    """Commit, smdp, two slots, three processors, half a discount per tick."""
    env = TwinEnv(scenario(window=2, gamma=0.5), [3], FOUR_JOBS)

    # 0: A had to start, nothing else was there. 1: B does not fit, C does; choosing either is a choice.
    assert (env.now, env.mask, env.starts) == (1, [1, 1, 0], [0, -1, -1, -1])

    # B is promised 4; C would be gone by then, and waiting is for something now. No time has passed.
    env.step(0)
    assert (env.now, env.elapsed, env.mask) == (1, 0, [0, 1, 1])
    assert not any(env.terms.values())

    # D arrives at 2, behind the window. The promise is over.
    env.step(2)
    assert (env.now, env.elapsed, env.mask) == (2, 1, [1, 1, 0])
    assert env.terms == pytest.approx(FIRST_TICK)

    # C starts, the machine is full until A ends at 4.
    env.step(1)
    assert (env.now, env.elapsed, env.mask) == (4, 2, [1, 1, 0])
    assert env.terms == pytest.approx(FULL_TICKS)

    # B starts; C ends at 5, D has to start then; B and D end at 6 and all is over.
    env.step(0)
    assert (env.now, env.elapsed, env.terminated, env.truncated) == (6, 2, True, False)
    assert env.starts == [0, 4, 2, 5]
    assert env.terms == pytest.approx(LAST_TICKS)


def test_sparse_books_the_first_tick_and_every_event() -> None:
    env = TwinEnv(scenario(window=2, gamma=0.5, time_rule="sparse"), [3], FOUR_JOBS)
    env.step(0)
    env.step(2)
    env.step(1)
    assert env.elapsed == 2
    assert env.terms["wait_time"] == -2
    assert env.terms["throughput"] == 1 / 4


def test_tick_asks_at_every_tick_unless_forced_actions_are_skipped() -> None:
    env = TwinEnv(scenario(window=2, time_rule="tick", skip_forced=False), [3], FOUR_JOBS)
    assert (env.now, env.mask) == (0, [1, 0, 0])
    env.step(0)
    assert (env.now, env.mask) == (0, [0, 0, 1])
    env.step(2)
    assert (env.now, env.elapsed, env.mask) == (1, 1, [1, 1, 0])
    env.step(1)  # C until 4, as A
    for now in (2, 3):
        env.step(2)
        assert (env.now, env.mask) == (now, [0, 0, 1])
    skipping = TwinEnv(scenario(window=2, time_rule="tick"), [3], FOUR_JOBS)
    assert (skipping.now, skipping.mask) == (1, [1, 1, 0])
    skipping.step(1)
    assert (skipping.now, skipping.elapsed) == (4, 3)


def test_a_reservation_stands_while_the_clock_ticks_without_an_event() -> None:
    table = JobTable.build(submit=[0, 0, 0], runtime=[5, 2, 2], demand=[2, 3, 1])
    env = TwinEnv(scenario(window=3, time_rule="tick"), [3], table)
    env.step(0)
    env.step(0)  # the second job is promised 5, nothing to spare
    assert (env.now, env.mask) == (0, [0, 1, 0, 1])
    for now in (1, 2, 3):
        env.step(3)
        assert (env.now, env.mask) == (now, [0, 1, 0, 1])
    env.step(3)  # from 4 on the third job would outlast 5; 5 is an event, both fit
    assert (env.now, env.elapsed, env.mask) == (5, 2, [1, 1, 0, 0])


def test_the_fit_rule_lets_one_wait() -> None:
    env = TwinEnv(scenario(action_rule="fit", window=2), [3], FOUR_JOBS)
    assert (env.now, env.mask) == (0, [1, 0, 1])
    env.step(2)
    assert (env.now, env.mask) == (1, [1, 1, 1])


def test_the_hold_rule_lets_one_wait_before_and_behind_a_reservation() -> None:
    env = TwinEnv(scenario(action_rule="hold", window=2), [3], FOUR_JOBS)
    assert (env.now, env.mask) == (0, [1, 0, 1])
    env.step(0)  # A until 4. B does not fit, and may be reserved for; C does
    assert (env.now, env.mask) == (1, [1, 1, 1])
    env.step(0)  # B is promised 4, C would be gone by then
    assert (env.now, env.mask) == (1, [0, 1, 1])
    env.step(2)  # the promise is over, D is behind the window
    assert (env.now, env.elapsed, env.mask) == (2, 1, [1, 1, 1])
    env.step(2)  # to the end of A, when both fit; nothing runs or is to come, so there is nothing to wait for
    assert (env.now, env.elapsed, env.mask) == (4, 2, [1, 1, 0])


def test_no_more_than_window_and_two_actions_before_the_clock_moves() -> None:
    table = JobTable.build(submit=[0] * 6, runtime=[1] * 6, demand=[1] * 6)
    env = TwinEnv(scenario(window=2, skip_forced=False), [6], table)
    for started in range(4):
        assert env.mask == [1, 1, 0], started
        env.step(0)
    assert (env.now, env.starts.count(0), env.mask) == (1, 4, [1, 1, 0])


def test_ends() -> None:
    last_arrival = TwinEnv(scenario(window=2, no_new_job=True), [3], FOUR_JOBS)
    last_arrival.step(0)
    last_arrival.step(2)
    assert (last_arrival.now, last_arrival.terminated, last_arrival.truncated) == (2, True, False)

    cut = TwinEnv(scenario(window=2, max_ticks=3), [3], FOUR_JOBS)
    cut.step(1)  # C until 4; D arrives at 2, nothing can start
    assert (cut.now, cut.elapsed, cut.terminated, cut.truncated) == (3, 2, False, True)


def test_compat_releases_in_the_order_of_starts() -> None:
    assert replay_rlscheduler(RELEASES, 4, "sjf", backfill=True) == RELEASES_STARTS


def test_compat_releases_by_expected_ends_once_a_head_has_waited() -> None:
    assert replay_rlscheduler(EXPECTED, 6, "fcfs", backfill=True) == EXPECTED_STARTS
    assert replay_rlscheduler(EXPECTED, 6, "fcfs", backfill=False) == [0, 0, 10, 20]


def read_swf(path: Path) -> tuple[JobTable, int]:
    """A trace by the loading rules of RLScheduler (specification, section 6, item 1), and its processors."""
    header: dict[str, int] = {}
    rows = []
    with gzip.open(path, "rt") as file:
        lines = list(file)
    for line in lines:
        if match := re.match(r";\s*(MaxNodes|MaxProcs):\s*(\d+)", line):
            header[match[1]] = int(match[2])
        if line.startswith(";"):
            continue
        number, submit, _, run, allocated, _, _, requested_units, requested = (
            int(float(f)) for f in line.split()[:9]
        )
        run = 10 if run < 0 else run
        if run:
            rows.append(
                (number, submit, run, run if requested == -1 else requested, max(allocated, requested_units))
            )
    processors = header.get("MaxProcs", header["MaxNodes"])
    per_node = processors / header["MaxNodes"]
    number, submit, run, requested, procs = zip(*sorted(rows), strict=True)
    nodes = [math.ceil(p / per_node) for p in procs]
    table = JobTable.build(id=number, submit=submit, runtime=run, requested=requested, demand=nodes)
    return table, processors


@pytest.mark.parametrize("trace", ["HPC2N-2002-2.2-cln", "lublin_256"])
def test_compat_reproduces_the_recorded_replays(data_dir: Path, trace: str) -> None:
    """A few of the 200: the twin is slow. Sequence 1 of lublin_256 needs the tie rule for releases."""
    oracle_name = {"HPC2N-2002-2.2-cln": "HPC2N_slice10000"}.get(trace, trace)
    oracle = json.loads((data_dir.parent / "oracle" / f"{oracle_name}.json").read_text("utf-8"))
    table, processors = read_swf(data_dir / "swf" / f"{trace}.swf.gz")
    for policy, sequence in (("sjf", 0), ("fcfs", 1)):
        jobs = table.take(slice(oracle["offsets"][sequence], oracle["offsets"][sequence] + oracle["seq_len"]))
        starts = replay_rlscheduler(jobs, processors, policy, backfill=True)
        recorded = oracle["policies"][policy]["backfill"]
        waits = [start - submit for start, submit in zip(starts, jobs.submit.tolist(), strict=True)]
        bounded = [
            max(1, (w + run) / max(run, 10)) for w, run in zip(waits, jobs.runtime.tolist(), strict=True)
        ]
        assert sum(bounded) / len(jobs) == pytest.approx(recorded["bsld"][sequence], rel=1e-9)
        if sequence == 0:
            by_id = dict(zip(map(str, jobs.id.tolist()), waits, strict=True))
            assert by_id == recorded["seq0_wait_by_job_id"]
