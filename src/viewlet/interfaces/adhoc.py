"""Ad-hoc SQL over tables and views: DuckDB reads them as Arrow, at one consistent point."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from viewlet.errors import ParseError, ResolutionError, TypingError, ViewletError
from viewlet.functions import duckdb_macros
from viewlet.interfaces import deep_json
from viewlet.interfaces.definitions import unknown

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
)


class AdHoc:
    """A private DuckDB that holds no rows between queries."""

    def __init__(self) -> None:
        self._connection: Any = None

    def query(
        self, text: str, sources: Mapping[str, Source], streams: frozenset[str] = frozenset()
    ) -> pa.Table:
        """Run a SELECT; `sources` makes the rows of a table or view when the query reads it."""
        if self._connection is None:
            self._connection = _connection()
        used = sorted(_used(self._syntax(text), sources, streams))
        try:
            for name in used:
                self._connection.register(name, sources[name]())
            return _guarded(lambda: self._connection.sql(text).to_arrow_table())
        finally:
            for name in used:
                self._connection.unregister(name)

    def _syntax(self, text: str) -> Any:
        """The query's syntax tree, as DuckDB writes it in JSON."""
        find = self._connection.execute
        found = _guarded(lambda: find("SELECT json_serialize_sql(?)", [text]).fetchall())
        tree = deep_json.loads(found[0][0])
        if tree["error"]:
            raise ParseError(tree["error_message"], hint="query() takes one SELECT")
        return tree

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _used(tree: Any, sources: Mapping[str, Source], streams: frozenset[str]) -> frozenset[str]:
    """The sources that a query reads; names that are neither these nor the query's own raise."""
    named = {name.lower() for name in _values(tree, "table_name")}
    named -= {name.lower() for name in _values(tree, "key")}  # its WITH names
    for stream in sorted(named & streams):
        raise ResolutionError(
            f"{stream} is a stream, and its rows are not kept",
            hint=f"query a view over {stream}, or declare it with CREATE TABLE",
        )
    found = frozenset(name for name in sources if name.lower() in named)
    for name in sorted(named - {name.lower() for name in found}):
        if "." not in name:  # else a file, which DuckDB reads itself
            raise unknown("table or view", name, sources)
    return found


def _values(tree: Any, field: str) -> Iterator[str]:
    """Every text that stands under this field name."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            if isinstance(node.get(field), str):
                yield node[field]
            pending += node.values()
        elif isinstance(node, list):
            pending += node


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _connection() -> Any:
    import duckdb

    connection = duckdb.connect()
    for setting in _SETTINGS:
        connection.execute(setting)
    # Where DuckDB means something else by a function, it is told what views mean by it.
    for macro in duckdb_macros():
        connection.execute(f"CREATE MACRO {macro}")
    return connection


def _guarded(call: Callable[[], Any]) -> Any:
    """DuckDB's errors as ours."""
    import duckdb

    try:
        return call()
    except duckdb.ParserException as error:
        raise ParseError(_first_line(error)) from None
    except (duckdb.BinderException, duckdb.CatalogException) as error:
        near = re.search(r"Candidate bindings: (.*)", str(error))
        hint = f"did you mean {near.group(1).replace(chr(34), '')}?" if near else None
        raise ResolutionError(_first_line(error), hint=hint) from None
    except (duckdb.ConversionException, duckdb.OutOfRangeException) as error:
        raise TypingError(_first_line(error)) from None
    except duckdb.Error as error:
        raise ViewletError(_first_line(error)) from None


def _first_line(error: Exception) -> str:
    """Binder Error: message -> message; of a CSV file the line, and what is wrong with it."""
    lines = str(error).strip().splitlines()
    line = lines[0].partition("Error: ")[2] or lines[0]
    place = line.partition("CSV Error on Line: ")[2]
    what = next((text for text in lines[1:] if not text.startswith("Original Line")), "")
    return f"line {place}: {what[:1].lower()}{what[1:]}" if place and what else line
