"""The expected releases of a cluster, sorted, in blocks: what looks ahead reads them in order.

A sorted array would move all later entries at every start and end, and a job as wide as the cluster would
have to be summed up against every running job. In blocks of bounded size both cost about a square root of
what runs. Neighbours that are half empty together are joined, which bounds the number of blocks.

`block_order` is a permutation of all blocks: those in use come first, sorted by their codes.
"""

from __future__ import annotations

from rlsched.jobs import IntArray
from rlsched.sim.compiled import shared, step
from rlsched.sim.state import BLOCK, JOB_MASK, State


@step
def position_of(codes: IntArray, size: int, code: int) -> int:
    """First position in a sorted array whose code is not smaller."""
    lo, hi = 0, size
    while lo < hi:
        middle = (lo + hi) >> 1
        if codes[middle] < code:
            lo = middle + 1
        else:
            hi = middle
    return lo


@step
def place_of(s: State, i: int, code: int) -> int:
    """Place in the order of the block that holds a code, or should."""
    lo, hi = 0, s.episodes[i].num_blocks
    while hi - lo > 1:
        middle = (lo + hi) >> 1
        if s.blocks[i, s.block_order[i, middle], 0] <= code:
            lo = middle
        else:
            hi = middle
    return lo


@step
def open_block(s: State, i: int, place: int) -> int:
    """Put an empty block at this place of the order; its number."""
    e = s.episodes[i]
    block = s.block_order[i, e.num_blocks]
    for p in range(e.num_blocks, place, -1):
        s.block_order[i, p] = s.block_order[i, p - 1]
    s.block_order[i, place] = block
    s.block_size[i, block] = 0
    s.block_units[i, block, :] = 0
    e.num_blocks += 1
    return block


@step
def close_block(s: State, i: int, place: int) -> None:
    """Take the block at this place out of use."""
    e = s.episodes[i]
    block = s.block_order[i, place]
    e.num_blocks -= 1
    for p in range(place, e.num_blocks):
        s.block_order[i, p] = s.block_order[i, p + 1]
    s.block_order[i, e.num_blocks] = block


@step
def add_release(s: State, i: int, row: int, code: int) -> None:
    """Put in the expected release of a job."""
    if s.episodes[i].num_blocks == 0:
        open_block(s, i, 0)
    place = place_of(s, i, code)
    block = s.block_order[i, place]
    if s.block_size[i, block] == BLOCK:
        split_block(s, i, place)
        place = place_of(s, i, code)
        block = s.block_order[i, place]
    size = s.block_size[i, block]
    codes = s.blocks[i, block]
    at = position_of(codes, size, code)
    for k in range(size, at, -1):
        codes[k] = codes[k - 1]
    codes[at] = code
    s.block_size[i, block] = size + 1
    for r in range(len(s.resources)):
        s.block_units[i, block, r] += s.demand[i, row, r]


@shared
def split_block(s: State, i: int, place: int) -> None:
    """Move the later half of a full block into a new one behind it."""
    block = s.block_order[i, place]
    later = open_block(s, i, place + 1)
    half = BLOCK // 2
    for k in range(half, BLOCK):
        code = s.blocks[i, block, k]
        s.blocks[i, later, k - half] = code
        for r in range(len(s.resources)):
            units = s.demand[i, code & JOB_MASK, r]
            s.block_units[i, later, r] += units
            s.block_units[i, block, r] -= units
    s.block_size[i, later] = BLOCK - half
    s.block_size[i, block] = half


@step
def drop_release(s: State, i: int, row: int, code: int) -> None:
    """Take out the expected release of a job."""
    place = place_of(s, i, code)
    block = s.block_order[i, place]
    size = s.block_size[i, block] - 1
    codes = s.blocks[i, block]
    for k in range(position_of(codes, size, code), size):
        codes[k] = codes[k + 1]
    s.block_size[i, block] = size
    for r in range(len(s.resources)):
        s.block_units[i, block, r] -= s.demand[i, row, r]
    if size == 0:
        close_block(s, i, place)
    elif size < BLOCK // 4 and s.episodes[i].num_blocks > 1:
        join_blocks(s, i, place)
        if place > 0:
            join_blocks(s, i, place - 1)


@shared
def join_blocks(s: State, i: int, place: int) -> None:
    """Put the next block's codes into this one if both together are at most half full."""
    if place + 1 >= s.episodes[i].num_blocks:
        return
    block, following = s.block_order[i, place], s.block_order[i, place + 1]
    size, more = s.block_size[i, block], s.block_size[i, following]
    if size + more > BLOCK // 2:
        return
    for k in range(more):
        s.blocks[i, block, size + k] = s.blocks[i, following, k]
    s.block_size[i, block] = size + more
    for r in range(len(s.resources)):
        s.block_units[i, block, r] += s.block_units[i, following, r]
    close_block(s, i, place + 1)
