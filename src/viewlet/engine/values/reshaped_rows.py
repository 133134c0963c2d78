"""The rows of a table that gets other columns, in its new shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from viewlet.engine.values.batching import Batch
from viewlet.engine.values.column_encoding import as_arrays
from viewlet.schema import Relation, encode
from viewlet.storage.columns import Array


def reshaped_rows(relation: Relation, sources: Sequence[int | None], rows: Batch) -> Batch:
    """Each column of the relation from the position that it had; its default, where it had none."""
    columns: list[Array] = []
    nulls: list[Array | None] = []
    for column, source in zip(relation.columns, sources, strict=True):
        if source is not None:
            columns.append(rows.columns[source])
            nulls.append(rows.nulls[source])
            continue
        default = encode(column.default, replace(column, nullable=True))
        value, gap = as_arrays([default], column)
        columns.append(np.repeat(value, len(rows)))
        nulls.append(None if gap is None else np.repeat(gap, len(rows)))
    return Batch(columns, nulls, rows.weights)
