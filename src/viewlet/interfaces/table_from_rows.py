"""CREATE TABLE AS: the table that holds the rows of a query."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from viewlet.errors import Position, TypingError
from viewlet.frontend.statements import CreateRelation, CreateTableAs
from viewlet.frontend.table_text import table_text
from viewlet.schema import (
    BIGINT,
    BOOLEAN,
    DATE,
    DECIMAL,
    DECIMAL_DIGITS,
    DOUBLE,
    INTEGER,
    TIMESTAMP,
    VARCHAR,
    Column,
    Relation,
    Type,
)

if TYPE_CHECKING:
    import pyarrow as pa


def table_of_rows(statement: CreateTableAs, rows: pa.Table) -> CreateRelation:
    """A table with the columns of a query's result; all of them can be NULL."""
    columns = tuple(Column(field.name, _type(field, statement.position)) for field in rows.schema)
    relation = Relation(statement.name, columns)
    declaration = CreateRelation(
        relation, statement.position, "", statement.if_not_exists, statement.replace
    )
    text = table_text(declaration)
    if statement.replace:
        text = text.replace("CREATE", "CREATE OR REPLACE", 1)
    return replace(declaration, text=text)


def _type(field: Any, position: Position) -> Type:
    """Arrow's type of a column -> ours. A sum of integers, which has 38 digits, is a BIGINT."""
    import pyarrow as pa

    kind = field.type
    simple = {
        pa.bool_(): BOOLEAN,
        pa.int8(): INTEGER,
        pa.int16(): INTEGER,
        pa.int32(): INTEGER,
        pa.uint8(): INTEGER,
        pa.uint16(): INTEGER,
        pa.uint32(): BIGINT,
        pa.int64(): BIGINT,
        pa.uint64(): BIGINT,
        pa.float32(): DOUBLE,
        pa.float64(): DOUBLE,
        pa.string(): VARCHAR,
        pa.large_string(): VARCHAR,
        pa.date32(): DATE,
    }
    if kind in simple:
        return simple[kind]
    if pa.types.is_timestamp(kind):
        return TIMESTAMP
    if pa.types.is_decimal(kind):
        if kind.scale == 0 and kind.precision > DECIMAL_DIGITS:
            return BIGINT
        return DECIMAL(min(kind.precision, DECIMAL_DIGITS), kind.scale)
    raise TypingError(
        f"column {field.name} of the query is {kind}, which no column of a table can be",
        position=position,
        hint="CAST it to a type of tables",
    )
