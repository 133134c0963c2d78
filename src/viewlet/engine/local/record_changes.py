"""From the records that a batch changed to the rows of a view that went and came.

record before -> rows it made      compared record by record where no two records make one row,
record after  -> rows it makes     as bags of rows where they may
"""

from __future__ import annotations

import numpy as np

from viewlet.calculus.evaluate import Database
from viewlet.calculus.query import COUNT, Query, ViewKind, make_rows
from viewlet.calculus.ring import Weight, to_weight
from viewlet.engine.contract import Weighted, weighted_difference
from viewlet.engine.host.records import Touched
from viewlet.engine.values.batching import Batch
from viewlet.engine.values.changed_rows import ChangedRows
from viewlet.engine.values.reading import located_vectors, weighted_rows
from viewlet.engine.values.vectors import Vector
from viewlet.functions import Ref
from viewlet.schema import Scalar
from viewlet.storage.columns import Array

_FEW = 32
"""Records that Python compares one by one in less time than as columns."""
_WITNESSES = 256
"""Records of which one has most likely changed a row."""


def tells_records_apart(query: Query) -> bool:
    """Whether all keys are columns, so that each row is of one record."""
    if query.kind is ViewKind.TOTAL:
        return True
    selected = {column.scalar.name for column in query.columns if isinstance(column.scalar, Ref)}
    return selected.issuperset(query.keys)


def changes_of_records(query: Query, touched: Touched, database: Database) -> ChangedRows:
    """The changes of a view without lets, LIMIT and OFFSET left aside."""
    if len(touched) <= _FEW:
        return ChangedRows.of(query, _one_by_one(query, touched, database))
    if not tells_records_apart(query):
        return ChangedRows.of(query, _as_bags(query, touched, database))
    is_any = False
    low, high = 0, _WITNESSES
    while low < len(touched) and not is_any:
        gone, come = _by_record(query, touched.part(low, high), database)
        is_any = len(gone) + len(come) > 0
        low, high = high, 4 * high
    return ChangedRows(is_any, lambda: _by_record(query, touched, database))


def _one_by_one(query: Query, touched: Touched, database: Database) -> Weighted:
    old, new = [], []
    for key, before, after in touched.plain():
        old.append((key, _weights(before)))
        new.append((key, _weights(after)))
    if query.kind is not ViewKind.TOTAL:
        old = [(key, weights) for key, weights in old if weights[COUNT]]
        new = [(key, weights) for key, weights in new if weights[COUNT]]
    return weighted_difference(
        make_rows(query, iter(new), database), make_rows(query, iter(old), database)
    )


def _weights(values: dict[str, Scalar]) -> dict[str, Weight]:
    return {name: to_weight(value) for name, value in values.items()}


def _as_bags(query: Query, touched: Touched, database: Database) -> Weighted:
    changed = touched.changed()
    keys = [Vector(values, gaps) for values, gaps in zip(changed.keys, changed.nulls, strict=True)]
    old, old_counts, _ = located_vectors(query, keys, changed.old, database)
    new, new_counts, _ = located_vectors(query, keys, changed.new, database)
    return weighted_difference(weighted_rows(new, new_counts), weighted_rows(old, old_counts))


def _by_record(query: Query, touched: Touched, database: Database) -> tuple[Batch, Batch]:
    changed = touched.changed()
    keys = [Vector(values, gaps) for values, gaps in zip(changed.keys, changed.nulls, strict=True)]
    old, old_counts, old_records = located_vectors(query, keys, changed.old, database)
    new, new_counts, new_records = located_vectors(query, keys, changed.new, database)
    if (old_counts < 0).any() or (new_counts < 0).any():
        # Of a stream more copies of a row may have gone than came: that they are less is a change.
        changes = weighted_difference(
            weighted_rows(new, new_counts), weighted_rows(old, old_counts)
        )
        return ChangedRows.of(query, changes).batches
    if len(old_records) == len(new_records) == len(touched):
        both_old = both = np.arange(len(touched))
        was, now = old, new
    else:
        # The row of each record before, -1 where it had none.
        old_rows = np.full(len(touched), -1)
        old_rows[old_records] = np.arange(len(old_records))
        partners = old_rows[new_records]
        both = np.flatnonzero(partners >= 0)
        both_old = partners[both]
        was = [column.take(both_old) for column in old]
        now = [column.take(both) for column in new]
    same = np.ones(len(both), bool)
    for before, after in zip(was, now, strict=True):
        same &= _equal(before, after)
    come, gone = new_counts, old_counts
    if same.any():
        come, gone = new_counts.copy(), old_counts.copy()
        more = new_counts[both[same]] - old_counts[both_old[same]]
        come[both[same]] = np.maximum(more, 0)
        gone[both_old[same]] = np.maximum(-more, 0)
    return _taken(old, gone), _taken(new, come)


def _equal(before: Vector, after: Vector) -> Array:
    """Where a column has the same value, NULL or NaN among them."""
    was, now = before.values, after.values
    equal = was == now
    if was.dtype.kind == "f" and now.dtype.kind == "f":
        equal |= np.isnan(was) & np.isnan(now)
    if before.nulls is None and after.nulls is None:
        return np.asarray(equal, bool)
    was_null, is_null = before.gaps(), after.gaps()
    return np.asarray((was_null & is_null) | (equal & ~was_null & ~is_null), bool)


def _taken(columns: list[Vector], counts: Array) -> Batch:
    if np.count_nonzero(counts) == len(counts):
        return Batch([v.values for v in columns], [v.nulls for v in columns], counts)
    rows = np.flatnonzero(counts)
    taken = [column.take(rows) for column in columns]
    return Batch([v.values for v in taken], [v.nulls for v in taken], counts[rows])
