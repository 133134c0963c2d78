"""Databases that a hunt looks at: an engine, the way in that rows take, and how it is restarted."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pyarrow as pa
from tests.oracle.harness import Batch, Row

import viewlet
from viewlet.engine.values.arrow import arrow_type
from viewlet.frontend.parse import parse
from viewlet.frontend.statements import CreateRelation
from viewlet.interfaces.database import Database

ROWS, COLUMNS = "-rows", "-columns"
"""Behind the name of an engine: a call for each row, or Arrow's columns; both have kernels of their
own. Without them a batch is a list of changes."""


class Subject:
    """A database of one engine under test, which can be restarted in two ways.

    `tables` gives the texts of the relations as they are when asked."""

    def __init__(
        self, name: str, folder: Path, on_disk: bool, tables: Callable[[], list[str]]
    ) -> None:
        self.name = name
        self._engine = name.removesuffix(ROWS).removesuffix(COLUMNS)
        self._path = folder / name
        self._on_disk = on_disk
        self._tables = tables
        self.stale: set[int] = set()
        """Views to compare: what they read has changed, or the database was disturbed."""
        self.db: Database = self._opened()

    def _opened(self) -> Database:
        if self._on_disk:
            return viewlet.connect(engine=self._engine, path=self._path, synchronous="off")
        return viewlet.connect(engine=self._engine)

    def apply(self, batch: Batch) -> None:
        """All changes, as one batch, as columns or row after row."""
        if self.name.endswith(ROWS):
            for name, row, weight in batch:
                (self.db.insert if weight > 0 else self.db.delete)(name, row)
        elif self.name.endswith(COLUMNS):
            self._apply_columns(batch)
        else:
            self.apply_at_once(batch)

    def _apply_columns(self, batch: Batch) -> None:
        """One change for the new rows of a relation, one for those that go."""
        rows: dict[tuple[str, int], list[Row]] = {}
        for name, row, weight in batch:
            rows.setdefault((name, 1 if weight > 0 else -1), []).extend([row] * abs(weight))
        schemas = dict(map(_named_schema, self._tables()))
        self.db.apply(
            viewlet.Change(name, _table(schemas[name], of_one_sign), sign)
            for (name, sign), of_one_sign in rows.items()
        )

    def apply_in_transaction(self, batch: Batch, is_kept: bool) -> None:
        """Row after row within BEGIN and COMMIT, or ROLLBACK."""
        self.db.execute("BEGIN")
        for name, row, weight in batch:
            (self.db.insert if weight > 0 else self.db.delete)(name, row)
        self.db.execute("COMMIT" if is_kept else "ROLLBACK")

    def apply_at_once(self, batch: Batch) -> None:
        """All changes or none."""
        self.db.apply(viewlet.Change(n, [row], w) for n, row, w in batch)

    def restart(self) -> None:
        """Close and go on from what was written."""
        if self._on_disk:
            self.db.close()
            self.db = self._opened()
            return
        self.db.checkpoint(str(self._path))
        self.db.close()
        self.db = viewlet.restore(str(self._path))


def _table(schema: pa.Schema, rows: list[Row]) -> pa.Table:
    columns = [
        pa.array(values, field.type)
        for values, field in zip(zip(*rows, strict=True), schema, strict=True)
    ]
    return pa.table(columns, schema=schema)


@cache
def _named_schema(text: str) -> tuple[str, pa.Schema]:
    """The name and columns of a CREATE TABLE."""
    (statement,) = parse(text)
    assert isinstance(statement, CreateRelation)
    relation = statement.relation
    return relation.name, pa.schema([(c.name, arrow_type(c.type)) for c in relation.columns])
