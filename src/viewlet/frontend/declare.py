"""CREATE TABLE and CREATE STREAM -> Relation.

FOREIGN KEY and REFERENCES are read and not enforced, UNIQUE likewise: they say something about the
data that viewlet does not need. CHECK, DEFAULT and generated columns change or reject rows, so
they are refused.
"""

from __future__ import annotations

import re

from sqlglot import exp

from viewlet.errors import ParseError, Position, ResolutionError, TypingError, UnsupportedError
from viewlet.frontend.statements import CreateRelation
from viewlet.frontend.syntax import did_you_mean, fault, position_of
from viewlet.frontend.types import declared
from viewlet.schema import Column, Relation

_IGNORED = (
    exp.Reference,
    exp.UniqueColumnConstraint,
    exp.CommentColumnConstraint,
    exp.ForeignKey,
)

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def create_relation(
    tree: exp.Create, text: str, start: Position, is_stream: bool
) -> CreateRelation:
    """CREATE TABLE|STREAM name (column type ..., PRIMARY KEY (...)) -> its relation"""
    schema = tree.this
    if tree.expression is not None:
        raise UnsupportedError(
            "CREATE TABLE ... AS is not supported",
            position=start,
            hint="use CREATE MATERIALIZED VIEW ... AS",
        )
    if not isinstance(schema, exp.Schema) or not schema.expressions:
        raise ParseError("the table has no columns", position=start, hint="write (a INT, ...)")
    name = schema.this.name
    if schema.this.db:
        raise fault(UnsupportedError, f"schemas are not supported: {schema.this.db}.{name}", schema)
    if not _NAME.fullmatch(name):
        raise fault(
            UnsupportedError,
            f"table name {name!r} is not supported",
            schema.this,
            "use letters, digits and _",
        )
    columns: list[Column] = []
    key: tuple[str, ...] = ()
    for part in schema.expressions:
        found: tuple[str, ...] = ()
        if isinstance(part, exp.ColumnDef):
            column, in_key = _column(part)
            if any(known.name == column.name for known in columns):
                raise fault(ResolutionError, f"column {column.name} is declared twice", part)
            columns.append(column)
            found = (column.name,) if in_key else ()
        elif isinstance(part, exp.Identifier):
            raise fault(ParseError, f"column {part.name} has no type", part)
        else:
            found = _table_constraint(part)
        if found and key:
            raise fault(ParseError, f"{name} has two primary keys", part)
        key = found or key
    known_names = [c.name for c in columns]
    for column_name in key:
        if column_name not in known_names:
            raise fault(
                ResolutionError,
                f"the primary key names {column_name}, which {name} does not have",
                schema,
                did_you_mean(column_name, known_names),
            )
    columns = [Column(c.name, c.type, nullable=c.nullable and c.name not in key) for c in columns]
    static = _static(tree)
    if static and is_stream:
        raise fault(UnsupportedError, "a stream cannot be static", schema, "use CREATE TABLE")
    return CreateRelation(
        Relation(name, tuple(columns), key, is_stream, static),
        position_of(schema.this) or start,
        text,
        bool(tree.args.get("exists")),
        bool(tree.args.get("replace")),
    )


def _column(node: exp.ColumnDef) -> tuple[Column, bool]:
    if node.args.get("kind") is None:
        raise fault(ParseError, f"column {node.name} has no type", node)
    nullable, in_key = True, False
    for constraint in node.args.get("constraints") or ():
        kind = constraint.args.get("kind")
        if isinstance(kind, exp.NotNullColumnConstraint):
            nullable = bool(kind.args.get("allow_null"))
        elif isinstance(kind, exp.PrimaryKeyColumnConstraint):
            in_key = True
        elif not isinstance(kind, _IGNORED):
            raise fault(
                UnsupportedError,
                f"{kind.sql(dialect='postgres') if kind else 'this constraint'} is not supported",
                node,
                "a column may have a type, NOT NULL and PRIMARY KEY",
            )
    return Column(node.name, declared(_typed(node)).type, nullable and not in_key), in_key


def _typed(node: exp.ColumnDef) -> exp.DataType:
    kind = node.args["kind"]
    if not isinstance(kind, exp.DataType):
        raise fault(TypingError, f"column {node.name} has no known type", node)
    return kind


def _table_constraint(node: exp.Expr) -> tuple[str, ...]:
    """PRIMARY KEY (a, b), with or without a name; other promises are ignored."""
    if isinstance(node, exp.Constraint):
        (inner,) = node.expressions
        return _table_constraint(inner)
    if isinstance(node, exp.PrimaryKey):
        return tuple(part.name for part in node.expressions)
    if isinstance(node, _IGNORED):
        return ()
    raise fault(
        UnsupportedError,
        f"{node.sql(dialect='postgres')} is not supported",
        node,
        "a table may have columns and PRIMARY KEY (...)",
    )


def _static(tree: exp.Create) -> bool:
    """WITH (static = true)"""
    properties = tree.args.get("properties")
    static = False
    for part in properties.expressions if properties is not None else ():
        value = part.args.get("value")
        if part.name.lower() != "static" or not isinstance(value, exp.Boolean):
            raise fault(
                UnsupportedError,
                f"option {part.sql(dialect='postgres')} is not supported",
                part,
                "the only option is WITH (static = true)",
            )
        static = bool(value.this)
    return static
