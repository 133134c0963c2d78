"""Columns of Arrow, read where they lie: buffers -> int64 words and doubles, with nulls as bytes.

Every reader takes the address of the first value, the number of values, the address of their null
bytes (0: nothing is NULL) and where to write. What is beneath a NULL is written as 0. The answer is
-1, or the number of the first value that does not fit: then nothing of what was written counts, and
the caller looks at that value in Python.

Addresses need not be multiples of anything: Arrow asks for that, foreign buffers do not keep it.
"""

from __future__ import annotations

from viewlet.native.compiled import compiled, compiled_apart
from viewlet.schema import nearest_units
from viewlet.storage.memory import (
    NAN_BITS,
    load_byte,
    load_float_word,
    load_half_word,
    load_word,
    store,
    store_byte,
    store_float,
)

_SIGN = 1 << 31
_TOO_LARGE = 9223372036854775808.0
_LARGEST = 9223372036854775807

_nearest_units = compiled_apart(nearest_units)


@compiled
def read_nulls(bits: int, offset: int, count: int, target: int) -> None:
    """Validity bits from number `offset` on -> a byte each, 1 for NULL."""
    for i in range(count):
        at = offset + i
        store_byte(target, i, load_byte(bits, at >> 3) >> (at & 7) & 1 ^ 1)


@compiled
def read_booleans(bits: int, offset: int, count: int, nulls: int, target: int) -> int:
    """Bits from number `offset` on -> 0 and 1."""
    for i in range(count):
        at = offset + i
        value = load_byte(bits, at >> 3) >> (at & 7) & 1
        if nulls != 0:
            value &= load_byte(nulls, i) ^ 1
        store(target, i, value)
    return -1


@compiled
def read_halves(
    data: int, count: int, nulls: int, factor: int, low: int, high: int, target: int
) -> int:
    """int32 -> value * factor, where low <= value <= high."""
    fits = True
    for i in range(count):
        value = (load_half_word(data + 4 * i) ^ _SIGN) - _SIGN
        if nulls != 0:
            value *= load_byte(nulls, i) ^ 1
        # NULL is 0, which every range has.
        fits &= low <= value
        fits &= value <= high
        store(target, i, value * factor)
    if fits:
        return -1
    for i in range(count):
        value = (load_half_word(data + 4 * i) ^ _SIGN) - _SIGN
        if (nulls == 0 or load_byte(nulls, i) == 0) and not low <= value <= high:
            return i
    return -1


@compiled
def read_words(
    data: int, count: int, nulls: int, factor: int, low: int, high: int, target: int
) -> int:
    """int64 -> value * factor, where low <= value <= high."""
    fits = True
    for i in range(count):
        value = load_word(data + 8 * i)
        if nulls != 0:
            value *= load_byte(nulls, i) ^ 1
        fits &= low <= value
        fits &= value <= high
        store(target, i, value * factor)
    if fits:
        return -1
    for i in range(count):
        value = load_word(data + 8 * i)
        if (nulls == 0 or load_byte(nulls, i) == 0) and not low <= value <= high:
            return i
    return -1


@compiled
def read_quotients(
    data: int, count: int, nulls: int, divisor: int, exact: int, low: int, high: int, target: int
) -> int:
    """int64 -> value // divisor, where low <= value <= high and, if `exact`, nothing is left."""
    for i in range(count):
        value = load_word(data + 8 * i)
        if nulls != 0:
            value *= load_byte(nulls, i) ^ 1
        quotient = value // divisor
        if not low <= value <= high or (exact != 0 and quotient * divisor != value):
            return i
        store(target, i, quotient)
    return -1


@compiled
def read_decimals(
    data: int, count: int, nulls: int, factor: int, low: int, high: int, target: int
) -> int:
    """128-bit integers of one word -> value * factor, where low <= value <= high."""
    fits = True
    for i in range(count):
        value = load_word(data + 16 * i)
        above = load_word(data + 16 * i + 8)
        if nulls != 0:
            there = load_byte(nulls, i) ^ 1
            value *= there
            above *= there
        fits &= above == value >> 63
        fits &= low <= value
        fits &= value <= high
        store(target, i, value * factor)
    if fits:
        return -1
    for i in range(count):
        value = load_word(data + 16 * i)
        fits = load_word(data + 16 * i + 8) == value >> 63 and low <= value <= high
        if (nulls == 0 or load_byte(nulls, i) == 0) and not fits:
            return i
    return -1


@compiled
def read_rounded_decimals(
    data: int, count: int, nulls: int, divisor: int, high: int, target: int
) -> int:
    """128-bit integers of one word -> value / divisor, half away from zero, at most `high`."""
    for i in range(count):
        value = load_word(data + 16 * i)
        above = load_word(data + 16 * i + 8)
        if nulls != 0:
            there = load_byte(nulls, i) ^ 1
            value *= there
            above *= there
        size = abs(value)
        quotient = size // divisor
        remainder = size - quotient * divisor
        if remainder >= divisor - remainder:
            quotient += 1
        # The smallest number has no size of its own.
        if above != value >> 63 or size < 0 or quotient > high:
            return i
        store(target, i, quotient if value >= 0 else -quotient)
    return -1


@compiled
def read_doubles(data: int, count: int, nulls: int, target: int) -> int:
    """Doubles -> the same with one zero and one NaN."""
    for i in range(count):
        value = load_float_word(data + 8 * i) + 0.0
        if nulls != 0 and load_byte(nulls, i) != 0:
            value = 0.0
        if value != value:
            store(target, i, NAN_BITS)
        else:
            store_float(target, i, value)
    return -1


@compiled
def read_double_units(data: int, count: int, nulls: int, units: int, high: int, target: int) -> int:
    """Doubles -> whole numbers of units as schema.units_of_double has them, at most `high`."""
    for i in range(count):
        value = load_float_word(data + 8 * i)
        if nulls != 0 and load_byte(nulls, i) != 0:
            value = 0.0
        size = abs(value)
        if not size < _TOO_LARGE or int(size) >= _LARGEST // units:
            return i
        number = _nearest_units(size, units)
        if number > high:
            return i
        store(target, i, number if value >= 0.0 else -number)
    return -1


@compiled
def read_integral_doubles(
    data: int, count: int, nulls: int, low: int, high: int, target: int
) -> int:
    """Doubles that are whole numbers -> these, where low <= value <= high."""
    for i in range(count):
        value = load_float_word(data + 8 * i)
        if nulls != 0 and load_byte(nulls, i) != 0:
            value = 0.0
        if not -_TOO_LARGE <= value < _TOO_LARGE:
            return i
        number = int(value)
        if float(number) != value or not low <= number <= high:
            return i
        store(target, i, number)
    return -1


@compiled
def take_codes(
    data: int, width: int, count: int, nulls: int, codes: int, length: int, target: int
) -> int:
    """Positions in a dictionary of `length` entries, of `width` bytes each -> the codes there."""
    for i in range(count):
        position = 0
        if nulls == 0 or load_byte(nulls, i) == 0:
            if width == 8:
                position = load_word(data + 8 * i)
            elif width == 4:
                position = load_half_word(data + 4 * i)
            elif width == 2:
                position = load_byte(data, 2 * i) | load_byte(data, 2 * i + 1) << 8
            else:
                position = load_byte(data, i)
            if not 0 <= position < length:
                return i
            store(target, i, load_word(codes + 8 * position))
        else:
            store(target, i, 0)
    return -1


@compiled
def translate_codes(table: int, codes: int, count: int, target: int) -> int:
    """codes[i] -> table[codes[i]]; the number of those that are 0 there and none themselves."""
    unknown = 0
    for i in range(count):
        code = load_word(codes + 8 * i)
        value = load_word(table + 8 * code)
        store(target, i, value)
        unknown += 1 if value == 0 and code != 0 else 0
    return unknown
