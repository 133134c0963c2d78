"""Ad-hoc SQL over tables and views: DuckDB reads them as Arrow, at one consistent point.

Two things keep a query from everything else on the machine: query_scope.py, which looks at every
name in it, and DuckDB's own settings, which no query can change.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from viewlet.errors import ParseError, Position, ResolutionError, TypingError, ViewletError
from viewlet.functions import duckdb_macros
from viewlet.interfaces import deep_json
from viewlet.interfaces.cancellation import Cancellation, interrupted
from viewlet.interfaces.query_moments import check_moments
from viewlet.interfaces.query_scope import parameters_read, position_at, sources_read

if TYPE_CHECKING:
    import pyarrow as pa

Source = Callable[[], "pa.Table"]
"""Gives the rows that a name stands for, when they are needed."""

_SETTINGS = (
    # A live view's division by zero is NULL, and so is an ad-hoc query's.
    "SET error_on_division_by_zero = false",
    "SET ieee_floating_point_ops = false",
    # NULLs are greater than all values, as in PostgreSQL and in views.
    "SET default_null_order = 'nulls_last_on_asc_first_on_desc'",
    # A misspelled table must not find a Python variable of that name.
    "SET python_enable_replacements = false",
    "SET preserve_insertion_order = true",
    "SET threads = 2",
    # Nothing is fetched or loaded into the process that did not come with DuckDB.
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET allow_community_extensions = false",
)
_POSITIONED_ERRORS = "SET errors_as_json = true"
"""So that an error says which byte of the text it is about."""
_EXPLAIN = "EXPLAIN "
_NO_FILES = "SET enable_external_access = false"
_LOCK = "SET lock_configuration = true"
_NOW = "make_timestamp(getvariable('viewlet_now')::BIGINT)"
_CLOCK = (
    *(f"{name}() AS {_NOW}" for name in ("now", "get_current_timestamp", "transaction_timestamp")),
    f"current_localtimestamp() AS {_NOW}",
    *(f"{name}() AS {_NOW}::DATE" for name in ("current_date", "today")),
)
"""NOW() is the database's time, in UTC and without a zone, as it is in views."""
_ASKS_TIME = re.compile(
    r"\b(now|today|localtimestamp|transaction_timestamp|\w*current_\w+)\b", re.I
)
_IDLE_CONNECTIONS = 4
"""How many DuckDBs wait for the next query; making one takes some milliseconds."""


@dataclass(frozen=True)
class QueryLimits:
    """How long a query may run, how many rows it may give, and who may end it; None is no limit."""

    seconds: float | None = None
    rows: int | None = None
    cancellation: Cancellation | None = None


NO_LIMITS = QueryLimits()


@dataclass(frozen=True)
class QueryInputs:
    """The sources that a query reads, the parameters that it names, and its syntax tree."""

    sources: list[str]
    parameters: set[str]
    tree: Any


class AdHoc:
    """Private DuckDBs that hold no rows between queries; with `files` they read these as well.

    Each query has one for itself, so that a long one keeps nobody from reading or writing.
    """

    def __init__(
        self, files: bool = False, now: Callable[[], int] = lambda: time.time_ns() // 1000
    ) -> None:
        """`now`: what time it is, in microseconds since 1970."""
        self._files = files
        self._now = now
        self._free: list[Any] = []
        self._lock = threading.Lock()

    def inputs(self, text: str, sources: Iterable[str], streams: frozenset[str]) -> QueryInputs:
        """What a SELECT reads of the `sources`; an error where it names any other source."""
        with self._connection() as connection:
            tree = _syntax(connection, text)
        names = sources_read(tree, text, sources, streams, self._files)
        return QueryInputs(names, parameters_read(tree), tree)

    def query(
        self,
        text: str,
        tables: Mapping[str, pa.Table],
        limits: QueryLimits = NO_LIMITS,
        values: Mapping[str, Any] | None = None,
    ) -> pa.Table:
        """Run a SELECT over the tables that it reads, with the values of its parameters."""
        with (
            self._connection() as connection,
            interrupted(connection, limits.seconds, limits.cancellation),
        ):
            try:
                if _ASKS_TIME.search(text):
                    connection.execute(f"SET VARIABLE viewlet_now = {self._now()}")
                for name, table in tables.items():
                    connection.register(name, table)
                result = _run(connection, text, limits, values or None)
                check_moments(result)
            finally:
                for name in tables:
                    connection.unregister(name)
        if limits.rows is not None and result.num_rows > limits.rows:
            raise ViewletError(
                f"the query gives more than {limits.rows} rows", hint="add LIMIT or a condition"
            )
        return result

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        """A DuckDB that nobody else uses."""
        with self._lock:
            connection = self._free.pop() if self._free else None
        if connection is None:
            connection = _connection(self._files)
        try:
            yield connection
        finally:
            with self._lock:
                is_pooled = len(self._free) < _IDLE_CONNECTIONS
                if is_pooled:
                    self._free.append(connection)
            if not is_pooled:
                connection.close()

    def close(self) -> None:
        """Close what is not in use; the next query opens it again."""
        with self._lock:
            free, self._free = self._free, []
        for connection in free:
            connection.close()


def _run(
    connection: Any, text: str, limits: QueryLimits, values: Mapping[str, Any] | None
) -> pa.Table:
    def rows() -> pa.Table:
        return _limited(connection.sql(text, params=values), limits).to_arrow_table()

    try:
        return guarded(rows, text)
    except ViewletError as error:
        if error.position is None:
            # The place of a wrong name or type is said only where the query is not also run.
            plan = f"{_EXPLAIN}{text}"
            guarded(lambda: connection.execute(plan, values).fetchall(), text, len(_EXPLAIN))
        raise


def _limited(relation: Any, limits: QueryLimits) -> Any:
    """One row more than is allowed tells that there are too many."""
    return relation if limits.rows is None else relation.limit(limits.rows + 1)


def _syntax(connection: Any, text: str) -> Any:
    """The query's syntax tree, as DuckDB writes it in JSON."""
    serialized = guarded(
        lambda: connection.execute("SELECT json_serialize_sql(?)", [text]).fetchall(), text
    )
    tree = deep_json.loads(serialized[0][0])
    if tree["error"]:
        position = position_at(text, int(tree.get("position", -1)))
        message, hint = tree["error_message"], "query() takes one SELECT"
        if message.startswith("Only SELECT"):  # of DuckDB's own function, which nobody has called
            message = f"{text.split()[0].upper()} is not a query"
            hint = "query() takes one SELECT; other statements go to execute()"
        raise ParseError(message, position=position, hint=hint)
    return tree


def quoted(name: str) -> str:
    """a"b -> "a""b", an identifier as DuckDB reads it."""
    return '"' + name.replace('"', '""') + '"'


def _connection(files: bool) -> Any:
    connection = duckdb_connection()
    # Functions that DuckDB defines in another way get the meaning that they have in views.
    for macro in (*duckdb_macros(), *_CLOCK):
        connection.execute(f"CREATE MACRO {macro}")
    connection.execute(_POSITIONED_ERRORS)
    if not files:
        connection.execute(_NO_FILES)
    connection.execute(_LOCK)
    return connection


def duckdb_connection() -> Any:
    """A DuckDB in memory that computes as views do and loads nothing."""
    import duckdb

    connection = duckdb.connect()
    for setting in _SETTINGS:
        connection.execute(setting)
    return connection


def guarded(call: Callable[[], Any], text: str = "", before: int = 0) -> Any:
    """DuckDB's errors as ours, with their place in the `text`, `before` which it runs more."""
    import duckdb

    try:
        return call()
    except duckdb.InterruptException:
        raise
    except duckdb.Error as error:
        message, position = _message_and_position(error, text, before)
        near = re.search(r"Candidate bindings: (.*)", message)
        hint = f"did you mean {near.group(1).replace(chr(34), '')}?" if near else None
        kind = next(ours for theirs, ours in _kinds() if isinstance(error, theirs))
        raise kind(_first_line(message), position=position, hint=hint) from None


def _kinds() -> list[tuple[type[Exception], type[ViewletError]]]:
    import duckdb

    return [
        (duckdb.ParserException, ParseError),
        (duckdb.BinderException, ResolutionError),
        (duckdb.CatalogException, ResolutionError),
        (duckdb.ConversionException, TypingError),
        (duckdb.OutOfRangeException, TypingError),
        (duckdb.Error, ViewletError),
    ]


def _message_and_position(error: Exception, text: str, before: int) -> tuple[str, Position | None]:
    """Binder Error: {"exception_message": "message", "position": "12"} -> message and place."""
    message = str(error).strip()
    start = message.find("{")
    try:
        said = json.loads(message[start:]) if start >= 0 else None
    except ValueError:
        said = None
    if not isinstance(said, dict) or "exception_message" not in said:
        return message.partition("Error: ")[2] or message, None
    position = position_at(text, int(said.get("position", -1)) - before)
    return str(said["exception_message"]), position


def _first_line(message: str) -> str:
    """The first line; of a CSV file the line with the error, and what is wrong with it."""
    line, *lines = message.splitlines()
    line_number = line.partition("CSV Error on Line: ")[2]
    fixes = next((i for i, text in enumerate(lines) if text.startswith("Possible")), len(lines))
    said = [text for text in lines[:fixes] if text.strip()]  # the line may be several
    what = said[-1] if said and not said[-1].startswith("Original Line") else ""
    return f"line {line_number}: {what[:1].lower()}{what[1:]}" if line_number and what else line
