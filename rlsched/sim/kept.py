"""Arguments that compiled code takes over from Python once, and not at every call.

The simulation is fifty arrays in named tuples. Taking them over from Python costs 100 ns an array: a step of
64 environments spends a tenth of its time on it, one of a single environment nearly all. `Kept` holds them as
compiled code does, at an address; a kernel is handed that, and unpacks it by `taken`.

Kernels count no references (see `compiled`), so no more is kept of an array than where it is: it lives as
long as the `Kept` that holds it, and whoever puts another array in its place makes a new `Kept`.

numba takes milliseconds to tell the types of fifty arrays. What they depend on is told in microseconds, and
what was found for others of the same kind is used again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numba import config, typeof
from numba.core import cgutils, types
from numba.core.registry import cpu_target
from numba.extending import (
    NativeValue,
    intrinsic,
    models,
    overload,
    register_model,
    typeof_impl,
    unbox,
)
from numpy.typing import NDArray

from rlsched.sim.compiled import direct, kernel


class Kept:
    """Arguments of a kernel, as Python knows them and as compiled code does.

    Args:
        arguments: named tuples, arrays and numbers. Arrays may change what they hold, not their place.

    Attributes:
        arguments: the same.
        address: of what compiled code knows of them.
    """

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        kind = _kind(arguments)
        if kind not in _FORMS:
            _FORMS[kind] = Form.of(arguments)
        form = _FORMS[kind]
        self.type = form.type
        self._memory = np.zeros(form.size, np.uint8)
        self.address = self._memory.ctypes.data
        if not config.DISABLE_JIT:
            form.keep(self._memory, arguments)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Kept holds addresses of its own process: make another one of the copied arguments")


def _kind(value: Any) -> object:
    """What numba's type of it depends on: values of one kind are of one type."""
    if isinstance(value, tuple):
        return (type(value), *map(_kind, value))
    if type(value) is np.ndarray:
        flags = value.flags
        layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
        # Records that lie differently in memory may be equal to numpy.
        return value.dtype, value.dtype.isalignedstruct, value.ndim, layout, flags.writeable
    return typeof(value)


class Form(NamedTuple):
    """What all `Kept` of one kind have in common.

    Attributes:
        type: what numba knows them by.
        size: bytes of the arguments, as compiled code holds them.
        keep: puts arguments into a memory of that size.
    """

    type: KeptType
    size: int
    keep: Callable[[NDArray[np.uint8], tuple[Any, ...]], None]

    @classmethod
    def of(cls, arguments: tuple[Any, ...]) -> Form:
        """The form of arguments like these."""
        kept = KeptType(typeof(arguments))
        context = cpu_target.target_context
        size = context.get_abi_sizeof(context.get_value_type(kept.arguments))
        return cls(kept, size, direct(_keep, np.zeros(size, np.uint8), arguments))


_FORMS: dict[object, Form] = {}


def taken(kept: Kept) -> tuple[Any, ...]:
    """The arguments that were kept, for compiled code and Python alike."""
    return kept.arguments


class KeptType(types.Type):
    """What compiled code knows a `Kept` by: the types of what it holds."""

    def __init__(self, arguments: types.Type) -> None:
        self.arguments = arguments
        super().__init__(name=f"Kept({arguments})")


register_model(KeptType)(models.OpaqueModel)


@typeof_impl.register(Kept)
def _typeof(kept: Kept, _context: Any) -> KeptType:
    return kept.type


@unbox(KeptType)
def _unbox(_type: KeptType, kept: Any, c: Any) -> NativeValue:
    number = c.pyapi.object_getattr_string(kept, "address")
    address = c.pyapi.long_as_voidptr(number)
    c.pyapi.decref(number)
    return NativeValue(address, is_error=cgutils.is_not_null(c.builder, c.pyapi.err_occurred()))


@overload(taken, strict=False)
def _taken(kept: Any) -> Any:
    if isinstance(kept, KeptType):
        return lambda kept: _load(kept)
    return None


@intrinsic
def _load(_context: Any, kept: Any) -> Any:
    """What stands at the address."""

    def code(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        stored = context.get_value_type(kept.arguments)
        return builder.load(builder.bitcast(values[0], stored.as_pointer()))

    return kept.arguments(kept), code


@intrinsic
def _store(_context: Any, memory: Any, arguments: Any) -> Any:
    """Put arguments where a memory of bytes begins."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        where = context.make_array(signature.args[0])(context, builder, values[0]).data
        builder.store(values[1], builder.bitcast(where, values[1].type.as_pointer()))
        return context.get_dummy_value()

    return types.void(memory, arguments), code


@kernel
def _keep(memory: NDArray[np.uint8], arguments: tuple[Any, ...]) -> None:
    _store(memory, arguments)
