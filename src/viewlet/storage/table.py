"""The rows of a table: a multiset in flat arrays, with a count for each row.

    row -> count     count > 0 after every batch; one row for each primary key, if one is declared

It is a map of storage.columns whose key is the whole row and whose only value is the count, so that
undo log, free list and growth are the same as those of all maps. Two things differ. The width of
a row is a number at run time, not a tuple type at compile time: creating a table compiles nothing.
And NULLs are bits of one word for up to 63 columns, instead of a word each. Before a row of many
words stands a hash of all of them, so that the index need not look at more than a few.

A batch is put in whole and checked when it is whole: +1 and -1 of the same key are an update, in
whatever order they stand. A batch that fails is taken back from the log.

Contract: strings come as codes; the value beneath a NULL is 0; `begin`, `put`, `fault`, then
perhaps `undo`, from one thread at a time. The arrays may be memory-mapped files.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import numpy as np

from viewlet.errors import StateError, UnsupportedError
from viewlet.native.compiled import compiled
from viewlet.schema import Physical, Relation
from viewlet.storage.absorb import AHEAD, ask_for_row, ask_for_slot, upsert_row
from viewlet.storage.columns import (
    BLOCK,
    CAPACITY,
    CHAIN,
    HEADER,
    KEYS,
    LOG,
    LOG_CAPACITY,
    LOGGED,
    RECORDS,
    SLOTS,
    STRIDE,
    Array,
    Arrays,
    Index,
    KeyField,
    Layout,
)
from viewlet.storage.hashmap import group_slot
from viewlet.storage.memory import load, load_half, mix, store
from viewlet.storage.multimap import (
    add_int,
    begin,
    rollback,
    sweep,
)
from viewlet.storage.pool import Pool
from viewlet.storage.slice_index import next_in_chain

_BITS = 63
_FEW = 8
"""Words of a row up to which the index tells rows apart by themselves."""
_WIDEST_KEY = 16
_LOG_ROWS = 4096

# What `put_row` answers.
DONE, FULL, MISSING, DUPLICATE = 0, 1, 2, 3


@compiled
def seal_rows(m: int, rows: int, count: int) -> None:
    """Write the hash of each row's other words into its first."""
    keys = load(m, KEYS)
    for i in range(count):
        row = rows + 8 * keys * i
        seed = keys
        for j in range(1, keys):
            seed = mix(seed, load(row, j))
        store(row, 0, seed)


@compiled
def begin_rows(m: int) -> None:
    """Rows that the batch before has emptied go only now: until then it can be undone."""
    sweep(m)
    begin(m, 1)


@compiled
def put_rows(m: int, rows: int, weights: int, first: int, count: int) -> int:
    """count[row i] += weight i from row `first` on; the number of rows done when it gets full."""
    keys = load(m, KEYS)
    for i in range(first, count):
        if i + AHEAD < count:
            ask_for_row(m, rows + 8 * keys * (i + AHEAD))
        at = upsert_row(m, rows + 8 * keys * i)
        if at == 0:
            return i
        add_int(m, at, keys, load(weights, i))
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
def duplicate_key(m: int) -> int:
    """A touched record whose key another copy or row has too, -1 if there is none.

    Only records that are there look at their chain, and a good batch has one of them for each
    key: the walk is linear in the batch even if all of it moves one key.
    """
    keys = load(m, KEYS)
    records = load(m, RECORDS)
    stride = load(m, STRIDE)
    ix = m + 8 * (HEADER + BLOCK)
    log = load(m, LOG)
    count = load(m, LOGGED)
    for i in range(count):
        if i + AHEAD < count:
            ask_for_slot(ix, records + load(log + 16 * (i + AHEAD), 0) * stride)
        record = load(log + 16 * i, 0)
        at = records + record * stride
        if load(at, keys) > 1:
            return record
        if load(at, keys) == 1:
            other = load_half(load(ix, SLOTS), group_slot(m, ix, at))
            while other >= 0:
                beside = records + other * stride
                if other != record and load(beside, keys) > 0:
                    return record
                other = next_in_chain(ix, beside)
    return -1


@compiled
def put_row(m: int, row: int, weight: int, keyed: int, sealed: int) -> int:
    """A batch of one row: begin, put and check in one call. FULL has put nothing."""
    begin_rows(m)
    if sealed:
        seal_rows(m, row, 1)
    at = upsert_row(m, row)
    if at == 0:
        return FULL
    keys = load(m, KEYS)
    add_int(m, at, keys, weight)
    if load(at, keys) < 0:
        return MISSING
    if keyed != 0 and weight > 0 and duplicate_key(m) >= 0:
        return DUPLICATE
    return DONE


class Fault(Enum):
    """Why a batch cannot be: more copies of a row went than there were; two rows with one key."""

    MISSING = "missing"
    DUPLICATE = "duplicate"


class TableRows:
    """One table's rows. If `arrays` hold them already, they are taken up as they are."""

    def __init__(self, relation: Relation, arrays: Arrays) -> None:
        self.relation = relation
        nullable = [i for i, column in enumerate(relation.columns) if column.nullable]
        self._bits = {column: divmod(place, _BITS) for place, column in enumerate(nullable)}
        width = len(relation.columns)
        masks = -(-len(nullable) // _BITS)
        # The word of the first column: a row of many words has its hash before that.
        self.first = 1 if width + masks > _FEW else 0
        self._mask_word = self.first + width
        self._keyed = bool(relation.key)
        seal = (KeyField(Physical.INT, False),) * self.first
        key = tuple(self.first + place for place in key_positions(relation))
        self.layout = Layout(
            f"table {relation.name}",
            (
                *seal,
                *(KeyField(column.type.physical, False) for column in relation.columns),
                *(KeyField(Physical.INT, False),) * masks,
            ),
            (Physical.INT,),
            (Index(CHAIN, key),) if relation.key else (),
        )
        self._arrays = arrays
        name = f"{self.layout.name}.head"
        known = name in arrays.names()
        words = self.layout.descriptor_words
        self._head = arrays.array(name) if known else arrays.create(name, words, np.int64)
        self._pool = Pool(self.layout, arrays, self._head, False)
        if known:
            self._pool.attach()
        else:
            self._pool.create()
        self.address = self._pool.address

    def __len__(self) -> int:
        """Different rows."""
        return len(self.live())

    @property
    def width(self) -> int:
        """Words of a row."""
        return self.layout.key_width

    @property
    def keyed(self) -> bool:
        """Whether the table has a primary key."""
        return self._keyed

    # Changes.

    def words(self, columns: Sequence[Array], nulls: Sequence[Array | None]) -> Array:
        """Columns (strings as codes) -> one line of words for each row, not yet sealed."""
        rows = np.zeros((len(columns[0]), self.width), np.int64)
        for i, column in enumerate(self.relation.columns):
            if column.type.physical is Physical.FLOAT:
                rows[:, self.first + i] = _float_words(columns[i])
            else:
                rows[:, self.first + i] = columns[i]
            gaps = nulls[i]
            if gaps is not None and i in self._bits:
                word, bit = self._bits[i]
                rows[:, self._mask_word + word] |= np.asarray(gaps, np.int64) << bit
        return rows

    def null_bit(self, column: int) -> tuple[int, int]:
        """The word and the bit that say that a column is NULL."""
        word, bit = self._bits[column]
        return self._mask_word + word, bit

    def begin(self) -> None:
        """From here on `undo` takes back what is put."""
        begin_rows(self.address)
        if self._head[LOG_CAPACITY] > _LOG_ROWS:
            self._pool.trim_log(_LOG_ROWS)

    def put(self, rows: Array, weights: Array) -> None:
        """Add weights to the rows' counts; `fault` says whether that was right."""
        count = len(rows)
        used, capacity = self._pool.used, int(self._head[CAPACITY])
        if used + count > capacity and count > capacity:
            self._pool.reserve(used + count)
        rows = np.ascontiguousarray(rows)
        weights = np.ascontiguousarray(weights, np.int64)
        if self.first:
            seal_rows(self.address, rows.ctypes.data, count)
        done = 0
        while done < count:
            done = put_rows(self.address, rows.ctypes.data, weights.ctypes.data, done, count)
            if done < count:
                self._pool.make_room()

    def make_room(self) -> None:
        """Let the arrays grow before a batch, where they may have to move."""
        self._pool.make_room()

    def fault(self) -> tuple[Fault, int] | None:
        """What is wrong with the rows that were put, and with which record."""
        record = missing_row(self.address)
        if record >= 0:
            return Fault.MISSING, record
        record = duplicate_key(self.address) if self._keyed else -1
        return None if record < 0 else (Fault.DUPLICATE, record)

    def undo(self) -> None:
        """Back to the last `begin`."""
        rollback(self.address)

    def held_before(self, record: int) -> int:
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

    def column(self, place: int, records: Array) -> tuple[Array, Array | None]:
        """One column of some records, codes for strings, with its null mask."""
        values, _ = self._pool.key_column(self.first + place, records)
        if place not in self._bits:
            return values, None
        word, bit = self.null_bit(place)
        gaps = (self._pool.table()[records, word] >> bit & 1).astype(np.uint8)
        return values, gaps if gaps.any() else None

    def nbytes(self) -> int:
        """Bytes of the rows and of their index."""
        return self._pool.nbytes()

    # Whole tables, for saving.

    def dump(self) -> Array:
        """All rows as words, each with its count behind it."""
        return np.ascontiguousarray(self._pool.table()[self.live(), : self.width + 1])

    def fill(self, rows: Array) -> None:
        """Put what `dump` gave into an empty table."""
        if rows.ndim != 2 or rows.shape[1] != self.width + 1:
            raise StateError(
                f"the saved rows of table {self.relation.name} have another shape than the table"
            )
        self.begin()
        self.put(np.ascontiguousarray(rows[:, : self.width]), rows[:, self.width])
        self.begin()


def key_positions(relation: Relation) -> tuple[int, ...]:
    """Where the primary key's columns are."""
    if len(relation.key) > _WIDEST_KEY:
        raise UnsupportedError(
            f"the primary key of {relation.name} has {len(relation.key)} columns",
            hint=f"declare one of at most {_WIDEST_KEY}",
        )
    return tuple(relation.names.index(name) for name in relation.key)


def _float_words(values: Array) -> Array:
    """Floats as words, of which equal ones are equal: one zero, one NaN."""
    plain = np.array(values, np.float64)
    plain[plain == 0.0] = 0.0
    plain[np.isnan(plain)] = np.nan
    return plain.view(np.int64)
