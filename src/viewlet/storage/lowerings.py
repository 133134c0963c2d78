"""Machine instructions for the functions of storage.memory and for exact arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.cgutils import alloca_once
from numba.extending import lower_builtin, type_callable

from viewlet.storage import arithmetic, memory
from viewlet.storage.arithmetic import OVERFLOW
from viewlet.storage.memory import CHUNK, MULTIPLIER, NAN_BITS

_INT64 = ir.IntType(64)
_INT32 = ir.IntType(32)
_INT8 = ir.IntType(8)
_DOUBLE = ir.DoubleType()

Lowering = Callable[[Any, Any, list[Any]], Any]
"""(context, builder, arguments as their declared types) -> the result's LLVM value"""


def _native(function: Any, result: Any, arguments: tuple[Any, ...], lowering: Lowering) -> None:
    """Give a Python function a lowering; integers of any width are widened on the way in."""

    @type_callable(function)
    def _type(context: Any) -> Any:
        return _TYPERS[len(arguments)](result)

    @lower_builtin(function, *(types.Any,) * len(arguments))  # type: ignore[untyped-decorator]
    def _lower(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        cast = [
            context.cast(builder, value, given, wanted)
            for value, given, wanted in zip(values, signature.args, arguments, strict=True)
        ]
        return lowering(context, builder, cast)


# Numba reads the number of arguments off the typer's signature.
_TYPERS: dict[int, Callable[[Any], Any]] = {
    0: lambda result: lambda: result,
    1: lambda result: lambda a: result,
    2: lambda result: lambda a, b: result,
    3: lambda result: lambda a, b, c: result,
}


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


def _lower_workspace(context: Any, builder: Any, values: list[Any]) -> Any:
    return builder.ptrtoint(alloca_once(builder, _INT32, CHUNK), _INT64)


def _lower_float_bits(context: Any, builder: Any, values: list[Any]) -> Any:
    (value,) = values
    zero = builder.fcmp_ordered("==", value, ir.Constant(_DOUBLE, 0.0))
    nan = builder.fcmp_unordered("uno", value, value)
    bits = builder.bitcast(value, _INT64)
    bits = builder.select(nan, ir.Constant(_INT64, NAN_BITS), bits)
    return builder.select(zero, ir.Constant(_INT64, 0), bits)


def _lower_spread(context: Any, builder: Any, values: list[Any]) -> Any:
    (word,) = values
    number = partial(ir.Constant, _INT64)
    word = builder.xor(word, builder.ashr(word, number(32)))
    block = builder.ashr(word, number(5))
    turn = builder.lshr(builder.mul(block, number(MULTIPLIER)), number(59))
    inside = builder.xor(builder.and_(builder.mul(word, number(5)), number(31)), turn)
    block = builder.mul(number(5), builder.xor(block, builder.ashr(block, number(15))))
    return builder.or_(builder.shl(block, number(5)), inside)


def _lower_mix(context: Any, builder: Any, values: list[Any]) -> Any:
    seed, word = values
    mixed = builder.mul(builder.xor(seed, word), ir.Constant(_INT64, MULTIPLIER))
    return builder.xor(mixed, builder.lshr(mixed, ir.Constant(_INT64, 32)))


def _checked(operation: str) -> Any:
    def lower(context: Any, builder: Any, values: list[Any]) -> Any:
        both = getattr(builder, operation)(*values)
        with builder.if_then(builder.extract_value(both, 1), likely=False):
            context.call_conv.return_user_exc(builder, OverflowError, (OVERFLOW,))
        return builder.extract_value(both, 0)

    return lower


def _lower_fma(context: Any, builder: Any, values: list[Any]) -> Any:
    a, b, product = values
    return builder.fma(a, b, builder.fneg(product))


_INT, _FLOAT, _VOID = types.int64, types.float64, types.none
_native(memory.load, _INT, (_INT, _INT), _loader(_INT64))
_native(memory.load_float, _FLOAT, (_INT, _INT), _loader(_DOUBLE))
_native(memory.load_half, _INT, (_INT, _INT), _loader(_INT32, "sext"))
_native(memory.load_byte, _INT, (_INT, _INT), _loader(_INT8, "zext"))
_native(memory.store, _VOID, (_INT, _INT, _INT), _storer(_INT64))
_native(memory.store_float, _VOID, (_INT, _INT, _FLOAT), _storer(_DOUBLE))
_native(memory.store_half, _VOID, (_INT, _INT, _INT), _storer(_INT32, narrow=True))
_native(memory.store_byte, _VOID, (_INT, _INT, _INT), _storer(_INT8, narrow=True))
_native(memory.prefetch, _VOID, (_INT,), _lower_prefetch)
_native(memory.workspace, _INT, (), _lower_workspace)
_native(memory.float_bits, _INT, (_FLOAT,), _lower_float_bits)
_native(memory.spread, _INT, (_INT,), _lower_spread)
_native(memory.mix, _INT, (_INT, _INT), _lower_mix)
_native(arithmetic.plus, _INT, (_INT, _INT), _checked("sadd_with_overflow"))
_native(arithmetic.minus, _INT, (_INT, _INT), _checked("ssub_with_overflow"))
_native(arithmetic.times, _INT, (_INT, _INT), _checked("smul_with_overflow"))
_native(arithmetic.multiply_add_error, _FLOAT, (_FLOAT, _FLOAT, _FLOAT), _lower_fma)
