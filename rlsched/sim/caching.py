"""Where compiled code is kept: beside its source, else in a folder of the user's."""

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
    """What `numba.njit` makes of a function, kept where this user may write.

    numba takes its folder at this moment, so that other code of the process keeps its own.
    """
    before = numba.config.CACHE_DIR
    if not before:
        numba.config.CACHE_DIR = cache_folder(Path(__file__).parent)
    try:
        made: Callable[Parameters, Result] = numba.njit(cache=True, **options)(function)
    finally:
        numba.config.CACHE_DIR = before
    return made


@cache
def cache_folder(source: Path) -> str:
    """Where compiled code of a folder is kept; empty: in `__pycache__` beside it, as is usual.

    Where that may not be written to, it is the cache folder of the user; without a HOME that is there, that
    of `files.ensure_home`. Nobody else may write to either, since what numba keeps is run.
    """
    beside = source / "__pycache__"
    if os.access(beside if beside.exists() else source, os.W_OK):
        return ""
    with suppress(OSError, RuntimeError):  # of no home
        own = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rlsched"
        own.mkdir(mode=0o700, parents=True, exist_ok=True)
        if is_private(own) and os.access(own, os.W_OK):
            return str(own)
    home = temporary_home()
    with suppress(OSError):
        home.mkdir(mode=0o700, exist_ok=True)
        if is_private(home):
            inner = home / ".cache" / "rlsched"
            inner.mkdir(mode=0o700, parents=True, exist_ok=True)
            return str(inner)
    return tempfile.mkdtemp(prefix="rlsched-")
