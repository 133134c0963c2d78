"""Ad-hoc SQL over tables and views: DuckDB reads them as Arrow, at one consistent point.

Two things keep a query from everything else on the machine: query_scope.py, which looks at every
name in it, and DuckDB's own settings, which no query can change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from viewlet.errors import ParseError, Position, ResolutionError, TypingError, ViewletError
from viewlet.functions import duckdb_macros
from viewlet.interfaces import deep_json
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


class AdHoc:
    """A private DuckDB that holds no rows between queries; with `files` it reads these as well."""

    def __init__(self, files: bool = False) -> None:
        self._files = files
        self._connection: Any = None

    def query(
        self,
        text: str,
        sources: Mapping[str, Source],
        streams: frozenset[str] = frozenset(),
        values: Mapping[str, Any] | None = None,
    ) -> pa.Table:
        """Run a SELECT; `sources` makes the rows of a table or view when the query reads it.

        `values` are those of parameters: a query takes the ones that it names.
        """
        if self._connection is None:
            self._connection = _connection(self._files)
        tree = self._syntax(text)
        used = sources_read(tree, text, sources, streams, self._files)
        values = values or {}
        bound = {name: values[name] for name in parameters_read(tree) if name in values} or None
        try:
            for name in used:
                self._connection.register(name, sources[name]())
            table = self._run(text, bound)
            check_moments(table)
            return table
        finally:
            for name in used:
                self._connection.unregister(name)

    def _run(self, text: str, bound: Mapping[str, Any] | None) -> pa.Table:
        try:
            return guarded(lambda: self._connection.sql(text, params=bound).to_arrow_table(), text)
        except ViewletError as error:
            if error.position is None:
                # The place of a wrong name or type is said only where the query is not also run.
                plan = f"{_EXPLAIN}{text}"
                guarded(
                    lambda: self._connection.execute(plan, bound).fetchall(), text, len(_EXPLAIN)
                )
            raise

    def _syntax(self, text: str) -> Any:
        """The query's syntax tree, as DuckDB writes it in JSON."""
        serialized = guarded(
            lambda: self._connection.execute("SELECT json_serialize_sql(?)", [text]).fetchall(),
            text,
        )
        tree = deep_json.loads(serialized[0][0])
        if tree["error"]:
            position = position_at(text, int(tree.get("position", -1)))
            raise ParseError(
                tree["error_message"], position=position, hint="query() takes one SELECT"
            )
        return tree

    def close(self) -> None:
        """Close DuckDB; the next query opens it again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def quoted(name: str) -> str:
    """a"b -> "a""b", an identifier as DuckDB reads it."""
    return '"' + name.replace('"', '""') + '"'


def _connection(files: bool) -> Any:
    connection = duckdb_connection()
    # Functions that DuckDB defines in another way get the meaning that they have in views.
    for macro in duckdb_macros():
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
    what = next((text for text in lines if not text.startswith("Original Line")), "")
    return f"line {line_number}: {what[:1].lower()}{what[1:]}" if line_number and what else line
