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

from collections.abc import Callable, Sequence
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
    INDEXES,
    KEYS,
    LINK,
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
from viewlet.storage.memory import (
    address_of,
    float_bits,
    load,
    load_byte,
    load_float,
    load_half,
    mix,
    store,
)
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
_LOG_ROWS = 1 << 17
"""Of an undo log, that stay after a batch: 2 MB."""

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
def put_rows(m: int, rows: int, weights: int, first: int, count: int, doubt: int) -> int:
    """count[row i] += weight i from row `first` on; the number of rows done when it gets full.

    Writes 1 to `doubt` where `missing_row` and `duplicate_key` might find something: most batches
    bring rows once each, with keys that no other row has, and need not be looked at again.
    """
    keys = load(m, KEYS)
    keyed = load(m, INDEXES) > 1
    link = load(m + 8 * (HEADER + BLOCK), LINK) if keyed else 0
    for i in range(first, count):
        if i + AHEAD < count:
            ask_for_row(m, rows + 8 * keys * (i + AHEAD))
        at = upsert_row(m, rows + 8 * keys * i)
        if at == 0:
            return i
        weight = load(weights, i)
        if weight != 1:
            store(doubt, 0, 1)
        if keyed and (load(at, keys) != 0 or load(at, link) != _ALONE):
            store(doubt, 0, 1)
        add_int(m, at, keys, weight)
    return count


_ALONE = -1
"""The link word of a record that is the only one in its chain: no next and no previous one."""


@compiled
def lay_out(columns: int, width: int, first: int, count: int, rows: int, words: int) -> None:
    """Columns from row `first` on -> rows of `words` words; `columns` are described at _ABOUT."""
    for i in range(count * words):
        store(rows, i, 0)
    for c in range(width):
        about = columns + 8 * _ABOUT * c
        values = load(about, 0) + 8 * first
        nulls = load(about, 2)
        word = load(about, 3)
        if load(about, 1) != 0:
            for i in range(count):
                store(rows, words * i + word, float_bits(load_float(values, i)))
        else:
            for i in range(count):
                store(rows, words * i + word, load(values, i))
        if nulls != 0:
            mask = load(about, 4)
            bit = load(about, 5)
            for i in range(count):
                gap = load_byte(nulls, first + i) << bit
                store(rows, words * i + mask, load(rows, words * i + mask) | gap)


_ABOUT = 6
"""Words that describe a column to `lay_out`: address of its values, 1 for doubles, address of its
null bytes or 0, its word in a row, word and bit of its null mask."""


@compiled
def put_columns(
    m: int, columns: int, width: int, rows: int, weights: int, first: int, count: int, doubt: int
) -> int:
    """`put_rows` of columns, a block at a time, of which the rows lie in the cache at `rows`."""
    words = load(m, KEYS)
    sealed = words > _FEW
    while first < count:
        block = min(_BLOCK_ROWS, count - first)
        lay_out(columns, width, first, block, rows, words)
        if sealed:
            seal_rows(m, rows, block)
        # Later rows of a block are asked for while earlier ones are put; the first ones here.
        for i in range(min(AHEAD, block)):
            ask_for_row(m, rows + 8 * words * i)
        done = put_rows(m, rows, weights + 8 * first, 0, block, doubt)
        first += done
        if done < block:
            return first
    return count


_BLOCK_ROWS = 64


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


@compiled
def find_keys(m: int, rows: int, width: int, count: int, records_out: int) -> None:
    """The record that is there with the primary key of each row, -1 if there is none."""
    keys = load(m, KEYS)
    records = load(m, RECORDS)
    stride = load(m, STRIDE)
    ix = m + 8 * (HEADER + BLOCK)
    for i in range(count):
        record = load_half(load(ix, SLOTS), group_slot(m, ix, rows + 8 * width * i))
        while record >= 0 and load(records + record * stride, keys) <= 0:
            record = next_in_chain(ix, records + record * stride)
        store(records_out, i, record)


class Fault(Enum):
    """Why a batch cannot be: more copies of a row went than there were; two rows with one key."""

    MISSING = "missing"
    DUPLICATE = "duplicate"


class TableRows:
    """One table's rows. If `arrays` hold them already, they are taken up as they are."""

    def __init__(self, relation: Relation, arrays: Arrays) -> None:
        self.relation = relation
        nullable = [i for i, column in enumerate(relation.columns) if column.nullable]
        self._bits = {column: divmod(number, _BITS) for number, column in enumerate(nullable)}
        width = len(relation.columns)
        masks = -(-len(nullable) // _BITS)
        # The word of the first column: a row of many words has its hash before that.
        self.first = 1 if width + masks > _FEW else 0
        self._mask_word = self.first + width
        self._keyed = bool(relation.key)
        seal = (KeyField(Physical.INT, False),) * self.first
        key = tuple(self.first + position for position in key_positions(relation))
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
        self._doubt = np.ones(1, np.int64)
        name = f"{self.layout.name}.head"
        is_stored = name in arrays.names()
        words = self.layout.descriptor_words
        self._head = arrays.array(name) if is_stored else arrays.create(name, words, np.int64)
        self._pool = Pool(self.layout, arrays, self._head, False)
        if is_stored:
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

    def null_bit(self, column: int) -> tuple[int, int]:
        """The word and the bit that say that a column is NULL."""
        word, bit = self._bits[column]
        return self._mask_word + word, bit

    def begin(self) -> None:
        """From here on `undo` takes back what is put."""
        begin_rows(self.address)
        if self._head[LOG_CAPACITY] > _LOG_ROWS:
            self._pool.trim_log(_LOG_ROWS)
        self._doubt[0] = 0

    def put(self, columns: Sequence[Array], nulls: Sequence[Array | None], weights: Array) -> None:
        """Add weights to the counts of rows, whose strings are codes; `fault` says whether that
        was right."""
        alive: list[Array] = []
        about = np.zeros((len(columns), _ABOUT), np.int64)
        for i, column in enumerate(self.relation.columns):
            is_float = column.type.physical is Physical.FLOAT
            values = np.ascontiguousarray(columns[i], np.float64 if is_float else np.int64)
            alive.append(values)
            about[i, :4] = address_of(values), is_float, 0, self.first + i
            gaps = nulls[i]
            if gaps is not None and i in self._bits:
                gaps = np.ascontiguousarray(gaps, np.uint8)
                alive.append(gaps)
                about[i, 2], about[i, 4:] = address_of(gaps), self.null_bit(i)
        rows = np.empty(_BLOCK_ROWS * self.width, np.int64)
        address, width, block = address_of(about), len(columns), address_of(rows)
        self._put(
            len(weights),
            weights,
            lambda weights_at, done, count, doubt: put_columns(
                self.address, address, width, block, weights_at, done, count, doubt
            ),
        )
        del alive

    def _put(self, count: int, weights: Array, put: Callable[[int, int, int, int], int]) -> None:
        """All rows, with more room wherever `put` (address of weights, rows done, rows in all,
        address of a doubt) finds none."""
        used, capacity = self._pool.used, int(self._head[CAPACITY])
        if used + count > capacity and count > capacity:
            self._pool.reserve(used + count)
        weights = np.ascontiguousarray(weights, np.int64)
        weights_at, doubt, done = address_of(weights), address_of(self._doubt), 0
        while done < count:
            done = put(weights_at, done, count, doubt)
            if done < count:
                self._pool.make_room()

    def make_room(self) -> None:
        """Let the arrays grow before a batch, where they may have to move."""
        self._pool.make_room()

    @property
    def is_doubtful(self) -> bool:
        """Whether `fault` might find something in the batches that were put."""
        return bool(self._doubt[0])

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
        values, _ = self._pool.key_column(self.first + position, records)
        if position not in self._bits:
            return values, None
        word, bit = self.null_bit(position)
        gaps = (self._pool.table()[records, word] >> bit & 1).astype(np.uint8)
        return values, gaps if gaps.any() else None

    def with_keys(self, columns: Sequence[Array]) -> Array:
        """The records with these primary keys, strings as codes; -1 where there is none."""
        count = len(columns[0])
        rows = np.zeros((count, self.width), np.int64)
        for position, values in zip(key_positions(self.relation), columns, strict=True):
            is_float = self.relation.columns[position].type.physical is Physical.FLOAT
            words = np.ascontiguousarray(values, np.float64 if is_float else np.int64)
            rows[:, self.first + position] = words.view(np.int64)
        records = np.empty(count, np.int64)
        find_keys(self.address, address_of(rows), self.width, count, address_of(records))
        return records

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
        words = np.ascontiguousarray(rows[:, : self.width])
        address = address_of(words)
        self._put(
            len(words),
            rows[:, self.width],
            lambda weights_at, done, count, doubt: put_rows(
                self.address, address, weights_at, done, count, doubt
            ),
        )
        self.begin()


def key_positions(relation: Relation) -> tuple[int, ...]:
    """Where the primary key's columns are."""
    if len(relation.key) > _WIDEST_KEY:
        raise UnsupportedError(
            f"the primary key of {relation.name} has {len(relation.key)} columns",
            hint=f"declare one of at most {_WIDEST_KEY}",
        )
    return tuple(relation.names.index(name) for name in relation.key)
