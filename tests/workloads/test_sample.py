"""The small trace that comes with the project."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

from rlsched import scenario
from rlsched.envs.episodes import EpisodeFeed
from rlsched.workloads import swf

DATASETS = Path(__file__).resolve().parents[2] / "datasets"


def test_the_sample_is_what_its_script_writes(tmp_path: Path) -> None:
    again = tmp_path / "sample.swf.gz"
    subprocess.run([sys.executable, DATASETS / "make_sample.py", again], check=True, timeout=120)
    shipped, made = swf.read(DATASETS / "sample.swf.gz"), swf.read(again)
    assert shipped.header == made.header
    np.testing.assert_array_equal(shipped.jobs.demand, made.jobs.demand)
    # exp() may differ in the last bit between processors, which can move a rounded time by one second
    for name in ("submit", "runtime", "requested"):
        np.testing.assert_allclose(getattr(shipped.jobs, name), getattr(made.jobs, name), rtol=0, atol=1)


def test_the_sample_is_loaded_enough_for_order_to_matter() -> None:
    trace = swf.read(DATASETS / "sample.swf.gz")
    jobs = trace.jobs
    assert (len(jobs), trace.processors, trace.repairs) == (30_000, 256, {})
    assert "python datasets/make_sample.py" in trace.header["Note"]
    load = jobs.area.sum() / (256 * float(jobs.submit[-1] - jobs.submit[0]))
    assert 0.95 < load < 1.15


def test_the_demo_compares_different_episodes() -> None:
    makefile = (DATASETS.parent / "Makefile").read_text()
    match = re.search(r"evaluate runs/demo --episodes (\d+)", makefile)
    assert match is not None
    feed = EpisodeFeed(scenario.load("hpc-trace", [f"workload.file={DATASETS / 'sample.swf.gz'}"]))
    offsets = {feed.evaluation(index, 0).offset for index in range(int(match[1]))}
    assert len(offsets) == int(match[1])
