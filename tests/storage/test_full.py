"""Hash tables filled to their bound, those of groups too; marks of records from batch to batch."""

from __future__ import annotations

import random
from collections.abc import Iterable

import numpy as np
import pytest

from viewlet.native.compiled import compiled
from viewlet.schema import Physical
from viewlet.storage.columns import (
    CAPACITY,
    CHAIN,
    GONE,
    GROUP_COUNT,
    HEADER,
    MASK,
    SLOTS,
    SPARE,
    TOUCHED,
    TREE,
    UNTOUCHED,
    Index,
    KeyField,
    Layout,
    MemoryArrays,
)
from viewlet.storage.multimap import add_int, begin, clear_buffer, rollback, sweep, upsert
from viewlet.storage.pool import Pool, table_room, table_size

WHOLE = KeyField(Physical.INT, False)


@compiled
def bump(m: int, key: int, by: int) -> bool:
    at = upsert(m, (key,), (key,))
    if at != 0:
        add_int(m, at, 1, by)
    return at != 0


class Counts:
    """A map from whole numbers to counts."""

    def __init__(self) -> None:
        layout = Layout("m", (WHOLE,), (Physical.INT,), (Index(CHAIN, (0,)),))
        descriptor = np.zeros(layout.descriptor_words, np.int64)
        self._arrays = MemoryArrays()
        self.pool = Pool(layout, self._arrays, descriptor, buffer=False)
        self.pool.create()

    @property
    def slots(self) -> int:
        return int(self.pool.descriptor[HEADER + MASK]) + 1

    @property
    def capacity(self) -> int:
        return int(self.pool.descriptor[CAPACITY])

    def begin(self, *, logging: bool = True) -> None:
        sweep(self.pool.address)
        begin(self.pool.address, int(logging))

    def add(self, keys: Iterable[int], by: int) -> None:
        for key in keys:
            while not bump(self.pool.address, key, by):
                self.pool.make_room()

    def has(self, keys: list[int]) -> list[bool]:
        full = np.zeros((len(keys), 2), np.int64)
        full[:, 0] = keys
        return [bool(found >= 0) for found in self.pool.find(full)]

    def marks(self) -> list[int]:
        bits = np.unpackbits(self._arrays.array("m.marks"), bitorder="little")
        assert not bits[self.pool.used :].any()
        return [int(mark) for mark in bits[: self.pool.used]]

    def logged_keys(self) -> list[int]:
        return [int(self.pool.table()[record, 0]) for record in self.pool.logged()[:, 0]]


@pytest.mark.parametrize("capacity", [1, 2, 64, 89, 90, 100, 127, 128, 10**6, 2**20])
def test_a_table_has_room_for_what_it_was_made_for(capacity: int) -> None:
    slots = table_size(capacity)
    assert slots & (slots - 1) == 0
    assert capacity <= table_room(slots) < slots
    assert slots == 2 or table_room(slots // 4) < capacity


KINDS = {
    "dense": lambda rng, count: list(range(1, count + 1)),
    "beyond": lambda rng, count: [key % 7 + (key // 7 << 20) for key in range(count)],
    "pattern": lambda rng, count: [key // 8 * 32 + key % 8 for key in range(count)],
    "random": lambda rng, count: rng.sample(range(-(2**61), 2**61), count),
}


@pytest.mark.parametrize("kind", KINDS)
def test_tables_are_filled_to_the_bound_at_every_growth(kind: str) -> None:
    counts, filled = Counts(), 0
    keys = KINDS[kind](random.Random(1), 12000)
    counts.begin(logging=False)
    for place, key in enumerate(keys):
        # The record beside which no more has room, in the fullest table of each size.
        if place == counts.capacity:
            assert all(counts.has(keys[:place]))
            assert not any(counts.has(keys[place:]))
            filled += place == table_room(counts.slots)
        counts.add([key], 1)
        assert counts.pool.used <= counts.capacity <= table_room(counts.slots)
    assert filled >= 3
    assert all(counts.has(keys))


@pytest.mark.parametrize("kind", KINDS)
def test_records_come_and_go_in_a_full_table(kind: str) -> None:
    counts, rng = Counts(), random.Random(2)
    keys = KINDS[kind](rng, 3000)
    counts.pool.reserve(table_room(2048))
    assert (counts.slots, counts.capacity) == (2048, table_room(2048))
    there = set(keys[: counts.capacity])
    counts.begin()
    counts.add(sorted(there), 1)
    for _ in range(20):
        counts.begin()
        gone = set(rng.sample(sorted(there), 300))
        counts.add(gone, -1)
        there -= gone
        if rng.random() < 0.3:
            rollback(counts.pool.address)
            there |= gone
            continue
        counts.begin()
        come = set(rng.sample(sorted(set(keys) - there), counts.capacity - len(there)))
        counts.add(come, 1)
        there |= come
        assert counts.has(keys) == [key in there for key in keys]
    assert (counts.slots, counts.pool.used) == (2048, table_room(2048))


def test_a_removed_record_is_readable_until_the_next_batch() -> None:
    counts = Counts()
    counts.begin()
    counts.add([10, 20, 30], 1)
    counts.begin()
    counts.add([20], -1)
    sweep(counts.pool.address)
    assert counts.has([10, 20, 30]) == [True, False, True]
    # A record that comes in the same batch must not take the place of one that is read.
    counts.add([40], 1)
    assert counts.logged_keys() == [20, 40]
    assert counts.marks() == [UNTOUCHED, GONE, UNTOUCHED, TOUCHED]
    counts.begin()
    assert counts.marks() == [UNTOUCHED, SPARE, UNTOUCHED, UNTOUCHED]
    counts.add([50], 1)
    assert counts.marks() == [UNTOUCHED, TOUCHED, UNTOUCHED, UNTOUCHED]
    assert counts.has([10, 20, 30, 40, 50]) == [True, False, True, True, True]
    assert counts.pool.used == 4


def test_a_batch_after_one_that_was_undone_is_logged_again() -> None:
    counts = Counts()
    counts.begin()
    counts.add([1, 2], 5)
    counts.begin()
    for _ in range(2):
        counts.add([1, 3], 1)
        assert counts.logged_keys() == [1, 3]
        rollback(counts.pool.address)
        assert counts.pool.value_column(0, counts.pool.live()).tolist() == [5, 5]
        assert counts.marks() == [UNTOUCHED, UNTOUCHED, SPARE]


def test_records_removed_without_a_log_are_used_again() -> None:
    counts = Counts()
    for _ in range(5):
        counts.begin(logging=False)
        counts.add(range(50), 1)
        counts.add(range(50), -1)
    counts.begin()
    assert counts.marks() == [SPARE] * 50
    # Those of a pass over all records are not removed a second time.
    counts.begin(logging=False)
    counts.add([7], 1)
    counts.add([8], 1)
    counts.add([8], -1)
    counts.begin()
    assert counts.has([7, 8]) == [True, False]
    counts.add(range(100, 149), 1)
    assert counts.pool.used == 50


def test_neighbors_do_not_share_a_mark() -> None:
    counts, rng = Counts(), random.Random(4)
    counts.begin()
    counts.add(range(1000), 1)
    there = set(range(1000))
    for _ in range(30):
        counts.begin()
        touched = rng.sample(sorted(there), 200)
        gone = set(touched[:50])
        counts.add(touched, 1)
        counts.add(touched, -1)
        counts.add(gone, -1)
        assert counts.logged_keys() == touched
        full = np.array([[key, 0] for key in touched])
        marks = counts.marks()
        assert sum(marks) == 200 + 1000 - len(there)
        assert all(marks[record] == TOUCHED for record in counts.pool.find(full))
        if rng.random() < 0.5:
            rollback(counts.pool.address)
        else:
            there -= gone
        counts.begin()
        assert sum(counts.marks()) == 1000 - len(there)
        come = set(rng.sample(range(1000), 20)) - there
        counts.add(come, 1)
        there |= come
        assert counts.has(list(range(1000))) == [key in there for key in range(1000)]


@compiled
def bump_member(m: int, group: int, member: int, by: int) -> bool:
    at = upsert(m, (group, member), (group, member))
    if at != 0:
        add_int(m, at, 2, by)
    return at != 0


GROUPED = {
    "chain": Index(CHAIN, (0,)),
    "tree": Index(TREE, (0,), 1),
    "one": Index(TREE, (), 1),
}


class Members:
    """A map from groups and their members to counts, with an index of the groups."""

    def __init__(self, kind: str) -> None:
        self.layout = Layout("m", (WHOLE, WHOLE), (Physical.INT,), (GROUPED[kind],))
        self.arrays = MemoryArrays()
        descriptor = np.zeros(self.layout.descriptor_words, np.int64)
        self.pool = Pool(self.layout, self.arrays, descriptor, buffer=False)
        self.pool.create()

    @property
    def slots(self) -> int:
        return len(self.arrays.array("m.slots1"))

    @property
    def count(self) -> int:
        """The groups that the index has counted, which are the slots that are taken."""
        counted = int(self.pool.descriptor[self.layout.block(0) + GROUP_COUNT])
        assert counted == np.count_nonzero(self.arrays.array("m.slots1") >= 0)
        assert counted <= table_room(self.slots)
        return counted

    def begin(self, *, logging: bool = True) -> None:
        sweep(self.pool.address)
        begin(self.pool.address, int(logging))

    def add(self, members: Iterable[tuple[int, int]], by: int) -> None:
        for group, member in members:
            while not bump_member(self.pool.address, group, member, by):
                self.pool.make_room()


@pytest.mark.parametrize("kind", GROUPED)
def test_many_records_in_few_groups_have_a_small_table(kind: str) -> None:
    members = Members(kind)
    least = members.slots
    members.begin(logging=False)
    members.add([(key % 50, key) for key in range(5000)], 1)
    assert members.count == (1 if kind == "one" else 50)
    assert members.slots == least
    members.pool.reserve(100_000)
    assert members.slots == least
    assert len(members.arrays.array("m.slots0")) == table_size(100_000)


@pytest.mark.parametrize("kind", ["chain", "tree"])
def test_groups_fill_their_table_to_the_bound(kind: str) -> None:
    members, least = Members(kind), Members(kind).slots
    members.begin(logging=False)
    for group in range(3000):
        full = members.count == table_room(members.slots)
        before = members.slots
        members.add([(group, 7)], 1)
        assert members.slots == (2 * before if full else before)
        assert members.count == group + 1
    assert members.slots == table_size(3000) > least
    table, slots = members.pool.table(), members.arrays.array("m.slots1")
    assert sorted(table[slots[slots >= 0], 0].tolist()) == list(range(3000))


@pytest.mark.parametrize("kind", GROUPED)
def test_groups_that_come_and_go_are_counted(kind: str) -> None:
    members, rng = Members(kind), random.Random(3)
    there: set[tuple[int, int]] = set()
    for _ in range(40):
        members.begin()
        gone = set(rng.sample(sorted(there), len(there) * rng.randrange(4) // 3))
        come = {(rng.randrange(400), rng.randrange(3)) for _ in range(rng.randrange(300))} - there
        members.add(gone, -1)
        members.add(come, 1)
        if rng.random() < 0.3:
            rollback(members.pool.address)
        else:
            sweep(members.pool.address)
            there = there - gone | come
        groups = {0 if kind == "one" else group for group, _ in there}
        assert members.count == len(groups)
    assert members.slots == table_size(64 if kind == "one" else 400)


@pytest.mark.parametrize("kind", GROUPED)
@pytest.mark.parametrize("records", [5, 300])
def test_a_cleared_map_has_no_groups(kind: str, records: int) -> None:
    members = Members(kind)
    members.begin(logging=False)
    for _ in range(20):
        members.add([(key, key) for key in range(records)], 1)
        slots = members.slots
        clear_buffer(members.pool.address)
        assert members.count == 0
    assert members.slots == slots <= 2 * table_size(records + 63)


def test_groups_are_counted_on_in_arrays_that_are_taken_up() -> None:
    members = Members("chain")
    members.begin()
    members.add([(key, 0) for key in range(100)], 1)
    members.begin()
    moved = MemoryArrays(
        {name: members.arrays.array(name).copy() for name in members.arrays.names()}
    )
    members.arrays, before = moved, members.pool
    members.pool = Pool(members.layout, moved, before.descriptor.copy(), buffer=False)
    members.pool.attach()
    assert members.pool.descriptor[HEADER + SLOTS] != before.descriptor[HEADER + SLOTS]
    members.add([(key, 0) for key in range(100, 200)], 1)
    assert members.count == 200
    assert members.slots == table_size(200)
