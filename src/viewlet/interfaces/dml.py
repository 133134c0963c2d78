"""INSERT, DELETE, UPDATE and COPY as changes: which rows go and which come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from viewlet.errors import DataError, ResolutionError, ViewletError
from viewlet.frontend.statements import Copy, Delete, Insert, InsertSelect, Update
from viewlet.interfaces.adhoc import quoted
from viewlet.interfaces.files import read_file
from viewlet.interfaces.query_positions import moved
from viewlet.schema import Column, Kind, Relation

if TYPE_CHECKING:
    import pyarrow as pa

Query = Callable[[str], "pa.Table"]


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


def changes_of(statement: DataStatement, relation: Relation, run: Query) -> list[Change]:
    """The statement's changes; `run` runs SQL over the tables as they are now."""
    name = relation.name

    def query(text: str) -> pa.Table:
        try:
            return run(text)
        except ViewletError as error:
            raise moved(error, statement.position) from None

    if isinstance(statement, Insert):
        columns = _target_columns(statement, relation)
        return [Change(name, [_named(columns, row) for row in statement.rows])]
    if isinstance(statement, InsertSelect):
        columns = _target_columns(statement, relation)
        result = query(statement.text)
        if len(result.column_names) != len(columns):
            raise DataError(
                f"the query gives {len(result.column_names)} columns for {len(columns)} of {name}",
                position=statement.position,
            )
        return [Change(name, result.rename_columns(list(columns)))]
    if isinstance(statement, Copy):
        options = dict(statement.options)
        result = read_file(statement.path, statement.format, relation, statement.position, options)
        return [Change(name, result)]
    _check_is_table(statement, relation)
    where = f" WHERE {statement.where}" if statement.where else ""
    table = quoted(name) + (f" AS {quoted(statement.alias)}" if statement.alias else "")
    old = query(f"SELECT * FROM {table}{where}")
    if isinstance(statement, Delete):
        return [Change(name, old, -1)]
    assigned = dict(statement.assignments)
    for column in assigned:
        relation.column(column)
    values = ", ".join(
        f"{_assigned(assigned[c.name], c)} AS {quoted(c.name)}"
        if c.name in assigned
        else quoted(c.name)
        for c in relation.columns
    )
    return [Change(name, old, -1), Change(name, query(f"SELECT {values} FROM {table}{where}"))]


def _assigned(text: str, column: Column) -> str:
    """A new value as the column's type; what becomes a DECIMAL is rounded as all rows are."""
    return f"({text})" if column.type.kind is Kind.DECIMAL else f"CAST(({text}) AS {column.type})"


def _check_is_table(statement: Delete | Update, relation: Relation) -> None:
    if relation.is_stream:
        verb = type(statement).__name__.upper()
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


def _named(columns: tuple[str, ...], row: tuple[Any, ...]) -> dict[str, Any]:
    if len(row) != len(columns):
        raise DataError(f"a row has {len(row)} values for {len(columns)} columns: {row!r}")
    return dict(zip(columns, row, strict=True))
