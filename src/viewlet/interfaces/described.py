"""What a table, a stream or a view looks like from outside: `db.schema`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from viewlet.interfaces.definitions import Definitions, unknown
from viewlet.interfaces.view import identity

RelationKind = Literal["table", "static table", "stream", "view"]


@dataclass(frozen=True)
class ColumnSchema:
    """A column: its name, its SQL type as text, and whether it can be NULL."""

    name: str
    type: str
    nullable: bool


@dataclass(frozen=True)
class RelationSchema:
    """A table, stream or view with its columns; `key` tells its rows apart, where there is one."""

    name: str
    kind: RelationKind
    columns: tuple[ColumnSchema, ...]
    key: tuple[str, ...]
    sql: str


def public_names(thing: object) -> list[str]:
    """What `dir` and completion show: the public names, and Python's own."""
    return [n for n in object.__dir__(thing) if not n.startswith("_") or n.endswith("__")]


def describe(definitions: Definitions, name: str) -> RelationSchema:
    """The schema of a table, stream or view of this name."""
    if name in definitions.relations:
        made = definitions.relations[name]
        relation = made.relation
        columns = tuple(ColumnSchema(c.name, str(c.type), c.nullable) for c in relation.columns)
        kind: RelationKind = "static table" if relation.static else "table"
        if relation.is_stream:
            kind = "stream"
        return RelationSchema(name, kind, columns, relation.key, made.text.strip())
    if name not in definitions.views:
        raise unknown("table, stream or view", name, [*definitions.relations, *definitions.views])
    view = definitions.views[name]
    query = view.query
    columns = tuple(ColumnSchema(c.name, str(c.type), c.nullable) for c in query.columns)
    positions = identity(query) or ()
    key = tuple(query.columns[position].name for position in positions)
    return RelationSchema(name, "view", columns, key, view.statement.text.strip())
