"""Loads and stores at addresses: how kernels reach the NumPy arrays that hold all state.

A kernel gets one number, the address of a table of addresses, instead of dozens of array objects.
That makes a call cost the same for every programme, lets Python replace an array that has grown
without recompiling anything, and keeps compilation fast: every quantity is an int64 or a float64.

Each function here has a Python body, which is what runs under NUMBA_DISABLE_JIT=1, and a lowering
to the one machine instruction that it stands for.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from functools import partial
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import lower_builtin, type_callable

_INT64 = ir.IntType(64)
_INT32 = ir.IntType(32)
_INT8 = ir.IntType(8)
_DOUBLE = ir.DoubleType()

Lowering = Callable[[Any, Any, list[Any]], Any]
"""(context, builder, arguments as their declared types) -> the result's LLVM value"""


def native(function: Any, result: Any, arguments: tuple[Any, ...], lowering: Lowering) -> None:
    """Give a Python function a lowering; integers of any width are widened on the way in."""

    @type_callable(function)
    def _type(context: Any) -> Any:
        return _TYPERS[len(arguments)](result)

    @lower_builtin(function, *(types.Any,) * len(arguments))  # type: ignore[no-untyped-call, untyped-decorator]
    def _lower(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        cast = [
            context.cast(builder, value, given, wanted)
            for value, given, wanted in zip(values, signature.args, arguments, strict=True)
        ]
        return lowering(context, builder, cast)


# Numba reads the number of arguments off the typer's signature.
_TYPERS: dict[int, Callable[[Any], Any]] = {
    1: lambda result: lambda a: result,
    2: lambda result: lambda a, b: result,
    3: lambda result: lambda a, b, c: result,
}


def load(address: int, index: int) -> int:
    """The int64 at address + 8 * index."""
    return ctypes.c_int64.from_address(int(address + 8 * index)).value


def store(address: int, index: int, value: int) -> None:
    ctypes.c_int64.from_address(int(address + 8 * index)).value = value


def load_float(address: int, index: int) -> float:
    return ctypes.c_double.from_address(int(address + 8 * index)).value


def store_float(address: int, index: int, value: float) -> None:
    ctypes.c_double.from_address(int(address + 8 * index)).value = value


def load_half(address: int, index: int) -> int:
    """The int32 at address + 4 * index: record numbers in hash tables and links."""
    return ctypes.c_int32.from_address(int(address + 4 * index)).value


def store_half(address: int, index: int, value: int) -> None:
    ctypes.c_int32.from_address(int(address + 4 * index)).value = value


def load_byte(address: int, index: int) -> int:
    """The byte at address + index: null masks, marks of records."""
    return ctypes.c_uint8.from_address(int(address + index)).value


def store_byte(address: int, index: int, value: int) -> None:
    ctypes.c_uint8.from_address(int(address + index)).value = value


def prefetch(address: int) -> None:
    """Ask for the cache line at an address that will be needed soon; any address may be given."""


def float_bits(value: float) -> int:
    """A float as a key word; equal floats have equal words, and all NaNs are one value."""
    if value == 0.0:
        return 0
    if value != value:
        return _NAN_BITS
    bits: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return bits


_NAN_BITS = 0x7FF8000000000000


def spread(word: int) -> int:
    """The hash of a one-word key: a bijection on every range 0 .. 2**m - 1, m >= 5.

    Keys from a small or dense domain (most primary keys) so fall into the table without collisions
    and near each other; a mixing hash would scatter them over cache lines. Within a block of 32
    keys the order is mixed, in every block in another way: keys with a pattern (8 of every 32, even
    ones) would else fall on the same slots again each time that they go round the table. Each block
    lies five places behind the one before: side by side, dense keys would be one run of slots, and
    a search for a key that is not there would pass through all of it; so no run is longer than four
    blocks before the table is four fifths full. The shifts bring keys that differ in high bits only
    (floats, multiples of a power of two) down into the table's range.
    """
    word = int(word)
    word ^= word >> 32
    block = word >> 5
    turn = ((block * _MULTIPLIER) & _ALL) >> 59
    code = ((5 * (block ^ (block >> 15)) << 5) | (((word * 5) & 31) ^ turn)) & _ALL
    return code - (1 << 64) if code >> 63 else code


def mix(seed: int, word: int) -> int:
    """The hash of a longer key, word by word: multiply, fold (wrapping int64 arithmetic)."""
    mixed = ((int(seed) ^ int(word)) * _MULTIPLIER) & _ALL
    mixed ^= mixed >> 32
    return mixed - (1 << 64) if mixed >> 63 else mixed


_ALL = (1 << 64) - 1
_MULTIPLIER = 0x9E3779B97F4A7C15


def _address(builder: Any, address: Any, index: Any, element: Any) -> Any:
    pointer = builder.inttoptr(address, ir.PointerType(element))
    return builder.gep(pointer, [index])


def _loader(element: Any, widen: str | None = None) -> Lowering:
    def lower(context: Any, builder: Any, values: list[Any]) -> Any:
        found = builder.load(_address(builder, values[0], values[1], element))
        return getattr(builder, widen)(found, _INT64) if widen else found

    return lower


def _storer(element: Any, narrow: bool = False) -> Lowering:
    def lower(context: Any, builder: Any, values: list[Any]) -> Any:
        value = builder.trunc(values[2], element) if narrow else values[2]
        builder.store(value, _address(builder, values[0], values[1], element))
        return context.get_dummy_value()

    return lower


def _lower_prefetch(context: Any, builder: Any, values: list[Any]) -> Any:
    pointer = ir.PointerType(_INT8)
    kind = ir.FunctionType(ir.VoidType(), [pointer, _INT32, _INT32, _INT32])
    function = builder.module.declare_intrinsic("llvm.prefetch", (pointer,), kind)
    # To be read, kept in all caches, data.
    flags = [ir.Constant(_INT32, flag) for flag in (0, 3, 1)]
    builder.call(function, [builder.inttoptr(values[0], pointer), *flags])
    return context.get_dummy_value()


def _lower_float_bits(context: Any, builder: Any, values: list[Any]) -> Any:
    (value,) = values
    zero = builder.fcmp_ordered("==", value, ir.Constant(_DOUBLE, 0.0))
    nan = builder.fcmp_unordered("uno", value, value)
    bits = builder.bitcast(value, _INT64)
    bits = builder.select(nan, ir.Constant(_INT64, _NAN_BITS), bits)
    return builder.select(zero, ir.Constant(_INT64, 0), bits)


def _lower_spread(context: Any, builder: Any, values: list[Any]) -> Any:
    (word,) = values
    number = partial(ir.Constant, _INT64)
    word = builder.xor(word, builder.ashr(word, number(32)))
    block = builder.ashr(word, number(5))
    turn = builder.lshr(builder.mul(block, number(_MULTIPLIER)), number(59))
    inside = builder.xor(builder.and_(builder.mul(word, number(5)), number(31)), turn)
    block = builder.mul(number(5), builder.xor(block, builder.ashr(block, number(15))))
    return builder.or_(builder.shl(block, number(5)), inside)


def _lower_mix(context: Any, builder: Any, values: list[Any]) -> Any:
    seed, word = values
    mixed = builder.mul(builder.xor(seed, word), ir.Constant(_INT64, _MULTIPLIER))
    return builder.xor(mixed, builder.lshr(mixed, ir.Constant(_INT64, 32)))


_INT, _FLOAT, _VOID = types.int64, types.float64, types.none
native(load, _INT, (_INT, _INT), _loader(_INT64))
native(load_float, _FLOAT, (_INT, _INT), _loader(_DOUBLE))
native(load_half, _INT, (_INT, _INT), _loader(_INT32, "sext"))
native(load_byte, _INT, (_INT, _INT), _loader(_INT8, "zext"))
native(store, _VOID, (_INT, _INT, _INT), _storer(_INT64))
native(store_float, _VOID, (_INT, _INT, _FLOAT), _storer(_DOUBLE))
native(store_half, _VOID, (_INT, _INT, _INT), _storer(_INT32, narrow=True))
native(store_byte, _VOID, (_INT, _INT, _INT), _storer(_INT8, narrow=True))
native(prefetch, _VOID, (_INT,), _lower_prefetch)
native(float_bits, _INT, (_FLOAT,), _lower_float_bits)
native(spread, _INT, (_INT,), _lower_spread)
native(mix, _INT, (_INT, _INT), _lower_mix)
