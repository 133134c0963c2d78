"""What a partition keeps beside maps: the strings of its dictionaries, and the rows of tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from viewlet.engine.host.stored_tables import StoredTable, put_all
from viewlet.engine.partitions.partition_state import PartitionState
from viewlet.engine.spark.chunks import Columns, batch_columns, received_batch
from viewlet.engine.values.batching import Batch
from viewlet.engine.values.strings import Dictionary
from viewlet.schema import Relation
from viewlet.storage.columns import Array, Arrays


class KeptTexts:
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
        known = len(self.dictionary) - 1  # without NULL
        if len(ends) <= known:
            return
        start = int(ends[known - 1]) if known else 0
        data = state.array(self._bytes)[start : int(ends[-1])].tobytes()
        low = 0
        for end in (ends[known:] - start).tolist():
            self.dictionary.code(data[low:end].decode())
            low = end

    def keep(self, state: PartitionState) -> None:
        """Append the strings that came here."""
        known = len(state.array(self._ends))
        coming = [(text or "").encode() for text in self.dictionary.strings[known + 1 :]]
        if not coming:
            return
        start = int(state.array(self._ends)[-1]) if known else 0
        data = b"".join(coming)
        state.resize(self._bytes, start + len(data))[start:] = np.frombuffer(data, np.uint8)
        lengths = np.fromiter((len(text) for text in coming), np.int64, len(coming))
        state.resize(self._ends, known + len(coming))[known:] = start + np.cumsum(lengths)

    def ahead(self, state: PartitionState) -> bool:
        """Whether there are strings here that the state does not have."""
        return len(self.dictionary) - 1 > len(state.array(self._ends))


class _Readable:
    """A state's arrays for reading: the heads of tables, in which addresses stand, are copied."""

    def __init__(self, state: PartitionState) -> None:
        self._state = state

    def array(self, name: str) -> Array:
        found = self._state.array(name)
        return found.copy() if name.endswith(".head") else found

    def create(self, name: str, shape: Any, dtype: Any) -> Array:
        return self._state.create(name, shape, dtype)

    def resize(self, name: str, length: int) -> Array:
        return self._state.resize(name, length)

    def names(self) -> list[str]:
        return self._state.names()


class KeptTables:
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
        """Rows into their tables, or a DataError and nothing; the tables that took part."""
        coming: dict[str, list[Columns]] = {}
        for part in parts:
            if part.relation in self._relations:
                coming.setdefault(part.relation, []).append(part)
        if coming:
            put_all(
                {name: self.table(name) for name in coming},
                [(name, received_batch(same, self._dictionary)) for name, same in coming.items()],
            )
        return list(coming)

    def undo(self, names: Iterable[str]) -> None:
        """The last batch to these tables is taken back."""
        for name in names:
            self.table(name).rows.undo()

    def columns(self, name: str, used: Iterable[int] | None = None) -> Columns:
        """All rows of a table as they travel; only some columns where only they are wanted."""
        relation = self._relations[name]
        chosen = range(len(relation.columns)) if used is None else used
        found: Batch = self.table(name).batch()
        return batch_columns(relation, found, chosen)

    def size(self, name: str) -> tuple[int, int]:
        """Records and bytes of the partition's rows of a table."""
        rows = self.table(name).rows
        return len(rows), rows.nbytes()
