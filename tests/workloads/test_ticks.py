"""From seconds to ticks."""

from __future__ import annotations

import pytest

from rlsched.jobs import JobTable

JOBS = JobTable.build(submit=[0, 59, 60], runtime=[1, 60, 61], requested=[60, 120, 121], demand=[1, 1, 1])


@pytest.mark.parametrize(
    ("tick_s", "submit", "runtime", "requested"),
    [
        (1, [0, 59, 60], [1, 60, 61], [60, 120, 121]),
        (60, [0, 0, 1], [1, 1, 2], [1, 2, 3]),
        (3600, [0, 0, 0], [1, 1, 1], [1, 1, 1]),
    ],
)
def test_submit_goes_down_lengths_go_up(
    tick_s: int, submit: list[int], runtime: list[int], requested: list[int]
) -> None:
    jobs = JOBS.in_ticks(tick_s)
    assert jobs.submit.tolist() == submit
    assert jobs.runtime.tolist() == runtime
    assert jobs.requested.tolist() == requested
