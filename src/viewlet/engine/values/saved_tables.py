"""The rows of tables in files that any later version, and any reader of Arrow, can read.

tables/tables.json   the tables' names, in order
tables/N.arrow       the rows of one, with the types that its definition says; the last column
                     counts how often a row occurs
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from viewlet.engine.values.arrow import table_columns, to_arrow
from viewlet.engine.values.batching import Batch, make_batch
from viewlet.errors import StateError
from viewlet.schema import Relation

_FOLDER = "tables"
_INDEX = "tables.json"
_COUNT = "count"
_ROWS_AT_ONCE = 1 << 20


def write_tables(directory: Path, tables: Iterable[tuple[Relation, Batch]]) -> None:
    """Write the rows of each table, with their counts as weights."""
    import pyarrow as pa

    folder = directory / _FOLDER
    folder.mkdir()
    names = []
    for number, (relation, batch) in enumerate(tables):
        ones = Batch(batch.columns, batch.nulls, np.ones(len(batch), np.int64))
        rows = to_arrow(table_columns(relation), ones).append_column(
            _COUNT, pa.array(batch.weights)
        )
        path = str(folder / f"{number}.arrow")
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
            writer.write_table(rows, _ROWS_AT_ONCE)
        names.append(relation.name)
    (folder / _INDEX).write_text(json.dumps(names), encoding="utf-8")


def read_tables(directory: Path, relations: Sequence[Relation]) -> list[tuple[Relation, Batch]]:
    """The rows of these tables, each of which must be there."""
    import pyarrow as pa

    folder = directory / _FOLDER
    names = json.loads((folder / _INDEX).read_text(encoding="utf-8"))
    tables = []
    for relation in relations:
        if relation.name not in names:
            raise StateError(f"the checkpoint in {directory} has no rows of {relation.name}")
        with pa.memory_map(str(folder / f"{names.index(relation.name)}.arrow")) as source:
            rows = pa.ipc.open_file(source).read_all()
        counts = rows.column(rows.num_columns - 1).to_numpy()
        columns = rows.select(range(rows.num_columns - 1))
        tables.append((relation, make_batch(relation, columns, counts)))
    return tables
