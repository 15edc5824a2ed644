"""Large arrays that are written again and again: fresh memory is dear, its first touch above all."""

from __future__ import annotations

import ctypes
import math
import sys
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


def _keeper_references() -> int:
    """References to an unused array: of its keeper and, by version of Python, of the caller."""
    keeper = [np.empty(0)]
    return sys.getrefcount(keeper[0])


KEEPER_REFERENCES = _keeper_references()

HEADROOM = 8
"""A new array has room for one part in so many more: what is lent next is seldom of just the same size."""

HELD = 4
"""Objects that whoever made them holds on to. Of one that another process lets go of last, Ray 2.60 keeps its
record for ever: a few hundred bytes, which with every fragment and all weights break up a heap."""

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # of glibc's malloc.h
MMAP_BYTES, TRIM_BYTES = 32 << 20, 512 << 20
"""The most that glibc lets one set; and more than all results in between of a minibatch."""


def keep_freed() -> bool:
    """Let this process keep what it frees instead of giving it back to the system.

    PyTorch frees the results in between of every minibatch, glibc gives those of megabytes back, and the next
    minibatch touches fresh pages: up to a third of the time of a learner. Kept is what lies at the end of the
    heap, up to half a gigabyte. Threads that have no heap of their own yet share this one: others know no
    such setting, and what APPO's learner takes and frees in its thread broke one up.

    Returns:
        Whether there is such a setting; with another C library than glibc there is none.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = ((M_MMAP_THRESHOLD, MMAP_BYTES), (M_TRIM_THRESHOLD, TRIM_BYTES), (M_ARENA_MAX, 1))
    accepted = [
        bool(mallopt(parameter, value)) for parameter, value in settings
    ]  # each, whatever the other came to
    return all(accepted)


class Memory:
    """Lends arrays, and lends them again once nobody looks at them any more.

    The first touch of a page costs more than all that is written into it. A view keeps its array referenced,
    so that the number of references tells whether one is still in use.
    """

    def __init__(self) -> None:
        self._arrays: dict[str, list[NDArray[np.uint8]]] = {}

    def empty(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """An array with whatever is in it.

        Args:
            name: what for; of each name as many arrays are kept as were ever in use at once.
            shape: of it.
            dtype: of it.
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
