"""Conversion of jobs from seconds to ticks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rlsched.jobs import JobTable


def in_ticks(jobs: JobTable, tick_s: int) -> JobTable:
    """Jobs with times in ticks: submit and start rounded down, lengths up, and so never to 0.

    Args:
        jobs: times in seconds.
        tick_s: seconds per tick, >= 1.
    """
    if tick_s == 1:
        return jobs
    return replace(
        jobs,
        submit=jobs.submit // tick_s,
        start=np.where(jobs.start < 0, -1, jobs.start // tick_s),
        runtime=-(-jobs.runtime // tick_s),
        requested=-(-jobs.requested // tick_s),
        think=np.where(jobs.think < 0, -1, -(-jobs.think // tick_s)),
    )
