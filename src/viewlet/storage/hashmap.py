"""Open addressing with linear probing: the table of every index, whatever hangs on its slots.

A slot's entry is the number of a record: of the only record with that key (unique index), of the
head of a chain, or of the root of a tree. Keys are never stored twice: a probe compares with the
record.

The unique index has more slots than records, so that some bits of an entry are not needed for the
number. Its entries are  way | tag | number:  the tag is the bits of the key's hash above those that
give the slot, the way is the distance from the slot where the key belongs to the one that it has. A
probe passes the entries of other keys without looking at their records, each of which would be a
wait for memory; and a table grows without looking at any, as slot, way and tag give the hash.
`m` is the address of a map's descriptor, `ix` that of an index block, `at` that of a record.
"""

from __future__ import annotations

from viewlet.native.compiled import compiled
from viewlet.storage.columns import (
    GROUP_COUNT,
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
from viewlet.storage.memory import load, load_half, mix, prefetch, spread, store, store_half

Words = tuple[int, ...]
"""A key as words; kernels pass tuples, so that each length is compiled to straight code."""


@compiled
def hash_words(key: Words) -> int:
    """The hash of a key."""
    if len(key) == 1:
        return spread(key[0])
    seed = len(key)
    for word in key:
        seed = mix(seed, word)
    return seed


_WAY = 28  # where the way begins; three bits
_FAR = 7  # a way of so many slots or more


@compiled
def numbers_in(mask: int) -> int:
    """Bits of an entry of the unique index for the record number, which is below half the slots."""
    return mask >> 1


@compiled
def tag_bits(mask: int) -> int:
    """Bits of an entry of the unique index for the tag."""
    return ~(mask >> 1) & ((1 << _WAY) - 1)


@compiled
def knows_ways(mask: int) -> bool:
    """Whether record numbers leave room for ways: up to 2**28 slots."""
    return mask < 1 << _WAY


@compiled
def slot_entry(mask: int, slot: int, record: int, code: int) -> int:
    """The entry of the unique index for a record whose key has this hash."""
    way = min((slot - code) & mask, _FAR) << _WAY if knows_ways(mask) else 0
    return record | (code & tag_bits(mask)) | way


@compiled
def find(slots: int, mask: int, records: int, stride: int, by: Words, key: Words) -> int:
    """The address of the record with this key, 0 if there is none; `by` are the hashed words.

    Kernels read the table's address and mask once, not at every probe.
    """
    code = hash_words(by)
    tags = tag_bits(mask)
    tag = code & tags
    slot = code & mask
    while True:
        entry = load_half(slots, slot)
        if entry < 0:
            return 0
        if entry & tags == tag:
            at = records + (entry & numbers_in(mask)) * stride
            same = True
            for i in range(len(key)):
                same &= load(at, i) == key[i]
            if same:
                return at
        slot = (slot + 1) & mask


@compiled
def likely(slots: int, mask: int, code: int) -> int:
    """The record in the first slot for a hash, 0 if that surely has another key: to prefetch."""
    entry = load_half(slots, code & mask)
    tags = tag_bits(mask)
    return entry & numbers_in(mask) if entry >= 0 and entry & tags == code & tags else 0


@compiled
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


@compiled
def only_group(ix: int) -> int:
    """The same for an index over no words: all records are one group, in slot 0."""
    return load_half(load(ix, SLOTS), 0)


@compiled
def hash_record(ix: int, at: int) -> int:
    """The same as hash_words over the record's indexed words."""
    parts = load(ix, PARTS)
    if parts == 1:
        return spread(load(at, load(ix, PART)))
    seed = parts
    for i in range(parts):
        seed = mix(seed, load(at, load(ix, PART + i)))
    return seed


@compiled
def slot_for(m: int, ix: int, at: int) -> int:
    """The slot of a key in the unique index: the one it has, or the empty one where it belongs."""
    slots = load(ix, SLOTS)
    mask = load(ix, MASK)
    records = load(m, RECORDS)
    stride = load(m, STRIDE)
    keys = load(m, KEYS)
    code = hash_record(ix, at)
    tags = tag_bits(mask)
    tag = code & tags
    slot = code & mask
    while True:
        entry = load_half(slots, slot)
        if entry < 0:
            return slot
        if entry & tags == tag:
            other = records + (entry & numbers_in(mask)) * stride
            word = 0
            while word < keys and load(other, word) == load(at, word):
                word += 1
            if word == keys:
                return slot
        slot = (slot + 1) & mask


@compiled
def group_slot(m: int, ix: int, at: int) -> int:
    """The same for the group of a record in a secondary index."""
    slots = load(ix, SLOTS)
    mask = load(ix, MASK)
    records = load(m, RECORDS)
    stride = load(m, STRIDE)
    parts = load(ix, PARTS)
    slot = hash_record(ix, at) & mask
    while True:
        record = load_half(slots, slot)
        if record < 0:
            return slot
        other = records + record * stride
        part = 0
        while part < parts and load(other, load(ix, PART + part)) == load(
            at, load(ix, PART + part)
        ):
            part += 1
        if part == parts:
            return slot
        slot = (slot + 1) & mask


@compiled
def record_in(ix: int, slot: int) -> int:
    """The record that a slot names, -1 if it is empty."""
    entry = load_half(load(ix, SLOTS), slot)
    if entry < 0 or load(ix, KIND) != UNIQUE:
        return entry
    return entry & numbers_in(load(ix, MASK))


@compiled
def empty_slot(m: int, ix: int, slot: int) -> None:
    """Take a slot out and move later ones of its run up, so that no probe meets a gap."""
    slots = load(ix, SLOTS)
    mask = load(ix, MASK)
    probe = slot
    while True:
        probe = (probe + 1) & mask
        record = record_in(ix, probe)
        if record < 0:
            break
        code = hash_record(ix, load(m, RECORDS) + record * load(m, STRIDE))
        if (probe - code) & mask >= (probe - slot) & mask:
            take_slot(ix, slot, record, code)
            slot = probe
    store_half(slots, slot, -1)


@compiled
def take_slot(ix: int, slot: int, record: int, code: int) -> None:
    """A group's record goes into a slot; `code` is the hash of its key."""
    unique = load(ix, KIND) == UNIQUE
    entry = slot_entry(load(ix, MASK), slot, record, code) if unique else record
    store_half(load(ix, SLOTS), slot, entry)


@compiled
def lacks_slot(ix: int) -> bool:
    """Whether a secondary index has no slot for one more group: half of its table is taken."""
    return load(ix, GROUP_COUNT) > load(ix, MASK) >> 1


@compiled
def open_group(ix: int, slot: int, record: int) -> None:
    """The first record of a new group of a secondary index goes into an empty slot."""
    take_slot(ix, slot, record, 0)
    store(ix, GROUP_COUNT, load(ix, GROUP_COUNT) + 1)


@compiled
def close_group(m: int, ix: int, slot: int) -> None:
    """The last record of a group of a secondary index leaves its slot."""
    empty_slot(m, ix, slot)
    store(ix, GROUP_COUNT, load(ix, GROUP_COUNT) - 1)


@compiled
def rehash(m: int, ix: int, old: int, length: int) -> int:
    """Enter the slots of an old table of `length` slots into the index's new, empty one."""
    mask = load(ix, MASK)
    records = load(m, RECORDS)
    stride = load(m, STRIDE)
    if load(ix, KIND) == UNIQUE and knows_ways(mask):
        numbers = numbers_in(length - 1)
        tags = tag_bits(length - 1)
        for i in range(length):
            entry = load_half(old, i)
            if entry >= 0:
                way = entry >> _WAY
                record = entry & numbers
                if way < _FAR:
                    code = ((i - way) & (length - 1)) | (entry & tags)
                else:
                    code = hash_record(ix, records + record * stride)
                _enter(ix, mask, record, code)
        return 0
    numbers = numbers_in(length - 1) if load(ix, KIND) == UNIQUE else -1
    for i in range(length):
        # Records lie in the order of their arrival, not of their hashes: each is a wait for memory.
        if i + 24 < length:
            prefetch(records + (load_half(old, i + 24) & numbers) * stride)
        entry = load_half(old, i)
        if entry >= 0:
            record = entry & numbers
            _enter(ix, mask, record, hash_record(ix, records + record * stride))
    return 0


@compiled
def _enter(ix: int, mask: int, record: int, code: int) -> None:
    """Into the first empty slot from where it belongs."""
    slots = load(ix, SLOTS)
    slot = code & mask
    while load_half(slots, slot) >= 0:
        slot = (slot + 1) & mask
    take_slot(ix, slot, record, code)
