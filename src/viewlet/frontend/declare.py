"""CREATE TABLE and CREATE STREAM -> Relation.

read_constraints.py reads what rows are held to. A DEFAULT is a constant; generated columns are
refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from viewlet.errors import (
    ParseError,
    Position,
    ResolutionError,
    TypingError,
    UnsupportedError,
    ViewletError,
)
from viewlet.frontend.maintenance_options import OPTIONS
from viewlet.frontend.parameters import written
from viewlet.frontend.read_arguments import check_arguments
from viewlet.frontend.read_constraints import ConstraintReader, check_constraints
from viewlet.frontend.refusals import CHANGING
from viewlet.frontend.scalars import Constants
from viewlet.frontend.statements import CreateRelation, CreateTableAs
from viewlet.frontend.syntax import did_you_mean, fault, plain_name, position_of, sql_of
from viewlet.frontend.types import declared
from viewlet.functions import Const
from viewlet.functions.arrival_time import ArrivalTime
from viewlet.schema import DECIMAL_DIGITS, TIMESTAMP, Column, Relation, decode, encode, folded_name

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def create_relation(
    tree: exp.Create,
    source: str,
    tokens: Sequence[Token],
    text: str,
    start: Position,
    is_stream: bool,
) -> CreateRelation:
    """CREATE TABLE|STREAM name (column type ..., PRIMARY KEY (...)) -> its relation"""
    schema = tree.this
    static = _static(tree)
    if tree.expression is not None:
        raise UnsupportedError(
            "CREATE TABLE with columns and AS is not supported",
            position=start,
            hint="write CREATE TABLE t AS SELECT ..., with names by AS",
        )
    if not isinstance(schema, exp.Schema) or not schema.expressions:
        raise ParseError("the table has no columns", position=start, hint="write (a INT, ...)")
    name = schema.this.name
    if schema.this.db:
        raise fault(UnsupportedError, f"schemas are not supported: {schema.this.db}.{name}", schema)
    _check_name(name, schema.this)
    reader = ConstraintReader(name, tokens, source)
    columns: list[Column] = []
    key: tuple[str, ...] = ()
    for part in schema.expressions:
        declared_key: tuple[str, ...] = ()
        if isinstance(part, exp.ColumnDef):
            column, in_key = _column(part, reader)
            if any(folded_name(other.name) == folded_name(column.name) for other in columns):
                raise fault(ResolutionError, f"column {column.name} is declared twice", part)
            columns.append(column)
            declared_key = (column.name,) if in_key else ()
        elif isinstance(part, exp.Identifier):
            raise fault(ParseError, f"column {part.name} has no type", part)
        else:
            declared_key = _table_constraint(part, reader)
        if declared_key and key:
            raise fault(ParseError, f"{name} has two primary keys", part)
        key = declared_key or key
    column_names = [c.name for c in columns]
    for column_name in key:
        if column_name not in column_names:
            raise fault(
                ResolutionError,
                f"the primary key names {column_name}, which {name} does not have",
                schema,
                did_you_mean(column_name, column_names),
            )
    columns = [replace(c, nullable=c.nullable and c.name not in key) for c in columns]
    if static and is_stream:
        raise fault(UnsupportedError, "a stream cannot be static", schema, "use CREATE TABLE")
    check_arguments(tree)
    relation = Relation(name, tuple(columns), key, is_stream, static)
    check_constraints(relation, reader.constraints, schema)
    return CreateRelation(
        relation,
        position_of(schema.this) or start,
        text,
        bool(tree.args.get("exists")),
        bool(tree.args.get("replace")),
        tuple(reader.constraints),
    )


def create_table_as(
    tree: exp.Create, source: str, tokens: Sequence[Token], start: Position
) -> CreateTableAs:
    """CREATE TABLE name AS query [WITH [NO] DATA]"""
    name = plain_name(tree.this)
    _check_name(name, tree.this)
    with_data = True
    for part in _options(tree):
        if not isinstance(part, exp.WithDataProperty):
            raise _no_option(tree, part, "write CREATE TABLE t AS SELECT ...")
        with_data = not part.args.get("no")
    words = [token.text.upper() for token in tokens]
    query = tokens[words.index("AS") + 1 :]
    if words[-1] == "DATA":
        query = query[: -3 if words[-3:] == ["WITH", "NO", "DATA"] else -2]
    return CreateTableAs(
        name,
        written(source, query),
        position_of(tree.this) or start,
        bool(tree.args.get("exists")),
        bool(tree.args.get("replace")),
        with_data,
    )


def _check_name(name: str, node: exp.Expr) -> None:
    if not _NAME.fullmatch(name):
        hint = "use letters, digits and _"
        raise fault(UnsupportedError, f"table name {name!r} is not supported", node, hint)


def _column(node: exp.ColumnDef, reader: ConstraintReader) -> tuple[Column, bool]:
    if node.args.get("kind") is None:
        raise fault(ParseError, f"column {node.name} has no type", node)
    nullable, in_key = True, False
    default: exp.Expr | None = None
    for constraint in node.args.get("constraints") or ():
        kind = constraint.args.get("kind")
        if isinstance(kind, exp.NotNullColumnConstraint):
            nullable = bool(kind.args.get("allow_null"))
        elif isinstance(kind, exp.PrimaryKeyColumnConstraint):
            in_key = True
        elif isinstance(kind, exp.DefaultColumnConstraint):
            if default is not None:
                raise fault(ParseError, f"column {node.name} has two defaults", node)
            default = kind.this
        elif kind is not None and reader.read_column(kind, node.name, constraint.name):
            continue
        elif not isinstance(kind, exp.CommentColumnConstraint):
            raise fault(
                UnsupportedError,
                f"{kind.sql(dialect='postgres') if kind else 'this constraint'} is not supported",
                node,
                "a column may have a type, NOT NULL, DEFAULT, PRIMARY KEY, UNIQUE, CHECK and"
                " REFERENCES",
            )
    kind = declared(_typed(node))
    if kind.type.precision > DECIMAL_DIGITS:
        raise fault(
            UnsupportedError,
            f"column {node.name} is {kind.type}, and columns have at most {DECIMAL_DIGITS} digits",
            node,
            f"write DECIMAL({DECIMAL_DIGITS},{min(kind.type.scale, DECIMAL_DIGITS)}) or DOUBLE;"
            " sums of it may have 38 digits",
        )
    column = Column(node.name, kind.type, nullable and not in_key, kind.limit)
    return (
        column if default is None else replace(column, default=default_value(column, default))
    ), in_key


def default_value(column: Column, node: exp.Expr) -> Any:
    """DEFAULT 1 + 1 -> 2, as the column holds it"""
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.CurrentTimestamp) and column.type == TIMESTAMP:
        return ArrivalTime()
    if any(True for _ in node.find_all(exp.Query, exp.Anonymous, *CHANGING)):
        raise fault(
            UnsupportedError,
            f"DEFAULT {sql_of(node)} is not a constant",
            node,
            "write a constant, and give other values with the rows",
        )
    value = Constants().lower(node)
    if not isinstance(value.scalar, Const):
        raise fault(UnsupportedError, f"DEFAULT {sql_of(node)} is not a constant", node)
    try:
        encoded = encode(decode(value.scalar.value, value.type), replace(column, nullable=True))
    except ViewletError as error:
        raise fault(type(error), f"DEFAULT of {error.message}", node, error.hint) from None
    return decode(encoded, column.type)


def _typed(node: exp.ColumnDef) -> exp.DataType:
    kind = node.args["kind"]
    if not isinstance(kind, exp.DataType):
        raise fault(TypingError, f"column {node.name} has no known type", node)
    return kind


def _table_constraint(node: exp.Expr, reader: ConstraintReader, name: str = "") -> tuple[str, ...]:
    """PRIMARY KEY (a, b), with or without a name -> (a, b); other constraints go to the reader."""
    if isinstance(node, exp.Constraint):
        (inner,) = node.expressions
        return _table_constraint(inner, reader, node.name)
    if isinstance(node, exp.PrimaryKey):
        return tuple(part.name for part in node.expressions)
    if reader.read_table(node, name):
        return ()
    raise fault(
        UnsupportedError,
        f"{node.sql(dialect='postgres')} is not supported",
        node,
        "a table may have columns, PRIMARY KEY, UNIQUE, CHECK and FOREIGN KEY",
    )


def _static(tree: exp.Create) -> bool:
    """WITH (static = true)"""
    static = False
    for part in _options(tree):
        value = part.args.get("value")
        if part.name.lower() != "static" or not isinstance(value, exp.Boolean):
            raise _no_option(tree, part, "the only option is WITH (static = true)")
        static = bool(value.this)
    return static


def check_view_options(tree: exp.Create) -> None:
    """CREATE [MATERIALIZED] VIEW v [WITH (option = ...)]: all views are materialized.

    view_options.py reads the plan, maintenance_options.py when the view's work is done.
    """
    known = ("plan", "strict", *OPTIONS)
    for part in _options(tree):
        name = part.name.lower()
        if isinstance(part, exp.MaterializedProperty) or name in (*known, "memory"):
            continue
        hint = did_you_mean(name, known) if type(part) is exp.Property else None
        raise _no_option(tree, part, hint or "write CREATE MATERIALIZED VIEW ... AS SELECT ...")


def _options(tree: exp.Create) -> list[exp.Expr]:
    properties = tree.args.get("properties")
    return list(properties.expressions) if properties is not None else []


def _no_option(tree: exp.Create, part: exp.Expr, hint: str) -> Exception:
    """The error for an option; one without a position gets that of the relation's name."""
    position_node = part if position_of(part) is not None else tree.this
    name = sql_of(part) or type(part).__name__.removesuffix("Property").upper()
    return fault(UnsupportedError, f"option {name} is not supported", position_node, hint)
