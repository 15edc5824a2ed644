"""The binary min-heap of real ends: which running job ends first."""

from __future__ import annotations

from rlsched.jobs import IntArray
from rlsched.sim.compiled import step
from rlsched.sim.state import State


@step
def heap_push(heap: IntArray, size: int, code: int) -> None:
    """Add a code to a binary min-heap of `size` codes."""
    k = size
    while k > 0:
        parent = (k - 1) >> 1
        if heap[parent] <= code:
            break
        heap[k] = heap[parent]
        k = parent
    heap[k] = code


@step
def heap_pop(heap: IntArray, size: int) -> int:
    """Take the smallest code out of a binary min-heap of `size` codes."""
    top = heap[0]
    last = heap[size - 1]
    k = 0
    while True:
        child = 2 * k + 1
        if child >= size - 1:
            break
        if child + 1 < size - 1 and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= last:
            break
        heap[k] = heap[child]
        k = child
    heap[k] = last
    return top


@step
def remove_from_heap(s: State, i: int, place: int) -> None:
    """Take a code out of the middle of the heap of ends; `num_running` is the caller's."""
    heap = s.ends[i]
    last = s.episodes[i].num_running - 1
    code = heap[last]
    k = place
    while k > 0 and heap[(k - 1) >> 1] > code:
        heap[k] = heap[(k - 1) >> 1]
        k = (k - 1) >> 1
    while True:
        child = 2 * k + 1
        if child >= last:
            break
        if child + 1 < last and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= code:
            break
        heap[k] = heap[child]
        k = child
    heap[k] = code
