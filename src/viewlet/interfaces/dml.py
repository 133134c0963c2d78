"""INSERT, DELETE, UPDATE and COPY as changes: which rows go and which come."""

from __future__ import annotations

import glob
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from viewlet.errors import DataError, ResolutionError
from viewlet.frontend.statements import Copy, Delete, Insert, InsertSelect, Update
from viewlet.interfaces.adhoc import quoted
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


FORMATS = ("csv", "json", "parquet", "tbl")


def _read_file(statement: Copy, relation: Relation, query: Query) -> pa.Table:
    """The file's rows, read with the relation's types; tbl is csv with bars, as dbgen writes."""
    if statement.format not in FORMATS:
        raise DataError(
            f"cannot read {statement.format} files",
            position=statement.position,
            hint=f"formats are {', '.join(FORMATS)}",
        )
    plain = not any(character in statement.path for character in "*?[:")
    if plain and not Path(statement.path).exists():
        raise DataError(f"there is no file {statement.path}", position=statement.position)
    path = "'" + statement.path.replace("'", "''") + "'"
    if statement.format == "parquet":
        return query(f"SELECT * FROM read_parquet({path})")
    types = [f"'{c.name}': '{c.type}'" for c in relation.columns]
    if statement.format == "json":
        return query(f"SELECT * FROM read_json({path}, columns = {{{', '.join(types)}}})")
    first = _first_line(statement.path)
    delimiter = "|" if statement.format == "tbl" else ","
    if _names_columns(first, delimiter, relation):
        options = f"header = true, types = {{{', '.join(types)}}}"
    else:
        if first.endswith(delimiter):
            types.append("'_end': 'VARCHAR'")
        options = f"header = false, columns = {{{', '.join(types)}}}"
    if statement.format == "tbl":
        options += ", delim = '|'"
    names = "*" if "header = true" in options else ", ".join(map(quoted, relation.names))
    return query(f"SELECT {names} FROM read_csv({path}, {options})")


def _first_line(path: str) -> str:
    """Of the file, or of the first file that a pattern matches."""
    found = path if Path(path).exists() else min(glob.iglob(path), default="")  # noqa: PTH207
    if not found:
        return ""
    with Path(found).open(encoding="utf-8") as file:
        return file.readline().rstrip("\r\n")


def _names_columns(line: str, delimiter: str, relation: Relation) -> bool:
    """A first line that names a column of the table is a header."""
    words = {word.strip().strip('"').lower() for word in line.split(delimiter)}
    return bool(words & {name.lower() for name in relation.names})
