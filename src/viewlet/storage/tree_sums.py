"""Sums in the entries of ordered indexes: of one record, and of all that a node stands for."""

from __future__ import annotations

from viewlet.native.compiled import compiled
from viewlet.storage.columns import (
    COUNT_FLOAT,
    COUNT_INT,
    ENTRY,
    FRONT,
    LOWER_WORD,
    NEGATIVE_INT,
    SUM_FLOAT,
    SUM_INT,
    SUM_KIND,
    SUM_WORD,
    SUMS,
    WIDE,
)
from viewlet.storage.doubles import (
    LIMIT,
    Element,
    beside,
    gather,
    gathered,
    is_some,
    load_element,
    load_lower,
    no_element,
    store_lower,
    two_sum,
)
from viewlet.storage.memory import load, load_float, load_half, raw_bits, store, store_float
from viewlet.storage.tree_layout import (
    ENTRIES,
    PARENT,
    POSITION,
    entry_at,
    lower_at,
    node_at,
    sum_field,
)


@compiled
def own_int(at: int, word: int, kind: int) -> int:
    """What one record adds to a sum."""
    if kind == SUM_INT:
        return load(at, word)
    if kind == COUNT_INT:
        return 1 if load(at, word) != 0 else 0
    if kind == COUNT_FLOAT:
        return 1 if is_some(load_element(at, word)) else 0
    if kind == NEGATIVE_INT:
        return 1 if load(at, word) < 0 else 0
    # What is not finite counts as negative: sums with it do not rise.
    own = load_element(at, word)
    return 0 if (own[0] >= 0.0) & (own[3] | own[4] == 0) else 1


@compiled
def note_wide(ix: int, a: Element) -> None:
    """Descents look at all words of sums from when one needs more than the first."""
    if beside(a) != 0:
        store(ix, WIDE, 1)


@compiled
def load_sum(ix: int, i: int, node: int, position: int) -> Element:
    """A sum of DOUBLE in an entry."""
    high = load_float(entry_at(ix, node, position), sum_field(ix, i, SUM_WORD))
    return load_lower(high, lower_at(ix, node, position), sum_field(ix, i, LOWER_WORD))


@compiled
def store_sum(ix: int, i: int, node: int, position: int, total: Element) -> None:
    """Write a sum of DOUBLE to an entry."""
    note_wide(ix, total)
    store_float(entry_at(ix, node, position), sum_field(ix, i, SUM_WORD), total[0])
    if load(ix, WIDE) != 0:
        store_lower(lower_at(ix, node, position), sum_field(ix, i, LOWER_WORD), total)


@compiled
def pull_float(ix: int, i: int, node: int, above: int, position: int) -> None:
    """A sum of DOUBLE in the entry of a node, from the entries of that node."""
    step = 8 * load(ix, ENTRY)
    word = sum_field(ix, i, SUM_WORD)
    at = node + 8 * (FRONT + word)
    count = load_half(node, ENTRIES)
    high = 0.0
    wide = load(ix, WIDE)
    for _ in range(count):
        high, error = two_sum(high, load_float(at, 0))
        wide |= raw_bits(error)
        at += step
    if (wide == 0) & (abs(high) < LIMIT):
        store_float(entry_at(ix, above, position), word, high)
        return
    total = no_element()
    for other in range(count):
        total = gather(total, load_sum(ix, i, node, other))
    store_sum(ix, i, above, position, gathered(total))


@compiled
def int_total(ix: int, node: int, word: int) -> int:
    """An integer sum over the entries of a node.

    It wraps: while a batch is undone record by record the sums in between may be too large.
    """
    step = 8 * load(ix, ENTRY)
    at = node + 8 * (FRONT + word)
    total = 0
    for _ in range(load_half(node, ENTRIES)):
        total += load(at, 0)
        at += step
    return total


@compiled
def pull(ix: int, node: int) -> None:
    """sum(entry that stands for the node) = sum over the node's entries, for every kept sum"""
    above = node_at(ix, load_half(node, PARENT))
    position = load_half(node, POSITION)
    for i in range(load(ix, SUMS)):
        if sum_field(ix, i, SUM_KIND) == SUM_FLOAT:
            pull_float(ix, i, node, above, position)
        else:
            word = sum_field(ix, i, SUM_WORD)
            store(entry_at(ix, above, position), word, int_total(ix, node, word))
