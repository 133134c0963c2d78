"""information_schema: what a database has, as the SQL standard and PostgreSQL call it.

Tables of Arrow, made of the definitions when somebody asks. `db.query` and the PostgreSQL wire
answer from the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from viewlet.calculus.query import OutputColumn
from viewlet.frontend.constraints import Check, Constraint, ForeignKey, UniqueKey
from viewlet.frontend.table_text import value_text
from viewlet.interfaces.adhoc import Source
from viewlet.interfaces.definitions import Definitions
from viewlet.schema import Column, Kind, Relation

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "information_schema"
CATALOG, SCHEMA = "viewlet", "public"

_TEXT, _NUMBER = "string", "int32"
_TABLE = {"table_catalog": _TEXT, "table_schema": _TEXT, "table_name": _TEXT}
_CONSTRAINT = {
    "constraint_catalog": _TEXT,
    "constraint_schema": _TEXT,
    "constraint_name": _TEXT,
}
_SHAPES: dict[str, dict[str, str]] = {
    "schemata": {"catalog_name": _TEXT, "schema_name": _TEXT, "schema_owner": _TEXT},
    "tables": {**_TABLE, "table_type": _TEXT, "is_insertable_into": _TEXT},
    "views": {**_TABLE, "view_definition": _TEXT, "check_option": _TEXT, "is_updatable": _TEXT},
    "columns": {
        **_TABLE,
        "column_name": _TEXT,
        "ordinal_position": _NUMBER,
        "column_default": _TEXT,
        "is_nullable": _TEXT,
        "data_type": _TEXT,
        "character_maximum_length": _NUMBER,
        "numeric_precision": _NUMBER,
        "numeric_scale": _NUMBER,
        "datetime_precision": _NUMBER,
        "udt_schema": _TEXT,
        "udt_name": _TEXT,
    },
    "table_constraints": {**_CONSTRAINT, **_TABLE, "constraint_type": _TEXT},
    "key_column_usage": {
        **_CONSTRAINT,
        **_TABLE,
        "column_name": _TEXT,
        "ordinal_position": _NUMBER,
    },
}
_TYPES = {
    Kind.BOOLEAN: ("boolean", "bool"),
    Kind.INTEGER: ("integer", "int4"),
    Kind.BIGINT: ("bigint", "int8"),
    Kind.DOUBLE: ("double precision", "float8"),
    Kind.DECIMAL: ("numeric", "numeric"),
    Kind.DATE: ("date", "date"),
    Kind.TIMESTAMP: ("timestamp without time zone", "timestamp"),
    Kind.VARCHAR: ("text", "text"),
    Kind.NULL: ("text", "text"),
}
_PRECISIONS = {Kind.INTEGER: 32, Kind.BIGINT: 64, Kind.DOUBLE: 53}

Row = dict[str, Any]


def information_tables(definitions: Definitions) -> Mapping[str, Source]:
    """Each table by its name without the schema; it is made when it is asked for."""
    return {name: partial(_table, name, definitions) for name in _SHAPES}


def _table(name: str, definitions: Definitions) -> pa.Table:
    import pyarrow as pa

    rows = list(_ROWS[name](definitions))
    return pa.table(
        {
            column: pa.array([row.get(column) for row in rows], kind)
            for column, kind in _SHAPES[name].items()
        }
    )


def _table_row(name: str) -> Row:
    return {"table_catalog": CATALOG, "table_schema": SCHEMA, "table_name": name}


def _schemata(_: Definitions) -> Iterator[Row]:
    for schema in (SCHEMA, NAME):
        yield {"catalog_name": CATALOG, "schema_name": schema, "schema_owner": CATALOG}


def _tables(definitions: Definitions) -> Iterator[Row]:
    for name in definitions.relations:
        yield {**_table_row(name), "table_type": "BASE TABLE", "is_insertable_into": "YES"}
    for name in definitions.views:
        yield {**_table_row(name), "table_type": "VIEW", "is_insertable_into": "NO"}


def _views(definitions: Definitions) -> Iterator[Row]:
    for name, view in definitions.views.items():
        text = view.statement.text.strip()
        yield {
            **_table_row(name),
            "view_definition": text,
            "check_option": "NONE",
            "is_updatable": "NO",
        }


def _columns(definitions: Definitions) -> Iterator[Row]:
    for name, made in definitions.relations.items():
        for number, column in enumerate(made.relation.columns, 1):
            yield {**_table_row(name), "ordinal_position": number, **_column(column)}
    for name, view in definitions.views.items():
        for number, output in enumerate(view.query.columns, 1):
            yield {**_table_row(name), "ordinal_position": number, **_column(output)}


def _column(column: Column | OutputColumn) -> Row:
    kind = column.type.kind
    data_type, udt_name = _TYPES[kind]
    limit = default = None
    if isinstance(column, Column):
        limit = column.limit
        default = None if column.default is None else value_text(column.default)
    precision = _PRECISIONS.get(kind)
    if kind is Kind.INTEGER and limit is not None:
        precision = limit
        data_type, udt_name = "smallint", "int2"
    elif kind is Kind.VARCHAR and limit is not None:
        data_type, udt_name = "character varying", "varchar"
    is_whole = kind in (Kind.INTEGER, Kind.BIGINT)
    is_decimal = kind is Kind.DECIMAL
    return {
        "column_name": column.name,
        "column_default": default,
        "is_nullable": "YES" if column.nullable else "NO",
        "data_type": data_type,
        "character_maximum_length": limit if kind is Kind.VARCHAR else None,
        "numeric_precision": column.type.precision if is_decimal else precision,
        "numeric_scale": column.type.scale if is_decimal else 0 if is_whole else None,
        "datetime_precision": (6 if limit is None else limit) if kind is Kind.TIMESTAMP else None,
        "udt_schema": "pg_catalog",
        "udt_name": udt_name,
    }


def _constraints(relation: Relation, constraints: tuple[Constraint, ...]) -> Iterator[Row]:
    """Each with its type, and the columns of a key."""
    schema = {
        "constraint_catalog": CATALOG,
        "constraint_schema": SCHEMA,
        **_table_row(relation.name),
    }
    if relation.key:
        name = f"{relation.name}_pkey"
        yield {**schema, "constraint_name": name, "type": "PRIMARY KEY", "columns": relation.key}
    kinds = {UniqueKey: "UNIQUE", ForeignKey: "FOREIGN KEY", Check: "CHECK"}
    for constraint in constraints:
        columns = () if isinstance(constraint, Check) else constraint.columns
        kind = kinds[type(constraint)]
        yield {**schema, "constraint_name": constraint.name, "type": kind, "columns": columns}


def _table_constraints(definitions: Definitions) -> Iterator[Row]:
    for made in definitions.relations.values():
        for row in _constraints(made.relation, made.constraints):
            yield {**row, "constraint_type": row["type"]}


def _key_columns(definitions: Definitions) -> Iterator[Row]:
    for made in definitions.relations.values():
        for row in _constraints(made.relation, made.constraints):
            for number, column in enumerate(row["columns"], 1):
                yield {**row, "column_name": column, "ordinal_position": number}


_ROWS = {
    "schemata": _schemata,
    "tables": _tables,
    "views": _views,
    "columns": _columns,
    "table_constraints": _table_constraints,
    "key_column_usage": _key_columns,
}
