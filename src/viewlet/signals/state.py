"""Where operators keep what they remember: flat arrays with one row per key, and pools of rows.

An `ArrayStore` is anything that keeps named arrays: memory here, memory-mapped files of a Spark
partition in `spark_query.py`. `OperatorState` gives one operator its part of a store. Keyed arrays
are changed in place by kernels; a pool (rows that wait for the other side of a join, or for their
turn) is a batch that is replaced as a whole.

Every change of a step is journalled by touched key until the step ends, so that a step that fails
(late event, overlapping events, an error inside a user's function) leaves no trace.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from viewlet.errors import TypingError
from viewlet.signals.batches import NEVER, Array, Events, Ints, Samples, Segments
from viewlet.signals.keys import KeyDictionary
from viewlet.storage.columns import MemoryArrays

_POOLS: dict[str, type[Segments]] = {"Events": Events, "Samples": Samples}


class ArrayStore(Protocol):
    """Named arrays that grow along their first axis; the interface of a Spark partition's state."""

    meta: dict[str, Any]

    def array(self, name: str) -> Array: ...
    def create(self, name: str, shape: tuple[int, ...], dtype: Any) -> Array: ...
    def resize(self, name: str, length: int) -> Array: ...
    def names(self) -> list[str]: ...


class MemoryStore(MemoryArrays):
    """Arrays in this process, with the small values beside them."""

    def __init__(self) -> None:
        super().__init__()
        self.meta: dict[str, Any] = {}


class StepJournal:
    """Undo actions of one step, run backwards when it fails."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def add(self, undo: Callable[[], None]) -> None:
        """How to take back what is about to be done."""
        self._undo.append(undo)

    def rollback(self) -> None:
        """Take back everything, the last change first."""
        for undo in reversed(self._undo):
            undo()


class OperatorState:
    """The part of a store that belongs to one operator of a plan."""

    def __init__(self, store: ArrayStore, prefix: str) -> None:
        self.store = store
        self.prefix = prefix
        self.capacity = 0
        self.journal: StepJournal | None = None
        self.decode: Callable[[Array], list[Array]] = lambda slots: []
        self.floor = NEVER  # no event of any key before this time is still to come
        self.last = False  # the plan's last operator: its columns may be deferred
        self.dictionary: KeyDictionary | None = None  # of an operator that makes its own keys
        self._pools: dict[str, Any] = {}
        self._names = set(store.names())

    def keyed(
        self, name: str, slots: Ints, shape: tuple[int, ...], dtype: Any, fill: Any = 0
    ) -> Array:
        """The array [slot, *shape] of this operator; the caller may change the rows of `slots`."""
        full = f"{self.prefix}.{name}"
        if full not in self._names:
            if not len(slots):
                return np.empty((0, *shape), dtype)
            array = self.store.create(full, (self.capacity, *shape), dtype)
            if fill != 0:  # a new array is zero; writing that would touch all its pages
                array[...] = fill
            self._names.add(full)
        array = self.store.array(full)
        if array.dtype != np.dtype(dtype) or array.shape[1:] != tuple(shape):
            raise TypingError(
                f"a channel changed from {array.dtype}{list(array.shape[1:])} to "
                f"{np.dtype(dtype)}{list(shape)} in the middle of the stream",
                hint="give every batch the same columns with the same types",
            )
        if len(array) < self.capacity:
            old = len(array)
            array = self.store.resize(full, self.capacity)
            if fill != 0:
                array[old:] = fill
        if self.journal is not None:
            saved = array[slots]

            def undo() -> None:
                self.store.array(full)[slots] = saved

            self.journal.add(undo)
        return array

    def key_text(self, slot: int) -> str:
        """The key of a slot for an error message: ' of key 7', or nothing for a single signal."""
        parts = [str(column[0]) for column in self.decode(np.array([slot]))]
        return f" of key {', '.join(parts)}" if parts else ""

    def pool(self, name: str) -> Any:
        """The rows that wait under this name, or None."""
        if name not in self._pools:
            self._pools[name] = self._load_pool(name)
        return self._pools[name]

    def put_pool(self, name: str, batch: Any) -> None:
        """Rows that wait for a later batch, in place of those that waited before."""
        if self.journal is not None:
            saved = self.pool(name)
            self.journal.add(lambda: self._pools.__setitem__(name, saved))
        self._pools[name] = batch if batch is not None and batch.rows else None

    def count(self, name: str, amount: int) -> None:
        """Add to a counter that `stats` shows."""
        if not amount:
            return
        key = f"{self.prefix}.count.{name}"
        before = int(self.store.meta.get(key, 0))
        self.store.meta[key] = before + int(amount)
        if self.journal is not None:
            self.journal.add(lambda: self.store.meta.__setitem__(key, before))

    def counters(self) -> dict[str, int]:
        """The operator's counts by name."""
        head = f"{self.prefix}.count."
        meta = self.store.meta
        return {key.removeprefix(head): meta[key] for key in meta if key.startswith(head)}

    def sync(self) -> None:
        """Write the pools into the store, for a checkpoint or at the end of a partition's step."""
        described = {}
        for name, pool in self._pools.items():
            if pool is None:
                continue
            fields: dict[str, Array] = {}
            for field in dataclasses.fields(pool):
                value = getattr(pool, field.name)
                if field.name == "columns":
                    fields.update({f"columns.{key}": column for key, column in value.items()})
                elif value is not None:
                    fields[field.name] = value
            for key, value in fields.items():
                self._write(f"{self.prefix}.pool.{name}.{key}", value)
            described[name] = {
                "kind": type(pool).__name__,
                "lengths": {key: len(value) for key, value in fields.items()},
            }
        self.store.meta[f"{self.prefix}.pools"] = described

    def _write(self, full: str, value: Array) -> None:
        if full not in self._names or self.store.array(full).dtype != value.dtype:
            self.store.create(full, (max(len(value), 1), *value.shape[1:]), value.dtype)
            self._names.add(full)
        array = self.store.array(full)
        if len(array) < len(value):
            array = self.store.resize(full, max(len(value), 2 * len(array)))
        array[: len(value)] = value

    def _load_pool(self, name: str) -> Any:
        described = self.store.meta.get(f"{self.prefix}.pools", {}).get(name)
        if described is None:
            return None
        values: dict[str, Any] = {"columns": {}, "end": None, "index": None}
        for key, length in described["lengths"].items():
            value = np.array(self.store.array(f"{self.prefix}.pool.{name}.{key}")[:length])
            if key.startswith("columns."):
                values["columns"][key.removeprefix("columns.")] = value
            else:
                values[key] = value
        kind = _POOLS[described["kind"]]
        field_names = {field.name for field in dataclasses.fields(kind)}
        return kind(**{key: value for key, value in values.items() if key in field_names})
