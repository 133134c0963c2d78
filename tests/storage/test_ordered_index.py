"""Ordered indexes against sorted lists: deletes, equal keys, NaN, strings, groups, rollbacks.

Every check reads the nodes themselves: links in both directions, the order of keys, every sum from
the records below it, how deep the tree is, and that no word of the array is lost.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from viewlet.errors import RangeError
from viewlet.native.compiled import compiled
from viewlet.schema import Physical
from viewlet.storage.columns import (
    BY_RANK,
    COUNT,
    ENTRY,
    FREE_NODES,
    FRONT,
    GROUPS,
    LARGEST,
    LOWER,
    NEGATIVES,
    NODES_USED,
    RANKS,
    TOTAL,
    TREE,
    WIDE,
    Array,
    Index,
    KeyField,
    Layout,
    MemoryArrays,
)
from viewlet.storage.doubles import element_of
from viewlet.storage.element_arrays import number_in, values_of
from viewlet.storage.memory import float_bits
from viewlet.storage.multimap import (
    add_element,
    add_int,
    begin_all,
    clear_buffer,
    refresh_trees,
    rollback,
    sweep,
    upsert,
)
from viewlet.storage.ordered_index import find_root, first_counted, next_counted, only_root
from viewlet.storage.pool import Pool

SUMS = ((0, TOTAL), (1, TOTAL), (0, COUNT), (1, NEGATIVES))
Key = tuple[int, int, int]
"""Group, the word of the key that orders, and a third column: keys that order may be equal."""
Values = tuple[int, Fraction | float]


def layout(physical: Physical, parts: tuple[int, ...]) -> Layout:
    whole = KeyField(Physical.INT, False)
    return Layout(
        "m",
        (whole, KeyField(physical, False), whole),
        (Physical.INT, Physical.FLOAT),
        (Index(TREE, parts, 1, SUMS),),
    )


@compiled
def bump(m: int, group: int, order: int, other: int, by: int, real: float) -> bool:
    key = (group, order, other)
    at = upsert(m, key, key)
    if at == 0:
        return False
    add_int(m, at, 3, by)
    add_element(m, at, 4, element_of(real, 1))
    refresh_trees(m, at)
    return True


@compiled
def take_away(m: int, group: int, order: int, other: int, real: float) -> bool:
    """A row with the count 1 and this value, deleted."""
    key = (group, order, other)
    at = upsert(m, key, key)
    add_int(m, at, 3, -1)
    add_element(m, at, 4, element_of(real, -1))
    refresh_trees(m, at)
    return at != 0


@compiled
def root_of(m: int, ix: int, group: int) -> int:
    return find_root(m, ix, (group,))


def walked(m: int, ix: int, root: int, side: int) -> list[int]:
    found = []
    record = first_counted(m, ix, root, 2, side)
    while record >= 0:
        found.append(record)
        record = next_counted(m, ix, record, 2, side)
    return found


@dataclass
class Ordered:
    """A map with one ordered index beside what it should hold."""

    physical: Physical = Physical.INT
    parts: tuple[int, ...] = (0,)
    kept: dict[Key, Values] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.layout = layout(self.physical, self.parts)
        descriptor = np.zeros(self.layout.descriptor_words, np.int64)
        self.pool = Pool(self.layout, MemoryArrays(), descriptor, buffer=False)
        self.pool.create()
        # Strings are coded in the order of their arrival: here the code 7 comes before 3.
        self.ranks = np.random.default_rng(1).permutation(5000)
        self.pool.descriptor[RANKS] = self.ranks.ctypes.data
        self.ix = self.pool.address + 8 * self.layout.block(0)

    def batch(self, changes: list[tuple[Key, Values]], undo: bool = False) -> None:
        addresses = np.array([self.pool.address], np.int64)
        begin_all(addresses.ctypes.data, 1, 1)
        running = dict(self.kept)
        for key, (by, real) in changes:
            while not bump(self.pool.address, *key, by, float(real)):
                self.pool.make_room()
            count, total = running.get(key, (0, 0))
            # What is not finite is for the tests that put it there.
            running[key] = (count + by, total + Fraction(real if math.isfinite(real) else 0))
        if undo:
            rollback(self.pool.address)
        else:
            sweep(self.pool.address)
            self.kept = {key: found for key, found in running.items() if found != (0, 0)}

    def remove(self, keys: list[Key], undo: bool = False) -> None:
        changes: list[tuple[Key, Values]] = []
        for key in keys:
            count, total = self.kept[key]
            changes.append((key, (-count, -float(total))))
            changes.append((key, (0, -float(Fraction(total) - Fraction(float(total))))))
        self.batch(changes, undo)

    def rank(self, word: int) -> tuple[bool, float]:
        """What orders; NaN is the greatest."""
        if self.physical is Physical.STR:
            return False, int(self.ranks[word])
        if self.physical is Physical.FLOAT:
            value = struct.unpack("<d", struct.pack("<q", word))[0]
            return math.isnan(value), 0.0 if math.isnan(value) else value
        return False, word

    def check(self) -> None:
        groups: dict[int, dict[Key, Values]] = {}
        for key, found in self.kept.items():
            groups.setdefault(key[0] if self.parts else 0, {})[key] = found
        roots = self._roots()
        assert len(roots) == len(groups)
        words = 0
        for group, mine in groups.items():
            at = self.pool.address
            root = root_of(at, self.ix, group) if self.parts else only_root(at, self.ix)
            assert root in roots
            records, size = self._subtree(root, self._half(root, 1), None)
            words += size
            table = self.pool.table()
            assert {tuple(table[r, :3].tolist()) for r in records} == set(mine)
            order = [self.rank(int(table[r, 1])) for r in records]
            assert order == sorted(order)
            assert self._half(root, 4) in records
            counted = [r for r in records if table[r, 3] != 0]
            assert list(walked(at, self.ix, root, 0)) == counted
            assert list(walked(at, self.ix, root, 1)) == counted[::-1]
            # Two neighbors have more than a quarter of a node.
            least = max((1 << LARGEST) / 8, 2)
            assert self._half(root, 1) <= math.log(max(len(mine), 1), least) + 1
        assert words + self._free_words() == self._word(NODES_USED)

    @property
    def _nodes(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return self.pool._arrays.array("m.nodes1")

    def _half(self, number: int, which: int) -> int:
        return int(self._nodes[number:].view(np.int32)[which])

    def _word(self, which: int) -> int:
        return int(self.pool.descriptor[self.layout.block(0) + which])

    def _roots(self) -> list[int]:
        """By the list of groups, which must lead back as well."""
        found, root, before = [], self._word(GROUPS), -1
        while root >= 0:
            assert self._half(root, 2) == before
            found.append(root)
            before = -2 - root
            root = self._half(root, 3)
        return found

    def _free_words(self) -> int:
        words = 0
        for size in range(LARGEST + 1):
            number = self._word(FREE_NODES + size)
            while number >= 0:
                words += self._node_words(size)
                self._lower_words(number)
                number = self._half(number, 3)
        return words

    def _node_words(self, size: int) -> int:
        return FRONT + ((self._word(ENTRY) + self._word(LOWER)) << size)

    def _lower_words(self, number: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        """The lower words of each entry of a node, used or not: zero while the tree is narrow."""
        size = self._half(number, 5)
        first = number + FRONT + (self._word(ENTRY) << size)
        words = self._nodes[first : first + (self._word(LOWER) << size)].reshape(1 << size, -1)
        assert self._word(WIDE) or not words.any()
        return words

    def _subtree(self, number: int, level: int, sums: list[float] | None) -> tuple[list[int], int]:
        """The records of a subtree in order, and the words of its nodes; `sums` is its entry."""
        count, size = self._half(number, 0), self._word(ENTRY)
        assert 0 < count <= 1 << self._half(number, 5)
        assert self._half(number, 1) == level
        entries = self._nodes[number + FRONT : number + FRONT + count * size].reshape(count, size)
        records: list[int] = []
        words = self._node_words(self._half(number, 5))
        lower = self._lower_words(number)
        link = self.layout.link_words[0]
        for place, entry in enumerate(entries):
            below = int(entry[1])
            if level == 0:
                row = self.pool.table()[below]
                assert row[link:].view(np.int32)[0] == number
                assert entry[0] == row[1]
                assert self._sums(entry, lower[place]) == self._own([below])
                records.append(below)
                continue
            assert (self._half(below, 2), self._half(below, 3)) == (number, place)
            inside, more = self._subtree(below, level - 1, self._sums(entry, lower[place]))
            if records:
                word = int(self.pool.table()[records[-1], 1])
                first = int(self.pool.table()[inside[0], 1])
                assert self.rank(word) <= self.rank(int(entry[0])) <= self.rank(first)
            records += inside
            words += more
        if sums is not None:
            assert sums == self._own(records)
        return records, words

    def _sums(self, entry: Array, lower: Array) -> list[float]:
        real = np.concatenate([entry[3:4], lower])
        return [int(entry[2]), float(values_of(real[None])[0]), int(entry[4]), int(entry[5])]

    def _own(self, records: list[int]) -> list[float]:
        table = self.pool.table()[records]
        numbers = [number_in(row[4:9])[0] for row in table]
        return [
            int(table[:, 3].sum()),
            float(sum(numbers)),
            int((table[:, 3] != 0).sum()),
            sum(number < 0 for number in numbers),
        ]


def word_of(physical: Physical, key: int) -> int:
    """A key word out of a small number: some floats are NaN."""
    if physical is Physical.FLOAT:
        return float_bits(math.nan if key % 13 == 0 else (key - 20) / 4)
    return key


STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),  # group
        st.integers(0, 900),  # first key
        st.sampled_from([1, 3, 30, 200]),  # how many
        st.sampled_from([-2, -1, 0, 1, 2]),  # from one to the next
        st.booleans(),  # removed instead, where they are there
        st.booleans(),  # undone
        st.sampled_from([0.25, 0.25, 0.25, 2.0**70]),  # the unit of values: both need two words
    ),
    max_size=14,
)


@pytest.mark.parametrize("parts", [(0,), ()], ids=["groups", "one"])
@pytest.mark.parametrize("physical", [Physical.INT, Physical.FLOAT, Physical.STR])
@settings(max_examples=40, deadline=None)
@given(steps=STEPS)
def test_any_changes_leave_what_a_sorted_list_has(
    physical: Physical,
    parts: tuple[int, ...],
    steps: list[tuple[int, int, int, int, bool, bool, float]],
) -> None:
    tree = Ordered(physical, parts)
    for group, first, count, step, removed, undo, unit in steps:
        keys = [
            (group, word_of(physical, max(first + i * step, 0)), i if step == 0 else i % 2)
            for i in range(count)
        ]
        if removed:
            tree.remove([key for key in keys if key in tree.kept], undo)
        else:
            tree.batch([(k, (i % 5 - 2, (i % 7 - 3) * unit)) for i, k in enumerate(keys)], undo)
        tree.check()


def test_a_group_comes_and_goes_in_any_order() -> None:
    rng = np.random.default_rng(3)
    tree = Ordered()
    for size in (1, 2, 33, 1000, 5000):
        for order in ("rising", "falling", "mixed"):
            keys = [(0, int(k), 0) for k in rng.permutation(size)]
            if order != "mixed":
                keys.sort(reverse=order == "falling")
            tree.batch([(key, (1, 0.5)) for key in keys])
            tree.check()
            for part in np.array_split(rng.permutation(size), 4):
                tree.remove([keys[i] for i in part])
                tree.check()
    assert tree.kept == {}
    assert tree._free_words() == tree._word(NODES_USED)


def test_many_small_groups_take_small_nodes() -> None:
    tree = Ordered()
    tree.batch([((group, 5, 0), (1, 1.0)) for group in range(3000)])
    tree.check()
    assert tree._word(NODES_USED) == 3000 * tree._node_words(0)


def test_large_and_endless_floats_leave_nothing_behind() -> None:
    """What was there once does not show, after a rollback and after a delete."""
    tree = Ordered()
    tree.batch([((0, key, 0), (1, 0.25)) for key in range(500)])
    for odd in (1e300, 1e308, math.inf, math.nan):
        tree.batch([((0, 77, 1), (1, odd)), ((0, 78, 1), (1, odd))], undo=True)
        tree.check()
        held = dict(tree.kept)
        tree.batch([((0, 77, 1), (1, odd)), ((0, 78, 1), (1, odd))])
        # inf - inf is no way to say what should be left.
        for key in ((0, 77, 1), (0, 78, 1)):
            assert take_away(tree.pool.address, *key, odd)
        sweep(tree.pool.address)
        tree.kept = held
        tree.check()


def test_a_sum_that_is_too_large_is_undone() -> None:
    tree = Ordered()
    tree.batch([((0, key, 0), (1, 0.0)) for key in range(3000)])
    most = 2**63 - 1
    addresses = np.array([tree.pool.address], np.int64)
    begin_all(addresses.ctypes.data, 1, 1)
    bump(tree.pool.address, 0, 5, 0, -(2**62), 0.0)
    bump(tree.pool.address, 0, 2000, 0, 2**62, 0.0)
    with pytest.raises(OverflowError):
        bump(tree.pool.address, 0, 9, 0, most - 1, 0.0)
        bump(tree.pool.address, 0, 10, 0, most - 1, 0.0)
    rollback(tree.pool.address)
    tree.check()


def test_a_cleared_buffer_can_be_filled_again() -> None:
    tree = Ordered()
    for wide in (-1, 77, -1, 77, -1):
        tree.batch([((key % 3, key, 0), (1, 0.5 + (key == wide) * 2.0**70)) for key in range(400)])
        assert tree._word(WIDE) == (wide >= 0)
        tree.check()
        clear_buffer(tree.pool.address)
        tree.kept = {}
        tree.check()


def test_ranks_order_strings() -> None:
    tree = Ordered(Physical.STR)
    assert tree.pool.descriptor[tree.layout.block(0) + 6] == BY_RANK
    tree.batch([((0, key, 0), (1, 0.5)) for key in range(2000)])
    tree.check()


def test_more_entries_than_can_be_numbered_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viewlet.storage.pool._LIMIT", 3000)
    tree = Ordered()
    with pytest.raises(RangeError, match="more entries than it can number"):
        tree.batch([((0, key, 0), (1, 0.5)) for key in range(2000)])
