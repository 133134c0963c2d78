"""INSERT, DELETE, UPDATE and COPY as changes: which rows go and which come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from viewlet.errors import DataError, ResolutionError
from viewlet.frontend.statements import Copy, Delete, Insert, InsertSelect, Update
from viewlet.schema import Relation

if TYPE_CHECKING:
    import pyarrow as pa

Query = Callable[[str], "pa.Table"]


@dataclass(frozen=True)
class Change:
    """Rows of one relation in an atomic batch.

    `rows` in any form that `insert` takes; `weights` is +n to insert n times and -n to delete, one
    number for all rows or one for each.
    """

    relation: str
    rows: Any
    weights: int | Sequence[int] = 1


DataStatement = Insert | InsertSelect | Delete | Update | Copy


def changes_of(statement: DataStatement, relation: Relation, query: Query) -> list[Change]:
    """The statement's changes; `query` runs SQL over the tables as they are now."""
    name = relation.name
    if isinstance(statement, Insert):
        columns = _target_columns(statement, relation)
        return [Change(name, [_named(columns, row) for row in statement.rows])]
    if isinstance(statement, InsertSelect):
        columns = _target_columns(statement, relation)
        found = query(statement.text)
        if len(found.column_names) != len(columns):
            raise DataError(
                f"the query gives {len(found.column_names)} columns for {len(columns)} of {name}",
                position=statement.position,
            )
        return [Change(name, found.rename_columns(list(columns)))]
    if isinstance(statement, Copy):
        return [Change(name, _read_file(statement, relation, query))]
    _check_kept(statement, relation)
    where = f" WHERE {statement.where}" if statement.where else ""
    table = quoted(name)
    old = query(f"SELECT * FROM {table}{where}")
    if isinstance(statement, Delete):
        return [Change(name, old, -1)]
    assigned = dict(statement.assignments)
    for column in assigned:
        relation.column(column)
    values = ", ".join(
        f"CAST(({assigned[c.name]}) AS {c.type}) AS {quoted(c.name)}"
        if c.name in assigned
        else quoted(c.name)
        for c in relation.columns
    )
    return [Change(name, old, -1), Change(name, query(f"SELECT {values} FROM {table}{where}"))]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _check_kept(statement: Delete | Update, relation: Relation) -> None:
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


_READERS = {"csv": "read_csv", "parquet": "read_parquet", "json": "read_json"}


def _read_file(statement: Copy, relation: Relation, query: Query) -> pa.Table:
    if statement.format not in _READERS:
        raise DataError(
            f"cannot read {statement.format} files",
            position=statement.position,
            hint=f"formats are {', '.join(sorted(_READERS))}",
        )
    plain = not any(character in statement.path for character in "*?[:")
    if plain and not Path(statement.path).exists():
        raise DataError(f"there is no file {statement.path}", position=statement.position)
    path = "'" + statement.path.replace("'", "''") + "'"
    if statement.format == "parquet":
        return query(f"SELECT * FROM read_parquet({path})")
    types = ", ".join(f"'{c.name}': '{c.type}'" for c in relation.columns)
    option = "columns" if statement.format == "json" else "types"
    if statement.format == "csv" and not _has_header(statement.path, relation):
        option = "header = false, columns"
    return query(f"SELECT * FROM {_READERS[statement.format]}({path}, {option} = {{{types}}})")


def _has_header(path: str, relation: Relation) -> bool:
    """A first line that names a column of the table is a header."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            first = file.readline()
    except OSError:
        return True
    words = {word.strip().strip('"').lower() for word in first.replace("|", ",").split(",")}
    return bool(words & {name.lower() for name in relation.names})
