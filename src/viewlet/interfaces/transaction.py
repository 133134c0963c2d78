"""Changes that wait for COMMIT: the batch so far, and tables as its own statements see them.

A transaction belongs to the thread that began it. Other threads go on; at COMMIT the batch is
applied to the rows as they are then, so that a row that is gone meanwhile is an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from viewlet.engine.contract import Engine, Row
from viewlet.engine.values.batching import Batch, batch_of, weighted_rows
from viewlet.errors import StateError
from viewlet.interfaces.keyed_rows import rows_by_key
from viewlet.schema import Relation
from viewlet.storage.columns import Array


class OpenTransaction:
    """The changes of one BEGIN."""

    def __init__(self) -> None:
        self.batches: list[tuple[str, Batch]] = []
        self.deletes_cascade = True
        self.is_failed = False

    @contextmanager
    def statement(self) -> Iterator[None]:
        """A statement inside: what it raises ends the transaction's usefulness."""
        if self.is_failed:
            raise StateError(
                "a statement of this transaction has failed", hint="say ROLLBACK, and begin again"
            )
        try:
            yield
        except BaseException:
            self.is_failed = True
            raise

    def add(self, name: str, batch: Batch) -> None:
        """Changes of one relation."""
        self.batches.append((name, batch))

    def table(self, relation: Relation, stored: Batch) -> Batch:
        """A table's rows with the changes."""
        own = self._own(relation)
        if not own:
            return stored
        rows: Counter[Row] = Counter()
        for row, count in (*weighted_rows(relation, stored), *own):
            rows[row] += count
        return batch_of(relation, ((row, count) for row, count in rows.items() if count > 0))

    def by_key(self, engine: Engine, relation: Relation, batch: Batch) -> tuple[Array, Batch]:
        """Which rows of a batch have a key that the table has with the changes, and its rows."""
        is_there, stored = rows_by_key(engine, relation, batch)
        own = self._own(relation)
        if not own:
            return is_there, stored
        positions = [relation.names.index(name) for name in relation.key]
        rows: Counter[Row] = Counter()
        for row, count in (*weighted_rows(relation, stored), *own):
            rows[row] += count
        by_key = {tuple(row[i] for i in positions): row for row, n in rows.items() if n > 0}
        keys = [tuple(row[i] for i in positions) for row, _ in weighted_rows(relation, batch)]
        present = [by_key[key] for key in keys if key in by_key]
        return np.array([key in by_key for key in keys], bool), batch_of(
            relation, ((row, 1) for row in present)
        )

    def _own(self, relation: Relation) -> list[tuple[Row, int]]:
        return [
            item
            for name, batch in self.batches
            if name == relation.name
            for item in weighted_rows(relation, batch)
        ]
