"""How the nodes of ordered indexes lie in memory: entries side by side, with sums of what is below.

    node     entry count, level (0: a leaf) | parent, position in it | head, size class | entries |
             lower words
    entry    key | a record, or a node of the level below | sums, of those of DOUBLE the first words

Most sums of DOUBLE need no more than their first word (storage.doubles). The four others lie behind
all entries of the node, in the order of the entries. While WIDE is 0 they are zero everywhere, in
the nodes that are free as well: nothing reads, writes or moves them, and half of a node or less is
left.

A leaf's entries are the records in the order of their keys, with what each adds to the sums. An
entry above stands for a node: its key is not above any key in there and not below any to the left.
The key of a node's first entry means nothing, so that no change at a border has to go up.
"""

from __future__ import annotations

from viewlet.native.compiled import compiled
from viewlet.storage.columns import (
    ENTRY,
    FRONT,
    LINK,
    LOWER,
    NODES,
    RECORDS,
    STRIDE,
    SUM,
    SUM_FIELDS,
)
from viewlet.storage.memory import load, load_half, store_half

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
def lower_at(ix: int, node: int, position: int) -> int:
    """The address of the lower words of an entry's sums."""
    entries = load(ix, ENTRY) << load_half(node, CLASS)
    return node + 8 * (FRONT + entries + position * load(ix, LOWER))


@compiled
def lower_of(ix: int, node: int, entry: int, size: int) -> int:
    """The same for the address of an entry of so many bytes."""
    return lower_at(ix, node, (entry - node - 8 * FRONT) // size)


@compiled
def sum_field(ix: int, i: int, field: int) -> int:
    """What the index has to say of sum i."""
    return load(ix, SUM + SUM_FIELDS * i + field)


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
