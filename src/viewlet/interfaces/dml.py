"""INSERT, DELETE, UPDATE and COPY as changes: which rows go and which come."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from viewlet.errors import DataError, ResolutionError
from viewlet.frontend.parameters import StatementParameter
from viewlet.frontend.statements import DEFAULT, Copy, Delete, Insert, InsertSelect, Update
from viewlet.frontend.table_text import value_text
from viewlet.functions.arrival_time import current_default
from viewlet.interfaces.adhoc import quoted
from viewlet.interfaces.files import read_file
from viewlet.schema import Column, Kind, Relation

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Change:
    """Rows of one relation in an atomic batch.

    `rows` in any form that `insert` takes; `weights` is +n to insert n times and -n to delete, one
    number for all rows or one for each.

    >>> db.apply([viewlet.Change("r", [(1, 2), (4, 1)], [-1, 2])])
    2
    >>> db.view("v").rows()
    [V(a=1, total=3), V(a=4, total=2)]
    """

    relation: str
    rows: Any
    weights: int | Sequence[int] = 1


DataStatement = Insert | InsertSelect | Delete | Update | Copy


@dataclass(frozen=True)
class Effect:
    """What a statement does: changes as one batch, and how many rows it is said to touch.

    `touched` are the rows that RETURNING reads: new ones, or those that went.
    """

    changes: list[Change]
    count: int
    touched: pa.Table | None = None
    deletes_cascade: bool = True
    """Whether rows that go are deleted: an UPDATE of a key is no delete of the row with the old."""


class Rows(Protocol):
    """The database as statements see it: as it is now, and with parameters."""

    values: Mapping[str, Any]

    def query(self, text: str, extra: Mapping[str, Callable[[], pa.Table]]) -> pa.Table:
        """Run SQL over tables, views, and rows under more names."""
        ...

    def stored(self, relation: Relation, rows: Any) -> pa.Table:
        """Rows of any shape as the relation will hold them."""
        ...

    def by_key(self, relation: Relation, rows: pa.Table) -> tuple[list[bool], pa.Table]:
        """Which rows have a key that the table has, and the table's rows with those keys."""
        ...


_OLD, _NEW, _ROW = "viewlet_old_", "viewlet_new_", "viewlet_row"
_MATCHED, _PROPOSED, _TOUCHED = "viewlet_matched", "viewlet_proposed", "viewlet_touched"


def effect_of(statement: DataStatement, relation: Relation, rows: Rows) -> Effect:
    """The statement's changes, from the rows as they are now."""
    if isinstance(statement, Copy):
        options = dict(statement.options)
        loaded = read_file(statement.path, statement.format, relation, statement.position, options)
        return Effect([Change(relation.name, loaded)], loaded.num_rows)
    if isinstance(statement, Delete):
        return _delete(statement, relation, rows)
    if isinstance(statement, Update):
        return _update(statement, relation, rows)
    return _insert(statement, relation, rows)


def returned(statement: DataStatement, effect: Effect, rows: Rows) -> pa.Table | None:
    """What RETURNING selects of the touched rows; None without it."""
    if isinstance(statement, Copy) or statement.returning is None:
        return None
    touched = effect.touched
    assert touched is not None
    name = quoted(statement.alias or statement.table)
    text = f"SELECT {statement.returning} FROM {_TOUCHED} AS {name}"
    return rows.query(text, {_TOUCHED: lambda: touched})


# --- INSERT ---------------------------------------------------------------------------------------


def _insert(statement: Insert | InsertSelect, relation: Relation, rows: Rows) -> Effect:
    proposed = _proposed(statement, relation, rows)
    if statement.conflict is not None:
        return _resolved(statement, relation, rows, rows.stored(relation, proposed))
    change = Change(relation.name, proposed)
    touched = rows.stored(relation, proposed) if statement.returning is not None else None
    return Effect([change], len(proposed), touched)


def _proposed(statement: Insert | InsertSelect, relation: Relation, rows: Rows) -> Any:
    columns = _target_columns(statement, relation)
    if isinstance(statement, Insert):
        return [_named(columns, row, rows.values) for row in statement.rows]
    result = rows.query(statement.text, {})
    if len(result.column_names) != len(columns):
        raise DataError(
            f"the query gives {len(result.column_names)} columns for {len(columns)}"
            f" of {relation.name}",
            position=statement.position,
        )
    return result.rename_columns(list(columns))


def _resolved(
    statement: Insert | InsertSelect, relation: Relation, rows: Rows, proposed: pa.Table
) -> Effect:
    """ON CONFLICT: rows with keys that are there are left out, or change those that are there."""
    conflict = statement.conflict
    assert conflict is not None
    _check_is_table(statement, relation)
    if conflict.keys and set(conflict.keys) != set(relation.key):
        key = f"({', '.join(relation.key)})" if relation.key else "none"
        raise ResolutionError(
            f"ON CONFLICT ({', '.join(conflict.keys)}) is not the primary key of {relation.name}",
            position=conflict.position,
            hint=f"its primary key is {key}",
        )
    if conflict.assignments and not conflict.keys:
        raise ResolutionError(
            "ON CONFLICT DO UPDATE needs the columns of the primary key",
            position=conflict.position,
            hint=f"write ON CONFLICT ({', '.join(relation.key)}) DO UPDATE",
        )
    if not relation.key:
        return Effect([Change(relation.name, proposed)], proposed.num_rows, proposed)
    firsts = _first_of_each(proposed, relation.key)
    if conflict.assignments and len(firsts) < proposed.num_rows:
        raise DataError(
            "ON CONFLICT DO UPDATE would change one row twice",
            position=conflict.position,
            hint="give each key once",
        )
    import pyarrow as pa

    proposed = proposed.take(pa.array(firsts, pa.int64()))
    present, old = rows.by_key(relation, proposed)
    is_there = pa.array(present, pa.bool_())
    inserted = proposed.filter(pa.array([not there for there in present], pa.bool_()))
    if not conflict.assignments:
        return Effect([Change(relation.name, inserted)], inserted.num_rows, inserted)
    excluded = proposed.filter(is_there)
    name = quoted(statement.alias or relation.name)
    went, came = _changed(
        f"{_MATCHED} AS {name} POSITIONAL JOIN {_PROPOSED} AS excluded",
        name,
        dict(conflict.assignments),
        conflict.where,
        relation,
        rows,
        {_MATCHED: lambda: old, _PROPOSED: lambda: excluded},
    )
    came = rows.stored(relation, came)
    changes = [Change(relation.name, went, -1), Change(relation.name, came)]
    changes.append(Change(relation.name, inserted))
    touched = pa.concat_tables([inserted, came])
    return Effect(changes, touched.num_rows, touched, deletes_cascade=False)


def _first_of_each(rows: pa.Table, key: Sequence[str]) -> list[int]:
    """The numbers of the first row with each key."""
    keys = zip(*(rows.column(name).to_pylist() for name in key), strict=True)
    first: dict[tuple[Any, ...], int] = {}
    for number, values in enumerate(keys):
        first.setdefault(values, number)
    return list(first.values())


# --- DELETE and UPDATE ----------------------------------------------------------------------------


def _delete(statement: Delete, relation: Relation, rows: Rows) -> Effect:
    _check_is_table(statement, relation)
    name = quoted(statement.alias or relation.name)
    where = f" WHERE {statement.where}" if statement.where else ""
    if statement.sources:
        # A row goes once, however many rows of the sources it meets.
        text = (
            f"SELECT {name}.* EXCLUDE ({_ROW}) FROM {_numbered(relation)} AS {name},"
            f" {statement.sources}{where} {_once(name)}"
        )
    else:
        text = f"SELECT * FROM {quoted(relation.name)} AS {name}{where}"
    old = rows.query(text, {})
    return Effect([Change(relation.name, old, -1)], old.num_rows, old)


def _update(statement: Update, relation: Relation, rows: Rows) -> Effect:
    _check_is_table(statement, relation)
    name = quoted(statement.alias or relation.name)
    table = f"{quoted(relation.name)} AS {name}"
    once = ""
    if statement.sources:
        table = f"{_numbered(relation)} AS {name}, {statement.sources}"
        once = _once(name)
    assignments = dict(statement.assignments)
    old, new = _changed(table, name, assignments, statement.where, relation, rows, {}, once)
    touched = rows.stored(relation, new) if statement.returning is not None else None
    changes = [Change(relation.name, old, -1), Change(relation.name, new)]
    return Effect(changes, old.num_rows, touched, deletes_cascade=False)


def _numbered(relation: Relation) -> str:
    return f"(SELECT *, row_number() OVER () AS {_ROW} FROM {quoted(relation.name)})"


def _once(name: str) -> str:
    return f"QUALIFY row_number() OVER (PARTITION BY {name}.{_ROW}) = 1"


def _changed(
    table: str,
    name: str,
    assigned: Mapping[str, str],
    where: str | None,
    relation: Relation,
    rows: Rows,
    extra: Mapping[str, Callable[[], pa.Table]],
    once: str = "",
) -> tuple[pa.Table, pa.Table]:
    """The rows of `table` that `where` takes, as they are and with new values: one query for both,
    so that both are of the same rows."""
    for column in assigned:
        relation.column(column)
    columns = relation.columns
    old = [f"{name}.{quoted(c.name)} AS {_OLD}{i}" for i, c in enumerate(columns)]
    new = [
        f"{assigned_text(assigned[c.name], c)} AS {_NEW}{i}"
        for i, c in enumerate(columns)
        if c.name in assigned
    ]
    condition = f" WHERE {where}" if where else ""
    text = f"SELECT {', '.join((*old, *new))} FROM {table}{condition} {once}"
    both = rows.query(text, extra)
    names = list(relation.names)
    went = both.select(range(len(names))).rename_columns(names)
    came = both.select(
        [f"{_NEW if c.name in assigned else _OLD}{i}" for i, c in enumerate(columns)]
    ).rename_columns(names)
    return went, came


def assigned_text(text: str, column: Column) -> str:
    """A new value as the column's type; what becomes a DECIMAL is rounded as all rows are."""
    if text.strip().upper() == "DEFAULT":
        text = value_text(current_default(column.default))
    return f"({text})" if column.type.kind is Kind.DECIMAL else f"CAST(({text}) AS {column.type})"


def _check_is_table(statement: Delete | Update | Insert | InsertSelect, relation: Relation) -> None:
    if relation.is_stream:
        verb = type(statement).__name__.upper()
        if isinstance(statement, Insert | InsertSelect):
            verb = "ON CONFLICT"
        raise ResolutionError(
            f"{verb} needs the rows of {relation.name}, which is a stream and keeps none",
            position=statement.position,
            hint=f"give the rows to delete(), or declare {relation.name} with CREATE TABLE",
        )


def _target_columns(statement: Insert | InsertSelect, relation: Relation) -> tuple[str, ...]:
    columns = statement.columns or relation.names
    for column in columns:
        if column not in relation.names:
            raise ResolutionError(
                f"{relation.name} has no column {column}",
                position=statement.position,
                hint=f"columns are ({', '.join(relation.names)})",
            )
    if len(set(columns)) != len(columns):
        raise ResolutionError("a column is named twice", position=statement.position)
    return columns


def _named(
    columns: tuple[str, ...], row: tuple[Any, ...], values: Mapping[str, Any]
) -> dict[str, Any]:
    if row and len(row) != len(columns):
        raise DataError(f"a row has {len(row)} values for {len(columns)} columns: {row!r}")
    bound = (values[cell.name] if isinstance(cell, StatementParameter) else cell for cell in row)
    named = dict(zip(columns, bound, strict=bool(row)))
    return {name: value for name, value in named.items() if value is not DEFAULT}
