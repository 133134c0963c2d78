"""SQLAlchemy's dialect: `create_engine("viewlet:///shop.viewlet")`, `viewlet://` in memory.

An installed viewlet is found by its entry point. A database that is open already is served by
`create_engine("viewlet://", creator=lambda: viewlet.dbapi.connect(database=db))`.
"""

from __future__ import annotations

import re
import threading
from types import ModuleType
from typing import Any, Literal

from sqlalchemy import types
from sqlalchemy.dialects.postgresql.base import PGCompiler, PGDDLCompiler, PGIdentifierPreparer
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.engine.interfaces import ReflectedColumn
from sqlalchemy.engine.url import URL
from sqlalchemy.pool import Pool, QueuePool, StaticPool

import viewlet
from viewlet import dbapi
from viewlet.errors import ResolutionError
from viewlet.interfaces.database import Database

_TYPES: dict[str, Any] = {
    "BOOLEAN": types.BOOLEAN,
    "SMALLINT": types.SMALLINT,
    "INTEGER": types.INTEGER,
    "BIGINT": types.BIGINT,
    "DOUBLE": types.DOUBLE,
    "DECIMAL": types.DECIMAL,
    "VARCHAR": types.VARCHAR,
    "DATE": types.DATE,
    "TIMESTAMP": types.TIMESTAMP,
}


class AlchemyDialect(DefaultDialect):
    """PostgreSQL's SQL over `viewlet.dbapi`."""

    name = "viewlet"
    driver = "dbapi"
    statement_compiler = PGCompiler
    ddl_compiler = PGDDLCompiler
    preparer = PGIdentifierPreparer
    default_paramstyle = "qmark"
    supports_native_boolean = True
    supports_native_decimal = True
    supports_statement_cache = True
    supports_sane_multi_rowcount = False
    supports_multivalues_insert = True
    postfetch_lastrowid = False
    implicit_returning = False
    insert_returning = False
    supports_sequences = False
    max_identifier_length = 1000
    _backslash_escapes = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._lock = threading.Lock()
        self._open: dict[str, Database] = {}
        self._uses: dict[str, int] = {}

    def connect(self, *arguments: Any, **options: Any) -> Any:
        """A database on disk is opened by the first of a pool's connections, for all of them."""
        if not arguments:
            return dbapi.connect(**options)
        (path,) = arguments
        with self._lock:
            if path not in self._open:
                self._open[path] = dbapi.connect(path, **options).database
            self._uses[path] = self._uses.get(path, 0) + 1
            return dbapi.connect(database=self._open[path])

    def do_close(self, dbapi_connection: Any) -> None:
        """The last of the connections closes the database."""
        dbapi_connection.close()
        with self._lock:
            for path, database in [*self._open.items()]:
                if database is dbapi_connection.database:
                    self._uses[path] -= 1
                    if self._uses[path] == 0:
                        del self._open[path]
                        database.close()

    def do_terminate(self, dbapi_connection: Any) -> None:
        """The same where nobody waits for it."""
        self.do_close(dbapi_connection)

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """The module that SQLAlchemy works with."""
        return dbapi

    @classmethod
    def get_pool_class(cls, url: URL) -> type[Pool]:
        """A database in memory lives in one connection; one on disk is open once a process."""
        return StaticPool if not url.database else QueuePool

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        """viewlet:///PATH?synchronous=off -> connect(PATH, synchronous="off")"""
        return [url.database] if url.database else [], dict(url.query)

    def _get_server_version_info(self, connection: Any) -> tuple[int, ...]:
        return tuple(map(int, viewlet.__version__.split(".")[:3]))

    def _get_default_schema_name(self, connection: Any) -> str:
        return "main"

    def get_isolation_level(self, dbapi_connection: Any) -> Literal["SERIALIZABLE"]:
        """Every batch is atomic, and reads see whole batches alone."""
        return "SERIALIZABLE"

    # --- reflection -------------------------------------------------------------------------------

    def has_table(self, connection: Any, table_name: str, schema: Any = None, **_: Any) -> bool:
        """Whether there is a table, stream or view of this name."""
        database = _database(connection)
        return table_name in database.tables or table_name in database.views

    def get_schema_names(self, connection: Any, **_: Any) -> list[str]:
        """There is one."""
        return ["main"]

    def get_table_names(self, connection: Any, schema: Any = None, **_: Any) -> list[str]:
        """Tables and streams."""
        return list(_database(connection).tables)

    def get_view_names(self, connection: Any, schema: Any = None, **_: Any) -> list[str]:
        """Views."""
        return list(_database(connection).views)

    def get_columns(
        self, connection: Any, table_name: str, schema: Any = None, **_: Any
    ) -> list[ReflectedColumn]:
        """Columns with SQLAlchemy's types."""
        return [
            {
                "name": column.name,
                "type": _type(column.type),
                "nullable": column.nullable,
                "default": None,
            }
            for column in _schema(connection, table_name).columns
        ]

    def get_pk_constraint(
        self, connection: Any, table_name: str, schema: Any = None, **_: Any
    ) -> Any:
        """The primary key; of a view what tells its rows apart."""
        return {"constrained_columns": list(_schema(connection, table_name).key), "name": None}

    def get_foreign_keys(
        self, connection: Any, table_name: str, schema: Any = None, **_: Any
    ) -> list[Any]:
        """None are told."""
        return []

    def get_unique_constraints(
        self, connection: Any, table_name: str, schema: Any = None, **_: Any
    ) -> list[Any]:
        """None are told."""
        return []

    def get_check_constraints(
        self, connection: Any, table_name: str, schema: Any = None, **_: Any
    ) -> list[Any]:
        """None are told."""
        return []

    def get_indexes(
        self, connection: Any, table_name: str, schema: Any = None, **_: Any
    ) -> list[Any]:
        """None are named: viewlet makes those that it needs."""
        return []

    def get_view_definition(
        self, connection: Any, view_name: str, schema: Any = None, **_: Any
    ) -> str:
        """The statement that created a view."""
        text: str = _schema(connection, view_name).sql
        return text


def _database(connection: Any) -> Database:
    database: Database = connection.connection.dbapi_connection.database
    return database


def _schema(connection: Any, name: str) -> Any:
    from sqlalchemy.exc import NoSuchTableError

    try:
        return _database(connection).schema(name)
    except ResolutionError:
        raise NoSuchTableError(name) from None


def _type(text: str) -> Any:
    name, _, sizes = text.partition("(")
    made = _TYPES.get(name)
    if made is None:
        return types.NULLTYPE
    return made(*map(int, re.findall(r"\d+", sizes)))
