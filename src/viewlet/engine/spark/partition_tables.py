"""What a partition keeps beside maps: the strings of its dictionaries, and the rows of tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from viewlet.engine.host.stored_tables import StoredTable, put_all
from viewlet.engine.partitions.partition_state import PartitionState
from viewlet.engine.spark.chunks import Columns, coded_columns, received_batch
from viewlet.engine.values.strings import Dictionary
from viewlet.schema import Relation
from viewlet.storage.columns import Array, Arrays


class StoredTexts:
    """A dictionary whose strings lie in two arrays of the state, in the order of their codes."""

    def __init__(self, name: str) -> None:
        self._bytes = f"{name}.bytes"
        self._ends = f"{name}.ends"
        self.dictionary = Dictionary()

    def create(self, state: PartitionState) -> None:
        """The arrays of the strings, empty."""
        state.create(self._bytes, 0, np.uint8)
        state.create(self._ends, 0, np.int64)

    def learn(self, state: PartitionState) -> None:
        """Take in the strings that other processes have added."""
        ends = state.array(self._ends)
        code_count = len(self.dictionary) - 1  # without NULL
        if len(ends) <= code_count:
            return
        start = int(ends[code_count - 1]) if code_count else 0
        data = state.array(self._bytes)[start : int(ends[-1])].tobytes()
        low = 0
        for end in (ends[code_count:] - start).tolist():
            self.dictionary.code(data[low:end].decode())
            low = end

    def keep(self, state: PartitionState) -> None:
        """Append the strings that came here."""
        stored_count = len(state.array(self._ends))
        new_texts = [(text or "").encode() for text in self.dictionary.strings[stored_count + 1 :]]
        if not new_texts:
            return
        start = int(state.array(self._ends)[-1]) if stored_count else 0
        data = b"".join(new_texts)
        state.resize(self._bytes, start + len(data))[start:] = np.frombuffer(data, np.uint8)
        lengths = np.fromiter((len(text) for text in new_texts), np.int64, len(new_texts))
        ends = state.resize(self._ends, stored_count + len(new_texts))
        ends[stored_count:] = start + np.cumsum(lengths)

    def ahead(self, state: PartitionState) -> bool:
        """Whether there are strings here that the state does not have."""
        return len(self.dictionary) - 1 > len(state.array(self._ends))


class _Readable:
    """A state's arrays for reading: the heads of tables, in which addresses stand, are copied."""

    def __init__(self, state: PartitionState) -> None:
        self._state = state

    def array(self, name: str) -> Array:
        values = self._state.array(name)
        return values.copy() if name.endswith(".head") else values

    def create(self, name: str, shape: Any, dtype: Any) -> Array:
        return self._state.create(name, shape, dtype)

    def resize(self, name: str, length: int) -> Array:
        return self._state.resize(name, length)

    def names(self) -> list[str]:
        return self._state.names()


class PartitionTables:
    """The tables of a partition: its share of their rows, checked."""

    def __init__(
        self,
        relations: Iterable[Relation],
        state: PartitionState,
        dictionary: Dictionary,
        *,
        reading: bool = False,
    ) -> None:
        self._relations = {relation.name: relation for relation in relations}
        self._arrays: Arrays = _Readable(state) if reading else state
        self._dictionary = dictionary

    def table(self, name: str) -> StoredTable:
        """The partition's rows of a table."""
        return StoredTable(self._relations[name], self._arrays, self._dictionary)

    def create(self) -> None:
        """The arrays of all tables, empty."""
        for name in self._relations:
            self.table(name)

    def put(self, parts: Sequence[Columns]) -> list[str]:
        """Put rows into their tables, all or (DataError) none; returns the tables that changed."""
        parts_by_table: dict[str, list[Columns]] = {}
        for part in parts:
            if part.relation in self._relations:
                parts_by_table.setdefault(part.relation, []).append(part)
        if parts_by_table:
            put_all(
                {name: self.table(name) for name in parts_by_table},
                [
                    (name, received_batch(table_parts, self._dictionary))
                    for name, table_parts in parts_by_table.items()
                ],
            )
        return list(parts_by_table)

    def undo(self, names: Iterable[str]) -> None:
        """Undo the last batch of these tables."""
        for name in names:
            self.table(name).rows.undo()

    def columns(self, name: str, used: Iterable[int] | None = None) -> Columns:
        """All rows of a table as they travel, with the columns `used` (None: all columns)."""
        relation = self._relations[name]
        chosen = range(len(relation.columns)) if used is None else list(used)
        coded = self.table(name).coded(chosen)
        return coded_columns(relation, coded, chosen, self._dictionary.strings)

    def size(self, name: str) -> tuple[int, int]:
        """Records and bytes of the partition's rows of a table."""
        rows = self.table(name).rows
        return len(rows), rows.nbytes()
