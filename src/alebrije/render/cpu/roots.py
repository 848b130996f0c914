"""Square roots in compiled code, as torch takes them.

torch takes square roots from a library that does not round them exactly. Compiled code calls the same function, many
numbers at a time. A change of this file does not recompile the functions that use it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from alebrije.arrays import Array
from alebrije.compiled import compiled


@intrinsic  # type: ignore[untyped-decorator]
def call_root(typing: Any, root: Any, values: Any, first: Any, count: Any) -> Any:
    """Call the function at the address `root`, which replaces `count` numbers from `first` by their square roots."""
    mode = 0x140102  # high accuracy, no flushing to zero, no error handling: as torch calls it

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address, array, start, length = arguments
        data = cgutils.create_struct_proxy(signature.args[1])(context, builder, array).data
        begin = builder.gep(data, [start])
        number, wide = ir.IntType(32), ir.IntType(64)
        kind = ir.FunctionType(ir.VoidType(), [number, begin.type, begin.type, wide])
        function = builder.inttoptr(address, kind.as_pointer())
        builder.call(function, [builder.trunc(length, number), begin, begin, wide(mode)])
        return context.get_dummy_value()

    return types.void(types.int64, values, types.int64, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def fma(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """The product of a and b plus c, rounded once."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return types.float32(types.float32, types.float32, types.float32), generate


@intrinsic  # type: ignore[untyped-decorator]
def floor(typing: Any, a: Any) -> Any:
    """The largest whole number that is not larger, as one instruction."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        function = builder.module.declare_intrinsic("llvm.floor", [ir.FloatType()])
        return builder.call(function, arguments)

    return types.float32(types.float32), generate


@compiled
def take_roots(s: Array, first: Any, n: Any, root: Any) -> None:
    """Replace n numbers by their square roots, with the function at the address `root` if it is not 0."""
    if root != 0:
        call_root(root, s, first, n)
    else:
        for i in range(first, first + n):
            s[i] = np.sqrt(s[i])
