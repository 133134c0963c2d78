"""Open addressing with linear probing: the table of every index, whatever hangs on its slots.

A slot holds the number of a record: of the only record with that key (unique index), of the head of
a chain, or of the root of a tree. Keys are never stored twice; a probe compares with the record.
The unique index has more slots than records, so that some bits of a slot are not needed for the
number: they hold a part of the key's hash, the tag. A probe that passes by slots of other keys need
not look at their records, each of which would be a wait for memory.
`m` is the address of a map's descriptor, `ix` that of an index block, `at` that of a record.
"""

from __future__ import annotations

from numba import njit

from viewlet.storage.columns import (
    KEYS,
    KIND,
    MASK,
    PART,
    PARTS,
    RECORDS,
    SLOTS,
    STRIDE,
    UNIQUE,
)
from viewlet.storage.memory import load, load_half, mix, prefetch, spread, store_half

Words = tuple[int, ...]
"""A key as words; kernels pass tuples, so that each length is compiled to straight code."""


@njit(cache=True, nogil=True)
def hash_words(key: Words) -> int:
    if len(key) == 1:
        return spread(key[0])
    seed = len(key)
    for word in key:
        seed = mix(seed, word)
    return seed


@njit(cache=True, nogil=True)
def tag_bits(mask: int) -> int:
    """Bits of a slot of the unique index that its record number, below half the slots, leaves."""
    return ~(mask >> 1) & 0x7FFFFFFF


@njit(cache=True, nogil=True)
def tags_of(ix: int) -> int:
    """The same of any index: a table of groups may be smaller than its records are many."""
    return tag_bits(load(ix, MASK)) if load(ix, KIND) == UNIQUE else 0


@njit(cache=True, nogil=True)
def find(slots: int, mask: int, records: int, stride: int, by: Words, key: Words) -> int:
    """The address of the record with this key, 0 if there is none; `by` are the hashed words.

    Kernels read the table's address and mask once, not at every probe.
    """
    code = hash_words(by)
    tags = tag_bits(mask)
    tag = code & tags
    slot = code & mask
    while True:
        held = load_half(slots, slot)
        if held < 0:
            return 0
        if held & tags == tag:
            at = records + (held ^ tag) * stride
            same = True
            for i in range(len(key)):
                same &= load(at, i) == key[i]
            if same:
                return at
        slot = (slot + 1) & mask


@njit(cache=True, nogil=True)
def likely(slots: int, mask: int, code: int) -> int:
    """The record in the first slot for a hash, 0 if that surely has another key: to prefetch."""
    held = load_half(slots, code & mask)
    tags = tag_bits(mask)
    return held & ~tags if held >= 0 and held & tags == code & tags else 0


@njit(cache=True, nogil=True)
def find_group(m: int, ix: int, key: Words) -> int:
    """The head or root of the records whose indexed words are `key`, -1 if there are none."""
    slots = load(ix, SLOTS)
    mask = load(ix, MASK)
    records = load(m, RECORDS)
    stride = load(m, STRIDE)
    slot = hash_words(key) & mask
    while True:
        record = load_half(slots, slot)
        if record < 0:
            return -1
        at = records + record * stride
        same = True
        for i in range(len(key)):
            same &= load(at, load(ix, PART + i)) == key[i]
        if same:
            return record
        slot = (slot + 1) & mask


@njit(cache=True, nogil=True)
def only_group(ix: int) -> int:
    """The same for an index over no words: all records are one group, in slot 0."""
    return load_half(load(ix, SLOTS), 0)


@njit(cache=True, nogil=True)
def hash_record(ix: int, at: int) -> int:
    """The same as hash_words over the record's indexed words."""
    parts = load(ix, PARTS)
    if parts == 1:
        return spread(load(at, load(ix, PART)))
    seed = parts
    for i in range(parts):
        seed = mix(seed, load(at, load(ix, PART + i)))
    return seed


@njit(cache=True, nogil=True)
def slot_for(m: int, ix: int, at: int) -> int:
    """The slot of the record's group: the one it has, or the empty one where it belongs.

    A group of the unique index is one record: there all words of the key count.
    """
    slots = load(ix, SLOTS)
    mask = load(ix, MASK)
    unique = load(ix, KIND) == UNIQUE
    parts = load(m, KEYS) if unique else load(ix, PARTS)
    code = hash_record(ix, at)
    tags = tags_of(ix)
    tag = code & tags
    slot = code & mask
    while True:
        held = load_half(slots, slot)
        if held < 0:
            return slot
        if held & tags == tag:
            other = load(m, RECORDS) + (held ^ tag) * load(m, STRIDE)
            same = True
            for i in range(parts):
                word = i if unique else load(ix, PART + i)
                same &= load(other, word) == load(at, word)
            if same:
                return slot
        slot = (slot + 1) & mask


@njit(cache=True, nogil=True)
def record_in(ix: int, slot: int) -> int:
    """The record that a slot names, -1 if it is empty."""
    held = load_half(load(ix, SLOTS), slot)
    return held if held < 0 else held & ~tags_of(ix)


@njit(cache=True, nogil=True)
def empty_slot(m: int, ix: int, slot: int) -> None:
    """Take a slot out and move later ones of its run up, so that no probe meets a gap."""
    slots = load(ix, SLOTS)
    mask = load(ix, MASK)
    numbers = ~tags_of(ix)
    probe = slot
    while True:
        probe = (probe + 1) & mask
        held = load_half(slots, probe)
        if held < 0:
            break
        at = load(m, RECORDS) + (held & numbers) * load(m, STRIDE)
        if (probe - hash_record(ix, at)) & mask >= (probe - slot) & mask:
            store_half(slots, slot, held)
            slot = probe
    store_half(slots, slot, -1)


@njit(cache=True, nogil=True)
def take_slot(ix: int, slot: int, record: int, code: int) -> None:
    """A new group: its record goes into an empty slot; `code` is the hash of its key."""
    store_half(load(ix, SLOTS), slot, record | (code & tags_of(ix)))


@njit(cache=True, nogil=True)
def rehash(m: int, ix: int, old: int, length: int) -> int:
    """Enter the slots of an old table of `length` slots into the index's new, empty one."""
    slots = load(ix, SLOTS)
    mask = load(ix, MASK)
    records = load(m, RECORDS)
    stride = load(m, STRIDE)
    tags = tags_of(ix)
    numbers = ~tag_bits(length - 1) if load(ix, KIND) == UNIQUE else -1
    for i in range(length):
        # Records lie in the order of their arrival, not of their hashes: each is a wait for memory.
        if i + 24 < length:
            prefetch(records + (load_half(old, i + 24) & numbers) * stride)
        held = load_half(old, i)
        if held >= 0:
            record = held & numbers
            code = hash_record(ix, records + record * stride)
            slot = code & mask
            while load_half(slots, slot) >= 0:
                slot = (slot + 1) & mask
            store_half(slots, slot, record | (code & tags))
    return 0
