"""Replaying: the compiled core against paper, the slow twin and the recorded oracle."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlsched.jobs import JobTable
from rlsched.sim.compat import replay_rlscheduler
from rlsched.sim.replay import replay
from rlsched.workloads import swf
from tests.strategies import Instance, instances, random_instance, random_jobs
from tests.twin.compat import KEYS as COMPAT_POLICIES
from tests.twin.compat import replay_rlscheduler as twin_replay_rlscheduler
from tests.twin.replay import POLICIES
from tests.twin.replay import replay as twin_replay

from .by_hand import CASES, EXPECTED, EXPECTED_STARTS, RELEASES, RELEASES_STARTS
from .drive import usage

BACKFILLS = ("none", "greedy", "easy", "conservative")


@pytest.mark.parametrize(
    ("name", "backfill"), [(name, backfill) for name, case in CASES.items() for backfill in case.starts]
)
def test_by_hand(name: str, backfill: str) -> None:
    case = CASES[name]
    starts = replay(case.table, list(case.units), case.policy, backfill, window=case.window)
    assert starts.tolist() == case.starts[backfill]


def agree(
    instance: Instance, policy: str, backfill: str, window: int | None = None, seed: int = 0
) -> np.ndarray:
    starts = replay(instance.table, list(instance.units), policy, backfill, window=window, seed=seed)
    expected = twin_replay(instance.table, instance.units, policy, backfill, window=window, seed=seed)
    assert starts.tolist() == expected, (instance, policy, backfill, window)
    return starts


@pytest.mark.parametrize("backfill", BACKFILLS)
@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=25)
@given(data=st.data())
def test_agrees_with_the_twin(policy: str, backfill: str, data: st.DataObject) -> None:
    instance = data.draw(instances())
    window = data.draw(st.none() | st.integers(1, 4))
    agree(instance, policy, backfill, window, seed=data.draw(st.integers(0, 3)))


def test_keys_that_differ_by_rounding_alone_order_as_in_the_twin() -> None:
    # At 1 both waiting jobs match the free units (0, 4, 4) of (1, 5, 5) by 0.8, or nearly so.
    table = JobTable.build(
        id=[2, 3, 1],
        submit=[0, 0, 1],
        runtime=[2, 1, 1],
        requested=[2, 1, 1],
        demand=[[1, 1, 1], [0, 0, 5], [0, 1, 4]],
    )
    starts = replay(table, [1, 5, 5], "packing", "none")
    assert starts.tolist() == twin_replay(table, (1, 5, 5), "packing", "none")


@pytest.mark.parametrize("backfill", ["easy", "conservative"])
def test_agrees_with_the_twin_on_a_thousand_bigger_instances(backfill: str) -> None:
    rng = random.Random(20)
    for _ in range(1000):
        instance = random_instance(rng, num_jobs=rng.randint(10, 20), most=8)
        window = rng.choice([None, None, None, 1, 3, 6])
        agree(instance, rng.choice(POLICIES), backfill, window, seed=rng.randint(0, 9))


@pytest.mark.parametrize("policy", POLICIES)
def test_agrees_with_the_twin_at_the_scale_of_traces(policy: str) -> None:
    """Seconds and hundreds of processors: here every part of a key has weight."""
    rng = random.Random(7)
    for backfill in BACKFILLS:
        for _ in range(3):
            units = (256, 8)
            table = random_jobs(rng, units, num_jobs=40, span=100_000, longest=50_000)
            late = replace(table, submit=table.submit + rng.choice([1, 10**6]))
            agree(Instance(units, late), policy, backfill)


@pytest.mark.parametrize("backfill", BACKFILLS)
@settings(max_examples=50)
@given(instance=instances(), policy=st.sampled_from(POLICIES), window=st.none() | st.integers(1, 4))
def test_every_job_runs_once_after_its_submit_time_on_units_that_are_there(
    backfill: str, instance: Instance, policy: str, window: int | None
) -> None:
    starts = replay(instance.table, list(instance.units), policy, backfill, window=window)
    assert (starts >= instance.table.submit).all()
    assert (usage(instance.table, starts) <= instance.units).all()


@settings(max_examples=50)
@given(
    instance=instances(),
    policy=st.sampled_from(sorted({*POLICIES} - {"f1", "edf", "least_slack"})),
    backfill=st.sampled_from(BACKFILLS),
)
def test_late_clocks_are_like_early_ones(instance: Instance, policy: str, backfill: str) -> None:
    """Traces count seconds since some epoch. (The other policies round submit times of that size.)"""
    late = replace(instance.table, submit=instance.table.submit + 10**10)
    units = list(instance.units)
    assert (
        replay(late, units, policy, backfill) == replay(instance.table, units, policy, backfill) + 10**10
    ).all()


@settings(max_examples=50)
@given(instance=instances())
def test_with_exact_estimates_conservative_keeps_every_promise(instance: Instance) -> None:
    """Under fcfs and exact estimates nobody starts later than without backfilling (Mu'alem and Feitelson)."""
    table = instance.table
    exact = JobTable.build(
        id=table.id, submit=table.submit, runtime=table.requested, demand=table.demand, qos=table.qos
    )
    units = list(instance.units)
    assert (replay(exact, units, "fcfs", "conservative") <= replay(exact, units, "fcfs", "none")).all()


@pytest.mark.parametrize("backfill", [False, True])
@pytest.mark.parametrize("policy", sorted(COMPAT_POLICIES))
def test_compat_agrees_with_the_twin(policy: str, backfill: bool) -> None:
    """Rows come as they are listed, also where their submit times are out of order."""
    rng = random.Random(5)
    for _ in range(400):
        units = rng.randint(1, 8)
        rows = random_jobs(rng, (units,), num_jobs=rng.randint(1, 14), span=rng.choice([0, 4, 30]))
        if rng.random() < 0.5:
            rows = rows.take(np.array(rng.sample(range(len(rows)), len(rows))))
        starts = replay_rlscheduler(rows, units, policy, backfill)
        assert starts.tolist() == twin_replay_rlscheduler(rows, units, policy, backfill), (units, rows)


def test_compat_releases_in_the_order_of_starts() -> None:
    assert replay_rlscheduler(RELEASES, 4, "sjf", True).tolist() == RELEASES_STARTS


def test_compat_releases_by_expected_ends_once_a_head_has_waited() -> None:
    assert replay_rlscheduler(EXPECTED, 6, "fcfs", True).tolist() == EXPECTED_STARTS
    assert replay_rlscheduler(EXPECTED, 6, "fcfs", False).tolist() == [0, 0, 10, 20]


@pytest.mark.parametrize("mode", ["no_backfill", "backfill"])
@pytest.mark.parametrize("policy", ["f1", "fcfs", "sjf", "unicep", "wfp3"])
@pytest.mark.parametrize("trace", ["lublin_256", "HPC2N-2002-2.2-cln"])
def test_compat_reproduces_the_oracle(data_dir: Path, trace: str, policy: str, mode: str) -> None:
    names = {"HPC2N-2002-2.2-cln": "HPC2N_slice10000", "unicep": "uni", "wfp3": "wfp"}
    file = data_dir.parent / "oracle" / f"{names.get(trace, trace)}.json"
    if not file.is_file():
        pytest.skip(f"no recorded oracle at {file}")
    oracle = json.loads(file.read_text("utf-8"))
    recorded = oracle["policies"][names.get(policy, policy)][mode]
    loaded = load(data_dir / "swf" / f"{trace}.swf.gz")
    for sequence, offset in enumerate(oracle["offsets"]):
        jobs = loaded.take(slice(offset, offset + oracle["seq_len"]))
        assert jobs.id[0] == oracle["first_job_ids"][sequence]
        starts = replay_rlscheduler(jobs, oracle["max_procs"], policy, mode == "backfill")
        waits = starts - jobs.submit
        bounded = np.maximum(1, (waits + jobs.runtime) / np.maximum(jobs.runtime, 10))
        assert bounded.mean() == pytest.approx(recorded["bsld"][sequence], rel=1e-9), sequence
        assert waits.mean() == pytest.approx(recorded["wait"][sequence], rel=1e-9, abs=1e-6), sequence
        span = starts.max() - jobs.submit[0]
        utilization = jobs.area.sum() / (span * oracle["max_procs"])
        assert utilization == pytest.approx(-recorded["util"][sequence], abs=1e-8), sequence
        if sequence == 0 and "seq0_wait_by_job_id" in recorded:
            by_id = dict(zip(map(str, jobs.id.tolist()), waits.tolist(), strict=True))
            assert by_id == recorded["seq0_wait_by_job_id"]


@cache
def load(path: Path) -> JobTable:
    """A trace by RLScheduler's rules, read once."""
    return swf.read(path, rules="rlscheduler").jobs
