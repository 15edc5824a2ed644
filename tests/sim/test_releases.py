from __future__ import annotations

import numpy as np
import pytest

from rlsched.jobs import JobTable
from rlsched.sim import releases
from rlsched.sim.compiled import kernel
from rlsched.sim.load import load
from rlsched.sim.replay import replay
from rlsched.sim.state import BLOCK, JOB_BITS, JOB_MASK, State, allocate
from tests.twin.replay import replay as twin_replay

JOBS = 6 * BLOCK


@kernel
def add_release(state: State, env: int, row: int, code: int) -> None:
    releases.add_release(state, env, row, code)


@kernel
def drop_release(state: State, env: int, row: int, code: int) -> None:
    releases.drop_release(state, env, row, code)


def filled_state(seed: int) -> State:
    rng = np.random.default_rng(seed)
    demand = np.stack([rng.integers(1, 5, JOBS), rng.integers(0, 3, JOBS)], axis=1)
    jobs = JobTable.build(submit=[0] * JOBS, runtime=[1] * JOBS, demand=demand)
    state = allocate(1, JOBS, [8 * JOBS, 8 * JOBS])
    load(state, 0, jobs)
    return state


def codes_in_order(state: State) -> list[int]:
    used = state.block_order[0, : state.episodes["num_blocks"][0]]
    return [int(code) for block in used for code in state.blocks[0, block, : state.block_size[0, block]]]


@pytest.mark.parametrize("seed", range(4))
def test_blocks_hold_what_a_sorted_list_holds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    state = filled_state(seed)
    inside: dict[int, int] = {}
    capacity = state.blocks.shape[1]
    most = 0
    for step in range(12 * JOBS):
        growing = (step // (2 * JOBS)) % 2 == 0  # fill up, empty, fill up again: splits and joins
        free = JOBS - len(inside)
        if free and (not inside or rng.random() < (0.8 if growing else 0.2)):
            row = int(rng.integers(JOBS))
            if row in inside:
                continue
            inside[row] = int(rng.integers(40 if seed % 2 else 100_000)) << JOB_BITS | row
            add_release(state, 0, row, inside[row])
        else:
            earliest_first = seed == 3  # as most jobs end
            row = (
                min(inside, key=inside.__getitem__)
                if earliest_first
                else list(inside)[int(rng.integers(len(inside)))]
            )
            drop_release(state, 0, row, inside.pop(row))
        most = max(most, int(state.episodes["num_blocks"][0]))
        if step % 97 == 0:
            assert codes_in_order(state) == sorted(inside.values())
            used = state.block_order[0, : state.episodes["num_blocks"][0]]
            for block in used:
                rows = state.blocks[0, block, : state.block_size[0, block]] & JOB_MASK
                np.testing.assert_array_equal(state.block_units[0, block], state.demand[0, rows].sum(axis=0))
            assert sorted(state.block_order[0]) == list(range(capacity))
    assert 4 <= most < capacity


def test_more_running_jobs_than_a_block_agree_with_the_twin() -> None:
    rng = np.random.default_rng(7)
    n = 760
    submit = np.sort(rng.integers(0, 30, n))
    runtime = rng.integers(60, 400, n)
    requested = np.maximum(1, runtime + rng.integers(-15, 60, n))
    demand = np.where(np.arange(n) % 190 == 180, rng.integers(200, 700, n), 1)
    jobs = JobTable.build(submit=submit, runtime=runtime, requested=requested, demand=demand)
    starts = replay(jobs, [700], "fcfs", "easy")
    running_at = [(starts <= t).sum() - (starts + runtime <= t).sum() for t in starts]
    assert max(running_at) > 1.25 * BLOCK  # more than one block, or the test shows nothing
    assert starts.tolist() == twin_replay(jobs, [700], "fcfs", "easy")
