"""Cache folder of compiled code: beside its source, else in a folder of the user's."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numba

from rlsched.files import is_private, temporary_home

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def cached(function: Callable[Parameters, Result], **options: Any) -> Callable[Parameters, Result]:
    """Compile a function by `numba.njit`, with its cache in a folder where this user may write.

    numba reads its cache folder now, so that other code of the process keeps another one.
    """
    before = numba.config.CACHE_DIR
    if not before:
        numba.config.CACHE_DIR = cache_folder(Path(__file__).parent)
    try:
        made: Callable[Parameters, Result] = numba.njit(cache=True, **options)(function)
    finally:
        numba.config.CACHE_DIR = before
    return made


def readable_index(load: Callable[[], dict[Any, Any]]) -> dict[Any, Any]:
    """The index of a cache by numba's `load`; empty where it holds types of another version of the core."""
    try:
        return load()
    except (AttributeError, ImportError):  # a class that has moved, or has another name now
        return {}


@cache
def cache_folder(source: Path) -> str:
    """Cache folder for the code of a source folder; empty: in `__pycache__` beside it, as is usual.

    Where that may not be written to, it is the cache folder of the user; without a HOME that is there, that
    of `files.ensure_home`. No other user may write to either, since numba runs the code in it.
    """
    pycache = source / "__pycache__"
    if os.access(pycache if pycache.exists() else source, os.W_OK):
        return ""
    with suppress(OSError, RuntimeError):  # of no home
        user_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rlsched"
        user_cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        if is_private(user_cache) and os.access(user_cache, os.W_OK):
            return str(user_cache)
    home = temporary_home()
    with suppress(OSError):
        home.mkdir(mode=0o700, exist_ok=True)
        if is_private(home):
            inner = home / ".cache" / "rlsched"
            inner.mkdir(mode=0o700, parents=True, exist_ok=True)
            return str(inner)
    return tempfile.mkdtemp(prefix="rlsched-")
