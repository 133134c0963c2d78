"""Rows by their primary keys: those of a table, and those of a batch."""

from __future__ import annotations

import numpy as np

from viewlet.engine.contract import Engine, KeyFinder
from viewlet.engine.values.batching import Batch, batch_of, weighted_rows
from viewlet.schema import Relation
from viewlet.storage.columns import Array


def rows_by_key(engine: Engine, relation: Relation, batch: Batch) -> tuple[Array, Batch]:
    """Which rows of a batch have a key that the table has, and the table's rows with those keys.

    An engine that has no index by key here (Spark's is on its workers) reads the whole table.
    """
    if isinstance(engine, KeyFinder):
        return engine.by_key(relation.name, batch)
    positions = [relation.names.index(name) for name in relation.key]
    stored = {
        tuple(row[i] for i in positions): row
        for row, _ in weighted_rows(relation, engine.table(relation.name))
    }
    key_rows = [
        stored.get(tuple(row[i] for i in positions)) for row, _ in weighted_rows(relation, batch)
    ]
    is_there = np.array([row is not None for row in key_rows], bool)
    return is_there, batch_of(relation, [(row, 1) for row in key_rows if row is not None])


def last_of_each(relation: Relation, batch: Batch) -> Array:
    """The numbers of the rows of a batch that no later row has the primary key of."""
    codes = np.zeros(len(batch), np.int64)
    for name in relation.key:
        _, column_codes = np.unique(batch.columns[relation.names.index(name)], return_inverse=True)
        pairs = np.stack((codes, column_codes))
        _, codes = np.unique(pairs, axis=1, return_inverse=True)
    _, from_end = np.unique(codes[::-1], return_index=True)
    return np.sort(len(batch) - 1 - from_end)


def batch_rows(batch: Batch, numbers: Array) -> Batch:
    """Some rows of a batch."""
    return Batch(
        [column[numbers] for column in batch.columns],
        [None if nulls is None else nulls[numbers] for nulls in batch.nulls],
        batch.weights[numbers],
        batch.coded,
    )
