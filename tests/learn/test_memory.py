"""Freed memory is kept: a process that frees and takes as a learner does touches no fresh pages."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")

ROUNDS = """
import resource
import torch
from torch import nn
from rlsched.learn.memory import keep_freed

if {kept}:
    assert keep_freed()
layers = [layer for _ in range(6) for layer in (nn.Linear(64, 64), nn.ReLU())]
network, inputs = nn.Sequential(*layers), torch.rand(2**15, 64)  # results in between of 8 MiB
for round in range(20):
    if round == 10:  # by now everything that is kept is there
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    network(inputs).sum().backward()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(*, kept: bool) -> int:
    """Fresh pages that ten rounds touched, in a process of their own."""
    done = subprocess.run(
        [sys.executable, "-c", ROUNDS.format(kept=kept)], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@pytest.mark.skipif(
    HUGE_PAGES.exists() and "[always]" in HUGE_PAGES.read_text("utf-8"),
    reason="pages are huge here, and few of them are fresh",
)
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="no glibc, no such setting")
def test_what_is_freed_is_not_given_back() -> None:
    assert faults(kept=True) < 100
    assert faults(kept=False) > 10_000  # else the setting is not needed any more
