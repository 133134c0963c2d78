"""How a map lies in memory, and the arrays that hold it.

One record is a row of 64-bit words:

    keys      one word for each key column, two where it is nullable (value, then 1 for NULL)
    values    one word for each int column, five for each float column (storage.doubles)
    links     one word for each slice index (next, previous), one for each ordered index (leaf, and
              root of the group's tree)

Everything about a record is in one place, so that a probe costs one cache miss in the index and one
in the pool. A record is there while one of its values is not zero. Strings are dictionary codes,
floats their bits. The nodes of an ordered index lie in an array of their own (storage.tree_layout),
and so do the marks, one bit for each record: whether the running batch has touched it.

A descriptor of each map (addresses, counters, index blocks) lies in the program's state array;
the constants below are its positions. Who owns what: Python owns the arrays and is the only one to
replace them, between two kernel calls; kernels change contents and counters only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from viewlet.errors import UnsupportedError
from viewlet.schema import Physical
from viewlet.storage.doubles import ELEMENT_WORDS
from viewlet.storage.element_arrays import values_of
from viewlet.storage.reserved import Reserved, reserve

Array = np.ndarray[Any, np.dtype[Any]]

# Positions in a map's descriptor.
USED = 0  # records ever taken from the pool: numbers 0 .. USED - 1
FREE = 1  # first record of the free list, -1 at its end
CAPACITY = 2  # records that pool and tables have room for
LOGGED = 3  # rows in the undo log
LOG_CAPACITY = 4
ZEROS = 5  # 1 when some value became zero since the last sweep
LOGGING = 6  # 1 while changes are logged, else 0: the mark of records that need not be logged
RECORDS = 7  # addresses
LOG = 8
STRIDE = 9  # bytes of a record
KEYS = 10  # words
VALUES = 11
RANKS = 12  # address of the strings' ranks by code
MARKS = 13  # address of a bit for each record
INDEXES = 14  # number of index blocks, the unique index first
HEADER = 15

# Marks of records that are in the indexes.
UNTOUCHED = 0  # as the batch found it
TOUCHED = 1  # its old values are in the log

# Marks of those that were taken out. A record in the log is TOUCHED or GONE; without a log all are
# UNTOUCHED or SPARE. In either case those still in the indexes have the mark that LOGGING is.
GONE = 0  # its key is read as long as the log is
SPARE = 1  # in the free list, its first word is the next one

# Positions in an index block.
KIND = 0
SLOTS = 1  # address of the hash table: record numbers, -1 where empty
MASK = 2
PARTS = 3  # number of key words that the index hashes
LINK = 4  # the link word in the record
ORDER = 5  # the key word that orders
ORDER_KIND = 6
SUMS = 7  # number of sums that entries have
PART = 8  # the hashed words, ascending
SUM = 24  # for each sum SUM_FIELDS words: those of the record, the kind, of an entry, of its rest
GROUPS = 56  # an ordered index's first group: the root of its tree, -1 if there is none
NODES = 57  # address of the nodes
NODES_USED = 58  # words
NODES_CAPACITY = 59
ENTRY = 60  # words of an entry
LOWER = 61  # the lower words of all sums of an entry
TALLEST = 62  # the level of the highest root there has been
FREE_NODES = 63  # for each size class, 2**0 to 2**LARGEST entries, the first of its free nodes
GROUP_COUNT = 68  # groups of a secondary index: slots that are taken, at most half of the table
MOVED = 69  # how far each sum has moved while all are brought up to date, ELEMENT_WORDS for each
ODD_KEYS = MOVED + 8 * ELEMENT_WORDS  # how many records have a key in the order that is not finite
WIDE = ODD_KEYS + 1  # not 0 once the entries of a tree have had a sum of more than its first word
BLOCK = WIDE + 1

LARGEST = 4
FRONT = 3  # words of a node before its entries

UNIQUE, CHAIN, TREE = 0, 1, 2
BY_INT, BY_FLOAT, BY_RANK = 0, 1, 2
# What SUM has of each sum.
VALUE_WORD = 0  # in the record
SUM_KIND = 1
SUM_WORD = 2  # in an entry: the sum, or its first word
LOWER_WORD = 3  # among the lower words of an entry
SUM_FIELDS = 4

SUM_INT, SUM_FLOAT, COUNT_INT, COUNT_FLOAT, NEGATIVE_INT, NEGATIVE_FLOAT = 0, 1, 2, 3, 4, 5
TOTAL, COUNT, NEGATIVES = 0, 1, 2

_MAX_PARTS = SUM - PART
_MAX_SUMS = (GROUPS - SUM) // SUM_FIELDS  # as many as MOVED has room for
MOST_HASHED = _MAX_PARTS // 2  # key columns, of two words each at most


@dataclass(frozen=True)
class Index:
    """A secondary index: records by some key columns, and for TREE in the order of another.

    `sums` are what is kept of the records below each entry of a tree: of a value column its TOTAL,
    the COUNT of records in which it is not zero, or in how many it is one of the NEGATIVES.
    """

    kind: int
    parts: tuple[int, ...]
    order: int = -1
    sums: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class KeyField:
    """One key of a record: what it is made of, and whether it may be NULL."""

    physical: Physical
    nullable: bool


def value_words_of(physical: Physical) -> int:
    """How many words a value column takes."""
    return ELEMENT_WORDS if physical is Physical.FLOAT else 1


@dataclass(frozen=True)
class Layout:
    """Word positions of one map's records."""

    name: str
    keys: tuple[KeyField, ...]
    values: tuple[Physical, ...]
    indexes: tuple[Index, ...] = ()
    hashed: tuple[int, ...] = ()
    """The key columns that the unique index hashes: those that determine the others; () for all."""
    key_words: tuple[int, ...] = field(init=False)
    value_words: tuple[int, ...] = field(init=False)
    link_words: tuple[int, ...] = field(init=False)
    row_width: int = field(init=False)
    """Words of keys and values, the row without its links."""
    width: int = field(init=False)

    def __post_init__(self) -> None:
        word, key_words, value_words, link_words = 0, [], [], []
        for key in self.keys:
            key_words.append(word)
            word += 2 if key.nullable else 1
        # A wider key is told apart by its first columns.
        hashed = (self.hashed or tuple(range(len(self.keys))))[:MOST_HASHED]
        object.__setattr__(self, "hashed", hashed)
        # A map without keys has one record, under the key word 0.
        word = max(word, 1)
        for value in self.values:
            value_words.append(word)
            word += value_words_of(value)
        row_width = word
        for _ in self.indexes:
            link_words.append(word)
            word += 1
        for name, derived in (
            ("key_words", tuple(key_words)),
            ("value_words", tuple(value_words)),
            ("link_words", tuple(link_words)),
            ("row_width", row_width),
            ("width", word),
        ):
            object.__setattr__(self, name, derived)

    @property
    def key_width(self) -> int:
        """Words of the whole key."""
        return max(sum(2 if key.nullable else 1 for key in self.keys), 1)

    @property
    def value_width(self) -> int:
        """Words of a record's values."""
        return self.row_width - self.key_width

    def value_slice(self, column: int) -> slice:
        """The words of a value column."""
        first = self.value_words[column]
        return slice(first, first + value_words_of(self.values[column]))

    def values_in(self, column: int, words: Array) -> Array:
        """Rows of a value column's words as int64, or as float64, rounded once from the sums."""
        return values_of(words) if self.values[column] is Physical.FLOAT else words[:, 0]

    def part_words(self, parts: tuple[int, ...]) -> list[int]:
        """The words of some key columns, ascending."""
        return [
            word
            for part in sorted(parts)
            for word in range(self.key_words[part], self.key_words[part] + self._key_size(part))
        ]

    def _key_size(self, part: int) -> int:
        return 2 if self.keys[part].nullable else 1

    def sum_word(self, index: int, sum_number: int) -> int:
        """Where an entry has the first word of a sum; its key and what is below come before."""
        return 2 + sum_number

    def lower_word(self, index: int, sum_number: int) -> int:
        """Where the other words of a sum of DOUBLE are, among those of its entry."""
        return sum(
            value_words_of(self.values[column]) - 1
            for column, what in self.indexes[index].sums[:sum_number]
            if what == TOTAL
        )

    def entry_words(self, index: int) -> int:
        """Words of an entry of an ordered index, without the lower words of its sums."""
        return self.sum_word(index, len(self.indexes[index].sums))

    def lower_words(self, index: int) -> int:
        """The lower words of all sums of an entry."""
        return self.lower_word(index, len(self.indexes[index].sums))

    @property
    def descriptor_words(self) -> int:
        """Words of the map's descriptor: its header and a block for each index."""
        return HEADER + BLOCK * (1 + len(self.indexes))

    def block(self, index: int) -> int:
        """Offset of an index block in the descriptor; the unique index is -1."""
        return HEADER + BLOCK * (index + 1)

    def describe(self) -> Array:
        """A fresh descriptor: everything but addresses and capacities."""
        words = np.zeros(self.descriptor_words, np.int64)
        words[FREE] = -1
        words[STRIDE] = 8 * self.width
        words[KEYS] = self.key_width
        words[VALUES] = self.value_width
        words[INDEXES] = 1 + len(self.indexes)
        self._describe_index(words[HEADER:], UNIQUE, self.part_words(self.hashed) or [0], 0)
        for number, index in enumerate(self.indexes):
            block = words[self.block(number) :]
            self._describe_index(
                block, index.kind, self.part_words(index.parts), self.link_words[number]
            )
            if index.kind == TREE:
                self._describe_order(block, number, index)
        return words

    def _describe_index(self, block: Array, kind: int, parts: list[int], link: int) -> None:
        block[KIND], block[LINK] = kind, link
        if len(parts) > _MAX_PARTS:
            raise UnsupportedError(
                f"map {self.name} needs an index over {len(parts)} key words",
                hint=f"join on at most {_MAX_PARTS} columns",
            )
        block[PARTS] = len(parts)
        block[PART : PART + len(parts)] = parts

    def _describe_order(self, block: Array, number: int, index: Index) -> None:
        by = {Physical.FLOAT: BY_FLOAT, Physical.STR: BY_RANK}
        block[ORDER] = self.key_words[index.order]
        block[ORDER_KIND] = by.get(self.keys[index.order].physical, BY_INT)
        if len(index.sums) > _MAX_SUMS:
            raise UnsupportedError(
                f"map {self.name} needs {len(index.sums)} sums in one ordered index",
                hint=f"split the view so that at most {_MAX_SUMS} aggregates share a range",
            )
        block[SUMS] = len(index.sums)
        block[GROUPS] = -1
        block[ENTRY] = self.entry_words(number)
        block[LOWER] = self.lower_words(number)
        block[FREE_NODES : FREE_NODES + LARGEST + 1] = -1
        for sum_number, (column, what) in enumerate(index.sums):
            kind = 2 * what + (self.values[column] is Physical.FLOAT)
            at = SUM + SUM_FIELDS * sum_number
            block[at + VALUE_WORD], block[at + SUM_KIND] = self.value_words[column], kind
            block[at + SUM_WORD] = self.sum_word(number, sum_number)
            block[at + LOWER_WORD] = self.lower_word(number, sum_number)


class Arrays(Protocol):
    """Where arrays come from: anonymous memory, or a worker's memory-mapped files."""

    def array(self, name: str) -> Array: ...
    def create(self, name: str, shape: Any, dtype: Any) -> Array: ...
    def resize(self, name: str, length: int) -> Array: ...
    def names(self) -> list[str]: ...


_LARGE = 1 << 20
"""Bytes from which on an array grows where it is; below that, moving it costs less."""


class MemoryArrays:
    """Arrays in the process's own memory."""

    def __init__(self, arrays: Mapping[str, Array] | None = None) -> None:
        self._arrays: dict[str, Array] = dict(arrays or {})
        self._homes: dict[str, Reserved | None] = {}

    def array(self, name: str) -> Array:
        return self._arrays[name]

    def create(self, name: str, shape: Any, dtype: Any) -> Array:
        self._homes.pop(name, None)
        self._arrays[name] = np.zeros(shape, dtype)
        return self._arrays[name]

    def resize(self, name: str, length: int) -> Array:
        """The first `length` elements; new ones are zero."""
        old = self._arrays[name]
        home = self._homes.get(name)
        new = home.resized(old, length) if home is not None else None
        if new is None:
            shape = (length, *old.shape[1:])
            home = reserve() if length * old[:1].nbytes >= _LARGE else None
            new = home.view(shape, old.dtype) if home is not None else None
            if new is None:
                # np.zeros leaves untouched pages to the system, np.resize would fill them.
                home, new = None, np.zeros(shape, old.dtype)
            common = min(length, len(old))
            new[:common] = old[:common]
        self._homes[name] = home
        self._arrays[name] = new
        return new

    def names(self) -> list[str]:
        return list(self._arrays)

    def take(self, names: Iterable[str], other: MemoryArrays) -> None:
        """These arrays, which are the other's no longer."""
        for name in names:
            self._arrays[name] = other._arrays.pop(name)
            self._homes[name] = other._homes.pop(name, None)
