"""Freed memory is kept: a process that frees and takes as a learner does touches no fresh pages."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")

ROUNDS = """
import ctypes
import resource
import sys
import threading
from rlsched.learn.rllib.memory import keep_freed

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
SIZE, BLOCKS = 8 << 20, 8  # taken one after the other and freed backwards, as a minibatch does

def faults():
    for round in range(9):
        if round == 6:  # by now everything that is kept is there
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        blocks = [libc.malloc(ctypes.c_size_t(SIZE)) for _ in range(BLOCKS)]
        for block in blocks:
            ctypes.memset(block, 1, SIZE)
        for block in reversed(blocks):
            libc.free(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def in_thread(task):
    results = []
    thread = threading.Thread(target=lambda: results.append(task()))
    thread.start()
    thread.join()
    return results[0]

play = in_thread if sys.argv[1] == "thread" else lambda task: task()
if sys.argv[2] == "kept":
    assert keep_freed()
print(play(faults))
"""


@pytest.mark.skipif(
    HUGE_PAGES.exists() and "[always]" in HUGE_PAGES.read_text("utf-8"),
    reason="pages are huge here, and few of them are fresh",
)
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="no glibc, no such setting")
@pytest.mark.parametrize("where", ["main", "thread"])
def test_what_is_freed_is_not_given_back(where: str) -> None:
    """Also by a thread that learns, as APPO's does."""

    def faults(option: str) -> int:
        words = [sys.executable, "-c", ROUNDS, where, option]
        return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)

    before, after = faults("given back"), faults("kept")
    assert before > 5_000  # else the setting is not needed any more
    assert after < 100
