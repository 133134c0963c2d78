"""The rows of a table: a multiset in flat arrays, with a count for each row.

    row -> count     count > 0 after every batch; one row for each primary key, if one is declared

It is a map of storage.columns whose key is the whole row (row_layout) and whose only value is the
count, so that undo log, free list and growth are the same as those of all maps. The width of a row
is a number at run time, not a tuple type at compile time: creating a table compiles nothing.

There is one index. With a primary key it hashes that alone: rows with one key lie in one run of
slots, so that the search for a row finds what else has its key. Of these there is one after every
batch, and within a batch there may be more: +1 and -1 of the same key are an update, in whatever
order they stand. So a batch is put in whole and checked when it is whole, and one that fails is
taken back from the log. If a batch has so many rows of the same keys that the search among them is
felt, `put` stops, and the caller adds them up first (`Crowded`).

Contract: strings come as codes; the value beneath a NULL is 0; `begin`, `put`, `fault`, then
perhaps `undo`, from one thread at a time. The arrays may be memory-mapped files.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import numpy as np

from viewlet.errors import RangeError
from viewlet.native.compiled import compiled
from viewlet.schema import Physical, Relation
from viewlet.storage.columns import (
    CAPACITY,
    HEADER,
    KEYS,
    LOG,
    LOG_CAPACITY,
    LOGGED,
    MASK,
    RECORDS,
    SLOTS,
    STRIDE,
    Array,
    Arrays,
    KeyField,
    Layout,
)
from viewlet.storage.hashmap import hash_record, numbers_in, tag_bits, take_slot
from viewlet.storage.memory import address_of, load, load_half, prefetch, store, workspace
from viewlet.storage.multimap import add_int, begin, keep_old, rollback, sweep, take_record
from viewlet.storage.pool import Pool
from viewlet.storage.row_layout import RowLayout, key_positions, lay_out, seal_rows

_LOG_ROWS = 1 << 17
"""Of an undo log, that stay after a batch: 2 MB."""

# What `put_row` answers.
DONE, FULL, MISSING, DUPLICATE, WIDE = 0, 1, 2, 3, 4

# What native code knows of a table beside its map.
WORDS = 0  # of a row
SEALED = 1  # the word after those that are sealed, 0 if there is no seal
KEY_END = 2  # the word after those that are the same in all rows with one key, 0 without a key
BLOCK = 3  # address of some rows that are being laid out
DOUBT = 4  # 1 where `missing_row` and `duplicate_key` might find something
NEIGHBORS = 5  # how many other rows with the key of a row searches have met
MOST_NEIGHBORS = 6  # and how many they may
FACTS = 7

_BLOCK_ROWS = 64

# What `put_columns` answers instead of a number of rows.
_CROWDED, _WIDE = -1, -2


@compiled
def begin_rows(m: int) -> None:
    """Rows that the batch before has emptied go only now: until then it can be undone."""
    sweep(m)
    begin(m, 1)


@compiled
def upsert_row(m: int, facts: int, row: int, code: int) -> int:
    """The address of the record with the words of a row, made if need be and logged; 0 when full.

    `code` is the hash of what the index hashes of it.
    """
    unique = m + 8 * HEADER
    slots = load(unique, SLOTS)
    mask = load(unique, MASK)
    records = load(m, RECORDS)
    stride = load(m, STRIDE)
    keys = load(m, KEYS)
    key_end = load(facts, KEY_END)
    tags = tag_bits(mask)
    tag = code & tags
    slot = code & mask
    while True:
        entry = load_half(slots, slot)
        if entry < 0:
            break
        if entry & tags == tag:
            record = entry & numbers_in(mask)
            at = records + record * stride
            word = 0
            while word < keys and load(at, word) == load(row, word):
                word += 1
            if word == keys:
                return at if keep_old(m, record, at) else 0
            if key_end != 0 and word >= key_end:
                store(facts, NEIGHBORS, load(facts, NEIGHBORS) + 1)
                store(facts, DOUBT, 1)
        slot = (slot + 1) & mask
    record = take_record(m)
    if record < 0:
        return 0
    at = records + record * stride
    for i in range(keys):
        store(at, i, load(row, i))
    store(at, keys, 0)
    take_slot(unique, slot, record, code)
    keep_old(m, record, at)
    return at


@compiled
def put_block(m: int, facts: int, rows: int, weights: int, count: int) -> int:
    """count[row i] += weight i of a few rows; the number of rows done when it gets full.

    What they look up comes from memory for all of them at once.
    """
    unique = m + 8 * HEADER
    slots = load(unique, SLOTS)
    mask = load(unique, MASK)
    records = load(m, RECORDS)
    stride = load(m, STRIDE)
    keys = load(m, KEYS)
    keyed = load(facts, KEY_END) != 0
    hashes = workspace()
    for i in range(count):
        code = hash_record(unique, rows + 8 * keys * i)
        store(hashes, i, code)
        prefetch(slots + 4 * (code & mask))
    tags = tag_bits(mask)
    for i in range(count):
        code = load(hashes, i)
        entry = load_half(slots, code & mask)
        if entry >= 0 and entry & tags == code & tags:
            at = records + (entry & numbers_in(mask)) * stride
            prefetch(at)
            prefetch(at + stride - 8)
    for i in range(count):
        at = upsert_row(m, facts, rows + 8 * keys * i, load(hashes, i))
        if at == 0:
            return i
        weight = load(weights, i)
        if weight != 1 or (keyed and load(at, keys) != 0):
            store(facts, DOUBT, 1)
        add_int(m, at, keys, weight)
    return count


@compiled
def put_columns(
    m: int, facts: int, columns: int, width: int, weights: int, first: int, count: int
) -> int:
    """`put_block` of columns from row `first` on, of which the rows lie in the cache.

    The number of rows done when it gets full, _CROWDED, or _WIDE.
    """
    words = load(facts, WORDS)
    sealed = load(facts, SEALED)
    rows = load(facts, BLOCK)
    while first < count:
        block = min(_BLOCK_ROWS, count - first)
        if not lay_out(columns, width, first, block, rows, words):
            return _WIDE
        if sealed != 0:
            seal_rows(rows, words, sealed, block)
        done = put_block(m, facts, rows, weights + 8 * first, block)
        if load(facts, NEIGHBORS) > load(facts, MOST_NEIGHBORS):
            return _CROWDED
        first += done
        if done < block:
            return first
    return count


@compiled
def missing_row(m: int) -> int:
    """A touched record of which more copies went than there were, -1 if there is none."""
    keys = load(m, KEYS)
    for i in range(load(m, LOGGED)):
        record = load(load(m, LOG) + 16 * i, 0)
        if load(load(m, RECORDS) + record * load(m, STRIDE), keys) < 0:
            return record
    return -1


@compiled
def row_with_key(m: int, key_end: int, row: int, other: int) -> int:
    """The record that is there with the primary key of a row, and is not `other`; -1 if none is."""
    unique = m + 8 * HEADER
    slots = load(unique, SLOTS)
    mask = load(unique, MASK)
    records = load(m, RECORDS)
    stride = load(m, STRIDE)
    keys = load(m, KEYS)
    code = hash_record(unique, row)
    tags = tag_bits(mask)
    tag = code & tags
    slot = code & mask
    while True:
        entry = load_half(slots, slot)
        if entry < 0:
            return -1
        if entry & tags == tag:
            record = entry & numbers_in(mask)
            at = records + record * stride
            if record != other and load(at, keys) > 0:
                word = 0
                while word < key_end and load(at, word) == load(row, word):
                    word += 1
                if word == key_end:
                    return record
        slot = (slot + 1) & mask


@compiled
def duplicate_key(m: int, key_end: int) -> int:
    """A touched record whose key another copy or row has too, -1 if there is none.

    Only records that are there look for others, and a good batch has one of them for each key.
    """
    keys = load(m, KEYS)
    for i in range(load(m, LOGGED)):
        record = load(load(m, LOG) + 16 * i, 0)
        at = load(m, RECORDS) + record * load(m, STRIDE)
        if load(at, keys) > 1:
            return record
        if load(at, keys) == 1 and row_with_key(m, key_end, at, record) >= 0:
            return record
    return -1


@compiled
def put_row(m: int, facts: int, columns: int, width: int, weight: int) -> int:
    """A batch of one row: begin, put and check in one call. FULL and WIDE have put nothing."""
    begin_rows(m)
    row = load(facts, BLOCK)
    words = load(facts, WORDS)
    if not lay_out(columns, width, 0, 1, row, words):
        return WIDE
    if load(facts, SEALED) != 0:
        seal_rows(row, words, load(facts, SEALED), 1)
    store(facts, NEIGHBORS, 0)
    at = upsert_row(m, facts, row, hash_record(m + 8 * HEADER, row))
    if at == 0:
        return FULL
    add_int(m, at, words, weight)
    count = load(at, words)
    if count < 0:
        return MISSING
    key_end = load(facts, KEY_END)
    if key_end != 0 and count > 1:
        return DUPLICATE
    if load(facts, NEIGHBORS) != 0 and weight > 0 and duplicate_key(m, key_end) >= 0:
        return DUPLICATE
    return DONE


@compiled
def find_keys(m: int, key_end: int, rows: int, width: int, count: int, records_out: int) -> None:
    """The record that is there with the primary key of each row, -1 if there is none."""
    for i in range(count):
        store(records_out, i, row_with_key(m, key_end, rows + 8 * width * i, -1))


class Fault(Enum):
    """Why a batch cannot be: more copies of a row went than there were; two rows with one key."""

    MISSING = "missing"
    DUPLICATE = "duplicate"


class Crowded(Exception):
    """A batch has many rows of the same primary keys, which should be added up first.

    Each is compared with all others of its key: of a batch whose rows are added up and that is a
    good one there are two, the old and the new.
    """


class TableRows:
    """One table's rows. If `arrays` hold them already, they are taken up as they are."""

    def __init__(self, relation: Relation, arrays: Arrays) -> None:
        self.relation = relation
        self.row_layout = RowLayout(relation)
        words = self.row_layout.words
        self.layout = Layout(
            f"table {relation.name}",
            (KeyField(Physical.INT, False),) * words,
            (Physical.INT,),
            hashed=self.row_layout.hashed,
        )
        name = f"{self.layout.name}.head"
        is_stored = name in arrays.names()
        head_words = self.layout.descriptor_words
        self._head = arrays.array(name) if is_stored else arrays.create(name, head_words, np.int64)
        self._pool = Pool(self.layout, arrays, self._head, False)
        if is_stored:
            self._pool.attach()
        else:
            self._pool.create()
        self.address = self._pool.address
        self._block = np.zeros(_BLOCK_ROWS * words, np.int64)
        self._facts = np.zeros(FACTS, np.int64)
        self._facts[: BLOCK + 1] = (
            words,
            self.row_layout.sealed,
            self.row_layout.key_end,
            address_of(self._block),
        )
        self._facts[DOUBT] = 1
        self.facts = address_of(self._facts)

    def __len__(self) -> int:
        """Different rows."""
        return len(self.live())

    # Changes.

    def begin(self) -> None:
        """From here on `undo` takes back what is put."""
        begin_rows(self.address)
        if self._head[LOG_CAPACITY] > _LOG_ROWS:
            self._pool.trim_log(_LOG_ROWS)
        self._facts[DOUBT] = 0

    def put(self, columns: Sequence[Array], nulls: Sequence[Array | None], weights: Array) -> None:
        """Add weights to the counts of rows, whose strings are codes; `fault` says whether that
        was right. Crowded leaves an unknown part of them put."""
        alive: list[Array] = []
        values_at, nulls_at = [], []
        for i, column in enumerate(self.relation.columns):
            is_float = column.type.physical is Physical.FLOAT
            values = np.ascontiguousarray(columns[i], np.float64 if is_float else np.int64)
            alive.append(values)
            values_at.append(address_of(values))
            gaps = nulls[i]
            if gaps is not None:
                gaps = np.ascontiguousarray(gaps, np.uint8)
                alive.append(gaps)
            nulls_at.append(0 if gaps is None else address_of(gaps))
        about = self.row_layout.about(values_at, nulls_at)
        weights = np.ascontiguousarray(weights, np.int64)
        self._put(address_of(about), len(columns), address_of(weights), len(weights))
        del alive

    def _put(self, about: int, width: int, weights: int, count: int) -> None:
        used, capacity = self._pool.used, int(self._head[CAPACITY])
        if used + count > capacity and count > capacity:
            self._pool.reserve(used + count)
        self._facts[NEIGHBORS] = 0
        self._facts[MOST_NEIGHBORS] = _MOST_NEIGHBORS * (count + _BLOCK_ROWS)
        done = 0
        while done < count:
            done = put_columns(self.address, self.facts, about, width, weights, done, count)
            if done == _CROWDED:
                raise Crowded
            if done == _WIDE:
                raise self.too_wide()
            if done < count:
                self._pool.make_room()

    def too_wide(self) -> RangeError:
        """The error of a number that its column cannot have."""
        return RangeError(f"a number for table {self.relation.name} is out of its column's range")

    def make_room(self) -> None:
        """Let the arrays grow before a batch, where they may have to move."""
        self._pool.make_room()

    @property
    def is_doubtful(self) -> bool:
        """Whether `fault` might find something in the batches that were put."""
        return bool(self._facts[DOUBT])

    def fault(self) -> tuple[Fault, int] | None:
        """What is wrong with the rows that were put, and with which record."""
        record = missing_row(self.address)
        if record >= 0:
            return Fault.MISSING, record
        key_end = self.row_layout.key_end
        record = duplicate_key(self.address, key_end) if key_end else -1
        return None if record < 0 else (Fault.DUPLICATE, record)

    def undo(self) -> None:
        """Back to the last `begin`."""
        rollback(self.address)

    def count_before(self, record: int) -> int:
        """The count of a touched record before the batch."""
        log = self._pool.logged()
        return int(log[log[:, 0] == record, 1][0])

    # Reading.

    def live(self) -> Array:
        """The numbers of the records that are there."""
        return self._pool.live(0)

    def counts(self, records: Array) -> Array:
        """How often each of the rows is there."""
        return self._pool.value_column(0, records)

    def column(self, position: int, records: Array) -> tuple[Array, Array | None]:
        """One column of some records, codes for strings, with its null mask."""
        table, layout = self._pool.table(), self.row_layout
        return layout.column(position, table, records), layout.nulls(position, table, records)

    def with_keys(self, columns: Sequence[Array]) -> Array:
        """The records with these primary keys, strings as codes; -1 where there is none."""
        kinds = [self.relation.columns[i].type.physical for i in key_positions(self.relation)]
        rows = self.row_layout.key_rows(
            [
                np.ascontiguousarray(values, np.float64 if kind is Physical.FLOAT else np.int64)
                for values, kind in zip(columns, kinds, strict=True)
            ]
        )
        records = np.empty(len(rows), np.int64)
        find_keys(
            self.address,
            self.row_layout.key_end,
            address_of(rows),
            self.row_layout.words,
            len(rows),
            address_of(records),
        )
        return records

    def nbytes(self) -> int:
        """Bytes of the rows and of their index."""
        return self._pool.nbytes()


_MOST_NEIGHBORS = 8
"""Comparisons with other rows of its key that each row of a batch may cost."""
