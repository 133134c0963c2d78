"""The Python side of one map: its arrays, their growth, and reading records as columns."""

from __future__ import annotations

import numpy as np

from viewlet.errors import RangeError
from viewlet.schema import Physical
from viewlet.storage.columns import (
    CAPACITY,
    FREE,
    LOG,
    LOG_CAPACITY,
    LOGGED,
    LOGGING,
    MARKS,
    MASK,
    NODES,
    NODES_CAPACITY,
    NODES_USED,
    RANKS,
    RECORDS,
    SLOTS,
    TREE,
    USED,
    Array,
    Arrays,
    Layout,
    MemoryArrays,
)
from viewlet.storage.hashmap import lacks_slot, rehash
from viewlet.storage.multimap import find_records
from viewlet.storage.ordered_index import node_words_needed
from viewlet.storage.undivided import undivided

_FIRST_CAPACITY = 64
_LIMIT = 2**31 - 1
_LEAP = 1 << 20  # bytes up to which records grow fourfold


def table_size(capacity: int) -> int:
    """Slots for so many records or groups: a power of two, at most half full to keep runs short."""
    return 1 << max(2 * capacity - 1, 1).bit_length()


def table_room(slots: int) -> int:
    """How many records or groups so many slots can take."""
    return slots // 2


def mark_bytes(records: int) -> int:
    """Bytes of one bit for each record."""
    return -(-records // 8)


class Pool:
    """One map's records, log and hash tables. The descriptor is a part of the state array."""

    def __init__(self, layout: Layout, arrays: Arrays, descriptor: Array, buffer: bool) -> None:
        self.layout = layout
        self.buffer = buffer
        self._arrays = arrays
        self.descriptor = descriptor
        self._tables = [f"{layout.name}.slots{i}" for i in range(len(layout.indexes) + 1)]
        # The nodes of ordered indexes, by the numbers of their blocks.
        self._nodes = {
            i: f"{layout.name}.nodes{i}"
            for i, index in enumerate(layout.indexes, 1)
            if index.kind == TREE
        }

    def create(self) -> None:
        """Empty arrays of the first capacity."""
        name, width = self.layout.name, self.layout.width
        self.descriptor[:] = self.layout.describe()
        self._arrays.create(f"{name}.records", _FIRST_CAPACITY * width, np.int64)
        self._arrays.create(f"{name}.marks", mark_bytes(_FIRST_CAPACITY), np.uint8)
        self._arrays.create(f"{name}.log", 0 if self.buffer else 64 * self._row, np.int64)
        for table in self._tables:
            self._arrays.create(table, table_size(_FIRST_CAPACITY), np.int32)[:] = -1
        for number, nodes in self._nodes.items():
            self._arrays.create(nodes, 2 * self._node_words_needed(number), np.int64)
        self.attach()

    def attach(self) -> None:
        """Write addresses and capacities of the arrays, wherever they are now."""
        self.descriptor[RECORDS] = self.records.ctypes.data
        self.descriptor[MARKS] = self._arrays.array(f"{self.layout.name}.marks").ctypes.data
        room = table_room(len(self._arrays.array(self._tables[0])))
        self.descriptor[CAPACITY] = min(self._rows, room)
        self.descriptor[LOG] = self.log.ctypes.data
        self.descriptor[LOG_CAPACITY] = len(self.log) // self._row
        for i, table in enumerate(self._tables):
            slots = self._arrays.array(table)
            self._block(i)[SLOTS], self._block(i)[MASK] = slots.ctypes.data, len(slots) - 1
        for i, name in self._nodes.items():
            nodes = self._arrays.array(name)
            self._block(i)[NODES], self._block(i)[NODES_CAPACITY] = nodes.ctypes.data, len(nodes)

    def _block(self, number: int) -> Array:
        """The descriptor from one index on; 0 is the unique one."""
        return self.descriptor[self.layout.block(number - 1) :]

    def _block_address(self, number: int) -> int:
        return self.address + 8 * self.layout.block(number - 1)

    def adopt(self, other: Pool) -> None:
        """Take over the contents of another pool with the same layout, which is empty then."""
        assert isinstance(self._arrays, MemoryArrays) and isinstance(other._arrays, MemoryArrays)
        name = self.layout.name
        parts = ("records", "marks", "log")
        names = [*(f"{name}.{part}" for part in parts), *self._tables, *self._nodes.values()]
        self._arrays.take(names, other._arrays)
        ranks = self.descriptor[RANKS]
        self.descriptor[:] = other.descriptor
        self.descriptor[RANKS] = ranks
        self.attach()

    @property
    def records(self) -> Array:
        """The records, as words."""
        return self._arrays.array(f"{self.layout.name}.records")

    @property
    def log(self) -> Array:
        """The undo log, as words."""
        return self._arrays.array(f"{self.layout.name}.log")

    @property
    def _row(self) -> int:
        return self.layout.value_width + 1

    @property
    def address(self) -> int:
        """Where kernels find the map: the address of its descriptor."""
        return int(self.descriptor.ctypes.data)

    @property
    def used(self) -> int:
        """Records that were ever in use, removed ones included."""
        return int(self.descriptor[USED])

    def make_room(self) -> None:
        """What a kernel found full, doubled."""
        with undivided():
            if self.descriptor[FREE] < 0 and self.used == self.descriptor[CAPACITY]:
                self._grow()
            for i in range(1, len(self._tables)):
                if lacks_slot(self._block_address(i)):
                    self._more_slots(i, 2 * len(self._arrays.array(self._tables[i])))
            for i in self._nodes:
                if self._node_room(i) < self._node_words_needed(i):
                    self._more_nodes(i)
            log_full = self.descriptor[LOGGED] == self.descriptor[LOG_CAPACITY]
            if self.descriptor[LOGGING] and log_full:
                rows = max(64, 2 * int(self.descriptor[LOG_CAPACITY]))
                self._arrays.resize(f"{self.layout.name}.log", rows * self._row)
            self.attach()

    def _grow(self) -> None:
        """Twice the slots, or more records than are needed next.

        Pages of the pool that no record has touched cost nothing, while a small one is copied each
        time that it moves; slots are filled at once, so that the table follows the number of
        records. Tables of secondary indexes follow the number of their groups (`make_room`).
        """
        used = self.used
        if used >= _LIMIT:
            raise RangeError(
                f"map {self.layout.name} has {used:,} records, which is the most that one can have",
                hint="spread it over partitions: connect(engine='spark')",
            )
        if used == self._rows:
            factor = 4 if self.records.nbytes < _LEAP else 2
            self._more_records(min(factor * used, _LIMIT))
        if used == self.descriptor[CAPACITY]:
            self.reserve(min(2 * used, self._rows))

    def _more_records(self, rows: int) -> None:
        self._arrays.resize(f"{self.layout.name}.marks", mark_bytes(rows))
        self._arrays.resize(f"{self.layout.name}.records", rows * self.layout.width)
        self.attach()

    @property
    def _rows(self) -> int:
        return len(self.records) // self.layout.width

    def reserve(self, capacity: int) -> None:
        """Room for so many records. How many groups they will be nobody knows yet."""
        with undivided():
            self._reserve(min(capacity, _LIMIT))

    def _reserve(self, capacity: int) -> None:
        if capacity > self._rows:
            self._more_records(capacity)
        if capacity <= self.descriptor[CAPACITY]:
            return
        self._more_slots(0, table_size(capacity))

    def _more_slots(self, number: int, size: int) -> None:
        """A larger table for one index; links are record numbers, so only the table is remade."""
        old = self._arrays.array(self._tables[number]).copy()
        self._arrays.resize(self._tables[number], size)[:] = -1
        self.attach()
        rehash(self.address, self._block_address(number), old.ctypes.data, len(old))

    def _more_nodes(self, number: int) -> None:
        nodes = self._arrays.array(self._nodes[number])
        factor = 4 if nodes.nbytes < _LEAP else 2
        size = min(max(factor * len(nodes), self._node_words_needed(number)), _LIMIT)
        if self._node_room(number) + size - len(nodes) < self._node_words_needed(number):
            raise RangeError(
                f"an ordered index of map {self.layout.name} has more entries than it can number",
                hint="spread it over partitions: connect(engine='spark')",
            )
        self._arrays.resize(self._nodes[number], size)
        self.attach()

    def _node_room(self, number: int) -> int:
        block = self._block(number)
        return int(block[NODES_CAPACITY] - block[NODES_USED])

    def _node_words_needed(self, number: int) -> int:
        return int(node_words_needed(self._block_address(number)))

    def trim_log(self, rows: int) -> None:
        """Give back the memory of a log that one large batch had blown up."""
        if self.descriptor[LOG_CAPACITY] > rows and self.descriptor[LOGGED] <= rows:
            self._arrays.resize(f"{self.layout.name}.log", rows * self._row)
            self.attach()

    def table(self) -> Array:
        """All records that were ever used as rows of words; the values of free ones are zero."""
        width = self.layout.width
        return self.records[: self.used * width].reshape(self.used, width)

    def live(self, column: int | None = None) -> Array:
        """Numbers of the records that are there, or in which one value column is not zero."""
        table = self.table()
        if column is None:
            first = self.layout.key_width
            values = table[:, first : self.layout.row_width]
            return np.flatnonzero((values != 0).any(axis=1))
        return np.flatnonzero((table[:, self.layout.value_slice(column)] != 0).any(axis=1))

    def key_column(self, key: int, records: Array) -> tuple[Array, Array | None]:
        """A key column of some records as words (bits of floats, codes of strings) and nulls."""
        table, word = self.table(), self.layout.key_words[key]
        field = self.layout.keys[key]
        source = table.view(np.float64) if field.physical is Physical.FLOAT else table
        nulls = table[records, word + 1] != 0 if field.nullable else None
        return source[records, word], nulls

    def value_column(self, column: int, records: Array) -> Array:
        """A value column of some records: int64, or float64 rounded once from the sum."""
        return self.layout.values_in(column, self.column_words(column, records))

    def column_words(self, column: int, records: Array) -> Array:
        """The words of a value column of some records."""
        return self.table()[records, self.layout.value_slice(column)]

    def full_keys(self, records: Array) -> Array:
        """The keys of some records as words, with a null word for each column, nullable or not."""
        table = self.table()
        words = np.zeros((len(records), 2 * len(self.layout.keys)), np.int64)
        for i, (key, word) in enumerate(zip(self.layout.keys, self.layout.key_words, strict=True)):
            words[:, 2 * i] = table[records, word]
            if key.nullable:
                words[:, 2 * i + 1] = table[records, word + 1]
        return words

    def find(self, full: Array) -> Array:
        """The records with these keys, laid out as `full_keys` has them; -1 where there is none."""
        keys = np.zeros((len(full), self.layout.key_width), np.int64)
        possible = np.ones(len(full), bool)
        for i, (key, word) in enumerate(zip(self.layout.keys, self.layout.key_words, strict=True)):
            keys[:, word] = full[:, 2 * i]
            if key.nullable:
                keys[:, word + 1] = full[:, 2 * i + 1]
            else:
                possible &= full[:, 2 * i + 1] == 0
        records = np.empty(len(full), np.int64)
        find_records(self.address, keys.ctypes.data, len(full), records.ctypes.data)
        return np.where(possible, records, -1)

    def logged(self) -> Array:
        """The last batch's log: record number, then its old values as words."""
        rows = int(self.descriptor[LOGGED])
        return self.log[: rows * self._row].reshape(rows, self._row)

    def old_column(self, column: int) -> Array:
        """A value column of the logged records as it was before the batch."""
        return self.layout.values_in(column, self.old_words(column))

    def old_words(self, column: int) -> Array:
        """The same as words."""
        words = self.layout.value_slice(column)
        shift = self.layout.key_width - 1
        return self.logged()[:, words.start - shift : words.stop - shift]

    def nbytes(self) -> int:
        """Bytes in use: records, marks and tables, without the untouched part of the pool."""
        tables = sum(self._arrays.array(table).nbytes for table in self._tables)
        nodes = sum(8 * int(self._block(i)[NODES_USED]) for i in self._nodes)
        records = 8 * self.layout.width * self.used + mark_bytes(self.used)
        return records + nodes + tables + self.log.nbytes
