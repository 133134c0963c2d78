"""Connections and cursors: statements in, rows out, one transaction at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from os import PathLike
from typing import TYPE_CHECKING, Any

from viewlet.dbapi import failures
from viewlet.dbapi.failures import InterfaceError, translated
from viewlet.errors import ViewletError
from viewlet.frontend.parse import parse_with_parameters
from viewlet.frontend.statements import (
    Copy,
    Delete,
    Insert,
    Merge,
    TransactionStatement,
    TransactionVerb,
    Truncate,
    Update,
)
from viewlet.interfaces.connect import connect as open_database
from viewlet.interfaces.database import Database

if TYPE_CHECKING:
    import pyarrow as pa

Row = tuple[Any, ...]
ColumnDescription = tuple[str, str, None, None, None, None, bool]
Parameters = Sequence[Any] | Mapping[str, Any]
_CHANGES = (Copy, Delete, Insert, Merge, Truncate, Update)


def connect(
    path: str | PathLike[str] | None = None,
    *,
    database: Database | None = None,
    autocommit: bool = False,
    **options: Any,
) -> Connection:
    """A connection to a database on disk, to one that is open, or to a new one in memory.

    `options` are those of `viewlet.connect`. A database that this opens is closed with it.
    """
    if database is not None:
        if path is not None or options:
            raise InterfaceError("database= is open already: it takes no path and no options")
        return Connection(database, autocommit, owns_database=False)
    with translated():
        opened = open_database(path, **options) if path else open_database(**options)
    return Connection(opened, autocommit, owns_database=True)


class Connection:
    """One transaction at a time over a database; its cursors share it."""

    Warning = failures.Warning
    Error = failures.Error
    InterfaceError = failures.InterfaceError
    DatabaseError = failures.DatabaseError
    DataError = failures.DataError
    OperationalError = failures.OperationalError
    IntegrityError = failures.IntegrityError
    InternalError = failures.InternalError
    ProgrammingError = failures.ProgrammingError
    NotSupportedError = failures.NotSupportedError

    def __init__(self, database: Database, autocommit: bool, owns_database: bool) -> None:
        self.database = database
        self.autocommit = autocommit
        self._owns_database = owns_database
        self._is_closed = False
        self._is_in_transaction = False

    def cursor(self) -> Cursor:
        """What statements are run with."""
        self._check_open()
        return Cursor(self)

    def execute(self, operation: str, parameters: Parameters | None = None) -> Cursor:
        """A new cursor that has run a statement."""
        return self.cursor().execute(operation, parameters)

    def commit(self) -> None:
        """Apply what was changed since the last commit, as one atomic batch."""
        self._end("COMMIT")

    def rollback(self) -> None:
        """Forget what was changed since the last commit."""
        self._end("ROLLBACK")

    def close(self) -> None:
        """Forget what was not committed; a second time nothing happens."""
        if self._is_closed:
            return
        with suppress(failures.Error):
            self.rollback()
        self._is_closed = True
        if self._owns_database:
            self.database.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.commit()
        else:
            self.rollback()

    def _run(self, operation: str, parameters: Parameters | None) -> Any:
        self._check_open()
        with translated():
            statements, _ = parse_with_parameters(operation, parameters)
            verbs = [s.verb for s in statements if isinstance(s, TransactionStatement)]
            is_change = any(isinstance(statement, _CHANGES) for statement in statements)
            begins = bool(verbs) and verbs[0] is TransactionVerb.BEGIN
            if is_change and not (begins or self.autocommit or self._is_in_transaction):
                self.database.execute("BEGIN")
                self._is_in_transaction = True
            try:
                result = self.database.execute(operation, parameters)
            except ViewletError:
                if verbs:  # whichever of its statements failed, the transaction is over
                    self._is_in_transaction = False
                    with suppress(ViewletError):
                        self.database.execute("ROLLBACK")
                raise
            if verbs:
                self._is_in_transaction = verbs[-1] is TransactionVerb.BEGIN
            return result

    def _end(self, verb: str) -> None:
        self._check_open()
        if self._is_in_transaction:
            self._is_in_transaction = False
            with translated():
                self.database.execute(verb)

    def _check_open(self) -> None:
        if self._is_closed:
            raise InterfaceError("the connection is closed")


class Cursor:
    """Runs statements; has the rows of the last one until the next."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self.description: list[ColumnDescription] | None = None
        self.rowcount = -1
        self._rows: list[Row] | None = None
        self._next = 0
        self._is_closed = False

    def execute(self, operation: str, parameters: Parameters | None = None) -> Cursor:
        """Run statements; parameters are a sequence for `?` and `$1`, a mapping for `:name`."""
        self._check_open()
        self._show(self.connection._run(operation, parameters or None))
        return self

    def executemany(self, operation: str, parameter_rows: Sequence[Parameters]) -> Cursor:
        """Run a statement for each of many parameters."""
        total = 0
        for parameters in parameter_rows:
            self.execute(operation, parameters)
            if self._rows is not None:
                raise InterfaceError("executemany is for statements that give no rows")
            total += max(self.rowcount, 0)
        self.rowcount = total
        return self

    def fetchone(self) -> Row | None:
        """The next row, None behind the last."""
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """The next rows, at most so many."""
        rows, start = self._answer(), self._next
        self._next = min(start + (self.arraysize if size is None else size), len(rows))
        return rows[start : self._next]

    def fetchall(self) -> list[Row]:
        """All rows that are left."""
        rows, start = self._answer(), self._next
        self._next = len(rows)
        return rows[start:]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.fetchone, None)

    def close(self) -> None:
        """Forget the rows; the cursor runs nothing more."""
        self._is_closed = True
        self._rows = None

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Nothing has to be known ahead."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Nothing has to be known ahead."""

    def _show(self, result: Any) -> None:
        self._next = 0
        self.description, self._rows, self.rowcount = None, None, -1
        if isinstance(result, int):
            self.rowcount = result
        elif result is not None:
            self.description = [_described(field) for field in result.schema]
            self._rows = _python_rows(result)
            self.rowcount = len(self._rows)

    def _answer(self) -> list[Row]:
        self._check_open()
        if self._rows is None:
            raise InterfaceError("there are no rows: the last statement was no query")
        return self._rows

    def _check_open(self) -> None:
        if self._is_closed:
            raise InterfaceError("the cursor is closed")


def _described(field: pa.Field) -> ColumnDescription:
    return field.name, str(field.type), None, None, None, None, field.nullable


def _python_rows(table: pa.Table) -> list[Row]:
    columns = [column.to_pylist() for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows
