"""Large arrays that are written again and again."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


def _own() -> int:
    """References to an array that nobody looks at: of its keeper, and, by version of Python, of who asks."""
    keeper = {"name": np.empty(0)}
    kept = keeper.get("name")
    return sys.getrefcount(kept)


OWN = _own()


class Memory:
    """Lends arrays, and lends them again once nobody looks at them any more.

    Fresh memory is dear: the first touch of a page costs more than all that is written into it. A view keeps
    its array referenced, so that the number of references tells whether one is still in use.
    """

    def __init__(self) -> None:
        self._kept: dict[str, NDArray[Any]] = {}

    def empty(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """An array with whatever is in it.

        Args:
            name: what for; one array of each name is kept.
            shape: of it.
            dtype: of it.
        """
        kept = self._kept.get(name)
        if kept is None or kept.shape != shape or kept.dtype != dtype or sys.getrefcount(kept) > OWN:
            kept = self._kept[name] = np.empty(shape, dtype)
        return kept
