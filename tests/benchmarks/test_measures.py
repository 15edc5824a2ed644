"""What benchmarks compute from what they measure, by hand."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys

import numpy as np
import pytest

from benchmarks.scaling import NETWORK_BYTES_PER_S, Parts, projected, sent_bytes
from benchmarks.soak import Reading, family, growth, proportional_mib

PARTS = Parts(
    sampled_per_s=1000.0,
    decisions=500,
    fragment_bytes=500_000,
    weights_bytes=int(NETWORK_BYTES_PER_S / 1000),
    receive_s=0.01,
    learned_per_s=20_000.0,
)


def test_a_process_and_what_it_started_are_a_family() -> None:
    inner = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    with subprocess.Popen([sys.executable, "-c", inner], stdin=subprocess.PIPE) as child:
        result: list[int] = []
        while len(result) < 2:
            assert child.poll() is None
            result = family(child.pid)
        assert child.pid in family(os.getpid())
        assert set(result) <= set(family(os.getpid()))
        assert child.stdin is not None
        child.stdin.close()


def test_memory_that_is_touched_is_counted() -> None:
    mib = 64
    before = proportional_mib(os.getpid())
    with mmap.mmap(
        -1, mib << 20, mmap.MAP_PRIVATE
    ) as requested:  # an array may be given what was freed before
        assert proportional_mib(os.getpid())[0] == pytest.approx(before[0], abs=mib / 10)
        requested.write(b"1" * len(requested))
        after = proportional_mib(os.getpid())
    more = [now - was for now, was in zip(after, before, strict=True)]
    assert more == pytest.approx([mib, mib, 0.0, 0.0], abs=mib / 10)  # all of it is this process's own
    assert after[0] == pytest.approx(sum(after[1:]), abs=1)
    assert proportional_mib(2**22 + 1) == [0.0] * 4


def test_growth_is_counted_after_the_warm_up() -> None:
    minutes = np.arange(0, 60.5, 0.5)
    grown = [Reading(m, 1000.0, 700.0 if m < 30 else 730.0, 200.0, 100.0, 3) for m in minutes]
    assert growth(grown, 10) == (1000.0, 1000.0)
    assert growth(grown, 10, "anonymous") == (700.0, 730.0)
    warming = [Reading(m, min(1000.0, 150.0 * m), 700.0, 200.0, 100.0, 3) for m in minutes]
    assert growth(warming, 10) == (1000.0, 1000.0)


def test_what_limits_many_runners() -> None:
    few, many = projected(PARTS, 10), projected(PARTS, 1000)
    assert few["appo"] == pytest.approx(10_000)  # what is sampled
    assert many["appo"] == pytest.approx(20_000)  # what is learned
    assert many["received"] == pytest.approx(50_000)
    assert many["learners_to_keep_up"] == pytest.approx(2.5)
    # 5,000 decisions: 0.5 s to sample, 0.25 s to learn from, 0.01 s to tell everybody.
    assert few["ppo"] == pytest.approx(5000 / 0.76)


def test_arrays_are_counted_as_they_are_sent() -> None:
    assert sent_bytes({"obs": np.zeros(1000, np.float32)}) == pytest.approx(4000, rel=0.1)
