"""Whole rows of words added to a map: what arrives from another node, keys and values in one.

A row has the words of a record up to its links (storage.columns): first the key's, then the
values'. `kinds` stands for the value words: 0 an integer, 1 the first word of a float pair, whose
second word follows.
"""

from __future__ import annotations

import numpy as np

from viewlet.native.compiled import compiled
from viewlet.schema import Physical
from viewlet.storage.columns import (
    BLOCK,
    HEADER,
    INDEXES,
    KEYS,
    MASK,
    RECORDS,
    SLOTS,
    STRIDE,
    VALUES,
    Array,
    Layout,
)
from viewlet.storage.hashmap import hash_record, record_in, slot_for, take_slot
from viewlet.storage.memory import load, load_float, prefetch, store
from viewlet.storage.multimap import (
    add_float,
    add_int,
    keep_old,
    link_secondary,
    refresh_trees,
    take_record,
)
from viewlet.storage.pool import Pool

AHEAD = 16
"""Rows: what a later one looks up comes from memory while those before it are worked on."""


@compiled
def ask_for_slot(ix: int, at: int) -> None:
    """Let the slot come with which a record's probe of an index begins."""
    prefetch(load(ix, SLOTS) + 4 * (hash_record(ix, at) & load(ix, MASK)))


@compiled
def ask_for_row(m: int, row: int) -> None:
    """The same for all indexes of a map."""
    for i in range(load(m, INDEXES)):
        ask_for_slot(m + 8 * (HEADER + BLOCK * i), row)


@compiled
def upsert_row(m: int, row: int) -> int:
    """`multimap.upsert` for a key of any number of words in memory; 0 when full."""
    keys = load(m, KEYS)
    values = load(m, VALUES)
    unique = m + 8 * HEADER
    slot = slot_for(m, unique, row)
    record = record_in(unique, slot)
    if record >= 0:
        at = load(m, RECORDS) + record * load(m, STRIDE)
        return at if keep_old(m, record, at) else 0
    record = take_record(m)
    if record < 0:
        return 0
    at = load(m, RECORDS) + record * load(m, STRIDE)
    for i in range(keys):
        store(at, i, load(row, i))
    for i in range(values):
        store(at, keys + i, 0)
    take_slot(unique, slot, record, hash_record(unique, row))
    keep_old(m, record, at)
    if load(m, INDEXES) > 1:
        link_secondary(m, record)
    return at


@compiled
def add_rows(m: int, rows: int, first: int, count: int, kinds: int) -> int:
    """Add the rows first .. count - 1; the number of the row that found no room, or `count`."""
    keys = load(m, KEYS)
    values = load(m, VALUES)
    for i in range(first, count):
        row = rows + 8 * i * (keys + values)
        if i + AHEAD < count:
            ask_for_row(m, row + 8 * AHEAD * (keys + values))
        at = upsert_row(m, row)
        if at == 0:
            return i
        word = 0
        while word < values:
            here = keys + word
            if load(kinds, word) == 1:
                by = load_float(row, here)
                add_float(m, at, here, by, load_float(row, here + 1), abs(by))
                word += 2
            else:
                add_int(m, at, here, load(row, here))
                word += 1
        if load(m, INDEXES) > 1:
            refresh_trees(m, at)
    return count


def value_kinds(layout: Layout) -> Array:
    """For each value word of a record, 1 if it is a float and 0 if an int."""
    kinds = np.zeros(max(layout.value_width, 1), np.int64)
    for physical, word in zip(layout.values, layout.value_words, strict=True):
        kinds[word - layout.key_width] = physical is Physical.FLOAT
    return kinds


def absorb(pool: Pool, rows: Array) -> None:
    """pool[k] += rows[k], with room made as it is needed."""
    rows = np.ascontiguousarray(rows, np.int64)
    kinds = value_kinds(pool.layout)
    done = 0
    while done < len(rows):
        done = add_rows(pool.address, rows.ctypes.data, done, len(rows), kinds.ctypes.data)
        if done < len(rows):
            pool.make_room()
