"""The statements that a SQL text consists of, after parsing and before anything is resolved.

Statements that change data keep the SQL of the parts that the engine evaluates itself (through
DuckDB, which reads the same dialect); views keep their syntax tree, which only the frontend reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from sqlglot import exp

from viewlet.calculus.query import Plan
from viewlet.errors import Position
from viewlet.frontend.constraints import Constraint
from viewlet.frontend.maintenance_options import (
    NO_OPTIONS,
    AlterView,
    Complete,
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
    constraints: tuple[Constraint, ...] = ()


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
class DefaultValue:
    """DEFAULT in the place of a value."""


DEFAULT = DefaultValue()


@dataclass(frozen=True)
class Insert:
    """INSERT INTO table [AS alias] [(columns)] VALUES [ON CONFLICT ...] [RETURNING ...].

    Rows are Python values as users write them, parameters, or DEFAULT; one of no values is made of
    defaults.
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


class MergeCase(Enum):
    """Which rows a clause of MERGE is about."""

    MATCHED = "matched"
    NO_TARGET = "rows of the source that match none of the table"
    NO_SOURCE = "rows of the table that match none of the source"


class MergeAction(Enum):
    """What a clause of MERGE does with its rows."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    NOTHING = "nothing"


@dataclass(frozen=True)
class MergeClause:
    """WHEN ... [AND condition] THEN ...; columns with their values for INSERT and UPDATE."""

    case: MergeCase
    condition: str | None
    action: MergeAction
    columns: tuple[str, ...] = ()
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Merge:
    """MERGE INTO table [AS alias] USING source ON on WHEN ..."""

    table: str
    alias: str
    source: str
    on: str
    clauses: tuple[MergeClause, ...]
    position: Position


@dataclass(frozen=True)
class Truncate:
    """TRUNCATE [TABLE] a, b: all rows of each."""

    tables: tuple[str, ...]
    position: Position


class TransactionVerb(Enum):
    """What a statement does to a transaction."""

    BEGIN = "BEGIN"
    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"


@dataclass(frozen=True)
class TransactionStatement:
    """BEGIN, COMMIT or ROLLBACK."""

    verb: TransactionVerb
    position: Position


class InspectKind(Enum):
    """What is asked of the database."""

    TABLES = "tables"
    STREAMS = "streams"
    VIEWS = "views"
    COLUMNS = "columns"
    QUERY_COLUMNS = "columns of a query"
    DEFINITION = "definition"
    VIEW_PLAN = "view plan"
    QUERY_PLAN = "query plan"


@dataclass(frozen=True)
class Inspect:
    """SHOW, DESCRIBE or EXPLAIN of a table, a view, or the text of a query."""

    kind: InspectKind
    subject: str
    position: Position


@dataclass(frozen=True)
class SetOption:
    """SET of what changes nothing here."""

    name: str
    position: Position


@dataclass(frozen=True)
class CreateTableAs:
    """CREATE TABLE name AS query; no rows of it WITH NO DATA."""

    name: str
    query: str
    position: Position
    if_not_exists: bool = False
    replace: bool = False
    with_data: bool = True


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
class AddColumn:
    """ADD [COLUMN] [IF NOT EXISTS] column type ...; `relation` has this column alone."""

    relation: CreateRelation
    position: Position
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropColumn:
    """DROP [COLUMN] [IF EXISTS] name."""

    name: str
    position: Position
    if_exists: bool = False


@dataclass(frozen=True)
class RenameColumn:
    """RENAME [COLUMN] name TO new_name."""

    name: str
    new_name: str
    position: Position


@dataclass(frozen=True)
class ChangeDefault:
    """ALTER [COLUMN] name SET DEFAULT value, or DROP DEFAULT, which is NULL."""

    name: str
    value: exp.Expr = field(compare=False, repr=False)
    position: Position


ColumnChange = AddColumn | DropColumn | RenameColumn | ChangeDefault


@dataclass(frozen=True)
class AlterTable:
    """ALTER TABLE [IF EXISTS] name change, change ..."""

    name: str
    changes: tuple[ColumnChange, ...]
    position: Position
    text: str
    if_exists: bool = False


@dataclass(frozen=True)
class ReplaceQuery:
    """ALTER MATERIALIZED VIEW name AS query: `view` is the view as it will be."""

    view: CreateView
    position: Position
    text: str


@dataclass(frozen=True)
class Select:
    """An ad-hoc query."""

    text: str
    position: Position
    select: exp.Expr = field(compare=False, repr=False)


Statement = (
    CreateRelation
    | CreateView
    | AlterTable
    | AlterView
    | ReplaceQuery
    | RefreshView
    | Complete
    | Insert
    | InsertSelect
    | Delete
    | Update
    | CreateTableAs
    | Inspect
    | SetOption
    | Merge
    | TransactionStatement
    | Truncate
    | Copy
    | Drop
    | Select
)
