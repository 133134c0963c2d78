"""Nodes of ordered indexes: entries side by side in memory, with the sums of what is below them.

    node     entry count, level (0: a leaf) | parent, position in it | head, size class | entries
    entry    key | a record, or a node of the level below | sums

A leaf's entries are the records in the order of their keys, with what each adds to the sums. An
entry above stands for a node: its key is not above any key in there and not below any to the left.
The key of a node's first entry means nothing, so that no change at a border has to go up.

The root keeps its number while its group lives and the node does not change its size. A small
group is one leaf of 1, 2, 4, ... entries. Nodes that have become small are merged with a neighbor,
so that two neighbors have more than half a node: the depth is O(log n) after deletes too.
"""

from __future__ import annotations

from viewlet.native.compiled import compiled
from viewlet.storage.columns import (
    COUNT_FLOAT,
    COUNT_INT,
    ENTRY,
    FREE_NODES,
    FRONT,
    GROUPS,
    LARGEST,
    LINK,
    NEGATIVE_INT,
    NODES,
    NODES_USED,
    RECORDS,
    STRIDE,
    SUM,
    SUM_FLOAT,
    SUM_INT,
    SUMS,
    TALLEST,
    WIDE,
)
from viewlet.storage.doubles import (
    Element,
    beside,
    gather,
    gathered,
    is_some,
    load_element,
    no_element,
    store_element,
)
from viewlet.storage.memory import (
    load,
    load_half,
    store,
    store_half,
)

LEFT, RIGHT = 0, 1

# Halves of a node's front.
ENTRIES, LEVEL, PARENT, POSITION, HEAD, CLASS = 0, 1, 2, 3, 4, 5
NEXT = POSITION
"""The roots of all groups are a list, so that groups can be enumerated: NEXT of a root is the next
root, and its PARENT, which is negative, is -1 for the first of the list or -2 - previous root. HEAD
of a root is the record in the group's slot. A free node's NEXT is the next free one.
"""

# Words of an entry; sums follow.
KEY, BELOW = 0, 1

# Halves of a record's link: the leaf that it is in, and the group's root if it is the head.
LEAF, ROOT = 0, 1


@compiled
def record_at(m: int, record: int) -> int:
    """The address of a record."""
    return load(m, RECORDS) + record * load(m, STRIDE)


@compiled
def node_at(ix: int, number: int) -> int:
    """Nodes are numbered by the word at which they begin."""
    return load(ix, NODES) + 8 * number


@compiled
def entry_at(ix: int, node: int, position: int) -> int:
    """The address of an entry of a node."""
    return node + 8 * (FRONT + position * load(ix, ENTRY))


@compiled
def link_of(m: int, ix: int, record: int, which: int) -> int:
    """One of the two links that a record has for an index."""
    return load_half(record_at(m, record), 2 * load(ix, LINK) + which)


@compiled
def set_link(m: int, ix: int, record: int, which: int, number: int) -> None:
    """Set one of the two links that a record has for an index."""
    store_half(record_at(m, record), 2 * load(ix, LINK) + which, number)


@compiled
def position_in_leaf(ix: int, leaf: int, record: int) -> int:
    """Where a leaf has the entry of a record."""
    step = 8 * load(ix, ENTRY)
    at = leaf + 8 * FRONT
    position = 0
    while load(at, BELOW) != record:
        at += step
        position += 1
    return position


@compiled
def entry_above(ix: int, node: int) -> int:
    """The entry that stands for a node which is not a root."""
    return entry_at(ix, node_at(ix, load_half(node, PARENT)), load_half(node, POSITION))


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
def pull_float(ix: int, node: int, entry: int, word: int) -> None:
    """A sum of DOUBLE in the entry of a node, from the entries of that node."""
    step = 8 * load(ix, ENTRY)
    at = node + 8 * (FRONT + word)
    end = at + step * load_half(node, ENTRIES)
    total = no_element()
    while at < end:
        total = gather(total, load_element(at, 0))
        at += step
    total = gathered(total)
    note_wide(ix, total)
    store_element(entry, word, total)


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
def pull(ix: int, node: int, entry: int) -> None:
    """sum(entry) = sum over the entries of the node that it stands for, for every kept sum"""
    for i in range(load(ix, SUMS)):
        word = load(ix, SUM + 3 * i + 2)
        if load(ix, SUM + 3 * i + 1) == SUM_FLOAT:
            pull_float(ix, node, entry, word)
        else:
            store(entry, word, int_total(ix, node, word))


@compiled
def node_words(ix: int, size: int) -> int:
    """Words of a node of a size class."""
    return FRONT + (load(ix, ENTRY) << size)


@compiled
def take_node(ix: int, size: int, level: int) -> int:
    """An empty node for 2**size entries; `node_words_needed` says how many an insert may take."""
    number = load(ix, FREE_NODES + size)
    if number >= 0:
        store(ix, FREE_NODES + size, load_half(node_at(ix, number), NEXT))
    else:
        number = load(ix, NODES_USED)
        store(ix, NODES_USED, number + node_words(ix, size))
    node = node_at(ix, number)
    store_half(node, ENTRIES, 0)
    store_half(node, LEVEL, level)
    store_half(node, PARENT, -1)
    store_half(node, NEXT, -1)
    store_half(node, HEAD, -1)
    store_half(node, CLASS, size)
    return number


@compiled
def free_node(ix: int, number: int) -> None:
    """Keep a node for the next one of its size class."""
    node = node_at(ix, number)
    size = load_half(node, CLASS)
    store_half(node, NEXT, load(ix, FREE_NODES + size))
    store(ix, FREE_NODES + size, number)


@compiled
def copy_words(source: int, target: int, count: int) -> None:
    """Upwards, so that a part of a node may move towards its beginning."""
    for i in range(count):
        store(target, i, load(source, i))


@compiled
def adopt(m: int, ix: int, number: int, first: int, end: int) -> None:
    """Tell what some entries of a node stand for that they are there now.

    Nodes know their position too, as a change of a value goes up past them; a leaf is searched for
    a record, because records come and go much more often.
    """
    node = node_at(ix, number)
    leaf = load_half(node, LEVEL) == 0
    for position in range(first, end):
        below = load(entry_at(ix, node, position), BELOW)
        if leaf:
            set_link(m, ix, below, LEAF, number)
        else:
            child = node_at(ix, below)
            store_half(child, PARENT, number)
            store_half(child, POSITION, position)


@compiled
def move_entries(m: int, ix: int, number: int, first: int, other: int) -> None:
    """The entries from `first` on to the end of another node of the same level."""
    node = node_at(ix, number)
    target = node_at(ix, other)
    count = load_half(node, ENTRIES)
    there = load_half(target, ENTRIES)
    words = (count - first) * load(ix, ENTRY)
    copy_words(entry_at(ix, node, first), entry_at(ix, target, there), words)
    store_half(node, ENTRIES, first)
    store_half(target, ENTRIES, there + count - first)
    adopt(m, ix, other, there, there + count - first)


@compiled
def put_entry(m: int, ix: int, number: int, position: int, key: int, below: int) -> None:
    """A new entry where there is room. A new record's values are all zero, and so are its sums."""
    node = node_at(ix, number)
    words = load(ix, ENTRY)
    count = load_half(node, ENTRIES)
    entry = entry_at(ix, node, position)
    for i in range((count - position) * words - 1, -1, -1):
        store(entry, words + i, load(entry, i))
    store(entry, KEY, key)
    store(entry, BELOW, below)
    for i in range(2, words):
        store(entry, i, 0)
    store_half(node, ENTRIES, count + 1)
    if load_half(node, LEVEL) > 0:
        adopt(m, ix, number, position, count + 1)
        pull(ix, node_at(ix, below), entry)
    else:
        set_link(m, ix, below, LEAF, number)


@compiled
def cut_entry(m: int, ix: int, number: int, position: int) -> None:
    """Remove an entry of a node; those behind it move up."""
    node = node_at(ix, number)
    words = load(ix, ENTRY)
    count = load_half(node, ENTRIES)
    entry = entry_at(ix, node, position)
    copy_words(entry + 8 * words, entry, (count - 1 - position) * words)
    store_half(node, ENTRIES, count - 1)
    if load_half(node, LEVEL) > 0:
        adopt(m, ix, number, position, count - 1)


@compiled
def join_groups(ix: int, root: int, neighbor: int) -> None:
    """Make `neighbor` what follows the root before `root` and precedes the root after it.

    `neighbor` is the root itself when its group is new. When the group goes it is -1: then the
    neighbors become each other's.
    """
    node = node_at(ix, root)
    above = load_half(node, PARENT)
    following = load_half(node, NEXT)
    forward = neighbor if neighbor >= 0 else following
    if above == -1:
        store(ix, GROUPS, forward)
    else:
        store_half(node_at(ix, -2 - above), NEXT, forward)
    if following >= 0:
        store_half(node_at(ix, following), PARENT, -2 - neighbor if neighbor >= 0 else above)


@compiled
def resize_root(m: int, ix: int, root: int, size: int) -> int:
    """A leaf that is a whole group, as a node for 2**size entries."""
    number = take_node(ix, size, 0)
    node = node_at(ix, root)
    other = node_at(ix, number)
    for half in (PARENT, NEXT, HEAD):
        store_half(other, half, load_half(node, half))
    move_entries(m, ix, root, 0, number)
    join_groups(ix, root, number)
    set_link(m, ix, load_half(node, HEAD), ROOT, number)
    free_node(ix, root)
    return number


@compiled
def push_down(m: int, ix: int, root: int) -> int:
    """All entries of a root into a node of their own, which becomes its only entry."""
    node = node_at(ix, root)
    level = load_half(node, LEVEL)
    number = take_node(ix, LARGEST, level)
    move_entries(m, ix, root, 0, number)
    store_half(node, LEVEL, level + 1)
    store(ix, TALLEST, max(load(ix, TALLEST), level + 1))
    put_entry(m, ix, root, 0, 0, number)
    return number


@compiled
def lift(m: int, ix: int, root: int) -> None:
    """The inverse: a root with one entry takes the entries of that node."""
    node = node_at(ix, root)
    number = load(entry_at(ix, node, 0), BELOW)
    store_half(node, ENTRIES, 0)
    store_half(node, LEVEL, load_half(node, LEVEL) - 1)
    move_entries(m, ix, number, 0, root)
    free_node(ix, number)


@compiled
def add_entry(m: int, ix: int, number: int, position: int, key: int, below: int) -> None:
    """Put an entry into a node, which is divided when it is full, and then those above it.

    Keys that come in order leave full nodes behind; others leave halves.
    """
    while True:
        node = node_at(ix, number)
        count = load_half(node, ENTRIES)
        size = load_half(node, CLASS)
        if count < 1 << size:
            put_entry(m, ix, number, position, key, below)
            return
        if size < LARGEST:
            number = resize_root(m, ix, number, size + 1)
            continue
        if load_half(node, PARENT) < 0:
            number = push_down(m, ix, number)
            node = node_at(ix, number)
        keep = count if position == count else count // 2
        border = key if position == count else load(entry_at(ix, node, keep), KEY)
        other = take_node(ix, LARGEST, load_half(node, LEVEL))
        move_entries(m, ix, number, keep, other)
        if position <= keep and keep < count:
            put_entry(m, ix, number, position, key, below)
        else:
            put_entry(m, ix, other, position - keep, key, below)
        pull(ix, node, entry_above(ix, node))
        number, position, key, below = (
            load_half(node, PARENT),
            load_half(node, POSITION) + 1,
            border,
            other,
        )


@compiled
def merge(m: int, ix: int, parent: int, position: int) -> bool:
    """Two neighbors under one node become one, if three quarters of a node hold both."""
    above = node_at(ix, parent)
    left = load(entry_at(ix, above, position), BELOW)
    right = load(entry_at(ix, above, position + 1), BELOW)
    node = node_at(ix, left)
    other = node_at(ix, right)
    if load_half(node, ENTRIES) + load_half(other, ENTRIES) > 3 << LARGEST >> 2:
        return False
    if load_half(node, LEVEL) > 0:
        # What was the first entry of a node has had no key.
        store(entry_at(ix, other, 0), KEY, load(entry_at(ix, above, position + 1), KEY))
    move_entries(m, ix, right, 0, left)
    free_node(ix, right)
    cut_entry(m, ix, parent, position + 1)
    pull(ix, node, entry_at(ix, above, position))
    return True


@compiled
def shrink(m: int, ix: int, number: int) -> None:
    """After an entry has gone: no empty nodes, and no two small neighbors."""
    while True:
        node = node_at(ix, number)
        count = load_half(node, ENTRIES)
        parent = load_half(node, PARENT)
        if parent < 0:
            break
        if count > 1 << LARGEST >> 1:
            return
        position = load_half(node, POSITION)
        last = load_half(node_at(ix, parent), ENTRIES) - 1
        if count == 0:
            cut_entry(m, ix, parent, position)
            free_node(ix, number)
        elif not (
            (position > 0 and merge(m, ix, parent, position - 1))
            or (position < last and merge(m, ix, parent, position))
        ):
            return
        number = parent
    while load_half(node, LEVEL) > 0 and load_half(node, ENTRIES) == 1:
        lift(m, ix, number)
    size = load_half(node, CLASS)
    if load_half(node, LEVEL) == 0 and 0 < load_half(node, ENTRIES) <= 1 << size >> 2:
        resize_root(m, ix, number, size - 1)
