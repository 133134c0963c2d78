"""One map with a chain and an ordered index against a plain dict, batches undone now and then."""

from __future__ import annotations

import random

import numpy as np

from viewlet.native.compiled import compiled
from viewlet.schema import Physical
from viewlet.storage.columns import (
    CHAIN,
    COUNT,
    GROUPS,
    LOGGING,
    NEGATIVES,
    TOTAL,
    TREE,
    Index,
    KeyField,
    Layout,
    MemoryArrays,
)
from viewlet.storage.doubles import element_of
from viewlet.storage.hashmap import find_group
from viewlet.storage.memory import load, load_float, load_half
from viewlet.storage.multimap import (
    add_element,
    add_int,
    begin_all,
    refresh_trees,
    rollback,
    sweep,
    upsert,
)
from viewlet.storage.ordered_index import find_root, first_counted, next_counted
from viewlet.storage.pool import Pool
from viewlet.storage.slice_index import next_in_chain
from viewlet.storage.tree_layout import (
    BELOW,
    ENTRIES,
    HEAD,
    KEY,
    LEVEL,
    NEXT,
    entry_at,
    node_at,
    record_at,
)
from viewlet.storage.tree_sums import int_total

SUMS = ((0, TOTAL), (1, TOTAL), (0, COUNT), (0, NEGATIVES), (1, NEGATIVES))
LAYOUT = Layout(
    "m",
    (KeyField(Physical.INT, False), KeyField(Physical.INT, False)),
    (Physical.INT, Physical.FLOAT),
    (Index(CHAIN, (0,)), Index(TREE, (0,), 1, SUMS)),
)
CHAIN_BLOCK = 8 * LAYOUT.block(0)
TREE_BLOCK = 8 * LAYOUT.block(1)
WHOLE_WORD, REAL_WORD, COUNT_WORD, NEGATIVE_WORD = (LAYOUT.sum_word(1, i) for i in range(4))


@compiled
def bump(m: int, group: int, key: int, by: int, real: float) -> bool:
    at = upsert(m, (group, key), (group, key))
    if at == 0:
        return False
    add_int(m, at, 2, by)
    add_element(m, at, 3, element_of(real, 1))
    refresh_trees(m, at)
    return True


@compiled
def look(m: int, group: int, bound: int) -> tuple[int, float, int, int, bool]:
    """Range sums, the number of records by chain and by walk, and whether the walk is ordered."""
    chain, tree = m + CHAIN_BLOCK, m + TREE_BLOCK
    linked = 0
    record = find_group(m, chain, (group,))
    while record >= 0:
        linked += 1 if load(record_at(m, record), 2) != 0 else 0
        record = next_in_chain(chain, record_at(m, record))
    root = find_root(m, tree, (group,))
    walked, last, ordered = 0, -1, True
    record = first_counted(m, tree, root, 2, 0)
    while record >= 0:
        key = load(record_at(m, record), 1)
        ordered = ordered and key > last
        last = key
        walked += 1
        record = next_counted(m, tree, record, 2, 0)
    if root >= 0:
        ordered = ordered and int_total(tree, node_at(tree, root), COUNT_WORD) == walked
    whole, real = 0, 0.0
    number = root
    while number >= 0:
        node, low = node_at(tree, number), 0
        inner = load_half(node, LEVEL) > 0
        ahead = 1 if inner else 0
        while low + ahead < load_half(node, ENTRIES):
            entry = entry_at(tree, node, low)
            if load(entry_at(tree, node, low + ahead), KEY) >= bound:
                break
            whole, real = whole + load(entry, WHOLE_WORD), real + load_float(entry, REAL_WORD)
            low += 1
        number = load(entry_at(tree, node, low), BELOW) if inner else -1
    return whole, real, linked, walked, ordered


@compiled
def negatives(m: int, group: int) -> tuple[int, int]:
    tree = m + TREE_BLOCK
    root = find_root(m, tree, (group,))
    if root < 0:
        return 0, 0
    node = node_at(tree, root)
    return int_total(tree, node, NEGATIVE_WORD), int_total(tree, node, NEGATIVE_WORD + 1)


def groups(m: int) -> list[int]:
    """The groups of the ordered index, by the list of its roots."""
    tree = m + TREE_BLOCK
    found, root = [], load(tree, GROUPS)
    while root >= 0:
        node = node_at(tree, root)
        found.append(load(record_at(m, load_half(node, HEAD)), 0))
        root = load_half(node, NEXT)
    return found


def make_pool() -> Pool:
    descriptor = np.zeros(LAYOUT.descriptor_words, np.int64)
    pool = Pool(LAYOUT, MemoryArrays(), descriptor, buffer=False)
    pool.create()
    return pool


def begin(pool: Pool, logging: int = 1) -> None:
    addresses = np.array([pool.address], np.int64)
    begin_all(addresses.ctypes.data, 1, logging)


def test_indexes_agree_with_a_dict_after_batches_and_rollbacks() -> None:
    pool, rng = make_pool(), random.Random(1)
    kept: dict[tuple[int, int], tuple[int, float]] = {}
    for _ in range(60):
        begin(pool)
        running = dict(kept)
        for _ in range(rng.randrange(60)):
            key = (rng.randrange(4), rng.randrange(40))
            count, real = running.get(key, (0, 0.0))
            by, real_by = rng.randrange(-3, 4), rng.randrange(-3, 4) * 0.25
            if rng.random() < 0.5:
                by, real_by = -count, -real
            while not bump(pool.address, *key, by, real_by):
                pool.make_room()
            running[key] = (count + by, real + real_by)
        if rng.random() < 0.3:
            rollback(pool.address)
        else:
            sweep(pool.address)
            kept = {key: found for key, found in running.items() if found != (0, 0.0)}
        assert len(pool.live()) == len(kept)
        for group in range(4):
            bound = rng.randrange(40)
            mine = {key: found for (g, key), found in kept.items() if g == group}
            counted = sum(1 for count, _ in mine.values() if count)
            assert look(pool.address, group, bound) == (
                sum(count for key, (count, _) in mine.items() if key < bound),
                sum(real for key, (_, real) in mine.items() if key < bound),
                counted,
                counted,
                True,
            )
            assert negatives(pool.address, group) == (
                sum(1 for count, _ in mine.values() if count < 0),
                sum(1 for _, real in mine.values() if real < 0),
            )
        assert sorted(groups(pool.address)) == sorted({group for group, _ in kept})


def test_removed_records_are_used_again() -> None:
    pool = make_pool()
    for round in range(200):
        begin(pool)
        by = -1 if round % 2 else 1
        for key in range(20):
            while not bump(pool.address, 0, key, by, 0.0):
                pool.make_room()
        sweep(pool.address)
    assert pool.used <= 20


def test_growth_keeps_all_records() -> None:
    pool = make_pool()
    pool.descriptor[LOGGING] = 0
    for key in range(2000):
        while not bump(pool.address, key % 7, key, key + 1, 0.5):
            pool.make_room()
    assert len(pool.live()) == 2000
    assert look(pool.address, 3, 10**6)[2:] == (286, 286, True)
