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

layers = [layer for _ in range(6) for layer in (nn.Linear(64, 64), nn.ReLU())]
network, inputs = nn.Sequential(*layers), torch.rand(2**15, 64)  # results in between of 8 MiB

def faults():
    for round in range(15):
        if round == 10:  # by now everything that is kept is there
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        network(inputs).sum().backward()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(faults())
assert keep_freed()
print(faults())
"""


@pytest.mark.skipif(
    HUGE_PAGES.exists() and "[always]" in HUGE_PAGES.read_text("utf-8"),
    reason="pages are huge here, and few of them are fresh",
)
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="no glibc, no such setting")
def test_what_is_freed_is_not_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", ROUNDS], capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    assert before > 5_000  # else the setting is not needed any more
    assert after < 100
