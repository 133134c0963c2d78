"""The words that clients of PostgreSQL get back for statements that change no rows."""

from __future__ import annotations

from viewlet.frontend.maintenance_options import AlterView, Complete, RefreshView
from viewlet.frontend.statements import (
    AlterTable,
    CreateRelation,
    CreateTableAs,
    CreateView,
    Drop,
    ReplaceQuery,
)

Definition = (
    CreateRelation
    | CreateTableAs
    | CreateView
    | AlterTable
    | AlterView
    | ReplaceQuery
    | RefreshView
    | Complete
    | Drop
)
"""What changes no rows."""


def definition_tag(statement: Definition) -> str:
    """CREATE TABLE r (a INT)  ->  CREATE TABLE"""
    if isinstance(statement, AlterTable):
        return "ALTER TABLE"
    if isinstance(statement, AlterView | ReplaceQuery | RefreshView):
        return f"{'REFRESH' if isinstance(statement, RefreshView) else 'ALTER'} MATERIALIZED VIEW"
    if isinstance(statement, Complete):
        return f"ALTER {statement.kind}"
    if isinstance(statement, Drop):
        return f"DROP {'MATERIALIZED VIEW' if statement.kind == 'view' else 'TABLE'}"
    is_table = isinstance(statement, CreateRelation | CreateTableAs)
    return "CREATE TABLE" if is_table else "CREATE MATERIALIZED VIEW"
