"""A table's definition -> the CREATE TABLE that makes the same one."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

from viewlet.frontend.constraints import constraint_text
from viewlet.frontend.duckdb_text import quoted
from viewlet.frontend.statements import CreateRelation
from viewlet.functions.arrival_time import ArrivalTime
from viewlet.schema import Column, Kind


def table_text(declaration: CreateRelation) -> str:
    """Relation and constraints, with all names in quotes."""
    relation = declaration.relation
    parts = [_column_text(column) for column in relation.columns]
    if relation.key:
        parts.append(f"PRIMARY KEY ({', '.join(map(quoted, relation.key))})")
    parts += map(constraint_text, declaration.constraints)
    kind = "STREAM" if relation.is_stream else "TABLE"
    options = " WITH (static = true)" if relation.static else ""
    return f"CREATE {kind} {quoted(relation.name)} ({', '.join(parts)}){options}"


def _column_text(column: Column) -> str:
    parts = [quoted(column.name), type_text(column)]
    if not column.nullable:
        parts.append("NOT NULL")
    if column.default is not None:
        parts.append(f"DEFAULT {value_text(column.default)}")
    return " ".join(parts)


def type_text(column: Column) -> str:
    """The type with its declared size: VARCHAR(3), SMALLINT"""
    limit, kind = column.limit, column.type.kind
    if limit is None:
        return str(column.type)
    if kind in (Kind.VARCHAR, Kind.TIMESTAMP):
        return f"{column.type}({limit})"
    return {8: "TINYINT", 16: "SMALLINT"}[limit]


def value_text(value: Any) -> str:
    """A value as SQL of viewlet and of DuckDB reads it."""
    if value is None:
        return "NULL"
    if isinstance(value, ArrivalTime):
        return str(value)
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value.isoformat(' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, float) and not math.isfinite(value):
        return f"CAST('{value}' AS DOUBLE)"
    return f"{value:f}" if not isinstance(value, int | float) else repr(value)
