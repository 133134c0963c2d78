"""Ordered indexes: one treap for each group, every node with the sums of its subtree.

The sum of a value column over a range of keys, the least and the greatest key, and every update
cost O(log n), where a hash index would walk the whole group (thesis 4.2 leaves them O(n)). A node
is the record itself; its priority is a hash of its number, so that the shape needs no randomness.
Sums are made from the children at every change: nothing accumulates, so float sums cannot drift.
"""

from __future__ import annotations

from numba import njit

from viewlet.storage.arithmetic import minus, pair_plus, plus
from viewlet.storage.columns import (
    BY_FLOAT,
    BY_RANK,
    COUNT_FLOAT,
    COUNT_INT,
    GROUPS,
    LINK,
    NEGATIVE_INT,
    ORDER,
    ORDER_KIND,
    RANKS,
    RECORDS,
    SLOTS,
    STRIDE,
    SUM,
    SUM_FLOAT,
    SUM_INT,
    SUMS,
)
from viewlet.storage.hashmap import empty_slot, slot_for, take_slot
from viewlet.storage.memory import (
    load,
    load_float,
    load_half,
    mix,
    store,
    store_float,
    store_half,
)

LEFT, RIGHT, PARENT, NEXT = 0, 1, 2, 3
"""Halves of the link words.

The roots of all groups are a list, so that groups can be enumerated: NEXT of a root is the next
root, and its PARENT, which is negative, is -1 for the first of the list or -2 - previous root.
"""


@njit(cache=True, nogil=True)
def node(m: int, record: int) -> int:
    return load(m, RECORDS) + record * load(m, STRIDE)


@njit(cache=True, nogil=True)
def kin(m: int, ix: int, record: int, which: int) -> int:
    """The left child, right child or parent of a node, -1 if there is none."""
    return load_half(node(m, record), 2 * load(ix, LINK) + which)


@njit(cache=True, nogil=True)
def set_kin(m: int, ix: int, record: int, which: int, other: int) -> None:
    store_half(node(m, record), 2 * load(ix, LINK) + which, other)


@njit(cache=True, nogil=True)
def own_int(at: int, word: int, kind: int) -> int:
    """What one record adds to a subtree sum."""
    if kind == SUM_INT:
        return load(at, word)
    if kind == COUNT_INT:
        return 1 if load(at, word) != 0 else 0
    if kind == COUNT_FLOAT:
        return 1 if load_float(at, word) != 0.0 else 0
    if kind == NEGATIVE_INT:
        return 1 if load(at, word) < 0 else 0
    # NaN counts as negative: sums with it do not rise.
    return 0 if load_float(at, word) >= 0.0 else 1


@njit(cache=True, nogil=True)
def pull(m: int, ix: int, record: int) -> None:
    """sum(node) = own + sum(left) + sum(right), for every kept sum"""
    at = node(m, record)
    left = kin(m, ix, record, LEFT)
    right = kin(m, ix, record, RIGHT)
    for i in range(load(ix, SUMS)):
        word = load(ix, SUM + 3 * i)
        kind = load(ix, SUM + 3 * i + 1)
        place = load(ix, SUM + 3 * i + 2)
        if kind == SUM_FLOAT:
            high, low = load_float(at, word), load_float(at, word + 1)
            if left >= 0:
                child = node(m, left)
                high, low = pair_plus(
                    high, low, load_float(child, place), load_float(child, place + 1)
                )
            if right >= 0:
                child = node(m, right)
                high, low = pair_plus(
                    high, low, load_float(child, place), load_float(child, place + 1)
                )
            store_float(at, place, high)
            store_float(at, place + 1, low)
        else:
            total = own_int(at, word, kind)
            if left >= 0:
                total = plus(total, load(node(m, left), place))
            if right >= 0:
                total = plus(total, load(node(m, right), place))
            store(at, place, total)


@njit(cache=True, nogil=True)
def pull_up(m: int, ix: int, record: int) -> None:
    """The sums of a record and of all above it, each made from its children."""
    while record >= 0:
        pull(m, ix, record)
        record = kin(m, ix, record, PARENT)


@njit(cache=True, nogil=True)
def moved(m: int, ix: int, record: int, which: int) -> int:
    """How far a record's own part has moved from what its subtree sum has of it."""
    at = node(m, record)
    place = load(ix, SUM + 3 * which + 2)
    inside = own_int(at, load(ix, SUM + 3 * which), load(ix, SUM + 3 * which + 1))
    left = kin(m, ix, record, LEFT)
    right = kin(m, ix, record, RIGHT)
    if left >= 0:
        inside = plus(inside, load(node(m, left), place))
    if right >= 0:
        inside = plus(inside, load(node(m, right), place))
    return minus(inside, load(at, place))


@njit(cache=True, nogil=True)
def refresh(m: int, ix: int, record: int) -> None:
    """After a record's values changed: the sums of it and of all above it.

    Whole sums above move as far as the record's own has: a level is one cache line instead of
    three. Pairs of floats are made anew from the children, so that nothing accumulates.
    """
    sums = load(ix, SUMS)
    whole = sums <= 3
    for i in range(sums):
        whole &= load(ix, SUM + 3 * i + 1) != SUM_FLOAT
    if not whole:
        pull_up(m, ix, record)
        return
    first = moved(m, ix, record, 0) if sums > 0 else 0
    second = moved(m, ix, record, 1) if sums > 1 else 0
    third = moved(m, ix, record, 2) if sums > 2 else 0
    records = load(m, RECORDS)
    stride = load(m, STRIDE)
    parent = 2 * load(ix, LINK) + PARENT
    places = (load(ix, SUM + 2), load(ix, SUM + 5), load(ix, SUM + 8))
    while record >= 0:
        at = records + record * stride
        if first != 0:
            store(at, places[0], plus(load(at, places[0]), first))
        if second != 0:
            store(at, places[1], plus(load(at, places[1]), second))
        if third != 0:
            store(at, places[2], plus(load(at, places[2]), third))
        record = load_half(at, parent)


@njit(cache=True, nogil=True)
def goes_before(m: int, ix: int, at: int, other: int) -> bool:
    """Whether the key of record `at` is less than that of record `other`."""
    word = load(ix, ORDER)
    kind = load(ix, ORDER_KIND)
    if kind == BY_FLOAT:
        return load_float(at, word) < load_float(other, word)
    if kind == BY_RANK:
        ranks = load(m, RANKS)
        return load(ranks, load(at, word)) < load(ranks, load(other, word))
    return load(at, word) < load(other, word)


@njit(cache=True, nogil=True)
def rotate_up(m: int, ix: int, record: int) -> None:
    """Swap a node with its parent; their subtree sums are left to the caller."""
    parent = kin(m, ix, record, PARENT)
    above = kin(m, ix, parent, PARENT)
    side = LEFT if kin(m, ix, parent, LEFT) == record else RIGHT
    inner = kin(m, ix, record, 1 - side)
    set_kin(m, ix, parent, side, inner)
    if inner >= 0:
        set_kin(m, ix, inner, PARENT, parent)
    set_kin(m, ix, record, 1 - side, parent)
    set_kin(m, ix, parent, PARENT, record)
    set_kin(m, ix, record, PARENT, above)
    if above >= 0:
        set_kin(m, ix, above, LEFT if kin(m, ix, above, LEFT) == parent else RIGHT, record)
    else:
        set_kin(m, ix, record, NEXT, kin(m, ix, parent, NEXT))
        join_groups(m, ix, record, record)


@njit(cache=True, nogil=True)
def join_groups(m: int, ix: int, record: int, neighbour: int) -> None:
    """Make `neighbour` what follows the root before `record` and precedes the root after it.

    `neighbour` is the record itself when it becomes the root of its group. When the group goes it
    is -1: then the neighbours become each other's.
    """
    above = kin(m, ix, record, PARENT)
    following = kin(m, ix, record, NEXT)
    forward = neighbour if neighbour >= 0 else following
    if above == -1:
        store(ix, GROUPS, forward)
    else:
        set_kin(m, ix, -2 - above, NEXT, forward)
    if following >= 0:
        set_kin(m, ix, following, PARENT, -2 - neighbour if neighbour >= 0 else above)


@njit(cache=True, nogil=True)
def priority(record: int) -> int:
    return mix(0x5BD1E995, record)


@njit(cache=True, nogil=True)
def link_tree(m: int, ix: int, record: int) -> None:
    """Insert a new record as a leaf and rotate it up to where its priority belongs.

    All values of a new record are zero, so no sum above it changes.
    """
    at = node(m, record)
    for which in range(4):
        set_kin(m, ix, record, which, -1)
    slots = load(ix, SLOTS)
    slot = slot_for(m, ix, at)
    parent = load_half(slots, slot)
    if parent < 0:
        take_slot(ix, slot, record, 0)
        set_kin(m, ix, record, NEXT, load(ix, GROUPS))
        join_groups(m, ix, record, record)
        pull(m, ix, record)
        return
    while True:
        side = LEFT if goes_before(m, ix, at, node(m, parent)) else RIGHT
        child = kin(m, ix, parent, side)
        if child < 0:
            break
        parent = child
    set_kin(m, ix, parent, side, record)
    set_kin(m, ix, record, PARENT, parent)
    mine = priority(record)
    while parent >= 0 and mine > priority(parent):
        rotate_up(m, ix, record)
        pull(m, ix, parent)
        parent = kin(m, ix, record, PARENT)
    if parent < 0:
        store_half(slots, slot, record)
    pull(m, ix, record)


@njit(cache=True, nogil=True)
def unlink_tree(m: int, ix: int, record: int) -> None:
    """Rotate a node down until it is a leaf, then cut it off.

    All its values are zero, so that only the sums of the nodes that rose above it are made anew.
    """
    slots = load(ix, SLOTS)
    top = kin(m, ix, record, PARENT)
    while True:
        left = kin(m, ix, record, LEFT)
        right = kin(m, ix, record, RIGHT)
        if left < 0 and right < 0:
            break
        child = left
        if left < 0 or (right >= 0 and priority(right) > priority(left)):
            child = right
        is_root = kin(m, ix, record, PARENT) < 0
        rotate_up(m, ix, child)
        if is_root:
            # The slot is looked for by the root's key, which is the same as the record's.
            store_half(slots, slot_for(m, ix, node(m, child)), child)
    parent = kin(m, ix, record, PARENT)
    if parent < 0:
        join_groups(m, ix, record, -1)
        empty_slot(m, ix, slot_for(m, ix, node(m, record)))
        return
    set_kin(m, ix, parent, LEFT if kin(m, ix, parent, LEFT) == record else RIGHT, -1)
    while parent >= 0 and parent != top:
        pull(m, ix, parent)
        parent = kin(m, ix, parent, PARENT)


@njit(cache=True, nogil=True)
def counted(m: int, ix: int, record: int, place: int) -> bool:
    """Whether a subtree has a record that the count numbered `place` counts."""
    return record >= 0 and load(node(m, record), load(ix, SUM + 3 * place + 2)) > 0


@njit(cache=True, nogil=True)
def is_counted(m: int, ix: int, record: int, place: int) -> bool:
    """Whether the record itself is counted."""
    kind = load(ix, SUM + 3 * place + 1)
    return own_int(node(m, record), load(ix, SUM + 3 * place), kind) > 0


@njit(cache=True, nogil=True)
def first_counted(m: int, ix: int, root: int, place: int, side: int) -> int:
    """The counted record nearest to one end (LEFT: least key, RIGHT: greatest), -1 if none."""
    if not counted(m, ix, root, place):
        return -1
    record = root
    while True:
        child = kin(m, ix, record, side)
        if counted(m, ix, child, place):
            record = child
        elif is_counted(m, ix, record, place):
            return record
        else:
            record = kin(m, ix, record, 1 - side)


@njit(cache=True, nogil=True)
def next_counted(m: int, ix: int, record: int, place: int, side: int) -> int:
    """The counted record that follows, going away from the end `side`; -1 after the last."""
    beyond = kin(m, ix, record, 1 - side)
    if counted(m, ix, beyond, place):
        return first_counted(m, ix, beyond, place, side)
    while True:
        parent = kin(m, ix, record, PARENT)
        if parent < 0:
            return -1
        if kin(m, ix, parent, side) == record:
            if is_counted(m, ix, parent, place):
                return parent
            beyond = kin(m, ix, parent, 1 - side)
            if counted(m, ix, beyond, place):
                return first_counted(m, ix, beyond, place, side)
        record = parent
