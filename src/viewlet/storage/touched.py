"""What a batch did to a map, read from its undo log in one pass of native code."""

from __future__ import annotations

import numpy as np

from viewlet.native.compiled import compiled
from viewlet.storage.absorb import AHEAD
from viewlet.storage.columns import KEYS, LOG, LOGGED, RECORDS, STRIDE, VALUES, Array
from viewlet.storage.memory import address_of, load, prefetch, store
from viewlet.storage.multimap import all_zero
from viewlet.storage.pool import Pool


@compiled
def copy_touched(m: int, rows: int) -> int:
    """Key, old values and new values of each record that the batch changed; how many these are."""
    keys = load(m, KEYS)
    values = load(m, VALUES)
    records = load(m, RECORDS)
    stride = load(m, STRIDE)
    log = load(m, LOG)
    log_row = 8 * (values + 1)
    width = 8 * (keys + 2 * values)
    count = load(m, LOGGED)
    copied = 0
    for i in range(count):
        if i + AHEAD < count:
            prefetch(records + load(log + (i + AHEAD) * log_row, 0) * stride)
        old = log + i * log_row
        at = records + load(old, 0) * stride
        row = rows + copied * width
        difference = 0
        for j in range(values):
            before = load(old, j + 1)
            after = load(at, keys + j)
            store(row, keys + j, before)
            store(row, keys + values + j, after)
            difference |= before ^ after
        if difference != 0:
            for j in range(keys):
                store(row, j, load(at, j))
            copied += 1
    return copied


@compiled
def count_change(m: int, word: int, width: int) -> int:
    """By how many records more than before the batch have something in these words."""
    keys = load(m, KEYS)
    log = load(m, LOG)
    log_row = 8 * (load(m, VALUES) + 1)
    change = 0
    for i in range(load(m, LOGGED)):
        old = log + i * log_row
        at = load(m, RECORDS) + load(old, 0) * load(m, STRIDE)
        was = not all_zero(old, word - keys + 1, width)
        change += (not all_zero(at, word, width)) - was
    return change


@compiled
def count_records(m: int, used: int, word: int, width: int) -> int:
    """How many of the records that were ever used have something in these words."""
    at = load(m, RECORDS)
    stride = load(m, STRIDE)
    count = 0
    for _ in range(used):
        count += not all_zero(at, word, width)
        at += stride
    return count


def touched_rows(pool: Pool) -> Array:
    """Rows of words, one for each record that the last batch changed: its key, what its values were
    and what they are."""
    layout = pool.layout
    rows = np.empty((len(pool.logged()), layout.key_width + 2 * layout.value_width), dtype=np.int64)
    return rows[: copy_touched(pool.address, address_of(rows))]
