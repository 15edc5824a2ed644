"""What only a clone of the repository holds: yardsticks that are no part of the package."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

import rlsched


@cache
def module(name: str) -> ModuleType | None:
    """A module by its dotted name from the root of the repository, if that is there.

    Raises:
        ImportError: it is there, but something that it needs is not installed.
    """
    found = file(name)
    if found is None:
        return None
    root = found.parents[len(name.split(".")) - 1]
    sys.path.insert(0, str(root))
    try:
        return import_module(name)
    finally:
        sys.path.remove(str(root))


def file(name: str) -> Path | None:
    """Where a module lies, by its dotted name from the root of the repository, if it is there."""
    inside = Path(*name.split(".")).with_suffix(".py")
    for root in (Path(rlsched.__file__).parents[1], Path.cwd()):
        if (root / inside).is_file():
            return root / inside
    return None
