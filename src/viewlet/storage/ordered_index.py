"""Ordered indexes: one B+ tree for each group, every entry with the sums of what is below it.

The sum of a value column over a range of keys, the least and the greatest key, and every update
cost O(log n), where a hash index would walk the whole group (thesis 4.2 leaves them O(n)). Entries
of a node are neighbors in memory (storage.tree_layout): a descent waits for memory once a level,
not once a comparison.

When a record changes, the sums above it move as far as it has: one addition a level. The sums of
DOUBLE so keep the bound of storage.doubles.
"""

from __future__ import annotations

import math

from viewlet.native.compiled import compiled, outlined
from viewlet.storage.arithmetic import minus, plus
from viewlet.storage.columns import (
    BY_FLOAT,
    BY_RANK,
    FREE_NODES,
    GROUPS,
    LARGEST,
    MOVED,
    NODES,
    NODES_USED,
    ODD_KEYS,
    ORDER,
    ORDER_KIND,
    RANKS,
    SLOTS,
    SUM_FLOAT,
    SUM_KIND,
    SUM_WORD,
    SUMS,
    TALLEST,
    VALUE_WORD,
    WIDE,
)
from viewlet.storage.doubles import (
    ELEMENT_WORDS,
    LIMIT,
    beside,
    element_minus,
    element_plus,
    load_element,
    store_element,
    two_sum,
)
from viewlet.storage.hashmap import (
    Words,
    close_group,
    find_group,
    group_slot,
    only_group,
    open_group,
)
from viewlet.storage.memory import (
    load,
    load_float,
    load_half,
    order_of,
    raw_bits,
    store,
    store_float,
    store_half,
)
from viewlet.storage.tree_layout import (
    BELOW,
    ENTRIES,
    HEAD,
    KEY,
    LEAF,
    LEFT,
    LEVEL,
    NEXT,
    PARENT,
    POSITION,
    RIGHT,
    ROOT,
    entry_at,
    link_of,
    node_at,
    position_in_leaf,
    record_at,
    set_link,
    sum_field,
)
from viewlet.storage.tree_nodes import (
    add_entry,
    cut_entry,
    free_node,
    join_groups,
    node_words,
    put_entry,
    shrink,
    take_node,
)
from viewlet.storage.tree_sums import load_sum, note_wide, own_int, pull, store_sum


@compiled
def find_root(m: int, ix: int, key: Words) -> int:
    """The root of the group with these key words, -1 if there is none."""
    head = find_group(m, ix, key)
    return link_of(m, ix, head, ROOT) if head >= 0 else -1


@compiled
def only_root(m: int, ix: int) -> int:
    """The same for an index over no words, where all records are one group."""
    head = only_group(ix)
    return link_of(m, ix, head, ROOT) if head >= 0 else -1


# Sums.


@compiled
def put_own_float(ix: int, i: int, at: int, leaf: int, position: int) -> None:
    """The same for a sum of DOUBLE; most are of one word."""
    own = load_element(at, sum_field(ix, i, VALUE_WORD))
    entry = entry_at(ix, leaf, position)
    word = sum_field(ix, i, SUM_WORD)
    moved = MOVED + ELEMENT_WORDS * i
    high, error = two_sum(own[0], -load_float(entry, word))
    if (load(ix, WIDE) | raw_bits(error) | beside(own) == 0) & (abs(high) < LIMIT):
        store_float(ix, moved, high)
        store_float(entry, word, own[0])
    else:
        by = element_minus(own, load_sum(ix, i, leaf, position))
        note_wide(ix, by)
        store_element(ix, moved, by)
        store_sum(ix, i, leaf, position, own)


@compiled
def put_own(m: int, ix: int, record: int, leaf: int) -> None:
    """What a record adds to each sum, into its entry; MOVED says how far that has moved."""
    at = record_at(m, record)
    position = position_in_leaf(ix, leaf, record)
    entry = entry_at(ix, leaf, position)
    for i in range(load(ix, SUMS)):
        kind = sum_field(ix, i, SUM_KIND)
        if kind == SUM_FLOAT:
            put_own_float(ix, i, at, leaf, position)
        else:
            word = sum_field(ix, i, SUM_WORD)
            own = own_int(at, sum_field(ix, i, VALUE_WORD), kind)
            store(ix, MOVED + ELEMENT_WORDS * i, minus(own, load(entry, word)))
            store(entry, word, own)


@compiled
def raise_float(ix: int, i: int, node: int, position: int) -> None:
    """Move a sum of DOUBLE by as much as the sum below it; most are of one word."""
    entry = entry_at(ix, node, position)
    word = sum_field(ix, i, SUM_WORD)
    moved = MOVED + ELEMENT_WORDS * i
    high, error = two_sum(load_float(entry, word), load_float(ix, moved))
    if (load(ix, WIDE) | raw_bits(error) == 0) & (abs(high) < LIMIT):
        store_float(entry, word, high)
    else:
        total = element_plus(load_sum(ix, i, node, position), load_element(ix, moved))
        store_sum(ix, i, node, position, total)


@outlined
def refresh(m: int, ix: int, record: int) -> None:
    """After a record's values changed: the sums of it and of all above it."""
    node = node_at(ix, link_of(m, ix, record, LEAF))
    put_own(m, ix, record, node)
    sums = load(ix, SUMS)
    while load_half(node, PARENT) >= 0:
        position = load_half(node, POSITION)
        node = node_at(ix, load_half(node, PARENT))
        entry = entry_at(ix, node, position)
        for i in range(sums):
            if sum_field(ix, i, SUM_KIND) == SUM_FLOAT:
                raise_float(ix, i, node, position)
            else:
                word = sum_field(ix, i, SUM_WORD)
                moved = load(ix, MOVED + ELEMENT_WORDS * i)
                store(entry, word, plus(load(entry, word), moved))


@outlined
def remake(m: int, ix: int, record: int) -> None:
    """The same where sums above may be half done: all of them from the entries below."""
    node = node_at(ix, link_of(m, ix, record, LEAF))
    put_own(m, ix, record, node)
    while load_half(node, PARENT) >= 0:
        pull(ix, node)
        node = node_at(ix, load_half(node, PARENT))


# Records.


@compiled
def node_words_needed(ix: int) -> int:
    """Words of the nodes that one insert may take: one for each level, and two for the root."""
    return (load(ix, TALLEST) + 3) * node_words(ix, LARGEST)


@compiled
def is_before(m: int, kind: int, key: int, entry: int) -> bool:
    """Whether a key, given by its address, is less than that of an entry; NaN is the greatest."""
    if kind == BY_FLOAT:
        return order_of(load(key, 0)) < order_of(load(entry, KEY))
    if kind == BY_RANK:
        ranks = load(m, RANKS)
        return load(ranks, load(key, 0)) < load(ranks, load(entry, KEY))
    return load(key, 0) < load(entry, KEY)


@compiled
def odd_keys(ix: int, at: int) -> int:
    """1 for a record whose key in the order is an infinity or NaN, else 0."""
    if load(ix, ORDER_KIND) != BY_FLOAT:
        return 0
    return 0 if math.isfinite(load_float(at, load(ix, ORDER))) else 1


@outlined
def link_tree(m: int, ix: int, record: int) -> None:
    """Put a new record behind those whose keys are not greater."""
    at = record_at(m, record)
    key = at + 8 * load(ix, ORDER)
    store(ix, ODD_KEYS, load(ix, ODD_KEYS) + odd_keys(ix, at))
    slot = group_slot(m, ix, at)
    head = load_half(load(ix, SLOTS), slot)
    set_link(m, ix, record, ROOT, -1)
    if head < 0:
        open_group(ix, slot, record)
        number = take_node(ix, 0, 0)
        node = node_at(ix, number)
        store_half(node, NEXT, load(ix, GROUPS))
        store_half(node, HEAD, record)
        join_groups(ix, number, number)
        set_link(m, ix, record, ROOT, number)
        put_entry(m, ix, number, 0, load(key, 0), record)
        return
    kind = load(ix, ORDER_KIND)
    number = link_of(m, ix, head, ROOT)
    while True:
        node = node_at(ix, number)
        # The first entry of an inner node has no key: all that is less goes there.
        first = 1 if load_half(node, LEVEL) > 0 else 0
        low = first
        high = load_half(node, ENTRIES)
        while low < high:
            # No branch: which way it goes cannot be foreseen.
            middle = (low + high) >> 1
            before = is_before(m, kind, key, entry_at(ix, node, middle))
            high = middle if before else high
            low = low if before else middle + 1
        if first == 0:
            break
        number = load(entry_at(ix, node, low - 1), BELOW)
    add_entry(m, ix, number, low, load(key, 0), record)


@compiled
def leaf_at(ix: int, root: int, side: int) -> int:
    """The leaf at one end of a tree."""
    number = root
    while True:
        node = node_at(ix, number)
        if load_half(node, LEVEL) == 0:
            return number
        position = 0 if side == LEFT else load_half(node, ENTRIES) - 1
        number = load(entry_at(ix, node, position), BELOW)


@compiled
def pass_head(m: int, ix: int, record: int, number: int, position: int) -> None:
    """Another record takes the group's slot; `record` is in leaf `number` at `position`."""
    root = link_of(m, ix, record, ROOT)
    node = node_at(ix, number)
    if load_half(node, ENTRIES) > 1:
        other = load(entry_at(ix, node, 1 if position == 0 else 0), BELOW)
    else:
        leaf = leaf_at(ix, root, LEFT)
        if leaf == number:
            leaf = leaf_at(ix, root, RIGHT)
        other = load(entry_at(ix, node_at(ix, leaf), 0), BELOW)
    store_half(load(ix, SLOTS), group_slot(m, ix, record_at(m, record)), other)
    store_half(node_at(ix, root), HEAD, other)
    set_link(m, ix, other, ROOT, root)


@outlined
def unlink_tree(m: int, ix: int, record: int) -> None:
    """Take a record out. All its values are zero, so that no sum above changes."""
    store(ix, ODD_KEYS, load(ix, ODD_KEYS) - odd_keys(ix, record_at(m, record)))
    number = link_of(m, ix, record, LEAF)
    node = node_at(ix, number)
    position = position_in_leaf(ix, node, record)
    if load_half(node, ENTRIES) == 1 and load_half(node, PARENT) < 0:
        join_groups(ix, number, -1)
        close_group(m, ix, group_slot(m, ix, record_at(m, record)))
        free_node(ix, number)
        return
    if link_of(m, ix, record, ROOT) >= 0:
        pass_head(m, ix, record, number, position)
    cut_entry(m, ix, number, position)
    shrink(m, ix, number)


@compiled
def clear_trees(ix: int) -> None:
    """Forget all nodes. O(their words) where lower words may not be zero."""
    if load(ix, WIDE) != 0:
        for i in range(load(ix, NODES_USED)):
            store(load(ix, NODES), i, 0)
        for i in range(ELEMENT_WORDS * load(ix, SUMS)):
            store(ix, MOVED + i, 0)
    store(ix, GROUPS, -1)
    store(ix, NODES_USED, 0)
    store(ix, TALLEST, 0)
    store(ix, ODD_KEYS, 0)
    store(ix, WIDE, 0)
    for size in range(LARGEST + 1):
        store(ix, FREE_NODES + size, -1)


# Walks.


@compiled
def counted_from(ix: int, node: int, position: int, word: int, side: int) -> int:
    """The first entry from a position on, away from the end `side`, that has something counted."""
    count = load_half(node, ENTRIES)
    step = 1 if side == LEFT else -1
    while 0 <= position < count:
        if load(entry_at(ix, node, position), word) > 0:
            return position
        position += step
    return -1


@compiled
def first_counted(m: int, ix: int, root: int, sum_number: int, side: int) -> int:
    """The record nearest to one end (LEFT: least key) that a sum counts; -1 if none."""
    word = sum_field(ix, sum_number, SUM_WORD)
    number = root
    while number >= 0:
        node = node_at(ix, number)
        end = 0 if side == LEFT else load_half(node, ENTRIES) - 1
        position = counted_from(ix, node, end, word, side)
        if position < 0:
            return -1
        number = load(entry_at(ix, node, position), BELOW)
        if load_half(node, LEVEL) == 0:
            return number
    return -1


@compiled
def next_counted(m: int, ix: int, record: int, sum_number: int, side: int) -> int:
    """The counted record that follows, going away from the end `side`; -1 after the last."""
    word = sum_field(ix, sum_number, SUM_WORD)
    step = 1 if side == LEFT else -1
    node = node_at(ix, link_of(m, ix, record, LEAF))
    here = position_in_leaf(ix, node, record)
    while True:
        position = counted_from(ix, node, here + step, word, side)
        if position >= 0:
            below = load(entry_at(ix, node, position), BELOW)
            if load_half(node, LEVEL) == 0:
                return below
            return first_counted(m, ix, below, sum_number, side)
        if load_half(node, PARENT) < 0:
            return -1
        here = load_half(node, POSITION)
        node = node_at(ix, load_half(node, PARENT))
