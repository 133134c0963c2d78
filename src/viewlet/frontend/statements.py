"""The statements that a SQL text consists of, after parsing and before anything is resolved.

Statements that change data keep the SQL of the parts that the engine evaluates itself (through
DuckDB, which reads the same dialect); views keep their syntax tree, which only the frontend reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from viewlet.calculus.query import Plan
from viewlet.errors import Position
from viewlet.frontend.maintenance_options import (
    NO_OPTIONS,
    AlterView,
    MaintenanceOptions,
    RefreshView,
)
from viewlet.schema import Relation


@dataclass(frozen=True)
class CreateRelation:
    """CREATE TABLE or CREATE STREAM."""

    relation: Relation
    position: Position
    text: str
    if_not_exists: bool = False
    replace: bool = False


@dataclass(frozen=True)
class CreateView:
    """CREATE [MATERIALIZED] VIEW name [(columns)] [WITH (option = ..., ...)] AS query."""

    name: str
    select: exp.Expr = field(compare=False, repr=False)
    text: str
    position: Position
    columns: tuple[str, ...] = ()
    if_not_exists: bool = False
    replace: bool = False
    plan: Plan | None = None
    maintenance: MaintenanceOptions = NO_OPTIONS
    strict: bool = False


@dataclass(frozen=True)
class OnConflict:
    """ON CONFLICT [(keys)] DO NOTHING | DO UPDATE SET column = value, ... [WHERE where].

    No `assignments` is DO NOTHING.
    """

    keys: tuple[str, ...]
    assignments: tuple[tuple[str, str], ...]
    where: str | None
    position: Position


@dataclass(frozen=True)
class Insert:
    """INSERT INTO table [AS alias] [(columns)] VALUES [ON CONFLICT ...] [RETURNING ...].

    Rows are Python values as users write them, or parameters.
    """

    table: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    position: Position
    alias: str = ""
    conflict: OnConflict | None = None
    returning: str | None = None


@dataclass(frozen=True)
class InsertSelect:
    """INSERT INTO table [(columns)] SELECT ...; `text` is the query alone."""

    table: str
    columns: tuple[str, ...]
    text: str
    position: Position
    alias: str = ""
    conflict: OnConflict | None = None
    returning: str | None = None


@dataclass(frozen=True)
class Delete:
    """DELETE FROM table [AS alias] [USING sources] [WHERE where]; no `where` means every row."""

    table: str
    where: str | None
    position: Position
    alias: str = ""
    sources: str = ""
    returning: str | None = None


@dataclass(frozen=True)
class Update:
    """UPDATE table [AS alias] SET column = value, ... [FROM sources] [WHERE where]."""

    table: str
    assignments: tuple[tuple[str, str], ...]
    where: str | None
    position: Position
    alias: str = ""
    sources: str = ""
    returning: str | None = None


@dataclass(frozen=True)
class Copy:
    """COPY table FROM 'path'; the format is the option's or the file name's: csv or parquet.

    `options` say how a CSV file is written: header, delimiter, nullvalue.
    """

    table: str
    path: str
    format: str
    position: Position
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Drop:
    """DROP TABLE | STREAM | VIEW name; `kind` is "table", "stream" or "view"."""

    kind: str
    name: str
    position: Position
    if_exists: bool = False

    @property
    def text(self) -> str:
        """A statement that does the same."""
        return f'DROP {self.kind.upper()} "{self.name.replace(chr(34), 2 * chr(34))}"'


@dataclass(frozen=True)
class Select:
    """An ad-hoc query."""

    text: str
    position: Position
    select: exp.Expr = field(compare=False, repr=False)


Statement = (
    CreateRelation
    | CreateView
    | AlterView
    | RefreshView
    | Insert
    | InsertSelect
    | Delete
    | Update
    | Copy
    | Drop
    | Select
)
