"""Whether a batch leaves every table within its constraints, judged by the batch's end.

    UNIQUE         the keys of rows that come, by an index of the table
    FOREIGN KEY    rows that come look for their key in the other table; keys that go, for rows that
                   refer to them: these are an error, or follow it (CASCADE, SET NULL)
    CHECK          the rows that come, by DuckDB, as one query

A batch costs what its own rows cost. Indexes are made of a table's rows before its first change,
and then follow every batch; they are not saved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from viewlet.engine.contract import Engine, Row
from viewlet.engine.tables import row_text
from viewlet.engine.values.arrow import table_columns, to_arrow
from viewlet.engine.values.batching import Batch, batch_of, weighted_rows
from viewlet.errors import DataError
from viewlet.frontend.constraints import Check, ForeignKey, UniqueKey
from viewlet.frontend.parse import query_text
from viewlet.frontend.statements import CreateRelation
from viewlet.interfaces.adhoc import AdHoc, quoted
from viewlet.interfaces.key_index import Delta, Key, KeyIndex, KeysAfter
from viewlet.interfaces.keyed_rows import batch_rows
from viewlet.schema import Relation, decode

NamedBatch = tuple[str, Batch]


class ConstraintChecks:
    """The constraints of a database's tables, and the indexes that they need."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._adhoc = AdHoc()
        self._tables: Mapping[str, CreateRelation] = {}
        self._references: list[tuple[str, ForeignKey]] = []
        self._indexes: dict[tuple[str, tuple[str, ...]], KeyIndex] = {}
        self._constrained: frozenset[str] = frozenset()
        self._last: dict[str, Delta] = {}
        self._last_number = 0

    def define(self, relations: Mapping[str, CreateRelation]) -> None:
        """Hold to these from now on. A table that is another one gets new indexes."""
        old, self._tables = self._tables, dict(relations)
        self._indexes = {
            (table, columns): index
            for (table, columns), index in self._indexes.items()
            if relations.get(table) is old.get(table)
        }
        self._references = [
            (name, constraint)
            for name, statement in relations.items()
            for constraint in statement.constraints
            if isinstance(constraint, ForeignKey)
        ]
        self._last = {}
        self._constrained = frozenset(
            (
                *(name for name, statement in relations.items() if statement.constraints),
                *(key.table for _, key in self._references),
            )
        )

    def concern(self, table: str) -> bool:
        """Whether changes of a table have to be checked."""
        return table in self._constrained

    def complete(
        self, batches: Sequence[NamedBatch], *, deletes_cascade: bool = True
    ) -> list[NamedBatch]:
        """What a batch changes beside its own rows, by CASCADE and SET NULL; a DataError names the
        row and the constraint that the batch would break.

        Without `deletes_cascade` a row that goes may be one that comes with another key.
        """
        names = {name for name, _ in batches if name in self._constrained}
        if not names:
            return []
        deltas = {name: self._net(name, batches) for name in sorted(names)}
        more = self._follow_deletes(deltas) if deletes_cascade else []
        for name, batch in (*batches, *more):
            self._check_rows(name, batch)
        for name, delta in deltas.items():
            self._check_unique(name, delta)
        self._check_references(deltas)
        return more

    def applied(self, batches: Sequence[NamedBatch], number: int) -> None:
        """The engine has taken a batch of this number."""
        self._last, self._last_number = {}, number
        for name in {name for name, _ in batches if name in self._constrained}:
            indexes = self._of_table(name)
            if indexes:
                self._last[name] = self._net(name, batches)
                for index in indexes:
                    index.apply(self._last[name].items())

    def undo(self, number: int) -> None:
        """The engine takes the batch of this number back."""
        if number != self._last_number:
            return
        for name, delta in self._last.items():
            for index in self._of_table(name):
                index.apply((row, -count) for row, count in delta.items())
        self._last = {}

    def close(self) -> None:
        """Let go of DuckDB."""
        self._adhoc.close()

    # Rows and indexes.

    def _relation(self, name: str) -> Relation:
        return self._tables[name].relation

    def _net(self, name: str, batches: Sequence[NamedBatch]) -> dict[Row, int]:
        """What the batches do to a table together."""
        net: Counter[Row] = Counter()
        for other, batch in batches:
            if other == name:
                for row, count in weighted_rows(self._relation(name), batch):
                    net[row] += count
        return {row: count for row, count in net.items() if count}

    def _of_table(self, name: str) -> list[KeyIndex]:
        return [index for (table, _), index in self._indexes.items() if table == name]

    def _index(self, name: str, columns: tuple[str, ...]) -> KeyIndex:
        index = self._indexes.get((name, columns))
        if index is None:
            relation = self._relation(name)
            index = KeyIndex(relation, columns)
            index.apply(weighted_rows(relation, self._engine.table(name)))
            self._indexes[name, columns] = index
        return index

    def _after(self, name: str, columns: tuple[str, ...], deltas: Mapping[str, Delta]) -> KeysAfter:
        return KeysAfter(self._index(name, columns), deltas.get(name, {}))

    # Constraints.

    def _follow_deletes(self, deltas: dict[str, dict[Row, int]]) -> list[NamedBatch]:
        """ON DELETE CASCADE and SET NULL, until nothing follows; `deltas` get what they do."""
        more: list[NamedBatch] = []
        is_changed = True
        while is_changed:
            is_changed = False
            for name, key in self._references:
                if key.on_delete not in ("CASCADE", "SET NULL") or key.table not in deltas:
                    continue
                own = self._after(name, key.columns, deltas)
                gone = self._after(key.table, key.target_columns, deltas).gone()
                rows = [(row, -count) for k in gone for row, count in own.rows(k).items()]
                if not rows:
                    continue
                relation = self._relation(name)
                if key.on_delete == "SET NULL":
                    at = {relation.names.index(column) for column in key.columns}
                    rows += [
                        (tuple(None if i in at else v for i, v in enumerate(row)), -count)
                        for row, count in rows
                    ]
                more.append((name, batch_of(relation, rows)))
                total = Counter(deltas.get(name, {}))
                for row, count in rows:
                    total[row] += count
                deltas[name] = {row: count for row, count in total.items() if count}
                is_changed = True
        return more

    def _check_unique(self, name: str, delta: Delta) -> None:
        for constraint in self._tables[name].constraints:
            if isinstance(constraint, UniqueKey):
                after = KeysAfter(self._index(name, constraint.columns), delta)
                for key in after.duplicates():
                    relation = self._relation(name)
                    raise DataError(
                        f"duplicate key {_key_text(relation, constraint.columns, key)} in table"
                        f" {name}, which {constraint.name} has unique",
                        hint="delete the old row in the same batch, or use UPDATE",
                    )

    def _check_references(self, deltas: Mapping[str, Delta]) -> None:
        for name, key in self._references:
            if name in deltas:
                coming = [row for row, count in deltas[name].items() if count > 0]
                targets = self._after(key.table, key.target_columns, deltas)
                for values, row in self._index(name, key.columns).keys(coming).items():
                    if not targets.rows(values):
                        shown = _key_text(self._relation(key.table), key.target_columns, values)
                        raise DataError(
                            f"row {row_text(self._relation(name), row)} of table {name} breaks"
                            f" {key.name}: {key.table} has no row {shown}",
                            hint=f"insert the row of {key.table} first, or in the same batch",
                        )
            if key.table in deltas:
                own = self._after(name, key.columns, deltas)
                for values in self._after(key.table, key.target_columns, deltas).gone():
                    for row in own.rows(values):
                        shown = _key_text(self._relation(key.table), key.target_columns, values)
                        raise DataError(
                            f"row {shown} of table {key.table} cannot go: row"
                            f" {row_text(self._relation(name), row)} of {name} refers to it by"
                            f" {key.name}",
                            hint=f"delete or change the rows of {name} in the same batch",
                        )

    def _check_rows(self, name: str, batch: Batch) -> None:
        """CHECK of the rows that come."""
        statement = self._tables[name]
        checks = [c for c in statement.constraints if isinstance(c, Check)]
        coming = batch.weights > 0
        if not checks or not coming.any():
            return
        relation = statement.relation
        rows = batch_rows(batch, coming.nonzero()[0])
        rows.weights[:] = 1
        table = to_arrow(table_columns(relation), rows)
        for check in checks:
            condition = query_text(check.text, lambda: frozenset(relation.names))
            text = f"SELECT * FROM {quoted(name)} WHERE NOT ({condition}) LIMIT 1"
            for row in self._adhoc.query(text, {name: table}).to_pylist():
                values = ", ".join(f"{column}={value!r}" for column, value in row.items())
                raise DataError(
                    f"row ({values}) of table {name} breaks {check.name}: CHECK ({check.text})",
                    hint="give rows for which the condition is not false",
                )


def _key_text(relation: Relation, columns: Sequence[str], key: Key) -> str:
    """(a=1, b='x')"""
    values: list[Any] = [
        decode(value, relation.column(column).type)  # type: ignore[arg-type]
        for column, value in zip(columns, key, strict=True)
    ]
    shown = (f"{column}={value!r}" for column, value in zip(columns, values, strict=True))
    return f"({', '.join(shown)})"
