"""Loads and stores at addresses: how kernels reach the NumPy arrays that hold all state.

A kernel gets one number, the address of a table of addresses, instead of dozens of array objects.
That makes a call cost the same for every programme, lets Python replace an array that has grown
without recompiling anything, and keeps compilation fast: every quantity is an int64 or a float64.

Each function here has a Python body, which is what runs under NUMBA_DISABLE_JIT=1; compiled
functions have instead the one or few machine instructions that it stands for (storage.lowerings).
"""

from __future__ import annotations

import ctypes
import struct
import threading

CHUNK = 1024
"""Numbers that a function can keep beside its locals."""


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
    """The byte at address + index: null masks, marks of eight records."""
    return ctypes.c_uint8.from_address(int(address + index)).value


def store_byte(address: int, index: int, value: int) -> None:
    ctypes.c_uint8.from_address(int(address + index)).value = value


def prefetch(address: int) -> None:
    """Ask for the cache line at an address that will be needed soon; any address may be given."""


def workspace() -> int:
    """The address of CHUNK int32s that are the caller's own until it returns: its stack."""
    if not hasattr(_OWN, "numbers"):
        _OWN.numbers = (ctypes.c_int32 * CHUNK)()
    return ctypes.addressof(_OWN.numbers)


_OWN = threading.local()


def float_bits(value: float) -> int:
    """A float as a key word; equal floats have equal words, and all NaNs are one value."""
    if value == 0.0:
        return 0
    if value != value:
        return NAN_BITS
    bits: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return bits


NAN_BITS = 0x7FF8000000000000


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
    turn = ((block * MULTIPLIER) & _ALL) >> 59
    code = ((5 * (block ^ (block >> 15)) << 5) | (((word * 5) & 31) ^ turn)) & _ALL
    return code - (1 << 64) if code >> 63 else code


def mix(seed: int, word: int) -> int:
    """The hash of a longer key, word by word: multiply, fold (wrapping int64 arithmetic)."""
    mixed = ((int(seed) ^ int(word)) * MULTIPLIER) & _ALL
    mixed ^= mixed >> 32
    return mixed - (1 << 64) if mixed >> 63 else mixed


_ALL = (1 << 64) - 1
MULTIPLIER = 0x9E3779B97F4A7C15
