"""Strings as bytes in flat arrays, each once: code -> bytes, and by a hash table bytes -> code.

    bytes   the UTF-8 of all strings, one behind the other
    ends    where each string ends, by code; it begins where the one before it ends
    slots   a hash table: the string's code in the low half of a word, the high half of its hash in
            the high one. It says where in the table the string belongs, so that the table grows
            without a look at any string, and which strings are most likely equal

Codes are given in the order of arrival, 0 is NULL. What is stored is valid UTF-8: bytes that are
not are refused when they would come in, and so every stored string can be read.

Contract: Python owns the arrays and is the only one to replace them, between two calls; native code
changes contents and counters. Strings are only added.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from viewlet.errors import RangeError
from viewlet.native.compiled import compiled
from viewlet.storage.columns import Array, MemoryArrays
from viewlet.storage.memory import (
    address_of,
    load,
    load_byte,
    load_half_word,
    load_word,
    mix,
    prefetch,
    store,
    store_byte,
    store_word,
    unsigned_shift,
    workspace,
)

# Positions in the head.
COUNT = 0  # codes that are given, NULL's among them
BYTES = 1  # addresses
ENDS = 2
SLOTS = 3
MASK = 4
BYTES_CAPACITY = 5
CAPACITY = 6  # codes that `ends` and `slots` have room for
BYTES_NEEDED = 7  # bytes of the string that found no room
HEAD = 8

# What `code_of_bytes` answers instead of a code.
FULL, INVALID = -1, -2

_MOST = 2**31 - 1
_CODE = 2**31 - 1
_AHEAD = 16
"""Strings: the slot of a later one comes from memory while those before it are looked up."""

# How strings lie in Arrow's arrays: by ends of 4 or 8 bytes, or as views.
BY_HALF_WORDS, BY_WORDS, BY_VIEWS = 4, 8, 16
_INLINE = 12  # bytes that a view holds itself


@compiled
def hash_bytes(at: int, size: int) -> int:
    """Eight bytes at a time; the last eight may overlap those before.

    The last step brings what the last bytes differ in from the high bits, where a product has it,
    to all of the high half.
    """
    seed = size
    if size >= 8:
        i = 0
        while i + 8 < size:
            seed = mix(seed, load_word(at + i))
            i += 8
        seed = mix(seed, load_word(at + size - 8))
    elif size >= 4:
        seed = mix(seed, load_half_word(at) | load_half_word(at + size - 4) << 32)
    elif size > 0:
        middle = load_byte(at, size >> 1)
        seed = mix(seed, load_byte(at, 0) | middle << 8 | load_byte(at, size - 1) << 16)
    return mix(seed, 0)


@compiled
def same_bytes(one: int, other: int, size: int) -> bool:
    """Whether two places hold the same bytes."""
    if size >= 8:
        i = 0
        while i + 8 < size:
            if load_word(one + i) != load_word(other + i):
                return False
            i += 8
        return load_word(one + size - 8) == load_word(other + size - 8)
    i = 0
    while i < size and load_byte(one, i) == load_byte(other, i):
        i += 1
    return i == size


@compiled
def copy_bytes(source: int, target: int, size: int) -> None:
    """Copy bytes between places that do not overlap."""
    i = 0
    while i + 8 <= size:
        store_word(target + i, load_word(source + i))
        i += 8
    while i < size:
        store_byte(target, i, load_byte(source, i))
        i += 1


@compiled
def continues(at: int, i: int, count: int) -> bool:
    """Whether `count` bytes from i on are 10xxxxxx."""
    end = i + count
    while i < end and load_byte(at, i) & 0xC0 == 0x80:
        i += 1
    return i == end


@compiled
def is_utf8(at: int, size: int) -> bool:
    """As Unicode defines it: shortest forms, no surrogates, nothing beyond U+10FFFF."""
    i = 0
    while i < size:
        if i + 8 <= size and load_word(at + i) & _HIGH_BITS == 0:
            i += 8
            continue
        first = load_byte(at, i)
        if first < 0x80:
            i += 1
        elif first < 0xE0:
            if first < 0xC2 or i + 2 > size or not continues(at, i + 1, 1):
                return False
            i += 2
        elif first < 0xF0:
            if i + 3 > size or not continues(at, i + 1, 2):
                return False
            second = load_byte(at, i + 1)
            if (first == 0xE0 and second < 0xA0) or (first == 0xED and second >= 0xA0):
                return False
            i += 3
        else:
            if first > 0xF4 or i + 4 > size or not continues(at, i + 1, 3):
                return False
            second = load_byte(at, i + 1)
            if (first == 0xF0 and second < 0x90) or (first == 0xF4 and second >= 0x90):
                return False
            i += 4
    return True


_HIGH_BITS = 0x8080808080808080 - 2**64


@compiled
def find_code(head: int, at: int, size: int, code: int) -> int:
    """The code of a string with this hash; where there is none, -1 - the slot where it belongs."""
    slots = load(head, SLOTS)
    mask = load(head, MASK)
    tag = unsigned_shift(code, 32)
    slot = tag & mask
    while True:
        word = load(slots, slot)
        if word == 0:
            return -1 - slot
        if unsigned_shift(word, 32) == tag:
            string_code = word & _CODE
            ends = load(head, ENDS)
            start = load(ends, string_code - 1)
            same_size = load(ends, string_code) - start == size
            if same_size and same_bytes(load(head, BYTES) + start, at, size):
                return string_code
        slot = (slot + 1) & mask


@compiled
def code_of_bytes(head: int, at: int, size: int, code: int) -> int:
    """The code of a string, given now if it is new; FULL or INVALID have changed nothing."""
    string_code = find_code(head, at, size, code)
    if string_code >= 0:
        return string_code
    count = load(head, COUNT)
    ends = load(head, ENDS)
    start = load(ends, count - 1)
    if count == load(head, CAPACITY) or start + size > load(head, BYTES_CAPACITY):
        store(head, BYTES_NEEDED, size)
        return FULL
    if not is_utf8(at, size):
        return INVALID
    copy_bytes(at, load(head, BYTES) + start, size)
    store(ends, count, start + size)
    store(load(head, SLOTS), -1 - string_code, unsigned_shift(code, 32) << 32 | count)
    store(head, COUNT, count + 1)
    return count


@compiled
def text_span(form: int, data: int, ends: int, buffers: int, i: int) -> tuple[int, int]:
    """Where string i of an Arrow array is and how many bytes it has.

    `ends` are its offsets or views, `data` its bytes, `buffers` the addresses of a view's bytes.
    """
    if form == BY_HALF_WORDS:
        start = load_half_word(ends + 4 * i)
        return data + start, load_half_word(ends + 4 * i + 4) - start
    if form == BY_WORDS:
        start = load(ends, i)
        return data + start, load(ends, i + 1) - start
    view = ends + 16 * i
    size = load_half_word(view)
    if size <= _INLINE:
        return view + 4, size
    return load(buffers, 2 + load_half_word(view + 8)) + load_half_word(view + 12), size


@compiled
def code_texts(
    head: int,
    form: int,
    ends: int,
    data: int,
    buffers: int,
    nulls: int,
    codes: int,
    first: int,
    count: int,
) -> int:
    """The codes of strings first .. count - 1 of an Arrow array -> `codes`.

    The number of the string that found no room, or -1 - the number of one that is no UTF-8; `count`
    at the end. `nulls` are bytes, or 0 where nothing is NULL.
    """
    hashes = workspace()
    slots = load(head, SLOTS)
    mask = load(head, MASK)
    for i in range(first, count + _AHEAD):
        if i < count and (nulls == 0 or load_byte(nulls, i) == 0):
            at, size = text_span(form, data, ends, buffers, i)
            coming = hash_bytes(at, size)
            store(hashes, i & (2 * _AHEAD - 1), coming)
            prefetch(slots + 8 * (unsigned_shift(coming, 32) & mask))
        j = i - _AHEAD
        if j < first:
            continue
        if nulls != 0 and load_byte(nulls, j) != 0:
            store(codes, j, 0)
            continue
        at, size = text_span(form, data, ends, buffers, j)
        code = code_of_bytes(head, at, size, load(hashes, j & (2 * _AHEAD - 1)))
        if code < 0:
            return j if code == FULL else -1 - j
        store(codes, j, code)
    return count


@compiled
def is_longer(at: int, size: int, limit: int) -> bool:
    """Whether a string has more characters than `limit`: bytes that are not 10xxxxxx."""
    if size <= limit:
        return False
    characters = 0
    for i in range(size):
        if load_byte(at, i) & 0xC0 != 0x80:
            characters += 1
    return characters > limit


@compiled
def first_longer(
    form: int, ends: int, data: int, buffers: int, nulls: int, count: int, limit: int
) -> int:
    """The number of the first string of an Arrow array with more characters than `limit`, or -1."""
    for i in range(count):
        if nulls == 0 or load_byte(nulls, i) == 0:
            at, size = text_span(form, data, ends, buffers, i)
            if is_longer(at, size, limit):
                return i
    return -1


@compiled
def code_bytes(head: int, at: int, size: int) -> int:
    """The code of one string, or FULL or INVALID."""
    return code_of_bytes(head, at, size, hash_bytes(at, size))


@compiled
def fill_slots(head: int, old: int, length: int) -> None:
    """Enter the words of an old table of `length` slots into an empty larger one."""
    slots = load(head, SLOTS)
    mask = load(head, MASK)
    for i in range(length):
        word = load(old, i)
        if word != 0:
            slot = unsigned_shift(word, 32) & mask
            while load(slots, slot) != 0:
                slot = (slot + 1) & mask
            store(slots, slot, word)


class StringStore:
    """All strings that have come to an engine, by code."""

    def __init__(self) -> None:
        self._arrays = MemoryArrays()
        self._head = np.zeros(HEAD, np.int64)
        self._counters = self._head.data
        self.address = address_of(self._head)
        self._arrays.create("bytes", 1 << 12, np.uint8)
        self._arrays.create("ends", 1 << 8, np.int64)
        self._arrays.create("slots", 1 << 9, np.int64)
        self._head[COUNT] = 1  # NULL
        self._point()

    def __len__(self) -> int:
        return self._counters[COUNT]

    def _point(self) -> None:
        """Write where the arrays are, and what they have room for."""
        for position, name in ((BYTES, "bytes"), (ENDS, "ends"), (SLOTS, "slots")):
            self._head[position] = address_of(self._arrays.array(name))
        self._head[MASK] = len(self._arrays.array("slots")) - 1
        self._head[BYTES_CAPACITY] = len(self._arrays.array("bytes"))
        self._head[CAPACITY] = len(self._arrays.array("ends"))

    def make_room(self) -> None:
        """Twice the room of what was found full."""
        count, capacity = len(self), int(self._head[CAPACITY])
        if count >= _MOST:
            raise RangeError(f"there are {count:,} different strings, which is the most")
        used = int(self._arrays.array("ends")[count - 1])
        needed = used + int(self._head[BYTES_NEEDED])
        if needed > self._head[BYTES_CAPACITY]:
            self._arrays.resize("bytes", 2 * needed)
        if count == capacity:
            self._arrays.resize("ends", min(2 * capacity, _MOST))
            old = self._arrays.array("slots").copy()
            self._arrays.resize("slots", 2 * len(old))[:] = 0
            self._point()
            fill_slots(self.address, address_of(old), len(old))
        self._point()

    def texts(self, codes: Any) -> list[str | None]:
        """The strings of some codes, one by one."""
        data, ends = self._arrays.array("bytes").data, self._arrays.array("ends").data
        return [str(data[ends[code - 1] : ends[code]], "utf-8") if code else None for code in codes]

    def buffers(self) -> tuple[Array, Array]:
        """All bytes, and the ends of codes 0 .. len - 1: as long as nothing is added."""
        ends = self._arrays.array("ends")[: len(self)]
        return self._arrays.array("bytes")[: int(ends[-1])], ends

    def nbytes(self) -> int:
        """Bytes in use."""
        return int(self._arrays.array("ends")[len(self) - 1]) + 8 * len(self) + self._slot_bytes

    @property
    def _slot_bytes(self) -> int:
        return self._arrays.array("slots").nbytes
