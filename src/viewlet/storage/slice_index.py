"""Slice indexes: doubly linked chains of the records that share some key columns."""

from __future__ import annotations

from viewlet.native.compiled import compiled
from viewlet.storage.columns import LINK, RECORDS, SLOTS, STRIDE
from viewlet.storage.hashmap import close_group, group_slot, open_group
from viewlet.storage.memory import load, load_half, store_half


@compiled
def next_in_chain(ix: int, at: int) -> int:
    """The record after this one, -1 at the end."""
    return load_half(at, 2 * load(ix, LINK))


@compiled
def link_chain(m: int, ix: int, record: int) -> None:
    """Put a new record in front of its chain."""
    records = load(m, RECORDS)
    stride = load(m, STRIDE)
    at = records + record * stride
    link = 2 * load(ix, LINK)
    slot = group_slot(m, ix, at)
    head = load_half(load(ix, SLOTS), slot)
    store_half(at, link, head)
    store_half(at, link + 1, -1)
    if head < 0:
        open_group(ix, slot, record)
        return
    store_half(records + head * stride, link + 1, record)
    store_half(load(ix, SLOTS), slot, record)


@compiled
def unlink_chain(m: int, ix: int, record: int) -> None:
    """Take a record out of its chain."""
    records = load(m, RECORDS)
    stride = load(m, STRIDE)
    at = records + record * stride
    link = 2 * load(ix, LINK)
    after = load_half(at, link)
    before = load_half(at, link + 1)
    if after >= 0:
        store_half(records + after * stride, link + 1, before)
    if before >= 0:
        store_half(records + before * stride, link, after)
    else:
        slot = group_slot(m, ix, at)
        if after >= 0:
            store_half(load(ix, SLOTS), slot, after)
        else:
            close_group(m, ix, slot)
