"""Repeated keys in JSON objects: the decoder takes the last value, and other readers take the first.

Python's own decoder detects them, at several times the cost of a whole request. So compiled code looks for
them first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlsched.jobs import IntArray
from rlsched.json_files import parse_json
from rlsched.sim.compiled import kernel

MOST_LEVELS = 64
MOST_KEYS = 512
"""Keys of all open objects. Beyond these limits, and for keys with escapes, Python's decoder is used."""

QUOTE, BACKSLASH, COLON, OPEN, CLOSE, SPACE = b'"\\:{} '


def check_repeats(text: bytes) -> None:
    """Check that no object of a text repeats a key.

    Args:
        text: JSON that was decoded.

    Raises:
        ValueError: a key is repeated.
    """
    levels, keys = np.empty(MOST_LEVELS, np.int64), np.empty((MOST_KEYS, 2), np.int64)
    if _may_repeat(np.frombuffer(text, np.uint8), levels, keys):
        parse_json(text)


@kernel
def _may_repeat(text: NDArray[np.uint8], levels: IntArray, keys: IntArray) -> bool:
    """Whether a key occurs twice, or may occur twice for all that this check can tell.

    Args:
        text: JSON.
        levels: (level,) room for the number of keys before each open object.
        keys: (key, 2) room for where the keys of open objects begin and end.
    """
    depth = count = place = 0
    while place < len(text):
        byte = text[place]
        place += 1
        if byte == OPEN:
            if depth == len(levels):
                return True
            levels[depth] = count
            depth += 1
        elif byte == CLOSE:
            depth -= 1
            count = levels[depth]
        elif byte == QUOTE:
            first, escaped = place, False
            while text[place] != QUOTE:
                if text[place] == BACKSLASH:
                    escaped = True
                    place += 1
                place += 1
            end = place
            place += 1
            after = place
            while after < len(text) and text[after] <= SPACE:
                after += 1
            if after == len(text) or text[after] != COLON:
                continue
            if escaped or count == len(keys):
                return True
            for k in range(levels[depth - 1], count):
                if keys[k, 1] - keys[k, 0] == end - first and _equal(text, keys[k, 0], first, end - first):
                    return True
            keys[count, 0] = first
            keys[count, 1] = end
            count += 1
    return False


@kernel
def _equal(text: NDArray[np.uint8], first: int, second: int, length: int) -> bool:
    same = True
    for k in range(length):
        same &= text[first + k] == text[second + k]
    return same
