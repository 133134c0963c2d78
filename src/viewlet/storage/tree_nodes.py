"""Nodes of ordered indexes as records come and go: taken, divided, merged and freed.

The root keeps its number while its group lives and the node does not change its size. A small
group is one leaf of 1, 2, 4, ... entries. Nodes that have become small are merged with a neighbor,
so that two neighbors have more than half a node: the depth is O(log n) after deletes too.
"""

from __future__ import annotations

from viewlet.native.compiled import compiled
from viewlet.storage.columns import (
    ENTRY,
    FREE_NODES,
    FRONT,
    GROUPS,
    LARGEST,
    LOWER,
    NODES_USED,
    TALLEST,
    WIDE,
)
from viewlet.storage.memory import load, load_half, store, store_half
from viewlet.storage.tree_layout import (
    BELOW,
    CLASS,
    ENTRIES,
    HEAD,
    KEY,
    LEAF,
    LEVEL,
    NEXT,
    PARENT,
    POSITION,
    ROOT,
    entry_at,
    lower_at,
    node_at,
    set_link,
)
from viewlet.storage.tree_sums import pull


@compiled
def node_words(ix: int, size: int) -> int:
    """Words of a node of a size class."""
    return FRONT + ((load(ix, ENTRY) + load(ix, LOWER)) << size)


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
def insert_zeros(at: int, words: int, behind: int) -> None:
    """So many zeros before so many words, which move up."""
    for i in range(behind - 1, -1, -1):
        store(at, words + i, load(at, i))
    for i in range(words):
        store(at, i, 0)


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
    if load(ix, WIDE) != 0:
        words = (count - first) * load(ix, LOWER)
        copy_words(lower_at(ix, node, first), lower_at(ix, target, there), words)
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
    insert_zeros(entry, words, (count - position) * words)
    if load(ix, WIDE) != 0:
        lower = load(ix, LOWER)
        insert_zeros(lower_at(ix, node, position), lower, (count - position) * lower)
    store(entry, KEY, key)
    store(entry, BELOW, below)
    store_half(node, ENTRIES, count + 1)
    if load_half(node, LEVEL) > 0:
        adopt(m, ix, number, position, count + 1)
        pull(ix, node_at(ix, below))
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
    if load(ix, WIDE) != 0:
        lower = lower_at(ix, node, position)
        words = load(ix, LOWER)
        copy_words(lower + 8 * words, lower, (count - 1 - position) * words)
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
        pull(ix, node)
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
    pull(ix, node)
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
