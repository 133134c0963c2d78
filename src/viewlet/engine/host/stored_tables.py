"""The tables of an engine in flat arrays, and the strings that they hold.

A table's strings have a dictionary of their own: the program's holds only what some view looks
at, since every lookup of a program (LIKE, SUBSTRING, order) is computed for each of its strings.
A string of a batch is looked up once; `strings.Translation` gives its code in the program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from viewlet.calculus.ring import Gmr
from viewlet.engine.tables import Table, duplicate_key, missing_row, too_many_copies
from viewlet.engine.values.batching import Batch, plain_values, weighted_rows
from viewlet.engine.values.string_codes import StringCodes
from viewlet.engine.values.strings import Dictionary
from viewlet.errors import DataError
from viewlet.schema import Physical, Relation, Scalar
from viewlet.storage.columns import Array, Arrays, MemoryArrays
from viewlet.storage.row_layout import key_positions
from viewlet.storage.table import Crowded, Fault, TableRows


class TableSource(Protocol):
    """Rows that maps are filled from."""

    relation: Relation
    dictionary: Dictionary | StringCodes

    def __len__(self) -> int: ...

    def batch(self) -> Batch:
        """The rows with their counts as weights, strings decoded."""
        ...

    def coded(self, used: Iterable[int]) -> Batch:
        """The same with strings as codes; columns that are not used are empty arrays."""
        ...


class StoredTable:
    """One table; strings are codes of `dictionary`."""

    def __init__(
        self, relation: Relation, arrays: Arrays, dictionary: Dictionary | StringCodes
    ) -> None:
        self.relation = relation
        self.rows = TableRows(relation, arrays)
        self.dictionary = dictionary
        self.texts = text_columns(relation)

    def __len__(self) -> int:
        return len(self.rows)

    def code(self, batch: Batch) -> Batch:
        """The batch with strings as the tables' codes."""
        if not self.texts or batch.coded:
            return batch
        columns = list(batch.columns)
        for i in self.texts:
            columns[i] = self.dictionary.encode(columns[i])
        return Batch(columns, batch.nulls, batch.weights, coded=True)

    def put(self, coded: Sequence[Batch]) -> None:
        """Add rows with codes for strings; of faults nothing is said before `check`."""
        try:
            self._put(coded)
        except Crowded:
            self.rows.undo()
            net = self._net(coded)
            try:
                self._put([net])
            except Crowded:
                self.rows.undo()
                self._refuse(net)
                raise

    def _put(self, coded: Sequence[Batch]) -> None:
        for batch in coded:
            if len(batch):
                self.rows.put(batch.columns, batch.nulls, batch.weights)

    def _net(self, coded: Sequence[Batch]) -> Batch:
        """The rows of some batches added up, in the order in which they came first."""
        keyless = replace(self.relation, key=())
        sums = StoredTable(keyless, MemoryArrays(), self.dictionary)
        sums.rows.begin()
        sums._put(coded)
        return sums.coded(range(len(keyless.columns)))

    def _refuse(self, net: Batch) -> None:
        """DataError for rows, added up, of which too many have one key: none of them are good."""
        records = self.rows.with_keys([net.columns[i] for i in key_positions(self.relation)])
        model = Table(self.relation)
        stored = self.batch(np.unique(records[records >= 0]))
        model.apply(Gmr(weighted_rows(self.relation, stored)))
        model.check(Gmr(weighted_rows(self.relation, self._decoded(net))))

    def check(self) -> None:
        """DataError if the rows put since `begin` cannot be."""
        fault = self.rows.fault()
        if fault is not None:
            raise self._error(*fault)

    def _error(self, fault: Fault, record: int) -> DataError:
        row = self.row(record)
        if fault is Fault.MISSING:
            return missing_row(self.relation, row, self.rows.count_before(record))
        return duplicate_key(self.relation, [row[i] for i in key_positions(self.relation)])

    def row(self, record: int) -> list[Scalar]:
        """One record, decoded."""
        one = self.batch(np.array([record]))
        columns = zip(one.columns, one.nulls, strict=True)
        return [plain_values(values, nulls)[0] for values, nulls in columns]

    def by_key(self, batch: Batch) -> tuple[Array, Batch]:
        """Which rows of a batch have a primary key that is there, and the rows that have it."""
        coded = self.code(batch)
        columns = [coded.columns[i] for i in key_positions(self.relation)]
        records = self.rows.with_keys(columns)
        is_there = records >= 0
        return is_there, self.batch(records[is_there])

    def batch(self, records: Array | None = None) -> Batch:
        """The rows with their counts as weights, strings decoded."""
        return self._decoded(self.coded(range(len(self.relation.columns)), records))

    def _decoded(self, rows: Batch) -> Batch:
        columns = list(rows.columns)
        for i in self.texts:
            columns[i] = self.dictionary.decode(columns[i])
        return Batch(columns, rows.nulls, rows.weights)

    def coded(self, used: Iterable[int], records: Array | None = None) -> Batch:
        """The same with strings as codes; columns that are not used are empty arrays."""
        chosen = self.rows.live() if records is None else records
        columns_used = frozenset(used)
        columns: list[Array] = []
        nulls: list[Array | None] = []
        for i in range(len(self.relation.columns)):
            values, gaps = self.rows.column(i, chosen) if i in columns_used else (_NOTHING, None)
            columns.append(values)
            nulls.append(gaps)
        return Batch(columns, nulls, self.rows.counts(chosen), coded=True)


class TableBefore:
    """A table as it was before some changes: its rows, and the changes taken back.

    Rows need not be net: +1 and -1 of one row are nothing.
    """

    def __init__(self, table: StoredTable, relation: Relation, changes: Sequence[Batch]) -> None:
        self.relation = relation
        self.dictionary = table.dictionary
        self._table = table
        self._changes = [table.code(batch) for batch in changes]

    def __len__(self) -> int:
        return len(self._table) + sum(map(len, self._changes))

    def coded(self, used: Iterable[int]) -> Batch:
        """The rows with strings as codes; columns that are not used are empty arrays."""
        columns_used = frozenset(used)
        parts = [self._table.coded(columns_used), *self._changes]
        columns: list[Array] = []
        nulls: list[Array | None] = []
        for i in range(len(self.relation.columns)):
            if i not in columns_used:
                columns.append(_NOTHING)
                nulls.append(None)
                continue
            columns.append(np.concatenate([part.columns[i] for part in parts]))
            masks = [part.nulls[i] for part in parts]
            nulls.append(_joined_masks(masks, parts) if any(m is not None for m in masks) else None)
        weights = [parts[0].weights, *(-part.weights for part in self._changes)]
        return Batch(columns, nulls, np.concatenate(weights), coded=True)

    def batch(self) -> Batch:
        """The rows with strings decoded."""
        rows = self.coded(range(len(self.relation.columns)))
        for i in self._table.texts:
            rows.columns[i] = self.dictionary.decode(rows.columns[i])
        rows.coded = False
        return rows


def _joined_masks(masks: Sequence[Array | None], parts: Sequence[Batch]) -> Array:
    return np.concatenate(
        [
            np.zeros(len(part), np.uint8) if mask is None else mask.astype(np.uint8)
            for mask, part in zip(masks, parts, strict=True)
        ]
    )


_NOTHING: Array = np.zeros(0, np.int64)


def text_columns(relation: Relation) -> list[int]:
    """The positions of the columns whose values are strings."""
    return [i for i, c in enumerate(relation.columns) if c.type.physical is Physical.STR]


def put_all(tables: Mapping[str, StoredTable], changes: Sequence[tuple[str, Batch]]) -> None:
    """Put coded batches into their tables, all of them or, with a DataError, none.

    Each of `tables` takes part, and `undo` of each takes the whole back afterwards.
    """
    for table in tables.values():
        table.rows.begin()
    try:
        for name, table in tables.items():
            table.put([batch for changed, batch in changes if changed == name])
        for table in tables.values():
            if table.rows.is_doubtful:
                table.check()
    except BaseException as error:
        for table in tables.values():
            table.rows.undo()
        raise table_refusal(error) from None


def table_refusal(error: BaseException) -> BaseException:
    """What to raise where a row could not be put into a table: an overflow is of its count."""
    if isinstance(error, OverflowError):
        return too_many_copies()
    return error
