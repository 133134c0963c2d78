"""What SHOW, DESCRIBE and EXPLAIN answer: tables of what the database has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from viewlet.errors import Position, ViewletError
from viewlet.frontend.parse import parse, view_of
from viewlet.frontend.statements import CreateRelation, Inspect, InspectKind, Select
from viewlet.frontend.table_text import type_text, value_text
from viewlet.interfaces.database_state import DatabaseState
from viewlet.interfaces.definitions import Definitions, unknown
from viewlet.interfaces.described import describe
from viewlet.interfaces.explain import explain_view
from viewlet.interfaces.query_positions import moved

if TYPE_CHECKING:
    import pyarrow as pa


def inspected(statement: Inspect, state: DatabaseState) -> pa.Table:
    """The answer, whose columns are called as DuckDB calls them."""
    import pyarrow as pa

    definitions = state.definitions
    if statement.kind is InspectKind.TABLES:
        return pa.table(
            {"name": pa.array([*definitions.relations, *definitions.views], pa.string())}
        )
    if statement.kind is InspectKind.STREAMS:
        streams = [name for name, made in definitions.relations.items() if made.relation.is_stream]
        return pa.table({"name": pa.array(streams, pa.string())})
    if statement.kind is InspectKind.VIEWS:
        return pa.table({"name": pa.array(list(definitions.views), pa.string())})
    if statement.kind is InspectKind.COLUMNS:
        return _columns(definitions, statement.subject, statement.position)
    try:
        if statement.kind is InspectKind.QUERY_COLUMNS:
            planned, name = _with_query(definitions, statement.subject)
            return _columns(planned, name, statement.position)
        if statement.kind is InspectKind.DEFINITION:
            made = describe(definitions, statement.subject)
            return pa.table({"name": [made.name], "sql": [made.sql]})
        if statement.kind is InspectKind.VIEW_PLAN:
            definition = definitions.view(statement.subject)
            text = explain_view(definition, state.engine, "program")
        else:
            text = _query_plan(definitions, state, statement.subject)
    except ViewletError as error:
        raise moved(error, statement.position) from None
    return pa.table({"explain": pa.array(text.split("\n"), pa.string())})


def _query_plan(definitions: Definitions, state: DatabaseState, text: str) -> str:
    """The program that would maintain the query as a view."""
    from viewlet.program.text import program_text

    planned, name = _with_query(definitions, text)
    views = [planned.views[name].query]
    return program_text(state.compile(planned.planning_catalog(), views, {}))


def _with_query(definitions: Definitions, text: str) -> tuple[Definitions, str]:
    """The definitions with a query as a view, and the name that it has there."""
    (query,) = parse(text)
    assert isinstance(query, Select)
    planned = definitions.copy()
    name = "query"
    while name in planned.views or name in planned.relations:
        name += "_"
    planned.add_view(view_of(query, name))
    return planned, name


def _columns(definitions: Definitions, name: str, position: Position) -> pa.Table:
    import pyarrow as pa

    rows: list[tuple[str, str, str, str | None, str | None]] = []
    if name in definitions.relations:
        statement: CreateRelation = definitions.relations[name]
        relation = statement.relation
        for column in relation.columns:
            default = None if column.default is None else value_text(column.default)
            key = "PRI" if column.name in relation.key else None
            nullable = "YES" if column.nullable else "NO"
            rows.append((column.name, type_text(column), nullable, key, default))
    elif name in definitions.views:
        for output in definitions.views[name].query.columns:
            nullable = "YES" if output.nullable else "NO"
            rows.append((output.name, str(output.type), nullable, None, None))
    else:
        names = [*definitions.relations, *definitions.views]
        raise unknown("table or view", name, names, position)
    titles = ("column_name", "column_type", "null", "key", "default")
    return pa.table(
        {title: pa.array([row[i] for row in rows], pa.string()) for i, title in enumerate(titles)}
    )
