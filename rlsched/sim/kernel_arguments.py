"""Arguments of kernels that are converted from Python once, and not at every call.

The simulation is fifty arrays in named tuples. Converting them costs 100 ns an array: a tenth of the time of
a step of 64 environments, and nearly all of that of a single one. `KernelArguments` holds them as compiled
code does, at an address; a kernel is given that, and unpacks it by `unpack`.

Kernels count no references (see `compiled`), so only the address of an array is stored: the array lives as
long as its `KernelArguments`, and another array in its place needs new ones.

numba takes milliseconds to find the types of fifty arrays. `_kind` takes microseconds to say whether they are
those of earlier arguments, whose compiled form is used again.
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


class KernelArguments:
    """Arguments of a kernel, as Python holds them and as compiled code does.

    Args:
        arguments: named tuples, arrays and numbers. Arrays may change what they hold, not their place.

    Attributes:
        arguments: the same.
        address: of what compiled code holds.
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
            form.store(self._memory, arguments)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "KernelArguments holds addresses of its own process: make it again of the copied arguments"
        )


def _kind(value: Any) -> object:
    """Key of a value's numba type: values with equal keys have the same type."""
    if isinstance(value, tuple):
        return (type(value), *map(_kind, value))
    if type(value) is np.ndarray:
        flags = value.flags
        layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
        # Records that lie differently in memory may be equal to numpy.
        return value.dtype, value.dtype.isalignedstruct, value.ndim, layout, flags.writeable
    return typeof(value)


class Form(NamedTuple):
    """Numba type, size and store function that all arguments of one kind share.

    Attributes:
        type: of numba.
        size: bytes of the arguments, as compiled code holds them.
        store: puts arguments into a memory of that size.
    """

    type: KernelArgumentsType
    size: int
    store: Callable[[NDArray[np.uint8], tuple[Any, ...]], None]

    @classmethod
    def of(cls, arguments: tuple[Any, ...]) -> Form:
        """The form of arguments like these."""
        packed = KernelArgumentsType(typeof(arguments))
        context = cpu_target.target_context
        size = context.get_abi_sizeof(context.get_value_type(packed.arguments))
        return cls(packed, size, direct(_store_arguments, np.zeros(size, np.uint8), arguments))


_FORMS: dict[object, Form] = {}


def unpack(packed: KernelArguments) -> tuple[Any, ...]:
    """The arguments, for compiled code and for Python."""
    return packed.arguments


class KernelArgumentsType(types.Type):
    """The type of `KernelArguments` in numba: the types of the arguments."""

    def __init__(self, arguments: types.Type) -> None:
        self.arguments = arguments
        super().__init__(name=f"KernelArguments({arguments})")


register_model(KernelArgumentsType)(models.OpaqueModel)


@typeof_impl.register(KernelArguments)
def _typeof(packed: KernelArguments, _context: Any) -> KernelArgumentsType:
    return packed.type


@unbox(KernelArgumentsType)
def _unbox(_type: KernelArgumentsType, packed: Any, c: Any) -> NativeValue:
    number = c.pyapi.object_getattr_string(packed, "address")
    address = c.pyapi.long_as_voidptr(number)
    c.pyapi.decref(number)
    return NativeValue(address, is_error=cgutils.is_not_null(c.builder, c.pyapi.err_occurred()))


@overload(unpack, strict=False)
def _unpack(packed: Any) -> Any:
    if isinstance(packed, KernelArgumentsType):
        return lambda packed: _load(packed)
    return None


@intrinsic
def _load(_context: Any, packed: Any) -> Any:
    """The arguments at the address."""

    def code(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        stored = context.get_value_type(packed.arguments)
        return builder.load(builder.bitcast(values[0], stored.as_pointer()))

    return packed.arguments(packed), code


@intrinsic
def _store(_context: Any, memory: Any, arguments: Any) -> Any:
    """Put arguments where a memory of bytes begins."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        where = context.make_array(signature.args[0])(context, builder, values[0]).data
        builder.store(values[1], builder.bitcast(where, values[1].type.as_pointer()))
        return context.get_dummy_value()

    return types.void(memory, arguments), code


@kernel
def _store_arguments(memory: NDArray[np.uint8], arguments: tuple[Any, ...]) -> None:
    _store(memory, arguments)
