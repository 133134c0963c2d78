"""viewlet as a DB-API 2.0 module (PEP 249): what tools that know any database ask for.

    connection = viewlet.dbapi.connect("shop.viewlet")    or connect(database=db), one that is open
    cursor = connection.cursor()
    cursor.execute("SELECT * FROM spending WHERE total > ?", [10])
    cursor.fetchall()

The first change of rows begins a transaction, and what it changes is one atomic batch at `commit`:
reads see it then, views follow it then, and `rollback` forgets it. Definitions stand at once.
`autocommit=True` makes a batch of every statement. `viewlet.dbapi.alchemy` has a dialect for
SQLAlchemy, `create_engine("viewlet:///shop.viewlet")`.
"""

from __future__ import annotations

from viewlet.dbapi.connection import Connection, Cursor, connect
from viewlet.dbapi.failures import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
)
from viewlet.dbapi.values import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Date,
    DateFromTicks,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
)

apilevel = "2.0"
threadsafety = 1
paramstyle = "qmark"

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]
