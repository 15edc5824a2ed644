"""Jobs and schedules to draw."""

from __future__ import annotations

import numpy as np

from rlsched.jobs import IntArray, JobTable

PROCESSORS = 256


def first_fit(jobs: JobTable, processors: int, order: IntArray) -> IntArray:
    """Start ticks under a plain list schedule: jobs in this order, each as soon as it fits after the last."""
    start = np.zeros(len(jobs), dtype=np.int64)
    running: list[tuple[int, int]] = []
    now = 0
    for job in order:
        now = max(now, int(jobs.submit[job]))
        while True:
            running = [(end, units) for end, units in running if end > now]
            if sum(units for _, units in running) + jobs.demand[job, 0] <= processors:
                break
            now = min(end for end, _ in running)
        start[job] = now
        running.append((now + int(jobs.runtime[job]), int(jobs.demand[job, 0])))
    return start


def make_jobs(count: int, seed: int = 0) -> JobTable:
    rng = np.random.default_rng(seed)
    return JobTable.build(
        submit=np.sort(rng.integers(0, 600 * count, count)),
        runtime=np.maximum(rng.lognormal(7, 1.5, count), 1),
        demand=2 ** rng.integers(0, 8, count),
    )
