"""Machine instructions for what compiled functions call of Python itself, by the called object.

The functions of storage.memory and exact arithmetic, builtins, and some of `math`. Each has the
kinds that its arguments are brought to, the kind of its result, and the lines that compute it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from viewlet.storage import arithmetic, memory
from viewlet.storage.instructions import BOOL, FLOAT, INT, NONE, Writer
from viewlet.storage.memory import CHUNK, MULTIPLIER, NAN_BITS

OVERFLOWS, DIVIDES_BY_ZERO = "1", "2"
"""What a function says that raised; storage.compiled knows the exceptions."""

Lines = Callable[..., str]
"""(writer, operands ...) -> the result's operand"""


class Lowering(NamedTuple):
    result: str
    arguments: tuple[str, ...]
    lines: Lines


def _address(w: Writer, address: str, index: str, element: str) -> str:
    pointer = w.take(f"inttoptr i64 {address} to ptr")
    return w.take(f"getelementptr {element}, ptr {pointer}, i64 {index}")


def _loader(element: str, widen: str = "") -> Lines:
    def lines(w: Writer, address: str, index: str) -> str:
        found = w.take(f"load {element}, ptr {_address(w, address, index, element)}")
        return w.take(f"{widen} {element} {found} to i64") if widen else found

    return lines


def _storer(element: str, given: str = "") -> Lines:
    def lines(w: Writer, address: str, index: str, value: str) -> str:
        if given:
            value = w.take(f"trunc {given} {value} to {element}")
        w.line(f"store {element} {value}, ptr {_address(w, address, index, element)}")
        return ""

    return lines


def _prefetch(w: Writer, address: str) -> str:
    w.declare("llvm.prefetch.p0", "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    pointer = w.take(f"inttoptr i64 {address} to ptr")
    # To be read, kept in all caches, data.
    w.line(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 0, i32 3, i32 1)")
    return ""


def _workspace(w: Writer) -> str:
    return w.take(f"ptrtoint ptr {w.room(f'[{CHUNK} x i32]')} to i64")


def _float_bits(w: Writer, value: str) -> str:
    zero = w.take(f"fcmp oeq double {value}, 0.0")
    nan = w.take(f"fcmp uno double {value}, {value}")
    bits = w.take(f"bitcast double {value} to i64")
    bits = w.take(f"select i1 {nan}, i64 {NAN_BITS}, i64 {bits}")
    return w.take(f"select i1 {zero}, i64 0, i64 {bits}")


def _spread(w: Writer, word: str) -> str:
    word = w.take(f"xor i64 {word}, {w.take(f'ashr i64 {word}, 32')}")
    block = w.take(f"ashr i64 {word}, 5")
    turn = w.take(f"lshr i64 {w.take(f'mul i64 {block}, {MULTIPLIER}')}, 59")
    inside = w.take(f"and i64 {w.take(f'mul i64 {word}, 5')}, 31")
    inside = w.take(f"xor i64 {inside}, {turn}")
    folded = w.take(f"xor i64 {block}, {w.take(f'ashr i64 {block}, 15')}")
    spread = w.take(f"shl i64 {w.take(f'mul i64 {folded}, 5')}, 5")
    return w.take(f"or i64 {spread}, {inside}")


def _mix(w: Writer, seed: str, word: str) -> str:
    mixed = w.take(f"mul i64 {w.take(f'xor i64 {seed}, {word}')}, {MULTIPLIER}")
    return w.take(f"xor i64 {mixed}, {w.take(f'lshr i64 {mixed}, 32')}")


def _checked(operation: str) -> Lines:
    name = f"llvm.{operation}.with.overflow.i64"

    def lines(w: Writer, a: str, b: str) -> str:
        w.declare(name, f"declare {{ i64, i1 }} @{name}(i64, i64)")
        both = w.take(f"call {{ i64, i1 }} @{name}(i64 {a}, i64 {b})")
        w.leave_if(w.take(f"extractvalue {{ i64, i1 }} {both}, 1"), OVERFLOWS)
        return w.take(f"extractvalue {{ i64, i1 }} {both}, 0")

    return lines


def _multiply_add_error(w: Writer, a: str, b: str, product: str) -> str:
    w.declare("llvm.fma.f64", "declare double @llvm.fma.f64(double, double, double)")
    against = w.take(f"fneg double {product}")
    return w.take(f"call double @llvm.fma.f64(double {a}, double {b}, double {against})")


def _of_floats(name: str, count: int) -> Lines:
    """A function of LLVM's or C's over doubles."""

    def lines(w: Writer, *values: str) -> str:
        w.declare(name, f"declare double @{name}({', '.join(['double'] * count)})")
        given = ", ".join(f"double {value}" for value in values)
        return w.take(f"call double @{name}({given})")

    return lines


def _is_finite(w: Writer, value: str) -> str:
    size = _of_floats("llvm.fabs.f64", 1)(w, value)
    return w.take(f"fcmp olt double {size}, 0x7FF0000000000000")


def to_int(w: Writer, value: str) -> str:
    """Towards zero; what is too large becomes the largest, where C says nothing."""
    name = "llvm.fptosi.sat.i64.f64"
    w.declare(name, f"declare i64 @{name}(double)")
    return w.take(f"call i64 @{name}(double {value})")


def _rounded(w: Writer, value: str) -> str:
    return to_int(w, _of_floats("llvm.rint.f64", 1)(w, value))


def _size(w: Writer, value: str) -> str:
    negative = w.take(f"icmp slt i64 {value}, 0")
    return w.take(f"select i1 {negative}, i64 {w.take(f'sub i64 0, {value}')}, i64 {value}")


LOWERINGS: dict[Any, Lowering] = {
    memory.load: Lowering(INT, (INT, INT), _loader("i64")),
    memory.load_float: Lowering(FLOAT, (INT, INT), _loader("double")),
    memory.load_half: Lowering(INT, (INT, INT), _loader("i32", "sext")),
    memory.load_byte: Lowering(INT, (INT, INT), _loader("i8", "zext")),
    memory.store: Lowering(NONE, (INT, INT, INT), _storer("i64")),
    memory.store_float: Lowering(NONE, (INT, INT, FLOAT), _storer("double")),
    memory.store_half: Lowering(NONE, (INT, INT, INT), _storer("i32", "i64")),
    memory.store_byte: Lowering(NONE, (INT, INT, INT), _storer("i8", "i64")),
    memory.prefetch: Lowering(NONE, (INT,), _prefetch),
    memory.workspace: Lowering(INT, (), _workspace),
    memory.float_bits: Lowering(INT, (FLOAT,), _float_bits),
    memory.spread: Lowering(INT, (INT,), _spread),
    memory.mix: Lowering(INT, (INT, INT), _mix),
    arithmetic.plus: Lowering(INT, (INT, INT), _checked("sadd")),
    arithmetic.minus: Lowering(INT, (INT, INT), _checked("ssub")),
    arithmetic.times: Lowering(INT, (INT, INT), _checked("smul")),
    arithmetic.multiply_add_error: Lowering(FLOAT, (FLOAT, FLOAT, FLOAT), _multiply_add_error),
    math.isfinite: Lowering(BOOL, (FLOAT,), _is_finite),
    # Python makes integers of these two; floats hold the same numbers, and the largest as well.
    math.floor: Lowering(FLOAT, (FLOAT,), _of_floats("llvm.floor.f64", 1)),
    math.ceil: Lowering(FLOAT, (FLOAT,), _of_floats("llvm.ceil.f64", 1)),
    math.copysign: Lowering(FLOAT, (FLOAT, FLOAT), _of_floats("llvm.copysign.f64", 2)),
    math.sqrt: Lowering(FLOAT, (FLOAT,), _of_floats("llvm.sqrt.f64", 1)),
    math.exp: Lowering(FLOAT, (FLOAT,), _of_floats("exp", 1)),
    math.log: Lowering(FLOAT, (FLOAT,), _of_floats("log", 1)),
    math.fmod: Lowering(FLOAT, (FLOAT, FLOAT), _of_floats("fmod", 2)),
    pow: Lowering(FLOAT, (FLOAT, FLOAT), _of_floats("pow", 2)),
    round: Lowering(INT, (FLOAT,), _rounded),
    np.int64: Lowering(INT, (INT,), lambda w, value: value),
}

ABSOLUTE: dict[str, Lines] = {INT: _size, FLOAT: _of_floats("llvm.fabs.f64", 1)}


# Division of Python: towards minus infinity, and by zero it raises.


def floor_divide(w: Writer, a: str, b: str, known: int | None) -> tuple[str, str]:
    """(a // b, a % b); `known` is b where it is a positive number of the source."""
    if known is not None and known & (known - 1) == 0:
        shift = known.bit_length() - 1
        return w.take(f"ashr i64 {a}, {shift}"), w.take(f"and i64 {a}, {known - 1}")
    if known is not None:
        quotient = w.take(f"sdiv i64 {a}, {b}")
        rest = w.take(f"sub i64 {a}, {w.take(f'mul i64 {quotient}, {b}')}")
        below = w.take(f"ashr i64 {rest}, 63")
        floor = w.take(f"add i64 {quotient}, {below}")
        return floor, w.take(f"add i64 {rest}, {w.take(f'and i64 {below}, {b}')}")
    w.leave_if(w.take(f"icmp eq i64 {b}, 0"), DIVIDES_BY_ZERO)
    # The processor stops at the smallest number over -1.
    by_minus_one = w.take(f"icmp eq i64 {b}, -1")
    divisor = w.take(f"select i1 {by_minus_one}, i64 1, i64 {b}")
    quotient = w.take(f"sdiv i64 {a}, {divisor}")
    rest = w.take(f"sub i64 {a}, {w.take(f'mul i64 {quotient}, {divisor}')}")
    other_sign = w.take(f"icmp slt i64 {w.take(f'xor i64 {rest}, {divisor}')}, 0")
    uneven = w.take(f"icmp ne i64 {rest}, 0")
    below = w.take(f"and i1 {other_sign}, {uneven}")
    floor = w.take(f"sub i64 {quotient}, {w.take(f'zext i1 {below} to i64')}")
    rest = w.take(f"add i64 {rest}, {w.take(f'select i1 {below}, i64 {divisor}, i64 0')}")
    minus = w.take(f"sub i64 0, {a}")
    floor = w.take(f"select i1 {by_minus_one}, i64 {minus}, i64 {floor}")
    return floor, w.take(f"select i1 {by_minus_one}, i64 0, i64 {rest}")


def divide(w: Writer, a: str, b: str) -> str:
    w.leave_if(w.take(f"fcmp oeq double {b}, 0.0"), DIVIDES_BY_ZERO)
    return w.take(f"fdiv double {a}, {b}")
