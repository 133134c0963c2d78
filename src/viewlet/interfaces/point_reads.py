"""Reads that do not grow with a view or table: how many rows there are, those with some keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from viewlet.engine.contract import Counting, Finder, KeyFinder, Row
from viewlet.engine.values.arrow import table_columns, to_arrow
from viewlet.engine.values.batching import Batch, make_batch
from viewlet.engine.values.changed_rows import batch_of_rows
from viewlet.errors import DataError
from viewlet.interfaces.database_state import DatabaseState
from viewlet.interfaces.view import encoded_key, point_keys, record_identity
from viewlet.interfaces.view_maintenance import ViewMaintenance
from viewlet.schema import Column, Physical, Relation
from viewlet.storage.columns import Array

if TYPE_CHECKING:
    import pyarrow as pa

KeyReader = Callable[[list[Column], Mapping[str, Any]], "list[tuple[Any, ...]] | None"]
"""The keys that a query asks for, of these columns, with the values of its parameters."""


class PointReads:
    """Reads by key, on engines that can."""

    def __init__(self, state: DatabaseState, maintenance: ViewMaintenance) -> None:
        engine = state.engine
        self._state = state
        self._maintenance = maintenance
        self._finder = engine if isinstance(engine, Finder) else None
        self._counting = engine if isinstance(engine, Counting) else None
        self._key_finder = engine if isinstance(engine, KeyFinder) else None

    def find(self, view: str, key: Row) -> list[Row] | None:
        """The rows of a view's record; None if the engine has to read all rows to know."""
        with self._state.lock:
            self._state.definitions.view(view)
            self._maintenance.before_read(view)
            return None if self._finder is None else self._finder.find(view, key)

    def count(self, view: str) -> int | None:
        """How many rows a view has; None if the engine has to read them to know."""
        with self._state.lock:
            self._state.definitions.view(view)
            self._maintenance.before_read(view)
            return None if self._counting is None else self._counting.count(view)

    def rows(
        self, name: str, keys_read: KeyReader, parameters: Mapping[str, Any]
    ) -> pa.Table | None:
        """The rows of a view or table that a query asks for by their keys; None if it does not."""
        definitions = self._state.definitions
        if name in definitions.views:
            return self._view_rows(name, keys_read, parameters)
        return self._table_rows(definitions.relation(name), keys_read, parameters)

    def _view_rows(
        self, name: str, keys_read: KeyReader, parameters: Mapping[str, Any]
    ) -> pa.Table | None:
        query = self._state.definitions.view(name).query
        positions = point_keys(query, record_identity(query))
        if self._finder is None or positions is None or query.order:
            return None
        keys = keys_read([column for _, column in positions], parameters)
        if keys is None:
            return None
        self._maintenance.before_read(name)
        rows: list[Row] = []
        try:
            for key in keys:
                rows += self._finder.find(name, encoded_key(positions, key))
        except DataError:  # a value that the column cannot have: DuckDB says what that is
            return None
        columns = [(column.name, column.type) for column in query.columns]
        return to_arrow(columns, batch_of_rows(query, rows))

    def _table_rows(
        self, relation: Relation, keys_read: KeyReader, parameters: Mapping[str, Any]
    ) -> pa.Table | None:
        if self._key_finder is None or not relation.key or self._state.transaction is not None:
            return None
        key_columns = [relation.columns[relation.names.index(name)] for name in relation.key]
        keys = keys_read(key_columns, parameters)
        if keys is None:
            return None
        values = {name: [key[i] for key in keys] for i, name in enumerate(relation.key)}
        try:
            batch = make_batch(Relation(relation.name, tuple(key_columns)), values)
        except DataError:
            return None
        columns: list[Array] = [
            np.full(len(keys), "", object)
            if column.type.physical is Physical.STR
            else np.zeros(len(keys), np.int64)
            for column in relation.columns
        ]
        nulls: list[Array | None] = [None] * len(columns)
        for i, name in enumerate(relation.key):
            columns[relation.names.index(name)] = batch.columns[i]
        _, rows = self._key_finder.by_key(relation.name, Batch(columns, nulls, batch.weights))
        return to_arrow(table_columns(relation), rows)
