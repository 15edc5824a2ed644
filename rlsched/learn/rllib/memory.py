"""Reuse of large arrays: fresh memory is expensive, above all the first touch of its pages."""

from __future__ import annotations

import ctypes
import math
import sys
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


def _keeper_references() -> int:
    """Reference count of an unused array: that of its keeper and, by version of Python, of the caller."""
    keeper = [np.empty(0)]
    return sys.getrefcount(keeper[0])


KEEPER_REFERENCES = _keeper_references()

HEADROOM = 8
"""Divisor of a new array's size that gives its spare room: the next request seldom has the same size."""

HELD = 4
"""Number of Ray objects that their creator keeps references to.

If another process drops the last reference to an object, Ray 2.60 keeps its record forever: a few hundred
bytes, which with every fragment and all weights fragment a heap.
"""

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # of glibc's malloc.h
MMAP_BYTES, TRIM_BYTES = 32 << 20, 512 << 20
"""Largest mmap threshold that glibc accepts, and a trim threshold above all intermediates of a minibatch."""


def keep_freed() -> bool:
    """Let this process keep what it frees instead of giving it back to the system.

    PyTorch frees the intermediates of every minibatch, glibc returns those of megabytes, and the next
    minibatch touches fresh pages: up to a third of a learner's time. Now up to half a gigabyte at the end of
    the heap is kept. Threads that have no heap of their own yet share this one: other heaps have no such
    setting, and APPO's learner fragmented one from its thread.

    Returns:
        Whether there is such a setting; with another C library than glibc there is none.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = ((M_MMAP_THRESHOLD, MMAP_BYTES), (M_TRIM_THRESHOLD, TRIM_BYTES), (M_ARENA_MAX, 1))
    accepted = [
        bool(mallopt(parameter, value)) for parameter, value in settings
    ]  # all are tried, also after one is refused
    return all(accepted)


class Memory:
    """Pool of arrays, which are reused once nothing refers to them any more.

    The first touch of a page costs more than all that is written into it. A view keeps its array referenced,
    so that the number of references tells whether one is still in use.
    """

    def __init__(self) -> None:
        self._arrays: dict[str, list[NDArray[np.uint8]]] = {}

    def empty(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return an array with arbitrary contents.

        Args:
            name: purpose; for each name the pool keeps as many arrays as were ever in use at once.
            shape: of the array.
            dtype: of the array.
        """
        arrays = self._arrays.setdefault(name, [])
        size = math.prod(shape) * np.dtype(dtype).itemsize
        free = [k for k in range(len(arrays)) if sys.getrefcount(arrays[k]) <= KEEPER_REFERENCES]
        fitting = [k for k in free if len(arrays[k]) >= size]
        if not fitting:
            if free:
                del arrays[free[0]]  # before another is taken
            arrays.append(np.empty(size + size // HEADROOM, np.uint8))
        return arrays[fitting[0] if fitting else -1][:size].view(dtype).reshape(shape)
