"""Where the columns of a table's rows lie: each in a word, or two in one.

    a INTEGER, b DOUBLE, c VARCHAR, d DATE                        ->   | b | a c | d . |
    the same with PRIMARY KEY (a)                                 ->   | a | b | c d |

INTEGER, DATE, BOOLEAN and the codes of strings are 32-bit numbers, and two of them share a word:
rows are read and written from memory that has to be there first, and half of a wide row is half of
that. Key columns come first and have a word each, so that an index hashes and compares words. NULLs
are bits of one word for up to 63 columns, behind all others. Before a row whose index would have to
hash many words stands a seal, the hash of them all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from viewlet.errors import UnsupportedError
from viewlet.native.compiled import compiled
from viewlet.schema import Kind, Physical, Relation
from viewlet.storage.columns import Array
from viewlet.storage.memory import (
    float_bits,
    load,
    load_byte,
    load_float,
    load_half,
    mix,
    store,
    store_half,
)

_BITS = 63
_FEW = 8
"""Words up to which an index hashes them one by one."""
_WIDEST_KEY = 16
_HALVES = frozenset({Kind.INTEGER, Kind.DATE, Kind.BOOLEAN, Kind.VARCHAR})

# What describes a column to `lay_out`.
VALUES = 0  # address of its values, a word each
FORM = 1  # what it is in the row: WORD, DOUBLE or HALF
OFFSET = 2  # its word in the row, or its half of one
NULLS = 3  # address of its null bytes, or 0
MASK_WORD = 4  # the word and the bit of its null mask
MASK_BIT = 5
ABOUT = 6

WORD, DOUBLE, HALF = 0, 1, 2


@compiled
def lay_out(columns: int, width: int, first: int, count: int, rows: int, words: int) -> bool:
    """Columns from row `first` on -> rows of `words` words; False if a number has not 32 bits."""
    wide = 0
    for i in range(count * words):
        store(rows, i, 0)
    for c in range(width):
        about = columns + 8 * ABOUT * c
        values = load(about, VALUES) + 8 * first
        form = load(about, FORM)
        offset = load(about, OFFSET)
        nulls = load(about, NULLS)
        if form == DOUBLE:
            for i in range(count):
                store(rows, words * i + offset, float_bits(load_float(values, i)))
        elif form == HALF:
            for i in range(count):
                value = load(values, i)
                at = 2 * words * i + offset
                store_half(rows, at, value)
                wide |= value ^ load_half(rows, at)
        else:
            for i in range(count):
                store(rows, words * i + offset, load(values, i))
        if nulls != 0:
            mask = load(about, MASK_WORD)
            bit = load(about, MASK_BIT)
            for i in range(count):
                gap = load_byte(nulls, first + i) << bit
                store(rows, words * i + mask, load(rows, words * i + mask) | gap)
    return wide == 0


@compiled
def seal_rows(rows: int, words: int, sealed: int, count: int) -> None:
    """Write the hash of the words 1 .. sealed - 1 of each row into its first."""
    for i in range(count):
        row = rows + 8 * words * i
        seed = sealed
        for j in range(1, sealed):
            seed = mix(seed, load(row, j))
        store(row, 0, seed)


class RowLayout:
    """The words of one table's rows."""

    def __init__(self, relation: Relation) -> None:
        columns = relation.columns
        key = key_positions(relation)
        rest = [i for i in range(len(columns)) if i not in key]
        halves = [i for i in rest if columns[i].type.kind in _HALVES]
        nullable = [i for i, column in enumerate(columns) if column.nullable]
        words = [*key, *(i for i in rest if i not in halves)]
        plain = len(words) + -(-len(halves) // 2) + -(-len(nullable) // _BITS)
        hashed = len(key) if key else plain
        first = 1 if hashed > _FEW else 0
        self.words = first + plain
        """Words of a row."""
        self.key_end = first + len(key) if key else 0
        """The word after those that are the same in all rows with one primary key; 0: no key."""
        self.sealed = first and first + hashed
        """The word after those that the seal is of; 0: there is none."""
        # A word of its own is spread, which suits numbers; two halves are mixed, as if it were two.
        is_packed = not words and len(halves) > 1
        self.hashed = (
            (0,) if first else (0, 0) if is_packed and hashed == 1 else tuple(range(hashed))
        )
        """The words that an index hashes."""
        # The halves stand behind the words of their own, from an even one on.
        first_half = 2 * (first + len(words))
        self._offsets = {i: (WORD, first + offset) for offset, i in enumerate(words)} | {
            i: (HALF, first_half + offset) for offset, i in enumerate(halves)
        }
        for i, column in enumerate(columns):
            if column.type.physical is Physical.FLOAT:
                self._offsets[i] = DOUBLE, self._offsets[i][1]
        mask = self.words - -(-len(nullable) // _BITS)
        self._bits = {
            i: (mask + number // _BITS, number % _BITS) for number, i in enumerate(nullable)
        }

    def about(self, values: Sequence[int], nulls: Sequence[int]) -> Array:
        """For `lay_out`: where the values of the columns are, and their null bytes (0: none)."""
        about = np.zeros((len(values), ABOUT), np.int64)
        for i, address in enumerate(values):
            form, offset = self._offsets[i]
            about[i, : NULLS + 1] = address, form, offset, nulls[i] if i in self._bits else 0
            if i in self._bits:
                about[i, MASK_WORD:] = self._bits[i]
        return about

    def column(self, column: int, table: Array, records: Array) -> Array:
        """The values of a column of some records, which are rows of words."""
        form, offset = self._offsets[column]
        if form == HALF:
            halves: Array = table.view(np.int32)[records, offset].astype(np.int64)
            return halves
        words: Array = (table.view(np.float64) if form == DOUBLE else table)[records, offset]
        return words

    def nulls(self, column: int, table: Array, records: Array) -> Array | None:
        """Its null mask, None where nothing is NULL."""
        if column not in self._bits:
            return None
        word, bit = self._bits[column]
        gaps = (table[records, word] >> bit & 1).astype(np.uint8)
        return gaps if gaps.any() else None

    def key_rows(self, columns: Sequence[Array]) -> Array:
        """Rows of which only the primary key is there, its seal included."""
        rows = np.zeros((len(columns[0]), self.words), np.int64)
        first = self.key_end - len(columns)
        for offset, values in enumerate(columns, first):
            rows[:, offset] = np.ascontiguousarray(values).view(np.int64)
        if self.sealed:
            seal_rows(rows.ctypes.data, self.words, self.sealed, len(rows))
        return rows


def key_positions(relation: Relation) -> tuple[int, ...]:
    """Where the primary key's columns are."""
    if len(relation.key) > _WIDEST_KEY:
        raise UnsupportedError(
            f"the primary key of {relation.name} has {len(relation.key)} columns",
            hint=f"declare one of at most {_WIDEST_KEY}",
        )
    return tuple(relation.names.index(name) for name in relation.key)
