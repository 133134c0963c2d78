"""Loads and stores at addresses: how kernels reach the NumPy arrays that hold all state.

A kernel gets one number, the address of a table of addresses, instead of dozens of array objects.
That makes a call cost the same for every program, lets Python replace an array that has grown
without recompiling anything, and keeps compilation fast: every quantity is an int64 or a float64.

Each function here has a Python body, which is what runs where native code is off; compiled code has
instead the one or few machine instructions that it stands for.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from typing import Any

import numpy as np

from viewlet.native.compiled import compiled
from viewlet.native.intrinsics import intrinsic
from viewlet.native.lowerings import (
    float_word,
    instruction,
    loads,
    loads_anywhere,
    prefetches,
    stack_memory,
    stores,
    stores_anywhere,
)

_DATA = object.__basicsize__
"""Where NumPy's object of an array has the address of the elements: behind what all objects begin
with, as its binary interface has it since version 1.0."""


def _read_address(array: np.ndarray[Any, Any]) -> int:
    return ctypes.c_ssize_t.from_address(id(array) + _DATA).value


def _asked_address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


_PROBE = np.zeros(1)
address_of = _read_address if _read_address(_PROBE) == _asked_address(_PROBE) else _asked_address
"""The address of the first element of a NumPy array. Every batch asks it for each column, and NumPy
makes a dictionary to answer: a microsecond becomes a seventh of one where it can be read."""


CHUNK = 1024
"""Numbers that a function can keep beside its locals."""


@intrinsic(loads("i64"))
def load(address: int, index: int) -> int:
    """The int64 at address + 8 * index."""
    return ctypes.c_int64.from_address(int(address + 8 * index)).value


@intrinsic(stores("i64"))
def store(address: int, index: int, value: int) -> None:
    """Write the int64 at address + 8 * index."""
    ctypes.c_int64.from_address(int(address + 8 * index)).value = value


@intrinsic(loads("double"))
def load_float(address: int, index: int) -> float:
    """The float64 at address + 8 * index."""
    return ctypes.c_double.from_address(int(address + 8 * index)).value


@intrinsic(stores("double"))
def store_float(address: int, index: int, value: float) -> None:
    """Write the float64 at address + 8 * index."""
    ctypes.c_double.from_address(int(address + 8 * index)).value = value


@intrinsic(loads("i32", "sext"))
def load_half(address: int, index: int) -> int:
    """The int32 at address + 4 * index: record numbers in hash tables and links."""
    return ctypes.c_int32.from_address(int(address + 4 * index)).value


@intrinsic(stores("i32", narrow=True))
def store_half(address: int, index: int, value: int) -> None:
    """Write the int32 at address + 4 * index."""
    ctypes.c_int32.from_address(int(address + 4 * index)).value = value


@intrinsic(loads("i8", "zext"))
def load_byte(address: int, index: int) -> int:
    """The byte at address + index: null masks, marks of eight records."""
    return ctypes.c_uint8.from_address(int(address + index)).value


@intrinsic(stores("i8", narrow=True))
def store_byte(address: int, index: int, value: int) -> None:
    """Write the byte at address + index."""
    ctypes.c_uint8.from_address(int(address + index)).value = value


@intrinsic(loads_anywhere("i64"))
def load_word(address: int) -> int:
    """The eight bytes at any address, as an int64."""
    return ctypes.c_int64.from_address(int(address)).value


@intrinsic(loads_anywhere("double"))
def load_float_word(address: int) -> float:
    """The eight bytes at any address, as a float64."""
    return ctypes.c_double.from_address(int(address)).value


@intrinsic(loads_anywhere("i32", "zext"))
def load_half_word(address: int) -> int:
    """The four bytes at any address, as a number without a sign."""
    return ctypes.c_uint32.from_address(int(address)).value


@intrinsic(stores_anywhere)
def store_word(address: int, value: int) -> None:
    """Write the eight bytes at any address."""
    ctypes.c_int64.from_address(int(address)).value = value


@intrinsic(prefetches)
def prefetch(address: int) -> None:
    """Ask for the cache line at an address that will be needed soon; any address may be given."""


@intrinsic(stack_memory(CHUNK, "i32"))
def workspace() -> int:
    """The address of CHUNK int32s that are the caller's own until it returns: its stack."""
    if not hasattr(_OWN, "numbers"):
        _OWN.numbers = (ctypes.c_int32 * CHUNK)()
    return ctypes.addressof(_OWN.numbers)


_OWN = threading.local()


@compiled
def float_bits(value: float) -> int:
    """A float as a key word; equal floats have equal words, and all NaNs are one value."""
    if value == 0.0:
        return 0
    return NAN_BITS if value != value else raw_bits(value)


@compiled
def order_of(word: int) -> int:
    """The key word of a float as an integer: less where the float is, and most for NaN."""
    return word ^ ((word >> 63) & 0x7FFFFFFFFFFFFFFF)


NAN_BITS = 0x7FF8000000000000


@intrinsic(float_word)
def raw_bits(value: float) -> int:
    """The word of a float as it lies in memory."""
    bits: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return bits


@compiled
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
    word ^= word >> 32
    block = word >> 5
    turn = unsigned_shift(wrapped_product(block, MULTIPLIER), 59)
    inside = (wrapped_product(word, 5) & 31) ^ turn
    return wrapped_product(block ^ (block >> 15), 5 * 32) | inside


@compiled
def mix(seed: int, word: int) -> int:
    """The hash of a longer key, word by word: multiply, fold."""
    mixed = wrapped_product(seed ^ word, MULTIPLIER)
    return mixed ^ unsigned_shift(mixed, 32)


MULTIPLIER = 0x9E3779B97F4A7C15 - 2**64
"""The golden ratio in 64 bits, as they are read with a sign."""


@intrinsic(instruction("mul i64"))
def wrapped_product(a: int, b: int) -> int:
    """a * b in 64 bits, the higher ones lost."""
    return _signed(int(a) * int(b))


@intrinsic(instruction("add i64"))
def wrapped_sum(a: int, b: int) -> int:
    """a + b in 64 bits, a higher one lost."""
    return _signed(int(a) + int(b))


def _signed(number: int) -> int:
    number &= _ALL
    return number - (1 << 64) if number >> 63 else number


@intrinsic(instruction("lshr i64"))
def unsigned_shift(word: int, by: int) -> int:
    """Zeros come in from above; `by` is at least 1."""
    return (int(word) & _ALL) >> by


_ALL = (1 << 64) - 1
