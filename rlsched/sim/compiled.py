"""Compilation of the core: one place for numba's options.

The core works on arrays it is given and allocates nothing, so reference counting is switched off
(`_nrt`): counting the state's arrays at every call cost more than the simulation itself. A kernel
that must allocate says so. Steps that are used in every event are inlined for the same reason: passing
the state's arrays by value costs more than most operations on them. Functions that are rarely called, or are
large, are compiled once (`shared`), since every copy takes seconds.

numba keeps compiled code until the file of a function changes, and does not look at the files of what was
compiled into it. So all of them carry one stamp, made of every file of the core and the table of terms.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from hashlib import sha256
from inspect import signature
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, TypeVarTuple

import numba
import numpy as np
from numba import typeof, types
from numba.core.dispatcher import Dispatcher
from numba.cpython.unsafe.numbers import trailing_zeros
from numba.extending import lower_builtin, overload, type_callable

from rlsched.scenario import term_spec, terms
from rlsched.sim.caching import cached, readable_index

Parameters = ParamSpec("Parameters")
Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")


def _sources() -> str:
    digest = sha256()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    for module in (term_spec, terms):  # their quantities, functions and indices are compiled in
        digest.update(Path(str(module.__file__)).read_bytes())
    return digest.hexdigest()


SOURCES = _sources()

NO_WRAPPERS = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Taking dozens of arrays over from Python is much code, a quarter of all time to compile."""


def _compile(function: Callable[Parameters, Result], **options: Any) -> Callable[Parameters, Result]:
    dispatcher = cached(function, error_model="numpy", **options)
    if hasattr(dispatcher, "_cache"):  # NUMBA_DISABLE_JIT leaves the plain function
        cache = dispatcher._cache._cache_file
        cache._source_stamp = SOURCES
        cache._load_index = partial(readable_index, cache._load_index)
    return dispatcher


def kernel(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a function that allocates nothing and that Python calls."""
    return _compile(function, _nrt=False)


def step(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a small function that allocates nothing into whatever calls it; Python cannot call it."""
    return _compile(function, _nrt=False, forceinline=True, **NO_WRAPPERS)


def inlined(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a function as `step` does, but without a cache, which functions of one name would share."""
    compiled: Callable[Parameters, Result] = numba.njit(
        _nrt=False, error_model="numpy", forceinline=True, **NO_WRAPPERS
    )(function)
    return compiled


def shared(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a function that allocates nothing once, for all that call it; Python cannot call it."""
    return _compile(function, _nrt=False, **NO_WRAPPERS)


def by_mode(
    tick_driven: Callable[[*Arguments], Result], event_driven: Callable[[*Arguments], Result]
) -> Callable[[*Arguments], Result]:
    """One of two steps of the same arguments: the first where the State, their first, has a grid.

    The choice is made when compiling; the other step is not even looked at, which saves up to a third of it.
    """

    def either(*arguments: *Arguments) -> Result:
        everything: tuple[Any, ...] = arguments
        return (tick_driven if everything[0].grid else event_driven)(*arguments)

    # An `overload` would be compiled as one more level between them.
    def chosen(state: Any) -> Any:
        return typeof(tick_driven if state.types[state.fields.index("grid")].count else event_driven)

    @type_callable(either)
    def _type(context: Any) -> Any:
        def typer(*arguments: Any) -> Any:
            return chosen(arguments[0]).get_call_type(context, arguments, {})

        # Without a signature, numba would fold all arguments into one tuple.
        typer.__signature__ = signature(tick_driven)  # type: ignore[attr-defined]
        return typer

    @lower_builtin(either, types.VarArg(types.Any))
    def _lower(context: Any, builder: Any, call: Any, values: Any) -> Any:
        return context.get_function(chosen(call.args[0]), call)(builder, values)

    return either


def allocating(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compile a function that may make arrays of its own."""
    return _compile(function, _nrt=True)


def direct(function: Callable[Parameters, Result], *arguments: Any) -> Callable[Parameters, Result]:
    """The machine code of a kernel for arguments like these, without numba's choice between its versions.

    To choose, numba looks at the type of every argument, at every call; of a named tuple, at that of every
    array in it. Nothing checks the types any more, so hand it the same ones each time.

    Args:
        function: a `kernel`.
        arguments: as it will be called with.
    """
    if not isinstance(function, Dispatcher):  # NUMBA_DISABLE_JIT leaves the plain function
        return function
    kinds = tuple(map(numba.typeof, arguments))
    if (function, kinds) not in _CODE:
        _CODE[function, kinds] = function.compile(kinds)
    code: Callable[Parameters, Result] = _CODE[function, kinds]
    return code


_CODE: dict[tuple[Dispatcher, tuple[Any, ...]], Callable[..., Any]] = {}
"""Machine code by function and types of arguments: numba takes half a millisecond to find it again."""


def lowest_bit(word: np.uint64) -> int:
    """Place of the lowest bit that is set; there must be one."""
    number = int(word)
    return (number & -number).bit_length() - 1


@overload(lowest_bit, strict=False)
def _lowest_bit(word: Any) -> Any:
    return lambda word: np.int64(trailing_zeros(word))
