"""How the core is compiled: one place for numba's options.

The core works on arrays it is given and allocates nothing, so reference counting is switched off
(`_nrt`): counting the state's arrays at every call cost more than the simulation itself. A kernel
that must allocate says so. Steps that are used in every event are inlined for the same reason: passing
the state's arrays by value is dearer than most of what is done with them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numba

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def kernel(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a function that allocates nothing."""
    return numba.njit(cache=True, error_model="numpy", _nrt=False)(function)


def step(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a small function that allocates nothing into whatever calls it."""
    return numba.njit(cache=True, error_model="numpy", _nrt=False, forceinline=True)(function)


def allocating(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a function that may make arrays of its own."""
    return numba.njit(cache=True, error_model="numpy", _nrt=True)(function)
