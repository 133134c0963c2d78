"""LLVM's instructions for what a function calls rather than writes with an operator.

Everything here either is a lowering,

    (writer, operands ...) -> the result's operand

or makes one. Which functions of Python stand for them is said where those are defined
(native.intrinsics).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

from viewlet.native.instructions import FLOAT, INT, Writer

Lowering = Callable[..., str]

OVERFLOWS, DIVIDES_BY_ZERO = "1", "2"
"""What a function says that raised, as ERRORS has it."""

ERRORS: dict[int, tuple[Callable[[str], Exception], str]] = {
    0: (TypeError, "a compiled function was called with a wrong number of arguments"),
    1: (OverflowError, "a number left the range of 64-bit integers"),
    2: (ZeroDivisionError, "division by zero"),
}
"""By their statuses; 0 is for calls that were not even begun."""


def raises(kind: Callable[[str], Exception], message: str) -> Lowering:
    """() -> nothing: leaves the function, and Python raises this error."""
    # The number stands in code on disk: it follows from the message.
    status = zlib.crc32(message.encode()) & 0x7FFFFFFF | 1 << 16
    assert ERRORS.setdefault(status, (kind, message)) == (kind, message), message

    def lower(w: Writer) -> str:
        w.leave_if("true", str(status))
        return ""

    return lower


# Memory. Addresses are integers; an index counts elements.


def _pointer(w: Writer, address: str, index: str, element: str) -> str:
    pointer = w.take(f"inttoptr i64 {address} to ptr")
    return w.take(f"getelementptr {element}, ptr {pointer}, i64 {index}")


def loads(element: str, widen: str = "") -> Lowering:
    """(address, index) -> the element there, made an i64 by `widen` (sext or zext) if given."""

    def lower(w: Writer, address: str, index: str) -> str:
        value = w.take(f"load {element}, ptr {_pointer(w, address, index, element)}")
        return w.take(f"{widen} {element} {value} to i64") if widen else value

    return lower


def stores(element: str, *, narrow: bool = False) -> Lowering:
    """(address, index, value) -> nothing; `narrow` cuts an i64 down to the element."""

    def lower(w: Writer, address: str, index: str, value: str) -> str:
        if narrow:
            value = w.take(f"trunc i64 {value} to {element}")
        w.line(f"store {element} {value}, ptr {_pointer(w, address, index, element)}")
        return ""

    return lower


def loads_anywhere(element: str, widen: str = "") -> Lowering:
    """(address) -> the element at an address that need not be a multiple of its size."""

    def lower(w: Writer, address: str) -> str:
        pointer = w.take(f"inttoptr i64 {address} to ptr")
        value = w.take(f"load {element}, ptr {pointer}, align 1")
        return w.take(f"{widen} {element} {value} to i64") if widen else value

    return lower


def stores_anywhere(w: Writer, address: str, value: str) -> str:
    """(address, value) -> nothing; an i64 at an address that need not be a multiple of 8."""
    pointer = w.take(f"inttoptr i64 {address} to ptr")
    w.line(f"store i64 {value}, ptr {pointer}, align 1")
    return ""


def prefetches(w: Writer, address: str) -> str:
    """Ask for the cache line at an address."""
    w.declare("llvm.prefetch.p0", "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    pointer = w.take(f"inttoptr i64 {address} to ptr")
    # To be read, to stay in all caches, data.
    w.line(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 0, i32 3, i32 1)")
    return ""


def stack_memory(count: int, element: str) -> Lowering:
    """() -> the address of so many elements on the stack."""

    def lower(w: Writer) -> str:
        return w.take(f"ptrtoint ptr {w.room(f'[{count} x {element}]')} to i64")

    return lower


# Numbers.


def instruction(name: str) -> Lowering:
    """(a, b) -> name a, b:  one instruction as it stands."""

    def lower(w: Writer, a: str, b: str) -> str:
        return w.take(f"{name} {a}, {b}")

    return lower


def checked(operation: str) -> Lowering:
    """(a, b) -> the exact result of sadd, ssub or smul; leaves the function where it overflows."""
    name = f"llvm.{operation}.with.overflow.i64"

    def lower(w: Writer, a: str, b: str) -> str:
        w.declare(name, f"declare {{ i64, i1 }} @{name}(i64, i64)")
        both = w.take(f"call {{ i64, i1 }} @{name}(i64 {a}, i64 {b})")
        w.leave_if(w.take(f"extractvalue {{ i64, i1 }} {both}, 1"), OVERFLOWS)
        return w.take(f"extractvalue {{ i64, i1 }} {both}, 0")

    return lower


_exact_product = checked("smul")


def symmetric_product(w: Writer, a: str, b: str) -> str:
    """a * b; leaves the function where it overflows, or its negative would.

    Two branches, since the processor's flag of an overflow and a comparison are an instruction each
    that way, and three more if they are united first.
    """
    product = _exact_product(w, a, b)
    w.leave_if(w.take(f"icmp eq i64 {product}, -9223372036854775808"), OVERFLOWS)
    return product


def of_floats(name: str, count: int) -> Lowering:
    """A function of LLVM's or C's over doubles."""

    def lower(w: Writer, *values: str) -> str:
        w.declare(name, f"declare double @{name}({', '.join(['double'] * count)})")
        arguments = ", ".join(f"double {value}" for value in values)
        return w.take(f"call double @{name}({arguments})")

    return lower


def multiply_subtract(w: Writer, a: str, b: str, c: str) -> str:
    """a * b - c, rounded once."""
    return of_floats("llvm.fma.f64", 3)(w, a, b, w.take(f"fneg double {c}"))


def float_word(w: Writer, value: str) -> str:
    """The bits of a double as an integer."""
    return w.take(f"bitcast double {value} to i64")


def is_finite(w: Writer, value: str) -> str:
    """Neither infinite nor NaN."""
    size = of_floats("llvm.fabs.f64", 1)(w, value)
    return w.take(f"fcmp olt double {size}, 0x7FF0000000000000")


def to_int(w: Writer, value: str) -> str:
    """Towards zero; what is too large becomes the largest, where C says nothing."""
    name = "llvm.fptosi.sat.i64.f64"
    w.declare(name, f"declare i64 @{name}(double)")
    return w.take(f"call i64 @{name}(double {value})")


def nearest_int(w: Writer, value: str) -> str:
    """Half to even."""
    return to_int(w, of_floats("llvm.rint.f64", 1)(w, value))


def _magnitude(w: Writer, value: str) -> str:
    is_negative = w.take(f"icmp slt i64 {value}, 0")
    return w.take(f"select i1 {is_negative}, i64 {w.take(f'sub i64 0, {value}')}, i64 {value}")


ABSOLUTE: dict[str, Lowering] = {INT: _magnitude, FLOAT: of_floats("llvm.fabs.f64", 1)}


# Division of Python: towards minus infinity, and by zero it raises.


def floor_divide(w: Writer, a: str, b: str, constant_divisor: int | None) -> tuple[str, str]:
    """(a // b, a % b); `constant_divisor` is b where it is a positive number of the source."""
    if constant_divisor is not None and constant_divisor & (constant_divisor - 1) == 0:
        shift = constant_divisor.bit_length() - 1
        return w.take(f"ashr i64 {a}, {shift}"), w.take(f"and i64 {a}, {constant_divisor - 1}")
    if constant_divisor is not None:
        quotient = w.take(f"sdiv i64 {a}, {b}")
        remainder = w.take(f"sub i64 {a}, {w.take(f'mul i64 {quotient}, {b}')}")
        below = w.take(f"ashr i64 {remainder}, 63")
        floor = w.take(f"add i64 {quotient}, {below}")
        return floor, w.take(f"add i64 {remainder}, {w.take(f'and i64 {below}, {b}')}")
    w.leave_if(w.take(f"icmp eq i64 {b}, 0"), DIVIDES_BY_ZERO)
    # The processor stops at the smallest number over -1.
    by_minus_one = w.take(f"icmp eq i64 {b}, -1")
    divisor = w.take(f"select i1 {by_minus_one}, i64 1, i64 {b}")
    quotient = w.take(f"sdiv i64 {a}, {divisor}")
    remainder = w.take(f"sub i64 {a}, {w.take(f'mul i64 {quotient}, {divisor}')}")
    other_sign = w.take(f"icmp slt i64 {w.take(f'xor i64 {remainder}, {divisor}')}, 0")
    uneven = w.take(f"icmp ne i64 {remainder}, 0")
    below = w.take(f"and i1 {other_sign}, {uneven}")
    floor = w.take(f"sub i64 {quotient}, {w.take(f'zext i1 {below} to i64')}")
    remainder = w.take(f"add i64 {remainder}, {w.take(f'select i1 {below}, i64 {divisor}, i64 0')}")
    minus = w.take(f"sub i64 0, {a}")
    floor = w.take(f"select i1 {by_minus_one}, i64 {minus}, i64 {floor}")
    return floor, w.take(f"select i1 {by_minus_one}, i64 0, i64 {remainder}")


def divide(w: Writer, a: str, b: str) -> str:
    """a / b."""
    w.leave_if(w.take(f"fcmp oeq double {b}, 0.0"), DIVIDES_BY_ZERO)
    return w.take(f"fdiv double {a}, {b}")
